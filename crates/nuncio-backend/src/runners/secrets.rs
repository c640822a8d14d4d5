//! Secrets of an agent, read when needed and redacted in error texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use nuncio_core::agent::{Agent, CommandLine, SecretSource};
use nuncio_core::ids::BackendName;
use nuncio_core::template::{EscapeContext, Template};
use serde::Serialize;
use serde_json::{Value, json};

/// Size limit of a secret in a file, in bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;
/// Length in bytes of the shortest secret that is redacted; shorter values would match everywhere.
const MIN_REDACTED: usize = 4;

#[derive(Default, Serialize)]
#[serde(transparent)]
pub(crate) struct SecretValues(BTreeMap<String, String>);

impl SecretValues {
    /// Reads the secrets that the templates reference.
    pub(crate) async fn read<'a>(
        agent: &Agent,
        base_dir: &Path,
        templates: impl IntoIterator<Item = &'a Template>,
    ) -> Result<Self, String> {
        let variables: BTreeSet<String> = templates.into_iter().flat_map(Template::variables).collect();
        let mut values = BTreeMap::new();
        for (name, source) in &agent.secrets {
            if is_referenced(&variables, name.as_str()) {
                values.insert(name.to_string(), read(name, source, base_dir).await?);
            }
        }
        Ok(Self(values))
    }

    /// Adds a value that is not a secret of the agent file, so that it is redacted too.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Renders environment variables or headers.
    pub(crate) fn lines(&self, lines: &[(String, Template)]) -> Result<Vec<(String, String)>, String> {
        render_lines(lines, &json!({"secrets": self}))
    }

    /// Renders a command line that has no other values than secrets.
    pub(crate) fn command(&self, command: &CommandLine) -> Result<Vec<String>, String> {
        command.render(json!({"secrets": self}))
    }

    /// Replaces the secrets in a text by `[secret]`.
    pub(crate) fn redact(&self, text: &str) -> String {
        let long_enough = self.0.values().filter(|value| value.len() >= MIN_REDACTED);
        long_enough.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[secret]"))
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Renders environment variables or headers with these template variables.
pub(crate) fn render_lines(lines: &[(String, Template)], context: &Value) -> Result<Vec<(String, String)>, String> {
    let render = |(name, template): &(String, Template)| match template.render(EscapeContext::Line, context) {
        Ok(value) => Ok((name.clone(), value)),
        Err(error) => Err(format!("the value of `{name}` cannot be filled in: {}", error.reason())),
    };
    lines.iter().map(render).collect()
}

/// Reads one secret of an agent.
pub(crate) async fn read_one(agent: &Agent, base_dir: &Path, name: &BackendName) -> Result<String, String> {
    match agent.secrets.iter().find(|(declared, _)| declared == name) {
        Some((_, source)) => read(name, source, base_dir).await,
        None => Err(format!("the agent file declares no secret `{name}`")),
    }
}

/// Checks that templates can reference an agent's secrets and that the secrets can be read.
pub(crate) async fn check(agent: &Agent, base_dir: &Path) -> Result<(), String> {
    for (name, source) in &agent.secrets {
        if !is_identifier(name.as_str()) {
            return Err(format!(
                "the secret `{name}` cannot be named as {{{{ secrets.{name} }}}}: use letters, digits and '_', beginning with a letter"
            ));
        }
        read(name, source, base_dir).await?;
    }
    Ok(())
}

/// Whether the variables of templates include the secret. A template that computes the name may use any secret.
fn is_referenced(variables: &BTreeSet<String>, secret: &str) -> bool {
    variables.iter().any(|variable| match variable.strip_prefix("secrets") {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').and_then(|rest| rest.split('.').next()) == Some(secret),
        None => false,
    })
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !name.contains('-')
}

async fn read(name: &BackendName, source: &SecretSource, base_dir: &Path) -> Result<String, String> {
    read_source(source, base_dir).await.map_err(|why| format!("the secret `{name}` {why}"))
}

/// Reads the value of a secret. The error text continues a sentence about the secret.
async fn read_source(source: &SecretSource, base_dir: &Path) -> Result<String, String> {
    let value = match source {
        SecretSource::Env(variable) => match std::env::var(variable) {
            Ok(value) => value,
            Err(std::env::VarError::NotPresent) => {
                return Err(format!("should be in the environment variable {variable}, which is not set"));
            }
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(format!("in the environment variable {variable} is not text"));
            }
        },
        SecretSource::File(path) => {
            let path = base_dir.join(path);
            let shown = path.display();
            let unreadable = |error: std::io::Error| format!("cannot be read from {shown}: {error}");
            let size = tokio::fs::metadata(&path).await.map_err(unreadable)?.len();
            if size > MAX_SECRET_BYTES {
                return Err(format!("in {shown} is larger than {MAX_SECRET_BYTES} bytes"));
            }
            let text = tokio::fs::read_to_string(&path).await.map_err(unreadable)?;
            let line = text.strip_suffix('\n').unwrap_or(&text);
            line.strip_suffix('\r').unwrap_or(line).to_owned()
        }
    };
    if value.is_empty() { Err("is empty".into()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(template: &str, secret: &str) -> bool {
        is_referenced(&Template::parse(template).unwrap().variables(), secret)
    }

    #[test]
    fn secret_is_read_only_if_a_template_references_it() {
        assert!(reads("Bearer {{ secrets.key }}", "key"));
        assert!(!reads("Bearer {{ secrets.key }}", "other"));
        assert!(!reads("{{ args.key }} {{ secretskey }}", "key"));
        assert!(reads("{{ secrets[args.which] }}", "anything"));
    }

    #[test]
    fn secret_values_are_redacted_in_text_and_hidden_in_debug_output() {
        let secrets = SecretValues(BTreeMap::from([
            ("key".to_owned(), "hunter22".to_owned()),
            ("pin".to_owned(), "1".to_owned()),
        ]));
        assert_eq!(format!("{secrets:?}"), "{\"key\", \"pin\"}");
        assert_eq!(secrets.redact("401: hunter22 is wrong"), "401: [secret] is wrong");
    }
}
