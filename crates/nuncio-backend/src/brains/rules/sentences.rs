//! Built-in sentences for texts that the agent file does not define.

use super::language::DialogueLanguage::{self, Chinese, English};

pub(super) fn not_understood(language: DialogueLanguage, abilities: &[String]) -> String {
    match (language, abilities.is_empty()) {
        (English, true) => "Sorry, I did not understand that.".into(),
        (Chinese, true) => "抱歉，我没有听懂。".into(),
        (English, false) => format!("Sorry, I did not understand that. What I can do: {}.", abilities.join(", ")),
        (Chinese, false) => format!("抱歉，我没有听懂。我可以做：{}。", abilities.join("、")),
    }
}

pub(super) fn dropped(language: DialogueLanguage) -> String {
    language.choose("All right, never mind. What else can I do for you?", "好的，那就算了。还需要什么帮助？").into()
}

pub(super) fn switched_off(language: DialogueLanguage, tool: &str) -> String {
    match language {
        English => format!("For this I need the tool {tool}, which must be switched on for this session first."),
        Chinese => format!("这需要用到工具 {tool}，请先在本次对话中启用它。"),
    }
}

pub(super) fn no_person(language: DialogueLanguage) -> String {
    language
        .choose(
            "For this I need a device of yours, but no person is linked to this app yet. Ask the operator of this server \
             to invite you (nuncio user invite NAME) and to create the app's key with --person NAME.",
            "这需要用到你的设备，但这个应用还没有关联到任何人。请让服务器管理员邀请你（nuncio user invite NAME），并在为应用\
             创建密钥时加上 --person NAME。",
        )
        .into()
}

pub(super) fn denied(language: DialogueLanguage, reason: Option<&str>) -> String {
    match (language, reason) {
        (English, None) => "I was not given permission, so nothing was done.".into(),
        (English, Some(reason)) => format!("I was not given permission, so nothing was done: {reason}"),
        (Chinese, None) => "没有得到许可，所以没有执行。".into(),
        (Chinese, Some(reason)) => format!("没有得到许可，所以没有执行：{reason}"),
    }
}

pub(super) fn failed(language: DialogueLanguage, error: &str) -> String {
    language.choose("That did not work: ", "没有成功：").to_owned() + error
}

pub(super) fn no_result(language: DialogueLanguage) -> &'static str {
    language.choose("no answer came", "没有收到结果")
}

pub(super) fn done_text(language: DialogueLanguage) -> String {
    language.choose("Done.", "已完成。").into()
}

pub(super) fn ask(language: DialogueLanguage, slot: &str) -> String {
    let slot = slot.replace('_', " ");
    language.choose(format!("Please tell me: {slot}."), format!("请告诉我：{slot}。"))
}
