//! `run = { anp = … }`: a method of an agent on another host, named or negotiated.

use url::Url;

use crate::reader::LocatedTomlValue;
use crate::source::cut;
use nuncio_core::agent::AnpMethod;
use nuncio_core::ids::ToolName;

/// Longest ANP method name, in bytes.
const MAX_METHOD: usize = 128;

/// Longest intent, in bytes.
const MAX_INTENT: usize = 1024;

/// Reads the target agent: a did:wba, or the URL of an agent description.
pub(super) fn target(item: &LocatedTomlValue<'_>) -> Option<String> {
    let text = item.text()?;
    let Err(problem) = check_target(text) else { return Some(text.to_owned()) };
    // A URL with user info may contain a password, which is not repeated in the message.
    let shown = if text.contains('@') { "it".to_owned() } else { format!("{:?}", cut(text)) };
    item.position.reject(
        format!("{shown} is not an agent target: {problem}"),
        r#"allowed: a DID such as "did:wba:example.com:agents:hotel:e1_…", or the "https://" address of its description"#,
    )
}

/// Reads the method: its name, or the intent for which it is negotiated. Without both, the method has the tool's name.
pub(super) fn method(
    method: Option<&LocatedTomlValue<'_>>,
    intent: Option<&LocatedTomlValue<'_>>,
    own_name: Option<&ToolName>,
) -> Option<AnpMethod> {
    match (method, intent) {
        (Some(_), Some(intent)) => intent.position.reject(
            "an intent is negotiated, and \"method\" names a method",
            "allowed: either \"method\" or \"intent\"",
        ),
        (Some(method), None) => name(method).map(AnpMethod::Named),
        (None, Some(intent)) => intent_text(intent).map(AnpMethod::ForIntent),
        (None, None) => own_name.map(|name| AnpMethod::Named(name.to_string())),
    }
}

fn name(item: &LocatedTomlValue<'_>) -> Option<String> {
    let text = item.text()?;
    if text.len() > MAX_METHOD || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return item.position.reject(
            format!("{:?} is not the name of a method", cut(text)),
            format!("allowed: up to {MAX_METHOD} bytes without spaces"),
        );
    }
    Some(text.to_owned())
}

/// Reads an intent. The arguments of a call are no part of it, because a negotiation discloses no data of the call
/// (ANP-06 §12.3).
fn intent_text(item: &LocatedTomlValue<'_>) -> Option<String> {
    let text = item.text()?;
    if text.len() > MAX_INTENT || text.contains("{{") {
        return item.position.reject(
            format!("{:?} is not an intent", cut(text)),
            format!("allowed: up to {MAX_INTENT} bytes without templates, such as \"find a free room\""),
        );
    }
    Some(text.to_owned())
}

fn check_target(text: &str) -> Result<(), String> {
    if text.contains("{{") {
        return Err("it is not a template".to_owned());
    }
    if let Some(rest) = text.strip_prefix("did:") {
        return check_did(rest);
    }
    if !text.contains("://") {
        return Err("it is neither a DID nor an address".to_owned());
    }
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "http" | "https" if !url.username().is_empty() || url.password().is_some() => {
            Err("it contains a user name".to_owned())
        }
        "http" | "https" if url.path() == "/" => Err("it is a host, not the address of a description".to_owned()),
        "http" | "https" => Ok(()),
        other => Err(format!("its scheme is {other:?}")),
    }
}

/// Checks the part of a DID after `did:wba:` without resolving the DID.
fn check_did(rest: &str) -> Result<(), String> {
    let Some(name) = rest.strip_prefix("wba:") else {
        return Err("only did:wba is supported".to_owned());
    };
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '%');
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(is_letter);
    if !name.split(':').all(is_part) {
        return Err("its parts are letters, digits, '-', '_' and '.' between colons".to_owned());
    }
    if !name.contains(':') {
        return Err("it is a host, not an agent".to_owned());
    }
    Ok(())
}
