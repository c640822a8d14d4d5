//! Keys of `[[option]]`, `[capabilities]` and `[capability_flags]`.

use super::AgentFileValueType::{Flag, Flags, Sections, Table, Text, Texts, Word, Words};
use super::{DocumentedAgentFileKey, key};
use nuncio_core::policy::Protocol::{A2h, Aap};

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key("option", &[Sections], "", "A setting that an app may choose for its session.", "应用可以为对话设置的选项。")
        .seen_by(&[Aap]),
    key(
        "option.name",
        &[Text],
        r#""language""#,
        "Name of the option, unique in the file: 1 to 64 letters, digits, '_', '-' and '.'.",
        "选项的名称，在文件中唯一：1 到 64 个字母、数字、“_”、“-”和“.”。",
    )
    .required()
    .seen_by(&[Aap]),
    key(
        "option.type",
        &[Word(&["text", "secret", "select"])],
        r#""text""#,
        "Kind of value. The value of a secret is never shown; a select has options and a default.",
        "值的类型。secret 的值不会显示；select 须有 options 和 default。",
    )
    .required()
    .seen_by(&[Aap]),
    key("option.title", &[Text], r#""Language""#, "Name of the option for people.", "显示给人看的名称。")
        .seen_by(&[Aap]),
    key("option.description", &[Text], r#""Language of the answers.""#, "What the option does.", "选项的作用。")
        .seen_by(&[Aap]),
    key("option.options", &[Texts], r#"["English", "中文"]"#, "The texts to choose from.", "可选的文本。")
        .required()
        .only_if("type", &["select"])
        .seen_by(&[Aap]),
    key(
        "option.default",
        &[Text],
        r#""English""#,
        "The value without a choice. Required for a select, not allowed for a secret.",
        "未设置时的值。select 必填，secret 不能设置。",
    )
    .default(r#""""#)
    .seen_by(&[Aap]),
    key("capabilities", &[Table], "", "The AAP features that clients may use.", "客户端可以使用的 AAP 功能。")
        .seen_by(&[Aap]),
    key(
        "capabilities.history",
        &[Words(&["compacted", "full"])],
        r#"["full"]"#,
        "Forms in which clients may read a session's history.",
        "客户端可以读取的对话历史形式。",
    )
    .default(r#"["compacted", "full"]"#)
    .seen_by(&[Aap]),
    key(
        "capabilities.stream",
        &[Words(&["delta", "message", "none"])],
        r#"["delta", "message"]"#,
        "Forms in which clients may receive an answer: piece by piece, message by message, or at once. At least one.",
        "客户端可以接收回答的形式：逐段、逐条消息或一次性。至少一种。",
    )
    .default(r#"["delta", "message", "none"]"#)
    .seen_by(&[Aap]),
    key(
        "capabilities.application_tools",
        &[Flag],
        "false",
        "Whether clients may bring tools of their own.",
        "客户端能否提供自己的工具。",
    )
    .default("true")
    .seen_by(&[Aap]),
    key(
        "capabilities.images",
        &[Words(&["https", "data"])],
        r#"["data"]"#,
        "How clients may send images: as https: addresses, as data: URIs.",
        "客户端发送图片的方式：https: 地址、data: URI。",
    )
    .default("[]")
    .seen_by(&[Aap]),
    key(
        "capability_flags",
        &[Flags],
        "{ supports_voice = false }",
        "Flags of the A2H manifest, by name.",
        "A2H 能力清单中的能力标志，按名称列出。",
    )
    .seen_by(&[A2h]),
];
