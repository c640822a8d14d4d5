//! Options of the agent: `--option NAME=VALUE`, `/set NAME VALUE` and `/options`.

use std::collections::BTreeMap;

use nuncio_aap::client::{AgentInfo, OptionInfo};

/// Text shown in place of a secret value; AAP servers answer with the same.
pub(super) const REDACTED: &str = "***";

/// Reads `--option NAME=VALUE`.
pub(crate) fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Checks the name and the value of an option against what the agent offers.
pub(super) fn check(agent: &AgentInfo, name: &str, value: &str) -> Result<(), String> {
    let Some(option) = agent.options.iter().find(|option| option.name == name) else {
        let names: Vec<_> = agent.options.iter().map(|option| option.name.as_str()).collect();
        return Err(match names[..] {
            [] => format!("the agent `{}` has no options, so {name:?} cannot be set", agent.name),
            _ => format!("the agent `{}` has no option {name:?}; it has: {}", agent.name, names.join(", ")),
        });
    };
    if option.kind == "select" && !option.options.iter().any(|allowed| allowed == value) {
        return Err(format!("{value:?} is not a value of {name:?}; allowed: {}", option.options.join(", ")));
    }
    Ok(())
}

/// One option as a line of `/options`: name, value, and what may be set.
pub(super) fn line(option: &OptionInfo, set: &BTreeMap<String, String>) -> String {
    let value = value(option, set);
    let allowed = if option.options.is_empty() { String::new() } else { format!(" [{}]", option.options.join(" | ")) };
    let about = option.description.as_ref().or(option.title.as_ref());
    let about = about.map(|about| format!(": {about}")).unwrap_or_default();
    format!("  {} = {value}{allowed}{about}", option.name)
}

/// The value of an option in a session; a secret is redacted.
pub(super) fn value<'a>(option: &'a OptionInfo, set: &'a BTreeMap<String, String>) -> &'a str {
    match set.get(&option.name) {
        Some(value) if option.kind == "secret" && !value.is_empty() => REDACTED,
        Some(value) => value,
        None => &option.default,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent() -> AgentInfo {
        let options = json!([
            {"name": "tone", "type": "select", "options": ["formal", "casual"], "default": "formal"},
            {"name": "token", "type": "secret", "title": "Token"},
        ]);
        serde_json::from_value(json!({"name": "a", "version": "1.0.0", "options": options})).unwrap()
    }

    #[test]
    fn option_flag_is_split_at_the_first_equals_sign() {
        assert_eq!(parse_option("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(parse_option("a="), Ok(("a".into(), String::new())));
        assert!(parse_option("a").is_err() && parse_option("=a").is_err());
    }

    #[test]
    fn unknown_option_and_value_that_is_not_listed_are_refused_with_the_allowed_ones() {
        assert_eq!(check(&agent(), "tone", "casual"), Ok(()));
        let unknown = check(&agent(), "colour", "red").unwrap_err();
        assert_eq!(unknown, "the agent `a` has no option \"colour\"; it has: tone, token");
        let wrong = check(&agent(), "tone", "rude").unwrap_err();
        assert_eq!(wrong, "\"rude\" is not a value of \"tone\"; allowed: formal, casual");
    }

    #[test]
    fn secret_value_is_redacted_in_the_list_of_options() {
        let set = BTreeMap::from([("token".to_owned(), "s3cret".to_owned())]);
        let agent = agent();
        assert_eq!(line(&agent.options[0], &set), "  tone = formal [formal | casual]");
        assert_eq!(line(&agent.options[1], &set), "  token = ***: Token");
    }
}
