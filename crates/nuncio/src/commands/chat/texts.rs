//! The fixed texts of the chat, in English and Chinese.

#[derive(Debug, Clone, Copy)]
pub(super) struct ChatTexts {
    pub(super) you: &'static str,
    pub(super) talking_to: &'static str,
    pub(super) help_hint: &'static str,
    pub(super) help: &'static str,
    pub(super) again_to_leave: &'static str,
    pub(super) stopping: &'static str,
    pub(super) stopped: &'static str,
    pub(super) cannot_stop: &'static str,
    pub(super) interrupted: &'static str,
    pub(super) incomplete: &'static str,
    pub(super) max_tokens: &'static str,
    pub(super) refusal: &'static str,
    pub(super) failed: &'static str,
    pub(super) allow: &'static str,
    pub(super) choices: &'static str,
    pub(super) again: &'static str,
    pub(super) left_unanswered: &'static str,
    pub(super) still_running: &'static str,
    pub(super) key_in_clear: &'static str,
    pub(super) session: &'static str,
    pub(super) go_on_with: &'static str,
    pub(super) unknown_command: &'static str,
    pub(super) their_tools: &'static str,
    pub(super) your_tools: &'static str,
    pub(super) no_tools: &'static str,
    pub(super) trusted: &'static str,
    pub(super) asked: &'static str,
    pub(super) nothing_said: &'static str,
    pub(super) agent: &'static str,
}

const ENGLISH: ChatTexts = ChatTexts {
    you: "you> ",
    talking_to: "Talking to",
    help_hint: "/help lists the commands; Ctrl-C stops the agent, Ctrl-D leaves.",
    help: "/help      this list\n/tools     the tools of this conversation\n/history   the messages so far\n/session   this conversation's id\n/new       start a new conversation\n/quit      leave; also Ctrl-D\nCtrl-C stops the agent, not the program.",
    again_to_leave: "Ctrl-C again to leave.",
    stopping: "Stopping.",
    stopped: "Stopped.",
    cannot_stop: "The server cannot stop a turn; its output is no longer shown.",
    interrupted: "The connection broke; reconnecting.",
    incomplete: "The server did not report how the turn ended; this is what was received.",
    max_tokens: "The model's limit was reached.",
    refusal: "The agent refused.",
    failed: "The turn failed:",
    allow: "Allow {tool}?",
    choices: "[y]es once / [a]lways this session / [n]o (reason)",
    again: "Please answer y, a, or n with a reason if you like.",
    still_running: "The last turn is still running; its output:",
    left_unanswered: "The calls stay unanswered; your next message abandons them.",
    key_in_clear: "Warning: your key is sent over plain http, where others can read it.",
    session: "Session",
    go_on_with: "Resume with:",
    unknown_command: "is not a command; /help lists them.",
    their_tools: "The agent's tools:",
    your_tools: "Your tools:",
    no_tools: "No tools.",
    trusted: "runs without asking",
    asked: "asks first",
    nothing_said: "No messages yet.",
    agent: "agent>",
};

const CHINESE: ChatTexts = ChatTexts {
    you: "你> ",
    talking_to: "正在对话：",
    help_hint: "输入 /help 查看说明；Ctrl-C 停止智能体，Ctrl-D 退出。",
    help: "/help      本说明\n/tools     本次会话的工具\n/history   已有的对话\n/session   会话编号\n/new       重新开始\n/quit      退出，也可用 Ctrl-D\nCtrl-C 停止智能体，不退出程序。",
    again_to_leave: "再按一次 Ctrl-C 退出。",
    stopping: "正在停止。",
    stopped: "已停止。",
    cannot_stop: "服务器不能停止本轮，后续输出不再显示。",
    interrupted: "连接中断，正在重新连接。",
    incomplete: "服务器没有说明本轮如何结束；以上是收到的内容。",
    max_tokens: "已达到模型的上限。",
    refusal: "智能体拒绝回答。",
    failed: "本轮失败：",
    allow: "允许 {tool}？",
    choices: "[y] 允许一次 / [a] 本会话始终允许 / [n] 拒绝（理由）",
    again: "请回答 y、a，或 n（可附理由）。",
    still_running: "上一轮仍在进行，内容如下：",
    left_unanswered: "调用尚未答复；您的下一条消息会放弃它们。",
    key_in_clear: "警告：密钥将通过明文 http 发送，可能被他人看到。",
    session: "会话",
    go_on_with: "以后继续：",
    unknown_command: "不是命令；/help 列出全部命令。",
    their_tools: "智能体的工具：",
    your_tools: "您的工具：",
    no_tools: "没有工具。",
    trusted: "无需询问",
    asked: "先询问",
    nothing_said: "还没有对话。",
    agent: "智能体>",
};

impl ChatTexts {
    /// The chat texts in the language of the user's environment.
    pub(super) fn of_environment() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::of(["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set).as_deref())
    }

    fn of(locale: Option<&str>) -> Self {
        if locale.is_some_and(|locale| locale.to_ascii_lowercase().starts_with("zh")) { CHINESE } else { ENGLISH }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_environment_selects_chinese() {
        assert_eq!(ChatTexts::of(Some("zh_CN.UTF-8")).allow, "允许 {tool}？");
        assert_eq!(ChatTexts::of(Some("C.UTF-8")).allow, "Allow {tool}?");
        assert_eq!(ChatTexts::of(None).allow, "Allow {tool}?");
    }

    #[test]
    fn help_fits_into_eighty_columns() {
        for words in [ENGLISH, CHINESE] {
            for line in words.help.lines().chain([words.help_hint, words.choices]) {
                assert!(line.chars().map(super::super::clean::columns).sum::<usize>() <= 80, "{line}");
            }
        }
    }
}
