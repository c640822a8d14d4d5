//! Keys of `[agent]`.

use super::AgentFileValueType::{
    Flag, Table, TableLike, Text, TextByLanguage, TextsByLanguage, Time, WebAddress, Word,
};
use super::{DocumentedAgentFileKey, key};
use nuncio_core::policy::Protocol::{A2h, Aap, Anp, Mcp, Skill};

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key("agent", &[Table], "", "Name, version and publication of the agent.", "智能体的名称、版本和发布方式。")
        .required()
        .seen_by(&[Aap, Skill, Anp, A2h, Mcp]),
    key(
        "agent.name",
        &[Text],
        r#""hotel-assistant""#,
        "Name of the agent, unique on the server and part of its addresses: 1 to 64 lower-case letters, digits and hyphens, beginning with a letter or digit.",
        "智能体的名称，在服务器上唯一，也是其地址的一部分：1 到 64 个小写字母、数字和连字符，以字母或数字开头。",
    )
    .required()
    .seen_by(&[Aap, Skill, Anp, A2h, Mcp]),
    key("agent.title", &[TextByLanguage], r#""Grand Hotel Assistant""#, "Name of the agent for people.", "显示给人看的名称。")
        .default_text("the name", "与名称相同")
        .seen_by(&[Aap, Anp, Mcp]),
    key(
        "agent.version",
        &[Text],
        r#""1.0.0""#,
        "Version of the agent, MAJOR.MINOR.PATCH. Skills without a version of their own have it too.",
        "智能体的版本，格式为 MAJOR.MINOR.PATCH。没有自己版本号的技能也使用它。",
    )
    .required()
    .seen_by(&[Aap, Skill, Anp, A2h, Mcp]),
    key("agent.description", &[TextByLanguage], r#""Finds and books rooms.""#, "What the agent does.", "智能体的用途。")
        .seen_by(&[Aap, Skill, Anp, Mcp]),
    key(
        "agent.examples",
        &[TextsByLanguage],
        r#"["What can you do?"]"#,
        "Messages that the chat page offers before the first message: at most 8, of at most 200 characters each.",
        "对话页面在第一条消息之前建议的消息：最多 8 条，每条最多 200 个字符。",
    ),
    key(
        "agent.ask",
        &[Flag],
        "false",
        "Whether MCP clients get the whole agent as a tool `ask`, beside its tools. A tool named `ask` takes its place.",
        "MCP 客户端除各个工具外，是否还能通过工具 `ask` 使用整个智能体。名为 `ask` 的工具会取代它。",
    )
    .default("true")
    .seen_by(&[Mcp]),
    key("agent.owner", &[Table], "", "The organisation or person responsible for the agent.", "对智能体负责的组织或个人。")
        .seen_by(&[Skill, Anp]),
    key("agent.owner.name", &[Text], r#""Grand Hotel""#, "Name of the owner.", "所有者的名称。")
        .required()
        .seen_by(&[Skill, Anp]),
    key(
        "agent.owner.type",
        &[Word(&["Organization", "Person"])],
        r#""Person""#,
        "Whether the owner is an organisation or a person.",
        "所有者是组织还是个人。",
    )
    .default(r#""Organization""#)
    .seen_by(&[Anp]),
    key("agent.owner.url", &[WebAddress], r#""https://grand-hotel.com""#, "Web site of the owner.", "所有者的网站。")
        .seen_by(&[Skill, Anp]),
    key("agent.owner.email", &[Text], r#""desk@grand-hotel.com""#, "Contact address of the owner.", "所有者的联系邮箱。")
        .seen_by(&[Anp]),
    key(
        "agent.created",
        &[Time],
        "2025-06-01",
        "Since when the agent exists. A date means midnight UTC.",
        "智能体的创建时间。只写日期表示当天 UTC 零点。",
    )
    .seen_by(&[Anp]),
    key("agent.anp", &[Table], "", "Whether other agents find the agent and may talk to it.", "其他智能体能否发现它、与它对话。")
        .seen_by(&[Anp]),
    key(
        "agent.anp.listed",
        &[Flag],
        "false",
        "Whether the agent is in the host's list of agents. Its description is served either way.",
        "是否列入主机的智能体列表。无论是否列入，都可以读取它的描述文档。",
    )
    .default("true")
    .seen_by(&[Anp]),
    key("agent.anp.conversation", &[Flag], "false", "Whether other agents may talk to the agent.", "其他智能体能否与它对话。")
        .default("true")
        .seen_by(&[Anp]),
    key(
        "agent.skill",
        &[TableLike("tool.skill")],
        r#"{ type = "knowledge" }"#,
        "Offers the whole agent to other agents as a skill that takes one text and returns one answer. It has the keys of the skill of a tool. The agent or the skill needs a description.",
        "把整个智能体作为一项技能提供给其他智能体：输入一段文本，返回一个回答。可用的键与工具的 skill 相同。智能体或技能须有描述。",
    )
    .seen_by(&[Skill]),
];
