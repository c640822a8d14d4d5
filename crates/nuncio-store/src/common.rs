//! What both stores have in common: columns and queries that both databases understand, the stored form of values, and
//! the lanes of deliveries.

use nuncio_core::notification::Notification;
use nuncio_engine::ports::store::StoreError;
use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer};

/// Initial capacity for a JSON value, in bytes; most values fit.
const TYPICAL_JSON_BYTES: usize = 512;

/// Why a value cannot be stored.
#[derive(Debug)]
pub(crate) struct UnstorableValue(pub(crate) String);

impl From<UnstorableValue> for StoreError {
    fn from(UnstorableValue(why): UnstorableValue) -> Self {
        Self::Unavailable(why)
    }
}

pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, UnstorableValue> {
    let not_json = |error: &dyn std::fmt::Display| UnstorableValue(format!("it is not JSON: {error}"));
    let mut text = Vec::with_capacity(TYPICAL_JSON_BYTES);
    serde_json::to_writer(&mut text, value).map_err(|error| not_json(&error))?;
    String::from_utf8(text).map_err(|error| not_json(&error))
}

/// Reads JSON. The error says where it is wrong, without the message of the parser, which may quote stored content.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        let what = if error.is_data() { "JSON of an unexpected form" } else { "not JSON" };
        format!("{what}, at line {} column {}", error.line(), error.column())
    })
}

/// Reads the serde text form of a type.
pub(crate) fn from_text_form<T: DeserializeOwned>(text: &str) -> Option<T> {
    T::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(text)).ok()
}

pub(crate) fn to_integer(number: u64) -> Result<i64, UnstorableValue> {
    i64::try_from(number).map_err(|_| UnstorableValue(format!("{number} is too large a number to be stored")))
}

/// Clamps a number to the range of a stored integer, for comparisons.
pub(crate) fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn to_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Text of the id after which a page begins; empty for the first page.
pub(crate) fn text_or_empty(after: Option<&impl ToString>) -> String {
    after.map(ToString::to_string).unwrap_or_default()
}

/// SQL that selects the incarnations that own unfinished work, dead ones included.
pub(crate) const OWNERS: &str = "SELECT node FROM turns WHERE ended_at IS NULL
    UNION SELECT node FROM started_calls
    UNION SELECT owner FROM executions WHERE owner IS NOT NULL
    UNION SELECT node FROM approvals WHERE state = 'pending' AND node IS NOT NULL
    UNION SELECT node FROM tasks WHERE open = 1 AND node IS NOT NULL
    UNION SELECT claimed_by FROM jobs WHERE claimed_by IS NOT NULL";

/// Tables and JSON columns of other rows that may mention a person who is erased.
pub(crate) const MENTIONING_COLUMNS: &[(&str, &str)] = &[
    ("mail", "happening"),
    ("relay_conversations", "content"),
    ("accounts", "content"),
    ("manifests", "content"),
    ("lineages", "content"),
    ("delivery_log", "content"),
    ("approvals", "content"),
    ("tasks", "content"),
    ("grants", "content"),
    ("executions", "content"),
    ("started_calls", "record"),
];

/// Tables and columns that contain a principal.
pub(crate) const PRINCIPAL_COLUMNS: &[(&str, &str)] =
    &[("directory", "registrant"), ("followed", "followed_by"), ("relay_messages", "sender")];

/// Kinds of unfinished work, with the columns and the condition that find it.
pub(crate) const UNFINISHED: [(&str, &str); 8] = [
    ("turn", "SELECT count(*), min(started_at) FROM turns WHERE ended_at IS NULL"),
    ("call", "SELECT count(*), min(asked_at) FROM started_calls"),
    ("execution", "SELECT count(*), min(updated_at) FROM executions WHERE owner IS NOT NULL"),
    ("approval", "SELECT count(*), min(asked_at) FROM approvals WHERE state = 'pending'"),
    ("task", "SELECT count(*), min(created_at) FROM tasks WHERE open = 1"),
    ("callback", "SELECT count(*), min(due) FROM jobs WHERE kind = 'callback'"),
    ("delivery", "SELECT count(*), min(due) FROM jobs WHERE kind = 'delivery'"),
    ("reply", "SELECT count(*), min(due) FROM jobs WHERE kind = 'reply'"),
];

/// Group of notifications whose deliveries keep their order: a conversation, or everything outside conversations.
pub(crate) fn delivery_lane(notification: &Notification) -> &str {
    match notification {
        Notification::Message { conversation, .. }
        | Notification::Read { conversation, .. }
        | Notification::Claimed { conversation, .. }
        | Notification::ConversationChanged { conversation } => conversation.as_str(),
        Notification::ReauthRequired { .. }
        | Notification::Restored { .. }
        | Notification::RelationEstablished { .. }
        | Notification::ConsentChanged { .. }
        | Notification::RelationRevoked { .. }
        | Notification::DevicesChanged { .. }
        | Notification::KeysChanged { .. }
        | Notification::WebhookMoved { .. } => "",
    }
}
