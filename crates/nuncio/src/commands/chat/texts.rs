//! The fixed texts of the chat, in English and Chinese.

use crate::commands::language::{texts_by_language, user_language};

texts_by_language! { ChatTexts {
    you: "you> ", "你> ";
    talking_to: "Talking to", "正在对话：";
    help_hint:
        "/help lists the commands; Ctrl-C stops the agent, Ctrl-D leaves.",
        "输入 /help 查看说明；Ctrl-C 停止智能体，Ctrl-D 退出。";
    help:
        "/help      this list\n/tools     the tools of this conversation\n/options   the agent's options and their values\n/set N V   set option N to V, from your next message on\n/history   the messages so far\n/session   this conversation's id\n/new       start a new conversation\n/quit      leave; also Ctrl-D\nCtrl-C stops the agent, not the program.",
        "/help      本说明\n/tools     本次对话的工具\n/options   智能体的选项及其当前值\n/set N V   将选项 N 设为 V，从下一条消息起生效\n/history   已有的对话\n/session   对话编号\n/new       重新开始\n/quit      退出，也可用 Ctrl-D\nCtrl-C 停止智能体，不退出程序。";
    again_to_leave: "Ctrl-C again to leave.", "再按一次 Ctrl-C 退出。";
    stopping: "Stopping.", "正在停止。";
    stopped: "Stopped.", "已停止。";
    cannot_stop: "The server cannot stop a turn; its output is no longer shown.", "服务器不能停止本轮，后续输出不再显示。";
    no_result_yet:
        "No result of {tools} yet. It may take long, or a person has to act first: the person on their device, or an operator; on its server, `nuncio approve list` and `nuncio task list` show what waits.",
        "{tools} 尚无结果：可能需要较长时间，也可能在等待用户在自己的设备上确认，或等待管理员处理。在其服务器上可用 `nuncio approve list` 和 `nuncio task list` 查看后者。";
    interrupted: "The connection broke; reconnecting.", "连接中断，正在重新连接。";
    incomplete: "The server did not report how the turn ended; this is what was received.", "服务器没有说明本轮如何结束；以上是收到的内容。";
    max_tokens: "The model's limit was reached.", "已达到模型的上限。";
    refusal: "The agent refused.", "智能体拒绝回答。";
    failed: "The turn failed:", "本轮失败：";
    allow: "Allow {tool}?", "允许 {tool}？";
    choices: "[y]es once / [a]lways this session / [n]o (reason)", "[y] 允许一次 / [a] 本次对话始终允许 / [n] 拒绝（理由）";
    again: "Please answer y, a, or n with a reason if you like.", "请回答 y、a，或 n（可附理由）。";
    no_content: "(no content)", "（无内容）";
    refused_unasked:
        "{tool} was denied: questions need a terminal. --trust allows every call.",
        "已拒绝 {tool}：没有终端，无法询问。--trust 会允许所有调用。";
    left_unanswered: "The calls stay unanswered; your next message abandons them.", "调用尚未答复；你的下一条消息会放弃它们。";
    still_running: "The last turn is still running; its output:", "上一轮仍在进行，内容如下：";
    key_in_clear: "Warning: your key is sent over plain http, where others can read it.", "警告：密钥将通过明文 http 发送，可能被他人看到。";
    session: "Session", "对话";
    go_on_with: "Resume with:", "以后继续：";
    unknown_command: "is not a command; /help lists them.", "不是命令；/help 列出全部命令。";
    their_tools: "The agent's tools:", "智能体的工具：";
    your_tools: "Your tools:", "你的工具：";
    no_tools: "No tools.", "没有工具。";
    trusted: "runs without asking", "无需询问";
    asked: "asks first", "先询问";
    their_options: "The agent's options:", "智能体的选项：";
    no_options: "This agent has no options.", "这个智能体没有选项。";
    set_usage: "Write: /set NAME VALUE. /options lists the names.", "用法：/set 名称 值。输入 /options 查看名称。";
    option_set: "From your next message on:", "从下一条消息起：";
    nothing_said: "No messages yet.", "还没有对话。";
    agent: "agent>", "智能体>";
} }

impl ChatTexts {
    /// The chat texts in the language of the user's environment.
    pub(super) fn of_environment() -> Self {
        Self::of(user_language())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_help_fits_into_eighty_columns_in_both_languages() {
        for words in [ChatTexts::ENGLISH, ChatTexts::CHINESE] {
            for line in words.help.lines().chain([words.help_hint, words.choices]) {
                assert!(line.chars().map(super::super::clean::columns).sum::<usize>() <= 80, "{line}");
            }
        }
    }
}
