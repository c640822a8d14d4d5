//! Keys of `skill`, which offers a tool or the whole agent to other agents.

use super::AgentFileValueType::{Table, Text, Texts, Time, WebAddress, WholeNumber, Word};
use super::{DocumentedAgentFileKey, key};
use nuncio_core::policy::Protocol::{Anp, Skill};

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key(
        "tool.skill",
        &[Table],
        "",
        "Offers the tool to other agents as a skill. A hidden tool (expose = false) cannot be a skill.",
        "把工具作为技能提供给其他智能体。隐藏的工具（expose = false）不能作为技能。",
    )
    .seen_by(&[Skill]),
    key(
        "tool.skill.type",
        &[Word(&["plugin", "api", "knowledge", "task"])],
        r#""task""#,
        "Kind of the skill.",
        "技能的类型。",
    )
    .required()
    .seen_by(&[Skill]),
    key(
        "tool.skill.id",
        &[Text],
        r#""{provider}/notes""#,
        "Id of the skill, unique on the host: letters, digits, '_', '-' and '.', in parts separated by '/'. {provider} stands for the agent's name.",
        "技能的 id，在主机上唯一：字母、数字、“_”、“-”和“.”，各部分用“/”分隔。{provider} 代表智能体的名称。",
    )
    .default_text("{provider}/ and the tool's name; {provider}/ask for an agent", "{provider}/ 加工具名；整个智能体为 {provider}/ask")
    .seen_by(&[Skill]),
    key("tool.skill.name", &[Text], r#""Notes""#, "Name of the skill for people.", "显示给人看的名称。")
        .default_text("the title or name of the tool or agent", "工具或智能体的标题或名称")
        .seen_by(&[Skill]),
    key("tool.skill.description", &[Text], r#""Keeps notes.""#, "What the skill does.", "技能的用途。")
        .default_text("that of the tool or agent", "工具或智能体的描述")
        .seen_by(&[Skill]),
    key(
        "tool.skill.version",
        &[Text],
        r#""1.2.0""#,
        "Version of the skill: three numbers, MAJOR.MINOR.PATCH.",
        "技能的版本：三个数字，格式为 MAJOR.MINOR.PATCH。",
    )
    .default_text("the agent's, which then must have this form", "智能体的版本，此时须为这种格式")
    .seen_by(&[Skill]),
    key(
        "tool.skill.access",
        &[Word(&["public", "restricted", "private"])],
        r#""restricted""#,
        "Who finds and calls the skill. \"public\": anyone finds it, callers that auth admits call it; \"restricted\": anyone finds it, known callers with the scope call it; \"private\": only those callers see it.",
        "谁能发现和调用技能。\"public\"：任何人都能发现，通过 auth 的调用方可以调用；\"restricted\"：任何人都能发现，只有具备权限的已知调用方可以调用；\"private\"：只有这些调用方能看到。",
    )
    .default_text("\"restricted\" with a scope, otherwise \"public\"", "有 scope 时为 \"restricted\"，否则为 \"public\"")
    .seen_by(&[Skill]),
    key(
        "tool.skill.auth",
        &[Word(&["none", "api_key", "oauth2", "custom"]), Table],
        r#""api_key""#,
        "How callers authenticate: with nothing, a key of this server, an access token or a signature; a table gives the header or the issuer.",
        "调用方如何认证：无需认证、本服务器的密钥、访问令牌或签名；用表可指定请求头或签发方。",
    )
    .default_text("\"api_key\"; \"none\" if it is public and needs no scope", "\"api_key\"；公开且无需权限时为 \"none\"")
    .seen_by(&[Skill]),
    key("tool.skill.auth.api_key", &[Text], r#""X-Hotel-Key""#, "Header in which callers send their key.", "调用方发送密钥的请求头。")
        .one_of()
        .seen_by(&[Skill]),
    key(
        "tool.skill.auth.oauth2",
        &[WebAddress],
        r#""https://login.example.com""#,
        "The only issuer whose access tokens count.",
        "只接受该签发方的访问令牌。",
    )
    .one_of()
    .seen_by(&[Skill]),
    key(
        "tool.skill.method",
        &[Word(&["GET", "POST", "PUT", "DELETE"])],
        r#""GET""#,
        "HTTP method of a call. With GET and DELETE the inputs are in the query.",
        "调用的 HTTP 方法。GET 和 DELETE 的输入放在查询参数中。",
    )
    .default(r#""POST""#)
    .seen_by(&[Skill]),
    key("tool.skill.tags", &[Texts], r#"["notes", "memory"]"#, "Search terms.", "搜索词。").seen_by(&[Skill, Anp]),
    key(
        "tool.skill.documentation_url",
        &[WebAddress],
        r#""https://example.com/docs""#,
        "Address with more documentation.",
        "更多文档的地址。",
    )
    .seen_by(&[Skill]),
    key("tool.skill.created_at", &[Time], r#""2026-01-15T08:00:00Z""#, "When the skill was created.", "技能的创建时间。")
        .seen_by(&[Skill]),
    key(
        "tool.skill.updated_at",
        &[Time],
        r#""2026-02-01T08:00:00Z""#,
        "When the skill was last changed; not before created_at.",
        "技能的最后修改时间，不早于 created_at。",
    )
    .seen_by(&[Skill]),
    key(
        "tool.skill.retry",
        &[Table],
        "",
        "How a call that could not reach its backend is repeated.",
        "无法连接后端时如何重试。",
    )
    .default_text("one attempt", "只尝试一次")
    .seen_by(&[Skill]),
    key("tool.skill.retry.max_attempts", &[WholeNumber(1, 10)], "3", "Number of attempts.", "尝试次数。")
        .required()
        .seen_by(&[Skill]),
    key(
        "tool.skill.retry.backoff_ms",
        &[WholeNumber(1, 60_000)],
        "500",
        "Pause before the second attempt, in milliseconds; it doubles each time.",
        "第二次尝试之前的等待时间，单位毫秒；之后每次加倍。",
    )
    .default("1000")
    .seen_by(&[Skill]),
    key(
        "tool.skill.keep_hours",
        &[WholeNumber(1, 8_760)],
        "48",
        "How long results are kept, in hours.",
        "结果的保留时间，单位小时。",
    )
    .default_text("the server's setting", "服务器的设置"),
    key(
        "tool.skill.concurrency",
        &[WholeNumber(1, 1_024)],
        "4",
        "How many executions run at once.",
        "同时执行的数量。",
    )
    .default_text("the server's setting", "服务器的设置"),
];
