//! Keys of `run`, where a tool runs.

use super::AgentFileValueType::{Command, Flag, Table, Template, Templates, Text, TextByLanguage, True, Word};
use super::{DocumentedAgentFileKey, key};
use nuncio_core::policy::Protocol::A2h;

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key(
        "tool.run.command",
        &[Command],
        r#"["date", "+%H:%M"]"#,
        "A program and its arguments, which are templates. It is started for each call without a shell, reads the arguments of the call as JSON on standard input and prints the result. It is confined.",
        "程序及其参数（模板），每次调用时启动，不经过 shell；从标准输入读取 JSON 参数，输出即结果；在受限环境中运行。",
    )
    .one_of(),
    key(
        "tool.run.env",
        &[Templates],
        r#"{ TZ = "{{ args.zone }}" }"#,
        "Environment variables of the program.",
        "程序的环境变量。",
    )
    .only_with("command"),
    key("tool.run.http", &[Table], "", "An HTTP request.", "HTTP 请求。").one_of(),
    key(
        "tool.run.http.method",
        &[Word(&["GET", "POST", "PUT", "PATCH", "DELETE"])],
        r#""POST""#,
        "Method of the request.",
        "请求方法。",
    )
    .default(r#""GET""#),
    key(
        "tool.run.http.url",
        &[Template],
        r#""https://notes.example.com/notes/{{ args.text }}""#,
        "Address of the request: \"https://\" or \"http://\", a host, and a path with values, which are percent-encoded.",
        "请求地址：\"https://\" 或 \"http://\"、主机名和路径；路径中可以填入值，值会做百分号编码。",
    )
    .required(),
    key(
        "tool.run.http.headers",
        &[Templates],
        r#"{ Authorization = "Bearer {{ secrets.NOTES_KEY }}" }"#,
        "Headers of the request. A header without a value is not sent.",
        "请求头。值为空的请求头不会发送。",
    ),
    key(
        "tool.run.http.body",
        &[Template],
        r#"'{"note": {{ args.text | tojson }}}'"#,
        "Body of the request.",
        "请求体。",
    )
    .default_text("the arguments as JSON for POST, PUT and PATCH; otherwise none", "POST、PUT 和 PATCH 为 JSON 形式的参数；其他方法没有请求体"),
    key("tool.run.mcp", &[Text], r#""files""#, "Name of the [[mcp]] server that has the tool.", "提供该工具的 [[mcp]] 服务器名称。").one_of(),
    key("tool.run.tool", &[Text], r#""read_file""#, "Name of the tool on the MCP server.", "工具在 MCP 服务器上的名称。")
        .default_text("the tool's own name", "与工具同名")
        .only_with("mcp"),
    key(
        "tool.run.human",
        &[True, Table],
        r#"{ instructions = "Fetch {{ args.text }}." }"#,
        "A task for a person: it waits in an inbox (`nuncio task`), and the person answers with a form made from output.",
        "人工任务：在收件箱中等待（`nuncio task`），由人填写按 output 生成的表单。",
    )
    .one_of(),
    key(
        "tool.run.human.instructions",
        &[Template],
        r#""Fetch {{ args.text }}.""#,
        "What the person is asked to do.",
        "给执行者的说明。",
    )
    .default_text("the tool's description", "工具的描述"),
    key(
        "tool.run.skill",
        &[Text, Table],
        r#""weather/forecast@example.com""#,
        "A skill of another host: its target, or a table with target and credential.",
        "其他主机的技能：写目标，或写包含目标和凭据的表。",
    )
    .one_of(),
    key(
        "tool.run.skill.target",
        &[Text],
        r#""weather/forecast@example.com""#,
        "The address of the skill's descriptor, or SKILL-ID@HOST.",
        "技能描述文件的地址，或 SKILL-ID@HOST。",
    )
    .required(),
    key(
        "tool.run.skill.api_key",
        &[Template],
        r#""{{ secrets.NOTES_KEY }}""#,
        "The key for a skill whose auth is \"api_key\".",
        "auth 为 \"api_key\" 的技能所需的密钥。",
    )
    .at_most_one_of(),
    key(
        "tool.run.skill.token",
        &[Template],
        r#""{{ secrets.NOTES_KEY }}""#,
        "A long-lived access token for a skill whose auth is \"oauth2\".",
        "auth 为 \"oauth2\" 的技能所需的长期访问令牌。",
    )
    .at_most_one_of(),
    key(
        "tool.run.skill.client",
        &[Table],
        "",
        "The client with which access tokens are fetched for a skill whose auth is \"oauth2\".",
        "用于自动获取访问令牌的客户端，适用于 auth 为 \"oauth2\" 的技能。",
    )
    .at_most_one_of(),
    key("tool.run.skill.client.id", &[Template], r#""hotel""#, "Id of the client.", "客户端 id。").required(),
    key(
        "tool.run.skill.client.secret",
        &[Template],
        r#""{{ secrets.NOTES_KEY }}""#,
        "Secret of the client.",
        "客户端密钥。",
    )
    .required(),
    key(
        "tool.run.skill.signature",
        &[Template],
        r#""{{ secrets.NOTES_KEY }}""#,
        "The shared secret for a skill whose auth is \"custom\".",
        "auth 为 \"custom\" 的技能所需的共享密钥。",
    )
    .at_most_one_of(),
    key(
        "tool.run.anp",
        &[Text],
        r#""https://example.com/agents/hotel/ad.json""#,
        "An agent on another host, called over ANP: its DID (did:wba) or the address of its description.",
        "通过 ANP 调用的其他主机的智能体：DID（did:wba）或其描述文档的地址。",
    )
    .one_of(),
    key(
        "tool.run.intent",
        &[Text],
        r#""find a free room""#,
        "What the tool is for; the method is negotiated with the other agent. It excludes method.",
        "工具的用途；与对方智能体协商所用的方法。不能与 method 同时使用。",
    )
    .only_with("anp"),
    key("tool.run.method", &[Text], r#""search_rooms""#, "Name of the other agent's method.", "对方智能体的方法名。")
        .default_text("the tool's own name", "与工具同名")
        .only_with("anp"),
    key(
        "tool.run.answer",
        &[Template],
        r#""Open from nine to five.""#,
        "A fixed text; with output it is read as JSON.",
        "固定文本；有 output 时按 JSON 解析。",
    )
    .one_of(),
    key(
        "tool.run.device",
        &[True, Table],
        "true",
        "A tool on a person's device, with that person's consent. The tool needs a scope.",
        "在用户设备上运行的工具，须经该用户同意。工具须有 scope。",
    )
    .one_of()
    .seen_by(&[A2h]),
    key(
        "tool.run.device.required",
        &[Flag],
        "true",
        "Whether the agent is useless to a person who does not grant the tool's scope; a relation without it is refused.",
        "该工具的权限是否为建立授权关系所必需；不授予该权限就不能建立授权关系。",
    )
    .default("false")
    .seen_by(&[A2h]),
    key(
        "tool.run.device.description",
        &[TextByLanguage],
        r#"{ zh-CN = "读取文件。" }"#,
        "The tool's description in other languages, for the person.",
        "面向用户的工具描述，可用其他语言。",
    )
    .default_text("the tool's description, in English", "工具的描述（英文）")
    .seen_by(&[A2h]),
    key(
        "tool.run.device.description_i18n_key",
        &[Text],
        r#""agent.cap.read_file.description""#,
        "Translation key of the description: up to 200 letters, digits, '_', '-' and '.'.",
        "描述的翻译键：最多 200 个字母、数字、“_”、“-”和“.”。",
    )
    .default_text("derived from the name", "由名称得出")
    .seen_by(&[A2h]),
];
