//! What both stores have in common: columns and queries that both databases understand, and the lanes of deliveries.

use nuncio_core::notification::Notification;

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
