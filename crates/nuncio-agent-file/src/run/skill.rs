//! `run = { skill = … }`: a skill of another host.

use toml::de::DeValue;
use url::Url;

use crate::names::DeclaredNames;
use crate::reader::{LocatedTomlValue, TomlTableReader};
use crate::source::cut;
use crate::templates::{self, TemplateUse};
use nuncio_core::address;
use nuncio_core::agent::{SkillCredential, SkillRunSpec};
use nuncio_core::ids::SkillId;
use nuncio_core::template::Template;

const CREDENTIALS: [&str; 4] = ["api_key", "token", "client", "signature"];

pub(super) fn read(item: &LocatedTomlValue<'_>, names: &DeclaredNames<'_>) -> Option<SkillRunSpec> {
    match item.value {
        DeValue::String(_) => Some(SkillRunSpec { target: target(item)?, credential: None }),
        DeValue::Table(_) => {
            let table = item.table()?;
            let target_item = table.required("target", "the URL of the descriptor, or SKILL-ID@HOST");
            let target = target_item.as_ref().and_then(target);
            let credential = credential(&table, names);
            table.finish();
            if let (Some(target), Some(_), Some(item)) = (&target, &credential, target_item) {
                note_unencrypted(&item, target);
            }
            Some(SkillRunSpec { target: target?, credential })
        }
        _ => item.wrong_kind(r#"a text such as "hotel/find@example.com", or a table with a target"#),
    }
}

/// Reads the target skill: the URL of a descriptor, or `SKILL-ID@HOST[:PORT]`.
fn target(item: &LocatedTomlValue<'_>) -> Option<String> {
    let text = item.text()?;
    let Err(problem) = check_target(text) else { return Some(text.to_owned()) };
    // A URL with user info may contain a password, which is not repeated in the message.
    let hidden = text.contains("://") && text.contains('@');
    let shown = if hidden { "it".to_owned() } else { format!("{:?}", cut(text)) };
    item.position.reject(
        format!("{shown} is not a skill target: {problem}"),
        r#"allowed: the "https://" address of its descriptor, or SKILL-ID@HOST such as "hotel/find@example.com""#,
    )
}

fn check_target(text: &str) -> Result<(), String> {
    if text.contains("{{") {
        return Err("it is not a template".to_owned());
    }
    if text.contains("://") {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        return match url.scheme() {
            "http" | "https" if url.username().is_empty() && url.password().is_none() => Ok(()),
            "http" | "https" => Err("it contains a user name".to_owned()),
            other => Err(format!("its scheme is {other:?}")),
        };
    }
    let Some((id, host)) = text.split_once('@') else {
        return Err("it has no host".to_owned());
    };
    SkillId::parse(id).map_err(|_| format!("{:?} is not a skill id", cut(id)))?;
    let is_host = |url: &Url| url.path() == "/" && !host.contains(['/', '?', '#', '@', '\\']) && url.host().is_some();
    match Url::parse(&format!("https://{host}/")) {
        Ok(url) if is_host(&url) => Ok(()),
        _ => Err(format!("{:?} is not a host", cut(host))),
    }
}

/// Reads the credential for calls of another host's skill, if the author declared one.
fn credential(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> Option<SkillCredential> {
    if CREDENTIALS.into_iter().filter_map(|key| table.item(key)).count() == 0 {
        return None;
    }
    let kind = table.one_of(&CREDENTIALS);
    let own = |key: &'static str| table.item(key).and_then(|item| secret(&item, names));
    let (api_key, token, signature) = (own("api_key"), own("token"), own("signature"));
    let client = table.table("client").and_then(|table| client(&table, names));
    match kind? {
        "api_key" => api_key.map(SkillCredential::ApiKey),
        "token" => token.map(SkillCredential::Token),
        "client" => client,
        _ => signature.map(SkillCredential::Signature),
    }
}

fn client(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>) -> Option<SkillCredential> {
    let id = table.required("id", "the client's id").filter(|item| item.text().is_some());
    let id = id.and_then(|item| templates::read(&item, TemplateUse::Credential, names));
    let secret = table.required("secret", "the client's secret").and_then(|item| secret(&item, names));
    table.finish();
    Some(SkillCredential::Client { id: id?, secret: secret? })
}

fn secret(item: &LocatedTomlValue<'_>, names: &DeclaredNames<'_>) -> Option<Template> {
    // The value is not repeated in the message, because it may be the secret itself.
    if item.value.as_str().is_none_or(|text| text.trim().is_empty()) {
        return item.position.reject("is not a non-empty text", "allowed: one such as \"{{ secrets.NAME }}\"");
    }
    let template = templates::read(item, TemplateUse::Credential, names)?;
    if templates::secrets_in(&template).next().is_none() {
        item.position.note(
            "it is written out here, where anyone who can read the file gets it",
            "write {{ secrets.NAME }}, and declare its source in [secrets]",
        );
    }
    Some(template)
}

/// Warns about a credential that would be sent over plain HTTP.
fn note_unencrypted(item: &LocatedTomlValue<'_>, target: &str) {
    if Url::parse(target).is_ok_and(|url| address::is_in_clear(&url)) {
        item.position.note("the credential is sent unencrypted", "use a URL that begins with \"https://\"");
    }
}
