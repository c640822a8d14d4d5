//! Stable error codes, each with a page that `nuncio explain` prints.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Stable name of an error condition. Programs may match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Spelling of the error code in responses and records.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The page that explains the error code, in Markdown.
            #[must_use]
            pub const fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("codes/", $text, ".md"))),* }
            }
        }
    };
}

codes! {
    // Invalid requests.
    /// The request body is not JSON.
    BadJson = "bad_json",
    /// The JSON of a request does not have the required structure.
    BadRequest = "bad_request",
    UnknownAgent = "unknown_agent",
    /// The agent has no such option, or the option does not accept the value.
    BadOption = "bad_option",
    /// The agent exposes no such tool.
    UnknownTool = "unknown_tool",
    /// Two tools of one session have the same name.
    ToolNameTaken = "tool_name_taken",
    /// A client tool has an unusable schema.
    BadToolSchema = "bad_tool_schema",
    CapabilityMissing = "capability_missing",
    /// An image has the wrong type or size.
    BadImage = "bad_image",
    /// The client's answers do not match the pending tool calls.
    BadAnswer = "bad_answer",
    /// The page cursor was not issued by this server.
    BadCursor = "bad_cursor",
    /// The event id was not issued by this server.
    BadEventId = "bad_event_id",
    BadHeader = "bad_header",
    /// An API key is required, or the one sent is invalid.
    Unauthorized = "unauthorized",
    KeyExpired = "key_expired",
    /// A web page of another origin may not use a server that admits this machine without a key.
    CrossOriginRefused = "cross_origin_refused",
    /// The `Host` header is not a loopback name, on a server that admits this machine without a key.
    HostRefused = "host_refused",
    /// The request came through a proxy, so its sender does not count as local.
    ForwardedRefused = "forwarded_refused",
    /// The caller is authenticated but may not use this agent.
    NotAdmitted = "not_admitted",
    /// Nothing exists at this URL.
    NotFound = "not_found",
    /// The caller has no such session.
    SessionNotFound = "session_not_found",
    /// The agent does not offer this kind of history.
    HistoryNotOffered = "history_not_offered",
    TurnNotFound = "turn_not_found",
    /// The URL does not support this method.
    MethodNotAllowed = "method_not_allowed",
    /// The session is running a turn.
    TurnRunning = "turn_running",
    BodyTooLarge = "body_too_large",
    /// The request line and headers are larger than the limit.
    HeadTooLarge = "head_too_large",
    /// The content type of the body is not JSON.
    UnsupportedMediaType = "unsupported_media_type",
    /// An idempotency key was reused with another body.
    IdempotencyMismatch = "idempotency_mismatch",
    RateLimited = "rate_limited",
    RequestTimeout = "request_timeout",
    /// No such skill is visible to the caller.
    SkillNotFound = "skill_not_found",
    /// The skill requires its own kind of authentication.
    SkillAuthRequired = "skill_auth_required",
    /// No such execution is visible to the caller.
    ExecutionNotFound = "execution_not_found",
    /// Another process is running the execution.
    LeaseLost = "lease_lost",
    /// Too many executions are unfinished.
    QueueFull = "queue_full",
    TaskNotFound = "task_not_found",
    /// The task has ended, or another person has taken it.
    TaskClosed = "task_closed",
    // Manifest faults.
    /// The manifest breaks a rule without a code of its own.
    ManifestInvalid = "manifest_invalid",
    ManifestTooLarge = "manifest_too_large",
    /// The manifest declares a scope that is reserved for the platform.
    ManifestScopeReserved = "manifest_scope_reserved",
    /// A tool of the manifest needs an undeclared scope.
    ManifestScopeUndeclared = "manifest_scope_undeclared",
    ManifestToolDuplicate = "manifest_tool_duplicate",
    ManifestSchemaInvalid = "manifest_schema_invalid",
    /// A scope of the manifest has no text for the person who decides.
    ManifestFallbackMissing = "manifest_fallback_missing",
    /// A scope of the manifest declares a sensitivity below the minimum for that scope.
    ManifestSensitivityBelowFloor = "manifest_sensitivity_below_floor",
    // Results of tool calls.
    /// A person refused a human task.
    Refused = "refused",
    /// The brain called a tool that does not exist.
    ToolNotFound = "tool_not_found",
    /// The caller lacks the tool's scope.
    ScopeNotGranted = "scope_not_granted",
    InvalidArguments = "invalid_arguments",
    /// An approver denied the call.
    Denied = "denied",
    /// No approver answered in time.
    ApprovalExpired = "approval_expired",
    ApprovalClosed = "approval_closed",
    ApprovalNotFound = "approval_not_found",
    /// The tool has too many concurrent calls.
    ToolBusy = "tool_busy",
    ToolTimeout = "tool_timeout",
    ToolFailed = "tool_failed",
    /// The tool's backend is unreachable.
    ToolUnavailable = "tool_unavailable",
    InvalidOutput = "invalid_output",
    /// The call was interrupted; it may or may not have had an effect.
    Interrupted = "interrupted",
    /// The caller cancelled the call.
    Cancelled = "cancelled",
    /// The tool call was waiting for an answer and was abandoned.
    Abandoned = "abandoned",
    // Results of another host's skill, with the codes of Skill Sharing.
    /// A document, an input or an answer of another host's skill is invalid.
    ValidationError = "validation_error",
    /// Another host's skill requires a credential.
    AuthRequired = "auth_required",
    /// The credential for another host's skill is not sufficient.
    PermissionDenied = "permission_denied",
    InvocationTimeout = "invocation_timeout",
    /// The host of a skill is unreachable, or its address is not allowed.
    EndpointUnreachable = "endpoint_unreachable",
    /// Another host's skill uses an unsupported protocol version.
    VersionIncompatible = "version_incompatible",
    ExecutionFailed = "execution_failed",
    // Results of turns.
    BrainFailed = "brain_failed",
    TurnDeadline = "turn_deadline",
    TooManySteps = "too_many_steps",
    /// The turn produced more output than allowed.
    TurnTooLarge = "turn_too_large",
    // People, devices and consent.
    /// No person with this name has an account.
    PersonNotFound = "person_not_found",
    InviteInvalid = "invite_invalid",
    DeviceNotFound = "device_not_found",
    /// The device could not prove its identity.
    DeviceRefused = "device_refused",
    /// A limit on the number of objects is reached.
    LimitReached = "limit_reached",
    NotOwner = "not_owner",
    /// The manifest has changed since the caller read it.
    ManifestStale = "manifest_stale",
    ScopeUnknown = "scope_unknown",
    /// The agent requires this scope to work.
    ScopeRequired = "scope_required",
    /// The caller has no such relation.
    RelationNotFound = "relation_not_found",
    /// The recipient is unknown, or there is no relation between person and agent.
    RelationRequired = "relation_required",
    /// The caller is not a member of such a conversation.
    ConversationNotFound = "conversation_not_found",
    MessageNotFound = "message_not_found",
    StreamNotFound = "stream_not_found",
    /// The client message id was used for another message.
    MessageClash = "message_clash",
    /// Another device has claimed the tool call.
    MessageClaimed = "message_claimed",
    /// The key bundle has an invalid signature or is older than the stored one.
    BundleRefused = "bundle_refused",
    KeysNotFound = "keys_not_found",
    /// No key backup is stored.
    BackupNotFound = "backup_not_found",
    /// The person already has a relation with the agent.
    RelationExists = "relation_exists",
    /// A device of the person must sign the consent.
    ConsentUnsigned = "consent_unsigned",
    /// The signature of the consent is invalid.
    ConsentForged = "consent_forged",
    /// A consent ledger is invalid.
    LedgerBroken = "ledger_broken",
    // Sealed messages.
    /// A device presents untrusted keys.
    DeviceUntrusted = "device_untrusted",
    /// A sealed message was altered, or is not for this device.
    SealBroken = "seal_broken",
    /// The session of a sealed message is lost.
    SealSessionLost = "seal_session_lost",
    /// A sealed message was received twice.
    MessageReplayed = "message_replayed",
    /// A key backup cannot be opened.
    BackupUnreadable = "backup_unreadable",
    // The server itself.
    /// The server is shutting down.
    ShuttingDown = "shutting_down",
    StoreUnavailable = "store_unavailable",
    /// The caller's storage quota is used up.
    QuotaExceeded = "quota_exceeded",
    /// Too many expensive computations are queued.
    ComputationQueueFull = "computation_queue_full",
    /// The server's memory for pending requests is used up.
    ServerBusy = "server_busy",
    /// An issuer of access tokens is unreachable.
    IssuerUnavailable = "issuer_unavailable",
    /// The error is a defect in this program.
    Internal = "internal",
    /// An outgoing request to a forbidden address was refused.
    OutboundRefused = "outbound_refused",
    // The operator's files and commands.
    AgentFileInvalid = "agent_file_invalid",
    /// An OpenAPI document cannot be imported.
    OpenapiInvalid = "openapi_invalid",
    AgentNameTaken = "agent_name_taken",
    ConfigInvalid = "config_invalid",
    /// The data directory has a database without its key, or a key without its database.
    DataDirIncomplete = "data_dir_incomplete",
    DataDirInUse = "data_dir_in_use",
    /// A server on another machine or with another data directory uses the store.
    StoreInUse = "store_in_use",
    /// The data directory or a file in it is not usable.
    DataDirUnusable = "data_dir_unusable",
    /// The key of `--secret-key` or `NUNCIO_SECRET_KEY` is not usable.
    SecretKeyInvalid = "secret_key_invalid",
    /// The secret key is not the one under which the store was sealed.
    SecretKeyWrong = "secret_key_wrong",
    /// The key for a device's stored data is missing or wrong.
    StorageLocked = "storage_locked",
    DiskFull = "disk_full",
    StoreDamaged = "store_damaged",
    /// The store was copied to another one, which is used instead.
    StoreMoved = "store_moved",
    /// Only an empty store can be filled from a backup or another store.
    StoreNotEmpty = "store_not_empty",
    /// The file is not a backup of a store, is damaged, or was written by a newer version.
    StoreBackupInvalid = "store_backup_invalid",
    /// The listen address is not usable.
    ListenFailed = "listen_failed",
    /// Listening beyond loopback requires keys.
    KeysRequired = "keys_required",
    /// Programs cannot be confined, and some tools need another person's approval.
    ProgramsUnconfined = "programs_unconfined",
    TlsInvalid = "tls_invalid",
    KeyNotFound = "key_not_found",
    GrantNotFound = "grant_not_found",
    NotFollowed = "not_followed",
    NotRegistered = "not_registered",
    /// The caller may not list that agent in the directory.
    RegistrationRefused = "registration_refused",
    /// The directory lists as many agents as it may.
    DirectoryFull = "directory_full",
    /// The public URL is not the one for which the DIDs were made.
    PublicUrlChanged = "public_url_changed",
    /// No DID exists that could be shown or used to sign.
    DidUnavailable = "did_unavailable",
    /// The documents of another agent failed verification.
    PeerUntrusted = "peer_untrusted",
    /// Negotiation found no usable interface of another agent.
    NegotiationFailed = "negotiation_failed",
    DraftFailed = "draft_failed",
    /// No such drafted protocol exists between the two parties.
    DraftNotFound = "draft_not_found",
    /// The drafted protocol is not usable: not accepted by both sides, or a different document.
    DraftNotAccepted = "draft_not_accepted",
    /// No running server can deliver the answer to a message.
    NoMessageService = "no_message_service",
    AuditBroken = "audit_broken",
}

impl ErrorCode {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_has_a_documentation_page_with_instructions() {
        for code in ErrorCode::ALL {
            let page = code.page();
            assert!(page.starts_with(&format!("# {code}\n")), "{code}: the page begins with its code");
            assert!(page.contains("## What to do"), "{code}: the page says what to do");
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
        }
    }
}
