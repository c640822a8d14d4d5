//! Parses A2H requests strictly into the engine's types.

use nuncio_core::ErrorCode;
use nuncio_core::account::{AgentConnection, WebhookUrl};
use nuncio_core::bundle::KeyBackup;
use nuncio_core::digest::Digest;
use nuncio_core::json;
use nuncio_core::manifest::MAX_INTEGER;
use nuncio_engine::EngineError;
use nuncio_engine::accounts::AgentAccountPatch;
use nuncio_engine::consent::{NewAgentAccount, NewConsent};
use nuncio_engine::people::KeyBundleUpload;
use nuncio_engine::relay::MessageToPost;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use crate::wire::agent::{AgentAccountRequest, ConnectionMode};
use crate::wire::keys::RegisterKeysRequest;
use crate::wire::message::{PostMessageRequest, SealedBytes};
use crate::wire::relation::ConsentRequest;

/// Required length of the salt of a key backup, in bytes.
const BACKUP_SALT_BYTES: usize = 32;
/// Limit of each text in a DID proof, in bytes.
const MAX_PROOF: usize = 1024;

/// Parses a request body; refuses duplicate names and integers that some parsers would round.
pub(crate) fn strict<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, EngineError> {
    let value = json::read(bytes, bytes.len()).map_err(|why| bad_json(&format!("the body {why}")))?;
    exact(&value)?;
    is_object(bytes)?;
    serde_json::from_value(value).map_err(|why| wrong(why.to_string()))
}

/// Parses a request body of which one part, a manifest or a sealed message, is kept byte for byte.
pub(crate) fn with_raw<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, EngineError> {
    is_object(bytes)?;
    serde_json::from_slice(bytes).map_err(|why| match why.classify() {
        serde_json::error::Category::Data => wrong(why.to_string()),
        _ => bad_json(&format!("the body must be JSON: {why}")),
    })
}

/// Refuses a list, which serde would accept as the fields in order.
fn is_object(bytes: &[u8]) -> Result<(), EngineError> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Err(wrong("the body must be an object, found a list")),
        _ => Ok(()),
    }
}

/// Refuses integers beyond 2^53, which some parsers round, so that two readers could see different values.
fn exact(value: &Value) -> Result<(), EngineError> {
    match value {
        Value::Number(number) => {
            let small = number.as_i64().is_some_and(|whole| whole.unsigned_abs() <= MAX_INTEGER);
            let whole = number.is_i64() || number.is_u64();
            if whole && !small {
                return Err(bad_json(&format!(
                    "the number {number} is beyond ±{MAX_INTEGER}; some JSON parsers would round it"
                )));
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(exact),
        Value::Object(fields) => fields.values().try_for_each(exact),
        _ => Ok(()),
    }
}

fn bad_json(message: &str) -> EngineError {
    EngineError::new(ErrorCode::BadJson, message)
}

pub(crate) fn wrong(message: impl Into<String>) -> EngineError {
    EngineError::new(ErrorCode::BadRequest, message)
}

/// Bytes of a submitted manifest; `None` for `null`, which removes the manifest.
pub(crate) fn manifest(raw: &RawValue) -> Option<&[u8]> {
    (raw.get() != "null").then(|| raw.get().as_bytes())
}

pub(crate) fn new_agent(request: AgentAccountRequest) -> Result<NewAgentAccount, EngineError> {
    let connection = connection(&request)?.unwrap_or(AgentConnection::Websocket);
    let health_check_url = request.health_check_url.flatten().as_deref().map(health).transpose()?;
    let display_name =
        request.display_name.ok_or_else(|| wrong("display_name is missing: the name that people see"))?;
    let manifest = request.capability_manifest.as_deref().and_then(manifest).map(<[u8]>::to_vec);
    Ok(NewAgentAccount {
        display_name,
        description: request.description.flatten(),
        public: request.public.unwrap_or(false),
        connection,
        health_check_url,
        manifest,
        change_note: request.change_note,
    })
}

/// Requested changes of an agent's account; `None` if the request names none.
pub(crate) fn patch(request: &AgentAccountRequest) -> Result<Option<AgentAccountPatch>, EngineError> {
    let health_check_url = request.health_check_url.as_ref();
    let health_check_url = health_check_url.map(|url| url.as_deref().map(health).transpose()).transpose()?;
    let patch = AgentAccountPatch {
        display_name: request.display_name.clone(),
        description: request.description.clone().map(Option::unwrap_or_default),
        public: request.public,
        connection: connection(request)?,
        health_check_url,
        expected_revision: None,
    };
    Ok((patch != AgentAccountPatch::default()).then_some(patch))
}

fn connection(request: &AgentAccountRequest) -> Result<Option<AgentConnection>, EngineError> {
    let url = |text: &String| WebhookUrl::parse(text).map_err(|why| wrong(format!("webhook_url: {why}")));
    match (request.connection_mode, &request.webhook_url) {
        (None, None) => Ok(None),
        (Some(ConnectionMode::Websocket), None) => Ok(Some(AgentConnection::Websocket)),
        (Some(ConnectionMode::Webhook) | None, Some(text)) => Ok(Some(AgentConnection::Webhook { url: url(text)? })),
        (Some(ConnectionMode::Webhook), None) => Err(wrong("connection_mode \"webhook\" needs a webhook_url")),
        (Some(ConnectionMode::Websocket), Some(_)) => {
            Err(wrong("webhook_url is allowed only with connection_mode \"webhook\""))
        }
    }
}

/// Parses a health check URL, which must meet the rules of webhook URLs.
fn health(text: &str) -> Result<Url, EngineError> {
    let url = WebhookUrl::parse(text).map_err(|why| wrong(format!("health_check_url: {why}")))?;
    Ok(url.url().clone())
}

pub(crate) fn consent(request: ConsentRequest) -> Result<NewConsent, EngineError> {
    let wishes = request.granted_scopes.iter().map(crate::wire::relation::ScopeGrantRequest::to_scope_request);
    let wishes = wishes.collect::<Result<_, _>>().map_err(|why| wrong(format!("granted_scopes: {why}")))?;
    Ok(NewConsent { wishes, seen: request.manifest_hash, signed: request.entry })
}

/// Parses a request to post a message. The sealed envelope is not read; only its nesting depth is limited.
pub(crate) fn post(bytes: &[u8]) -> Result<MessageToPost, EngineError> {
    let request: PostMessageRequest<'_> = with_raw(bytes)?;
    let written = request.envelope.get();
    if written.starts_with('{') && json::is_too_deep(written.as_bytes()) {
        return Err(bad_json(&format!("the envelope {}", json::JsonDocumentError::TooDeep)));
    }
    let Some(SealedBytes(envelope)) = SealedBytes::of_envelope(request.envelope) else {
        return Err(wrong("envelope must be an object, or a text with its bytes in base64 (standard or url-safe)"));
    };
    let PostMessageRequest { client_message_id: client_id, content_type, msg_subtype: subtype, .. } = request;
    Ok(MessageToPost { client_id, content_type, subtype, envelope })
}

pub(crate) fn keys(request: RegisterKeysRequest) -> Result<KeyBundleUpload, EngineError> {
    let proof = request.bundle.as_ref().and_then(|bundle| bundle.did.as_ref());
    if proof.is_some_and(|proof| {
        [&proof.did, &proof.verification_method, &proof.signature].iter().any(|text| text.len() > MAX_PROOF)
    }) {
        return Err(wrong(format!("bundle.did: each of its texts must have at most {MAX_PROOF} bytes")));
    }
    if request.bundle.is_none() && request.one_time_keys.is_empty() {
        return Err(wrong("send a bundle, one_time_keys, or both"));
    }
    Ok(KeyBundleUpload { bundle: request.bundle, one_time_keys: request.one_time_keys })
}

pub(crate) fn backup(bytes: &[u8]) -> Result<KeyBackup, EngineError> {
    let backup: KeyBackup = strict(bytes)?;
    let length = |name: &str, text: &str| {
        SealedBytes::parse(text).map(|sealed| sealed.0.len()).map_err(|why| wrong(format!("{name} {why}")))
    };
    if length("argon2_salt", &backup.argon2_salt)? != BACKUP_SALT_BYTES {
        return Err(wrong(format!("argon2_salt must be {BACKUP_SALT_BYTES} bytes in base64")));
    }
    for (name, text) in [("backup_a", &backup.backup_a), ("backup_b", &backup.backup_b)] {
        if length(name, text)? == 0 {
            return Err(wrong(format!("{name} is empty")));
        }
    }
    Ok(backup)
}

/// Parsed `If-Match` header with entity tags of an account or hashes of its manifest, without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IfMatchHeader {
    Any,
    OneOf(Vec<String>),
}

impl IfMatchHeader {
    /// Parses an `If-Match` header. Weak tags match nothing (RFC 9110 §13.1.1).
    pub(crate) fn read(text: &str) -> Result<Self, EngineError> {
        if text.trim() == "*" {
            return Ok(Self::Any);
        }
        let tag = |part: &str| -> Result<Option<String>, EngineError> {
            let part = part.trim();
            let (weak, quoted) = part.strip_prefix("W/").map_or((false, part), |rest| (true, rest));
            let tag = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let tag = tag.ok_or_else(|| {
                let message = "If-Match must be the manifest's hash in double quotes, or *";
                EngineError::new(ErrorCode::BadHeader, message)
            })?;
            Ok((!weak).then(|| tag.to_owned()))
        };
        let tags: Result<Vec<_>, _> = text.split(',').map(tag).collect();
        Ok(Self::OneOf(tags?.into_iter().flatten().collect()))
    }

    /// Whether an account with this entity tag and this manifest is one that the header allows to change.
    pub(crate) fn allows(&self, tag: &str, manifest: Option<Digest>) -> bool {
        let hash = manifest.map(|hash| hash.to_string());
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.iter().any(|wanted| wanted == tag || Some(wanted) == hash.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_json_integers_beyond_2_to_53_and_duplicate_names_are_refused() {
        let read = |text: &str| strict::<Value>(text.as_bytes()).map_err(|error| error.code);
        assert!(read(r#"{"a": 9007199254740991, "b": 0.5}"#).is_ok());
        for bad in [
            r#"{"a": 9007199254740993}"#,
            r#"{"a": [-9007199254740993]}"#,
            r#"{"a": 18446744073709551615}"#,
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": NaN}"#,
            r#"{"a": 1e999}"#,
            "",
            "{} {}",
        ] {
            assert_eq!(read(bad), Err(ErrorCode::BadJson), "{bad}");
        }
        let double = with_raw::<AgentAccountRequest>(br#"{"public": true, "public": false}"#).map(|_| ());
        assert_eq!(double.unwrap_err().code, ErrorCode::BadRequest);
        let unknown = with_raw::<AgentAccountRequest>(br#"{"manifest": {}}"#).map(|_| ()).unwrap_err();
        assert!(unknown.message.contains("unknown field `manifest`"), "{unknown}");
    }

    #[test]
    fn agent_request_keeps_manifest_bytes_and_distinguishes_null_from_absent() {
        let read = |text: &str| with_raw::<AgentAccountRequest>(text.as_bytes()).unwrap().capability_manifest;
        let raw = read(r#"{"capability_manifest": {"a": 1, "a" :2}}"#).unwrap();
        assert_eq!(manifest(&raw), Some(&br#"{"a": 1, "a" :2}"#[..]));
        assert_eq!(manifest(&read(r#"{"capability_manifest": null}"#).unwrap()), None);
        assert!(read("{}").is_none());
    }

    #[test]
    fn connection_mode_and_webhook_url_that_contradict_are_refused() {
        let read = |text: &str| connection(&with_raw(text.as_bytes()).unwrap()).map_err(|error| error.code);
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(read(r#"{"connection_mode": "websocket"}"#), Ok(Some(AgentConnection::Websocket)));
        assert!(read(r#"{"webhook_url": "https://a.example/hook"}"#).unwrap().is_some());
        for bad in [
            r#"{"connection_mode": "webhook"}"#,
            r#"{"connection_mode": "websocket", "webhook_url": "https://a.example/"}"#,
            r#"{"webhook_url": "http://a.example/"}"#,
        ] {
            assert_eq!(read(bad), Err(ErrorCode::BadRequest), "{bad}");
        }
    }

    #[test]
    fn if_match_accepts_a_star_the_strong_tag_of_the_account_or_the_hash_of_its_manifest() {
        let (hash, other) = (Digest::of_bytes(b"x"), Digest::of_bytes(b"y"));
        let tag = format!("{hash}.0123456789abcdef");
        let allows = |text: &str| IfMatchHeader::read(text).unwrap().allows(&tag, Some(hash));
        for current in ["*".to_owned(), format!("\"{tag}\""), format!("\"{hash}\""), format!("\"{other}\", \"{hash}\"")]
        {
            assert!(allows(&current), "{current}");
        }
        let old_account = format!("\"{hash}.fedcba9876543210\"");
        for stale in [format!("\"{other}\""), format!("W/\"{hash}\""), "\"abc\"".to_owned(), old_account] {
            assert!(!allows(&stale), "{stale}");
        }
        let bare = |text: &str| IfMatchHeader::read(text).unwrap().allows(".0123456789abcdef", None);
        assert!(bare("*") && bare("\".0123456789abcdef\"") && !bare("\"\"") && !bare(&format!("\"{hash}\"")));
        assert!(IfMatchHeader::read("abc").is_err());
    }

    #[test]
    fn message_envelope_is_kept_byte_for_byte_and_invalid_messages_are_refused() {
        let read = |envelope: &str| {
            let body = format!(r#"{{"client_message_id":"m1","content_type":"text","envelope":{envelope} }}"#);
            post(body.as_bytes()).map(|new| new.envelope.to_vec()).map_err(|error| error.code)
        };
        assert_eq!(read(r#"{ "a": 1.50 }"#).unwrap(), br#"{ "a": 1.50 }"#);
        assert_eq!(read(r#""QUI""#).unwrap(), b"AB");
        assert_eq!(read(r#""""#).unwrap(), b"");
        for wrong in ["[1]", "null", "7", r#""not base64!""#] {
            assert_eq!(read(wrong), Err(ErrorCode::BadRequest), "{wrong}");
        }
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(500), "]".repeat(500));
        assert_eq!(read(&deep), Err(ErrorCode::BadJson));
        let code = |body: &str| post(body.as_bytes()).map(|_| ()).unwrap_err().code;
        let bad_subtype =
            r#"{"client_message_id":"m","content_type":"artifact","msg_subtype":"tool_call","envelope":{}}"#;
        for wrong in [
            bad_subtype,
            r#"{"client_message_id":"m","content_type":"poem","envelope":{}}"#,
            r#"{"client_message_id":"a b","content_type":"text","envelope":{}}"#,
            r#"{"client_message_id":"m","content_type":"text"}"#,
            r#"{"client_message_id":"m","content_type":"text","envelope":{},"to":"bob"}"#,
            r#"{"client_message_id":"m","client_message_id":"n","content_type":"text","envelope":{}}"#,
            r#"["m","text",null,{}]"#,
        ] {
            assert_eq!(code(wrong), ErrorCode::BadRequest, "{wrong}");
        }
        assert_eq!(code(r#"{"client_message_id":"#), ErrorCode::BadJson);
    }
}
