//! Texts that describe the parts of the reference, in English and Chinese.

use super::{AgentFileValueType, BilingualText, DocumentedAgentFileKey, KeyCondition, KeyPresence};
use nuncio_core::policy::Protocol;

/// Language of a text of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceLanguage {
    English,
    Chinese,
}

use ReferenceLanguage::{Chinese, English};

impl BilingualText {
    #[must_use]
    pub fn text(self, language: ReferenceLanguage) -> &'static str {
        match language {
            English => self.en,
            Chinese => self.zh,
        }
    }
}

impl DocumentedAgentFileKey {
    /// The kinds of value that the key accepts.
    #[must_use]
    pub fn type_in_words(&self, language: ReferenceLanguage) -> String {
        let forms: Vec<_> = self.values.iter().map(|form| form.in_words(language)).collect();
        if language == English {
            return forms.join(", or ");
        }
        // A space separates Chinese characters from digits, letters and code only.
        let space = |form: &str| if form.starts_with(|c: char| c.is_ascii()) { " " } else { "" };
        let first = forms.first().cloned().unwrap_or_default();
        forms.iter().skip(1).fold(first, |words, form| format!("{words}，或{}{form}", space(form)))
    }

    /// The value without the key, or that the key is required; `None` if nothing applies without it.
    #[must_use]
    pub fn default_in_words(&self, language: ReferenceLanguage) -> Option<String> {
        let text = |en: &'static str, zh| Some(BilingualText { en, zh }.text(language).to_owned());
        match self.presence {
            KeyPresence::Required => text("required", "必填"),
            KeyPresence::OneOf => text("exactly one of these keys", "必填，且只能设置其中一个"),
            KeyPresence::AnyOf => text("at least one of these keys", "至少设置其中一个"),
            KeyPresence::AtMostOneOf => text("at most one of these keys", "最多设置其中一个"),
            KeyPresence::Optional => None,
            KeyPresence::Default(value) => Some(format!("`{value}`")),
            KeyPresence::DefaultText(en, zh) => text(en, zh),
        }
    }

    /// When the key is allowed; `None` if it always is.
    #[must_use]
    pub fn condition_in_words(&self, language: ReferenceLanguage) -> Option<String> {
        let only = |condition: String| match language {
            English => format!("Only with {condition}."),
            Chinese => format!("仅用于 {condition}。"),
        };
        match self.condition {
            KeyCondition::Always => None,
            KeyCondition::With(other) => Some(only(format!("`{other}`"))),
            KeyCondition::If(other, words) => {
                let each: Vec<_> = words.iter().map(|word| format!("`{other} = \"{word}\"`")).collect();
                Some(only(alternatives(&each, language)))
            }
        }
    }

    /// Names of the protocols whose documents show the value or depend on it; empty if it stays on the server.
    #[must_use]
    pub fn audience(&self) -> String {
        let name = |protocol: &Protocol| match protocol {
            Protocol::Aap => "AAP",
            Protocol::Skill => "Skill Sharing",
            Protocol::Anp => "ANP",
            Protocol::A2h => "A2H",
            Protocol::Mcp => "MCP",
        };
        self.protocols.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The key as a section of its own, with its required keys: `[agent]` or `[[tool]]` and the lines below.
    #[must_use]
    pub fn section_example(&self) -> String {
        let head = match self.values {
            [AgentFileValueType::Sections] => format!("[[{}]]", self.path),
            _ => format!("[{}]", self.path),
        };
        let lines = super::example_keys(self.path).into_iter().map(|key| format!("{} = {}", key.name(), key.example()));
        std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
    }
}

impl AgentFileValueType {
    fn in_words(self, language: ReferenceLanguage) -> String {
        let text = |en: &'static str, zh| BilingualText { en, zh }.text(language).to_owned();
        let quoted = |words: &[&str]| words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>();
        match self {
            Self::Text => text("text", "文本"),
            Self::Texts => text("list of texts", "文本列表"),
            Self::Command => text("list: program and arguments", "列表：程序及参数"),
            Self::Template => text("template", "模板"),
            Self::Templates => text("table of templates by name", "按名称列出的模板"),
            Self::WebAddress => text("http or https address", "http 或 https 地址"),
            Self::Flag => text("`true` or `false`", "`true` 或 `false`"),
            Self::True => "`true`".to_owned(),
            Self::Integer => text("whole number", "整数"),
            Self::WholeNumber(least, most) => match language {
                English => format!("whole number from {least} to {most}"),
                Chinese => format!("{least} 到 {most} 的整数"),
            },
            Self::Number(least, most) => match language {
                English => format!("number from {least} to {most}"),
                Chinese => format!("{least} 到 {most} 的数"),
            },
            Self::Word(words) => alternatives(&quoted(words), language),
            Self::Words(words) => match language {
                English => format!("list of {}", quoted(words).join(", ")),
                Chinese => format!("列表：{}", quoted(words).join("、")),
            },
            Self::Time => text("date, or time in ISO 8601", "日期或 ISO 8601 时间"),
            Self::JsonSchema => text("JSON Schema as TOML", "以 TOML 书写的 JSON Schema"),
            Self::TextByLanguage => {
                text("text, or table of texts by language", "文本，或按语言给出的表，如 `{ en = …, zh-CN = … }`")
            }
            Self::TextsByLanguage => {
                text("list of texts, or of tables of texts by language", "文本列表，每项也可以是按语言给出的表")
            }
            Self::Flags => text("table of `true` and `false` by name", "按名称列出的 `true` 和 `false`"),
            Self::Table => text("table", "表"),
            Self::Sections => text("sections", "可重复的节"),
            Self::NamedTables => text("table of tables by name", "按名称列出的表"),
            Self::TableLike(other) => match language {
                English => format!("table with the keys of `{other}`"),
                Chinese => format!("表，键与 `{other}` 相同"),
            },
        }
    }
}

/// The words as a choice: `a, b or c`.
fn alternatives(words: &[String], language: ReferenceLanguage) -> String {
    let (comma, or) = if language == English { (", ", " or ") } else { ("、", " 或 ") };
    match words {
        [first @ .., last] if !first.is_empty() => format!("{}{or}{last}", first.join(comma)),
        _ => words.concat(),
    }
}
