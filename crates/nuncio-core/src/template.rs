//! Templates in the Jinja language, checked when parsed.

use std::collections::BTreeSet;
use std::fmt;

use minijinja::{Environment, UndefinedBehavior};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq)]
pub struct Template(String);

/// Where the rendered text is used, which decides how values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapeContext {
    /// Rendered plain text: values are inserted unchanged.
    Text,
    /// Rendered URL: values are percent-encoded, so that none can add a path segment or parameter. A value may still be
    /// a dot segment, which the sender of the request refuses.
    Url,
    /// Rendered header or environment variable: control characters in values are refused.
    Line,
}

/// A syntax error of a template, or the reason why rendering failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {0}")]
pub struct TemplateError(String);

impl Template {
    pub fn parse(text: impl Into<String>) -> Result<Self, TemplateError> {
        let text = text.into();
        let environment = Environment::new();
        environment.template_from_str(&text).map_err(|error| describe(&error))?;
        Ok(Self(text))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Variables that the template refers to, such as `args.room`, without the built-in names of the Jinja language.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        let environment = Environment::new();
        let Ok(parsed) = environment.template_from_str(&self.0) else { return BTreeSet::new() };
        let is_builtin = |name: &String| environment.globals().any(|(global, _)| global == name);
        parsed.undeclared_variables(true).into_iter().filter(|name| !is_builtin(name)).collect()
    }

    /// Whether the template has no placeholders.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !["{{", "{%", "{#"].iter().any(|mark| self.0.contains(mark))
    }

    /// Renders the template. In plain text a missing value is left out; in a URL or header it is an error.
    pub fn render(&self, escape: EscapeContext, context: impl Serialize) -> Result<String, TemplateError> {
        let mut environment = Environment::new();
        // The limit bounds the work, because a peer may send input of any length.
        environment.set_recursion_limit(32);
        match escape {
            EscapeContext::Text => environment.set_undefined_behavior(UndefinedBehavior::Chainable),
            EscapeContext::Url | EscapeContext::Line => environment.set_undefined_behavior(UndefinedBehavior::Strict),
        }
        environment.set_formatter(move |out, _, value| {
            let text = match value.as_str() {
                Some(text) => text.to_owned(),
                None if value.is_undefined() || value.is_none() => String::new(),
                None => value.to_string(),
            };
            match escape {
                EscapeContext::Text => out.write_str(&text)?,
                EscapeContext::Url => write!(out, "{}", utf8_percent_encode(&text, UNRESERVED))?,
                EscapeContext::Line if text.chars().any(char::is_control) => {
                    let kind = minijinja::ErrorKind::InvalidOperation;
                    return Err(minijinja::Error::new(kind, "a value holds a control character"));
                }
                EscapeContext::Line => out.write_str(&text)?,
            }
            Ok(())
        });
        environment
            .template_from_str(&self.0)
            .and_then(|template| template.render(context))
            .map_err(|error| describe(&error))
    }
}

fn describe(error: &minijinja::Error) -> TemplateError {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    TemplateError(match error.line() {
        Some(line) if line > 1 => format!("{detail} (line {line} of the template)"),
        _ => detail,
    })
}

/// Characters that a URL value keeps: the unreserved ones of RFC 3986.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn url_template_value_cannot_add_path_segment_or_query_parameter() {
        let template = Template::parse("https://api.example/rooms/{{ args.id }}?q={{ args.q }}").unwrap();
        let context = json!({"args": {"id": "../admin", "q": "a&b=c#d"}});
        assert_eq!(
            template.render(EscapeContext::Url, context).unwrap(),
            "https://api.example/rooms/..%2Fadmin?q=a%26b%3Dc%23d"
        );
        assert!(template.render(EscapeContext::Url, json!({"args": {"id": "1"}})).is_err());
    }

    #[test]
    fn header_template_value_with_line_break_is_refused() {
        let template = Template::parse("Bearer {{ secrets.key }}").unwrap();
        assert!(template.render(EscapeContext::Line, json!({"secrets": {"key": "a\r\nX: 1"}})).is_err());
        assert_eq!(template.render(EscapeContext::Line, json!({"secrets": {"key": "a"}})).unwrap(), "Bearer a");
    }

    #[test]
    fn missing_value_in_text_template_renders_as_empty() {
        let template =
            Template::parse("{% for room in result.rooms %}{{ room.id }} {% endfor %}{{ nothing.at.all }}").unwrap();
        let context = json!({"result": {"rooms": [{"id": "101"}, {"id": 102}]}});
        assert_eq!(template.render(EscapeContext::Text, context).unwrap(), "101 102 ");
    }

    #[test]
    fn unclosed_template_is_refused() {
        assert!(Template::parse("{{ unclosed").is_err());
    }
}
