//! The `[secrets]` section: sources of the secrets that templates refer to.

use std::path::PathBuf;

use super::external::ExternalTarget;
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::source::cut;
use nuncio_core::agent::SecretSource;
use nuncio_core::ids::BackendName;

pub(super) fn read(root: &TomlTableReader<'_>) -> Vec<(BackendName, SecretSource)> {
    let Some(table) = root.table("secrets") else {
        return Vec::new();
    };
    table.entries().into_iter().filter_map(|(name, item)| secret(name, &item)).collect()
}

fn secret(name: &str, item: &LocatedTomlValue<'_>) -> Option<(BackendName, SecretSource)> {
    let nameable = BackendName::parse(name).ok().filter(|_| is_identifier(name)).or_else(|| {
        item.position.reject(
            format!("{:?} cannot be used in a template", cut(name)),
            "allowed: 1 to 64 letters, digits and '_', not beginning with a digit",
        )
    });
    let source = source(item);
    Some((nameable?, source?))
}

fn source(item: &LocatedTomlValue<'_>) -> Option<SecretSource> {
    // The value is not repeated in the message, because it may be the secret itself.
    if !item.value.is_table() {
        return item.position.reject(
            "a secret is not written into the agent file",
            r#"allowed: { env = "VARIABLE" } or { file = "path" }"#,
        );
    }
    let table = item.table()?;
    let kind = table.one_of(&["env", "file"]);
    let env = table.optional_text("env");
    let file = table.optional_text("file");
    let written = |key| table.peek(key).map(|item| item.position);
    if let (Some(variable), Some(position)) = (&env, written("env")) {
        position.refer_to(ExternalTarget::SecretVariable(variable.clone()));
    }
    if let (Some(path), Some(position)) = (&file, written("file")) {
        position.refer_to(ExternalTarget::SecretFile(PathBuf::from(path)));
    }
    table.finish();
    match kind? {
        "env" => env.map(SecretSource::Env),
        _ => file.map(|path| SecretSource::File(PathBuf::from(path))),
    }
}

/// Whether templates can refer to a secret of this name: `secrets.a-b` would be a subtraction.
fn is_identifier(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
