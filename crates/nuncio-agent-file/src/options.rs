//! The `[[option]]` sections: options that a client may set per session.

use super::reader::{LocatedTomlValue, TomlTableReader};
use super::similar;
use super::source::cut;
use nuncio_core::agent::{AgentOption, OptionValueType};
use nuncio_core::ids::OptionName;

#[derive(Clone, Copy, PartialEq)]
enum OptionType {
    Text,
    Secret,
    Select,
}

const OPTION_TYPES: [(&str, OptionType); 3] =
    [("text", OptionType::Text), ("secret", OptionType::Secret), ("select", OptionType::Select)];

pub(super) fn read(root: &TomlTableReader<'_>) -> Vec<AgentOption> {
    root.tables("option", "name").iter().filter_map(option).collect()
}

fn option(table: &TomlTableReader<'_>) -> Option<AgentOption> {
    let name = table.name("name", OptionName::parse);
    let kind = table.choice("type", &OPTION_TYPES);
    let title = table.optional_text("title");
    let description = table.optional_text("description");
    let choices = match kind {
        Some(OptionType::Select) => table.required("options", "the texts to choose from"),
        Some(OptionType::Text | OptionType::Secret) => {
            table.refuse("options", r#"only an option of type "select" has options"#);
            None
        }
        None => table.item("options"),
    };
    let choices = choices.and_then(|item| item.distinct_texts());
    if kind == Some(OptionType::Select) {
        table.required("default", "one of the options");
    }
    let default = table.read_or("default", String::new(), |item| default_value(item, kind, choices.as_deref()));
    table.finish();
    let kind = match kind? {
        OptionType::Text => OptionValueType::Text,
        OptionType::Secret => OptionValueType::Secret,
        OptionType::Select => OptionValueType::Select(choices?),
    };
    Some(AgentOption { name: name?, title, description, kind, default: default? })
}

fn default_value(item: &LocatedTomlValue<'_>, kind: Option<OptionType>, choices: Option<&[String]>) -> Option<String> {
    let text = item.any_text()?;
    // The value is not repeated in the message, because it may be a real secret.
    if kind == Some(OptionType::Secret) && !text.is_empty() {
        return item.position.reject("a secret has no default", r#"allowed: "", or no default at all"#);
    }
    if let Some(choices) = choices
        && !choices.iter().any(|choice| choice == text)
    {
        let help = similar::help(text, "allowed", choices.iter().map(String::as_str));
        return item.position.reject(format!("found {:?}", cut(text)), help);
    }
    Some(text.to_owned())
}
