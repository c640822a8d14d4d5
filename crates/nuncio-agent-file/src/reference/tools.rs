//! Keys of `[[tool]]`.

use super::AgentFileValueType::{Flag, JsonSchema, Sections, Table, Text, TextByLanguage, WholeNumber, Word};
use super::{DocumentedAgentFileKey, key};
use nuncio_core::policy::Protocol::{A2h, Aap, Anp, Mcp, Skill};

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key(
        "tool",
        &[Sections],
        "",
        "Something that the agent can do. The brain and callers call it by its name.",
        "智能体可以执行的一项操作。brain 和调用方按名称调用。",
    )
    .seen_by(&[Aap, Skill, Anp, A2h, Mcp]),
    key(
        "tool.name",
        &[Text],
        r#""add_note""#,
        "Name of the tool, unique in the file: 1 to 128 letters, digits, '_', '-' and '.'; on devices 2 to 32 lower-case letters, digits and '_', beginning with a letter.",
        "工具的名称，在文件中唯一：1 到 128 个字母、数字、“_”、“-”和“.”；设备工具为 2 到 32 个小写字母、数字和“_”，以字母开头。",
    )
    .required()
    .seen_by(&[Aap, Skill, Anp, A2h, Mcp]),
    key("tool.title", &[TextByLanguage], r#""Add a note""#, "Name of the tool for people.", "显示给人看的名称。")
        .default_text("the name", "与名称相同")
        .seen_by(&[Aap, Skill, Anp, Mcp]),
    key(
        "tool.description",
        &[Text],
        r#""Adds a note.""#,
        "What the tool does, for brains and callers.",
        "工具的用途，供 brain 和调用方查看。",
    )
    .required()
    .seen_by(&[Aap, Skill, Anp, A2h, Mcp]),
    key(
        "tool.input",
        &[JsonSchema],
        r#"{ type = "object", properties = { text = { type = "string" } } }"#,
        "JSON Schema of the arguments; its type is \"object\". A call with other arguments is refused.",
        "参数的 JSON Schema，type 须为 \"object\"。不符合的调用会被拒绝。",
    )
    .required()
    .seen_by(&[Aap, Skill, Anp, A2h, Mcp]),
    key(
        "tool.output",
        &[JsonSchema],
        r#"{ type = "object", properties = { id = { type = "string" } } }"#,
        "JSON Schema of the result. The result is then read as JSON and checked.",
        "结果的 JSON Schema。结果会按 JSON 解析并检查。",
    )
    .default_text("any text", "任意文本")
    .seen_by(&[Skill, Anp, Mcp]),
    key("tool.run", &[Table], "", "Where the tool runs. It has exactly one of the keys command, http, mcp, human, skill, anp, answer and device.", "工具在哪里运行。command、http、mcp、human、skill、anp、answer、device 中须恰好有一个。")
        .required(),
    key(
        "tool.scope",
        &[Text],
        r#""notes:write""#,
        "The permission that a caller needs: the id of a [[scope]]. A device tool must have one.",
        "调用方需要的权限，即某个 [[scope]] 的 id。设备工具必须有。",
    )
    .default_text("callers need no permission", "调用方无需权限")
    .seen_by(&[Skill, Anp, A2h]),
    key(
        "tool.human_authorization",
        &[Flag],
        "true",
        "Whether an operator must approve each call (`nuncio approve`).",
        "每次调用是否须经管理员批准（`nuncio approve`）。",
    )
    .default("false")
    .seen_by(&[Anp]),
    key(
        "tool.expose",
        &[Flag],
        "false",
        "Whether apps and other agents see the tool and may call it; otherwise only the brain does. Not allowed for device tools.",
        "应用和其他智能体能否看到并调用该工具；为 false 时只有 brain 能调用。设备工具不能设置。",
    )
    .default("true")
    .seen_by(&[Aap, Anp, Mcp]),
    key(
        "tool.effect",
        &[Word(&["read", "write", "destructive"])],
        r#""read""#,
        "What a call does to its environment, for MCP clients: it only reads; it adds or changes something; or it may delete or overwrite something. Nothing enforces it.",
        "告诉 MCP 客户端一次调用对外部的影响：read 只读取，write 新增或更改，destructive 可能删除或覆盖。不作强制检查。",
    )
    .default_text("clients assume the worst", "客户端按最坏情况对待")
    .seen_by(&[Mcp]),
    key(
        "tool.idempotent",
        &[Flag],
        "true",
        "Whether a repeated call with the same arguments changes nothing more, for MCP clients.",
        "告诉 MCP 客户端：用相同参数重复调用是否不再产生更多更改。",
    )
    .default("false")
    .seen_by(&[Mcp]),
    key(
        "tool.open_world",
        &[Flag],
        "false",
        "Whether the tool reaches beyond a closed set of things, as a web search does, for MCP clients.",
        "告诉 MCP 客户端：工具是否会接触封闭范围之外的内容，例如网页搜索。",
    )
    .default("true")
    .seen_by(&[Mcp]),
    key(
        "tool.timeout_ms",
        &[WholeNumber(1, 600_000), WholeNumber(1, 2_592_000_000)],
        "5000",
        "Time limit of a call, in milliseconds. The larger range, up to 30 days, is for tasks of people.",
        "一次调用的时限，单位毫秒。较大的范围（最长 30 天）用于人工任务。",
    )
    .default_text("30000; 86400000 (24 hours) for people", "30000；人工任务为 86400000（24 小时）")
    .seen_by(&[Skill, Anp, A2h]),
];
