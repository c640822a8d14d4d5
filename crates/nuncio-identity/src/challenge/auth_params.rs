//! Parser and writer for the `name="value", …` lists of HTTP authentication fields (RFC 9110 §11).

const MAX_FIELD_BYTES: usize = 16 * 1024;
const MAX_MEMBERS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthParams {
    /// Authentication scheme; `None` for `Authentication-Info`, which has none.
    pub scheme: Option<String>,
    pub members: Vec<(String, String)>,
}

impl AuthParams {
    /// Parses a field that may contain several schemes, such as `WWW-Authenticate`. Stops at the first malformed part
    /// and returns what came before it.
    #[must_use]
    pub fn read_all(field: &str) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut rest = bounded(field);
        while let Some((name, after)) = token(rest.trim_start_matches([' ', '\t', ','])) {
            if let Some(after) = after.strip_prefix('=') {
                let (Some((value, after)), Some(current)) = (value(after), found.last_mut()) else { break };
                if current.members.len() >= MAX_MEMBERS {
                    break;
                }
                current.members.push((name.to_ascii_lowercase(), value));
                rest = after;
            } else {
                found.push(Self { scheme: Some(name.to_owned()), members: Vec::new() });
                rest = after;
            }
        }
        found
    }

    /// Parses a field without a scheme, such as `Authentication-Info`.
    #[must_use]
    pub fn read_info(field: &str) -> Self {
        // A placeholder scheme lets `read_all` parse a field that has none.
        Self::read_all(&format!("- {}", bounded(field)))
            .into_iter()
            .next()
            .map(|params| Self { scheme: None, ..params })
            .unwrap_or_default()
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    #[must_use]
    pub fn is_scheme(&self, name: &str) -> bool {
        self.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case(name))
    }
}

fn bounded(field: &str) -> &str {
    if field.len() > MAX_FIELD_BYTES { "" } else { field }
}

fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let (token, rest) = text.split_at(text.find(|c| !is_token(c)).unwrap_or(text.len()));
    (!token.is_empty()).then_some((token, rest))
}

/// Parses a quoted string, or an unquoted value up to a comma or a space.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(inside) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([',', ' ', '\t']).unwrap_or(text.len()));
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((value, &inside[at + 1..])),
            _ => value.push(c),
        }
    }
    None
}

/// Writes quoted parameters. Control characters become spaces and other non-ASCII characters question marks.
pub(crate) fn write<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let quoted = |text: &str| {
        let mut quoted = String::with_capacity(text.len() + 2);
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                ' '..='~' => quoted.push(c),
                _ if c.is_control() => quoted.push(' '),
                _ => quoted.push('?'),
            }
        }
        quoted
    };
    members.map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect::<Vec<_>>().join(", ")
}
