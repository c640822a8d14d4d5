//! Texts with `{{ … }}` places, in the Jinja language, checked when they are read.

use std::fmt;

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

/// A template that parses.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(String);

/// What the rendered text is going to be part of, and so how values are written into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Prose: values as they are.
    Text,
    /// An address: values percent-encoded, so that none can add a path segment or parameter. A
    /// value may still be a segment of dots; whoever sends the request refuses those.
    Url,
    /// A header or an environment variable: values may not hold control characters.
    Line,
}

/// Why a template is wrong, or what could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {0}")]
pub struct TemplateError(String);

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It does not parse.
    pub fn parse(text: impl Into<String>) -> Result<Self, TemplateError> {
        let text = text.into();
        let environment = Environment::new();
        environment.template_from_str(&text).map_err(|error| describe(&error))?;
        Ok(Self(text))
    }

    /// The template as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to fill in.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !["{{", "{%", "{#"].iter().any(|mark| self.0.contains(mark))
    }

    /// Fills in the places from `context`. In prose a missing value is left out; elsewhere it is
    /// an error.
    ///
    /// # Errors
    /// A value is missing or does not belong in that place.
    pub fn render(&self, place: Place, context: impl Serialize) -> Result<String, TemplateError> {
        let mut environment = Environment::new();
        // Work is bounded, since what is rendered may be as long as a peer likes.
        environment.set_recursion_limit(32);
        match place {
            Place::Text => environment.set_undefined_behavior(UndefinedBehavior::Chainable),
            Place::Url | Place::Line => environment.set_undefined_behavior(UndefinedBehavior::Strict),
        }
        environment.set_formatter(move |out, _, value| {
            let text = match value.as_str() {
                Some(text) => text.to_owned(),
                None if value.is_undefined() || value.is_none() => String::new(),
                None => value.to_string(),
            };
            match place {
                Place::Text => out.write_str(&text)?,
                Place::Url => out.write_str(&percent_encode(&text))?,
                Place::Line if text.chars().any(char::is_control) => {
                    let kind = minijinja::ErrorKind::InvalidOperation;
                    return Err(minijinja::Error::new(kind, "a value holds a control character"));
                }
                Place::Line => out.write_str(&text)?,
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

fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => {
                use fmt::Write as _;
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

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
    fn a_value_cannot_leave_its_place_in_an_address() {
        let template = Template::parse("https://api.example/rooms/{{ args.id }}?q={{ args.q }}").unwrap();
        let context = json!({"args": {"id": "../admin", "q": "a&b=c#d"}});
        assert_eq!(
            template.render(Place::Url, context).unwrap(),
            "https://api.example/rooms/..%2Fadmin?q=a%26b%3Dc%23d"
        );
        assert!(template.render(Place::Url, json!({"args": {"id": "1"}})).is_err());
    }

    #[test]
    fn a_value_cannot_start_a_second_header() {
        let template = Template::parse("Bearer {{ secrets.key }}").unwrap();
        assert!(template.render(Place::Line, json!({"secrets": {"key": "a\r\nX: 1"}})).is_err());
        assert_eq!(template.render(Place::Line, json!({"secrets": {"key": "a"}})).unwrap(), "Bearer a");
    }

    #[test]
    fn prose_leaves_out_what_is_missing() {
        let template =
            Template::parse("{% for room in result.rooms %}{{ room.id }} {% endfor %}{{ nothing.at.all }}").unwrap();
        let context = json!({"result": {"rooms": [{"id": "101"}, {"id": 102}]}});
        assert_eq!(template.render(Place::Text, context).unwrap(), "101 102 ");
    }

    #[test]
    fn a_template_that_does_not_parse_is_refused() {
        assert!(Template::parse("{{ unclosed").is_err());
    }
}
