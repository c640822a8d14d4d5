//! Keys of `[[information]]`, `[[capability]]` and `[[interface]]`.

use super::AgentFileValueType::{Flag, Sections, Text, Texts, WebAddress, Word};
use super::{DocumentedAgentFileKey, key};
use nuncio_core::policy::Protocol::Anp;

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key(
        "information",
        &[Sections],
        "",
        "Something to read that the agent publishes, at most 256.",
        "智能体发布的资料，最多 256 项。",
    )
    .seen_by(&[Anp]),
    key(
        "information.type",
        &[Text],
        r#""Product""#,
        "Kind of information, such as \"Product\".",
        "资料的类型，例如 \"Product\"。",
    )
    .required()
    .seen_by(&[Anp]),
    key(
        "information.description",
        &[Text],
        r#""Rooms with a view.""#,
        "What the information is about.",
        "资料的内容说明。",
    )
    .required()
    .seen_by(&[Anp]),
    key(
        "information.url",
        &[WebAddress],
        r#""https://grand-hotel.com/rooms.json""#,
        "Address of the information.",
        "资料的地址。",
    )
    .one_of()
    .seen_by(&[Anp]),
    key(
        "information.file",
        &[Text],
        r#""products/rooms.json""#,
        "A JSON file of at most 1 MiB below the agent file's folder. Its name becomes its address and must be unique.",
        "智能体文件所在目录下的 JSON 文件，最大 1 MiB。文件名会成为地址的一部分，须唯一。",
    )
    .one_of()
    .seen_by(&[Anp]),
    key(
        "capability",
        &[Sections],
        "",
        "Something that the agent can do, through any interface; at most 256.",
        "智能体的一项能力，不限接口；最多 256 项。",
    )
    .default_text("one for each exposed tool", "每个公开的工具一项")
    .seen_by(&[Anp]),
    key(
        "capability.id",
        &[Text],
        r#""cap.hotel.booking""#,
        "Id of the capability, unique in the file: parts separated by dots.",
        "能力的 id，在文件中唯一，各部分用点分隔。",
    )
    .required()
    .seen_by(&[Anp]),
    key("capability.name", &[Text], r#""Booking""#, "Name of the capability.", "能力的名称。")
        .required()
        .seen_by(&[Anp]),
    key("capability.description", &[Text], r#""Books rooms.""#, "What the capability is.", "能力的说明。")
        .required()
        .seen_by(&[Anp]),
    key(
        "capability.tags",
        &[Texts],
        r#"["hotel.booking"]"#,
        "Tags that intents of other agents are compared with.",
        "用来与其他智能体的意图比较的标签。",
    )
    .seen_by(&[Anp]),
    key(
        "capability.tools",
        &[Texts],
        r#"["add_note"]"#,
        "Names of the tools that implement the capability.",
        "实现该能力的工具名称。",
    )
    .default_text("all tools", "全部工具")
    .seen_by(&[Anp]),
    key(
        "interface",
        &[Sections],
        "",
        "An interface of the agent that another server provides, at most 256.",
        "由其他服务器提供的智能体接口，最多 256 项。",
    )
    .seen_by(&[Anp]),
    key(
        "interface.name",
        &[Text],
        r#""tour""#,
        "Name of the interface, unique in the file: 1 to 64 letters, digits, '_' and '-'.",
        "接口的名称，在文件中唯一：1 到 64 个字母、数字、“_”和“-”。",
    )
    .required()
    .seen_by(&[Anp]),
    key(
        "interface.type",
        &[Word(&["structured", "natural_language"])],
        r#""natural_language""#,
        "Whether the interface takes structured calls or natural language.",
        "接口接受结构化调用还是自然语言。",
    )
    .default(r#""structured""#)
    .seen_by(&[Anp]),
    key("interface.protocol", &[Text], r#""WebRTC""#, "Protocol of the interface.", "接口的协议。")
        .required()
        .seen_by(&[Anp]),
    key("interface.version", &[Text], r#""1.0""#, "Version of the protocol.", "协议的版本。").seen_by(&[Anp]),
    key(
        "interface.url",
        &[WebAddress],
        r#""https://grand-hotel.com/tour.yaml""#,
        "Address of the interface's description.",
        "接口描述的地址。",
    )
    .required()
    .seen_by(&[Anp]),
    key("interface.description", &[Text], r#""A tour, live.""#, "What the interface offers.", "接口提供什么。")
        .required()
        .seen_by(&[Anp]),
    key(
        "interface.human_authorization",
        &[Flag],
        "true",
        "Whether calls over the interface need a person's approval.",
        "通过该接口的调用是否须经人批准。",
    )
    .default("false")
    .seen_by(&[Anp]),
];
