//! Keys of `[[intent]]`.

use super::AgentFileValueType::{Flag, Integer, Sections, Template, Text, Texts, Word};
use super::{DocumentedAgentFileKey, key};

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key(
        "intent",
        &[Sections],
        "",
        "Something that a user may want, for a rules brain. Patterns are matched before keywords.",
        "用户可能提出的一种请求，用于 rules brain。先匹配 patterns，再匹配 keywords。",
    ),
    key(
        "intent.name",
        &[Text],
        r#""greet""#,
        "Name of the intent, unique in the file: 1 to 64 letters, digits, '_' and '-'.",
        "意图的名称，在文件中唯一：1 到 64 个字母、数字、“_”和“-”。",
    )
    .required(),
    key(
        "intent.keywords",
        &[Texts],
        r#"["hello", "good morning"]"#,
        "Words and phrases of a matching message. Case is ignored; in Chinese any part of the message counts.",
        "匹配消息的词语。不区分大小写；中文按任意片段匹配。",
    )
    .any_of(),
    key(
        "intent.patterns",
        &[Texts],
        r"['(?i)^good (morning|evening)']",
        "Regular expressions of a matching message. Named groups such as (?<zone>…) fill the slots of the same name.",
        "匹配消息的正则表达式。命名分组（如 (?<zone>…)）会填入同名槽位。",
    )
    .any_of(),
    key(
        "intent.tool",
        &[Text],
        r#""add_note""#,
        "Name of the tool to call; the slots are its arguments.",
        "要调用的工具名称；槽位就是它的参数。",
    ),
    key("intent.answer", &[Template], r#""Hello!""#, "What the agent says.", "智能体的回答。").required(),
    key(
        "intent.failure",
        &[Template],
        r#""That did not work: {{ error }}""#,
        "What the agent says if the tool fails or is not allowed.",
        "工具失败或未获允许时的回答。",
    )
    .default_text("a sentence with the error", "一句说明错误的话")
    .only_with("tool"),
    key(
        "intent.slot",
        &[Sections],
        "",
        "A value of the intent. Without a value and a default, the agent asks for it if the slot has `ask` or the tool \
         requires the argument; otherwise the slot stays empty.",
        "意图的一个值。没有值也没有默认值时，如果槽位有 ask，或者工具要求该参数，智能体会询问；否则槽位留空。",
    ),
    key(
        "intent.slot.name",
        &[Text],
        r#""zone""#,
        "Name of the slot; with a tool, the name of one of its arguments.",
        "槽位的名称；意图有工具时，须是该工具的参数名。",
    )
    .required(),
    key(
        "intent.slot.type",
        &[Word(&["text", "date", "integer", "choice", "pattern"])],
        r#""text""#,
        "Kind of value. A date may be said in words (\"tomorrow\"); a choice has choices, a pattern has a pattern.",
        "值的类型。date 可以是“明天”这样的说法；choice 须有 choices，pattern 须有 pattern。",
    )
    .required(),
    key(
        "intent.slot.choices",
        &[Texts],
        r#"["suite|suites|套房", "single"]"#,
        "The allowed values. Other spellings of a value follow it, separated by `|`.",
        "允许的值。同一个值的其他说法写在后面，用 | 分隔。",
    )
    .required()
    .only_if("type", &["choice"]),
    key("intent.slot.pattern", &[Text], r#"'\d{3}'"#, "Regular expression of the value.", "值须匹配的正则表达式。")
        .required()
        .only_if("type", &["pattern"]),
    key(
        "intent.slot.ask",
        &[Template],
        r#""Which time zone?""#,
        "The question for a missing value.",
        "缺少值时的提问。",
    )
    .default_text(
        "a sentence with the slot's name if the tool requires the argument",
        "工具要求该参数时，为一句包含槽位名称的话",
    ),
    key(
        "intent.slot.default",
        &[Text, Integer],
        r#""UTC""#,
        "The value if the user gives none. It must fit the type; a whole number may be written without quotes, and a \
         choice takes any of its spellings.",
        "用户没有给出时的值，须符合类型；整数可以不加引号，choice 可以用任一说法。",
    ),
    key(
        "intent.slot.remember",
        &[Flag],
        "false",
        "Whether a later intent with a slot of the same name reuses the value.",
        "之后的意图有同名槽位时是否沿用该值。",
    )
    .default("true"),
];
