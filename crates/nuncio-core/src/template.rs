//! Templates in the Jinja language, checked when parsed.

use std::collections::BTreeSet;
use std::fmt;

use minijinja::value::ValueKind;
use minijinja::{Environment, UndefinedBehavior};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

mod inspect;
mod known;

pub use inspect::{TemplateReference, TemplateReferenceKind, VariablePath, VariablePathStep};
pub use known::{FILTERS, FUNCTIONS, TESTS, is_filter, is_function, is_test};

#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    /// Whether the text is used unchanged, even if it has placeholders.
    is_literal: bool,
}

/// Where the rendered text is used, which decides how values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapeContext {
    /// Rendered text for people and models: values are inserted unchanged, and a missing one is left out.
    Text,
    /// Rendered body of a request: values are inserted unchanged.
    Body,
    /// Rendered URL: values are percent-encoded, so that none can add a path segment or parameter. A value may still be
    /// a dot segment, which the sender of the request refuses.
    Url,
    /// Rendered header, environment variable or command argument: control characters in values are refused.
    Line,
}

/// A syntax error of a template, or the reason why rendering failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {0}")]
pub struct TemplateError(String);

impl TemplateError {
    /// The reason alone, for messages that name the template.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl Template {
    pub fn parse(text: impl Into<String>) -> Result<Self, TemplateError> {
        let text = text.into();
        let environment = Environment::new();
        environment.template_from_str(&text).map_err(|error| describe(&error))?;
        Ok(Self { text, is_literal: false })
    }

    /// A text that is not a template and is rendered unchanged.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_literal: true }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Names that the template uses, in the order of the text, without the variables that it sets itself.
    #[must_use]
    pub fn names(&self) -> Vec<TemplateReference> {
        if self.is_plain() { Vec::new() } else { inspect::names(&self.text) }
    }

    /// Variables that the template refers to, such as `args.room`, without the built-in names of the Jinja language.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        let variables = self.names().into_iter().filter_map(|name| match name.kind {
            TemplateReferenceKind::Variable(path) => Some(path.to_string()),
            _ => None,
        });
        variables.filter(|name| !is_function(name)).collect()
    }

    /// Whether the template has no placeholders.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_literal || !["{{", "{%", "{#"].iter().any(|mark| self.text.contains(mark))
    }

    /// Renders the template. A truth value, a list or an object is rendered as JSON. A missing value is an error,
    /// unless the template has a default for it or tests it; in [`EscapeContext::Text`] it is left out.
    pub fn render(&self, escape: EscapeContext, context: impl Serialize) -> Result<String, TemplateError> {
        if self.is_literal {
            return Ok(self.text.clone());
        }
        let mut environment = Environment::new();
        // The limit bounds the work, because a peer may send input of any length.
        environment.set_recursion_limit(32);
        match escape {
            EscapeContext::Text => environment.set_undefined_behavior(UndefinedBehavior::Chainable),
            EscapeContext::Body | EscapeContext::Url | EscapeContext::Line => {
                environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
            }
        }
        environment.set_formatter(move |out, _, value| {
            let text = match value.as_str() {
                Some(text) => text.to_owned(),
                None if value.is_undefined() && escape != EscapeContext::Text => {
                    return Err(minijinja::ErrorKind::UndefinedError.into());
                }
                None if value.is_undefined() || value.is_none() => String::new(),
                None if matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) => {
                    let failed = |error: serde_json::Error| {
                        minijinja::Error::new(minijinja::ErrorKind::BadSerialization, error.to_string())
                    };
                    serde_json::to_string(value).map_err(failed)?
                }
                None if value.kind() == ValueKind::Bool => value.is_true().to_string(),
                None => value.to_string(),
            };
            match escape {
                EscapeContext::Text | EscapeContext::Body => out.write_str(&text)?,
                EscapeContext::Url => write!(out, "{}", utf8_percent_encode(&text, UNRESERVED))?,
                EscapeContext::Line if text.chars().any(char::is_control) => {
                    let kind = minijinja::ErrorKind::InvalidOperation;
                    return Err(minijinja::Error::new(kind, "a value contains a control character"));
                }
                EscapeContext::Line => out.write_str(&text)?,
            }
            Ok(())
        });
        let context = minijinja::Value::from_serialize(context);
        environment.template_from_str(&self.text).and_then(|template| template.render(&context)).map_err(|error| {
            let is_missing = error.kind() == minijinja::ErrorKind::UndefinedError;
            match self.missing_variable(&context).filter(|_| is_missing) {
                Some(path) => TemplateError(format!("`{path}` has no value")),
                None => describe(&error),
            }
        })
    }

    /// The first variable of the template that the context does not have; one without a guard if there is one.
    fn missing_variable(&self, context: &minijinja::Value) -> Option<VariablePath> {
        let missing = self.names().into_iter().filter_map(|name| match name.kind {
            TemplateReferenceKind::Variable(path) if !is_function(&path.root) => {
                let keys = std::iter::once(path.root.as_str()).chain(path.keys());
                let value = keys.into_iter().try_fold(context.clone(), |value, key| value.get_attr(key));
                value.map_or(true, |value| value.is_undefined()).then_some(path)
            }
            _ => None,
        });
        // `min_by_key` returns the first of equal values.
        missing.min_by_key(|path| path.is_guarded)
    }

    /// Renders a template of expressions without variables, functions and blocks; `None` for others.
    #[must_use]
    pub fn render_constant(&self) -> Option<Result<String, TemplateError>> {
        // A product can be a text of any length.
        let is_constant = !self.text.contains("{%")
            && !self.text.contains('*')
            && self
                .names()
                .iter()
                .all(|name| matches!(name.kind, TemplateReferenceKind::Filter(_) | TemplateReferenceKind::Test(_)));
        is_constant.then(|| self.render(EscapeContext::Text, ()))
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
        write!(f, "{:?}", self.text)
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
        let missing = template.render(EscapeContext::Url, json!({"args": {"id": "1"}})).unwrap_err();
        assert_eq!(missing.to_string(), "template: `args.q` has no value");
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
    fn missing_value_is_an_error_outside_texts_unless_the_template_handles_it() {
        let empty = json!({"args": {}});
        for escape in [EscapeContext::Body, EscapeContext::Url, EscapeContext::Line] {
            let render = |text: &str| Template::parse(text).unwrap().render(escape, &empty);
            assert_eq!(render("{{ args.q }}").unwrap_err().to_string(), "template: `args.q` has no value");
            assert!(render("{{ args.q | upper }}").is_err(), "{escape:?}");
            assert_eq!(render("{{ args.q | tojson }}").unwrap(), "null");
            assert!(render("{{ args.q.deep }}").is_err(), "{escape:?}");
            assert_eq!(render("{{ args.q | default('x') }}").unwrap(), "x");
            assert_eq!(render("{% if args.q %}a{% else %}b{% endif %}").unwrap(), "b");
            assert_eq!(render("{% if args.q is defined %}a{% endif %}b").unwrap(), "b");
            assert_eq!(render("{{ args.q or 'x' }}").unwrap(), "x");
            let after_guard = render("{% if args.q %}a{% endif %}{{ args.q }}").unwrap_err();
            assert_eq!(after_guard.to_string(), "template: `args.q` has no value");
            let in_else = render("{% if args.q %}a{% else %}{{ args.q }}{% endif %}").unwrap_err();
            assert_eq!(in_else.to_string(), "template: `args.q` has no value");
        }
    }

    #[test]
    fn lists_and_objects_are_rendered_as_json_in_every_context() {
        let context = json!({"args": {"list": ["a b", 1, true, null], "map": {"k": "v"}, "none": null, "yes": true}});
        let render = |text: &str, escape| Template::parse(text).unwrap().render(escape, &context).unwrap();
        for escape in [EscapeContext::Text, EscapeContext::Body, EscapeContext::Line] {
            assert_eq!(render("{{ args.list }}", escape), r#"["a b",1,true,null]"#);
            assert_eq!(render("{{ args.list | tojson }}", escape), r#"["a b",1,true,null]"#);
            assert_eq!(render("{{ args.map }}", escape), r#"{"k":"v"}"#);
            assert_eq!(render("{{ args.none }}|{{ args.yes }}", escape), "|true");
        }
        assert_eq!(render("{{ args.map }}", EscapeContext::Url), "%7B%22k%22%3A%22v%22%7D");
        assert_eq!(render("{{ args.map | tojson }}", EscapeContext::Url), "%7B%22k%22%3A%22v%22%7D");
    }

    #[test]
    fn names_of_a_template_are_listed_with_their_offsets() {
        let text = "{% for room in result.rooms[0].all %}{{ room.id | uper }}{% endfor %}{{ secrets[args.which] }}\
                    {{ text.strip() }}{{ now() }}{% if slots.a is odd %}{{ slots['a'] | map('lowr') }}{% endif %}";
        let template = Template::parse(text).unwrap();
        let shown: Vec<String> = template
            .names()
            .into_iter()
            .map(|TemplateReference { offset, kind }| match kind {
                TemplateReferenceKind::Filter(name) => format!("{offset} filter {name}"),
                TemplateReferenceKind::Test(name) => format!("{offset} test {name}"),
                TemplateReferenceKind::Function(name) => format!("{offset} function {name}"),
                TemplateReferenceKind::Variable(path) => format!("{offset} variable {path} {}", path.is_guarded),
            })
            .collect();
        let at = |word: &str| text.find(word).unwrap();
        let expected = [
            format!("{} variable result.rooms false", at("result")),
            format!("{} filter uper", at("uper")),
            format!("{} variable secrets false", at("secrets")),
            format!("{} variable args.which false", at("args")),
            format!("{} function text.strip", at("text")),
            format!("{} variable text false", at("text")),
            format!("{} function now", at("now")),
            format!("{} variable slots.a false", at("slots.a")),
            format!("{} test odd", at("odd")),
            format!("{} variable slots.a false", at("slots[")),
            format!("{} filter map", at("map")),
            format!("{} filter lowr", at("'lowr'")),
        ];
        assert_eq!(shown, expected);
        let guarded = Template::parse("{% if args.a %}{{ args.a.b }}{% endif %}{{ args.b }}").unwrap().names();
        let guarded: Vec<_> =
            guarded.iter().map(|name| format!("{:?}", name.kind).contains("is_guarded: true")).collect();
        assert_eq!(guarded, [true, true, false]);
        // A guard holds only for what it is around.
        for (text, expected) in [
            ("{% if args.y %}a{% endif %}{{ args.y }}", [true, false]),
            ("{{ args.y }}{{ args.y | default('') }}", [false, true]),
            ("{{ args.y or 'x' }}{{ args.y }}", [true, false]),
            ("{{ args.y if args.y is defined else 'x' }}", [true, true]),
            ("{% if args.y is defined and true %}{{ args.y }}{% endif %}", [true, true]),
            // In the other branch the value is missing.
            ("{% if args.y %}a{% else %}{{ args.y }}{% endif %}", [true, false]),
            ("{{ 'x' if args.y is defined else args.y }}", [true, false]),
            ("{% if not args.y %}a{% else %}{{ args.y }}{% endif %}", [true, true]),
            ("{% if args.y is undefined %}{{ args.y }}{% endif %}", [true, false]),
            ("{% if args.y is undefined %}a{% elif true %}{{ args.y }}{% endif %}", [true, true]),
            ("{% if args.y or true %}{{ args.y }}{% endif %}", [true, false]),
            ("{{ args.y or args.y }}", [true, false]),
            ("{{ args.y and args.y }}", [false, true]),
        ] {
            let names = Template::parse(text).unwrap().names();
            let variables = names.into_iter().filter_map(|name| match name.kind {
                TemplateReferenceKind::Variable(path) => Some(path.is_guarded),
                _ => None,
            });
            assert_eq!(variables.collect::<Vec<_>>(), expected, "{text}");
        }
        assert!(
            Template::parse("{{ loop }}{% for x in [1] %}{{ loop.cycle('a') }}{% endfor %}").unwrap().names().len()
                == 1
        );
    }

    #[test]
    fn unclosed_template_is_refused() {
        assert!(Template::parse("{{ unclosed").is_err());
    }
}
