//! Stable error codes, each with a page that `nuncio explain` prints.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// A stable name for something that can go wrong. Programs may match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code as it is written in answers and records.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The page that explains it, in Markdown.
            #[must_use]
            pub const fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("codes/", $text, ".md"))),* }
            }
        }
    };
}

codes! {
    // What a peer sent.
    /// The body is not JSON.
    BadJson = "bad_json",
    /// The JSON does not have the shape the request needs.
    BadRequest = "bad_request",
    /// No agent of that name is served here.
    UnknownAgent = "unknown_agent",
    /// The agent has no such option, or it does not take that value.
    BadOption = "bad_option",
    /// The agent exposes no such tool.
    UnknownTool = "unknown_tool",
    /// Two tools of one session would have the same name.
    ToolNameTaken = "tool_name_taken",
    /// A tool the app brings has a schema we cannot use.
    BadToolSchema = "bad_tool_schema",
    /// The agent does not declare that capability.
    CapabilityMissing = "capability_missing",
    /// A picture is of the wrong kind, type or size.
    BadImage = "bad_image",
    /// Answers do not match the calls that are waiting.
    BadAnswer = "bad_answer",
    /// The page cursor is not one this server gave.
    BadCursor = "bad_cursor",
    /// The event id is not one this server gave.
    BadEventId = "bad_event_id",
    /// The header is not well formed.
    BadHeader = "bad_header",
    /// A key is needed, or the one sent is not valid.
    Unauthorized = "unauthorized",
    /// The key sent has expired.
    KeyExpired = "key_expired",
    /// A page on another origin may not use an open server.
    CrossOriginRefused = "cross_origin_refused",
    /// The `Host` is not a name of an open loopback server.
    HostRefused = "host_refused",
    /// The request came through a proxy, so it does not count as coming from this machine.
    ForwardedRefused = "forwarded_refused",
    /// The caller is known, and has no permission to use this agent.
    NotAdmitted = "not_admitted",
    /// There is nothing at that address.
    NotFound = "not_found",
    /// No such session belongs to the caller.
    SessionNotFound = "session_not_found",
    /// The agent does not offer that history.
    HistoryNotOffered = "history_not_offered",
    /// The session has no such turn.
    TurnNotFound = "turn_not_found",
    /// The address does not take that method.
    MethodNotAllowed = "method_not_allowed",
    /// The session is busy with a turn.
    TurnRunning = "turn_running",
    /// The body is larger than allowed.
    BodyTooLarge = "body_too_large",
    /// The body is not declared as JSON.
    UnsupportedMediaType = "unsupported_media_type",
    /// An idempotency key came again with another body.
    IdempotencyMismatch = "idempotency_mismatch",
    /// Too many requests.
    RateLimited = "rate_limited",
    /// The request took too long to arrive.
    RequestTimeout = "request_timeout",
    /// No such skill exists for the caller.
    SkillNotFound = "skill_not_found",
    /// The skill wants its callers to say who they are, in its own way.
    SkillAuthRequired = "skill_auth_required",
    /// No such execution exists for the caller.
    ExecutionNotFound = "execution_not_found",
    /// Another process runs the execution now.
    LeaseLost = "lease_lost",
    /// There are too many executions that are not over.
    QueueFull = "queue_full",
    /// There is no such task.
    TaskNotFound = "task_not_found",
    /// The task is over, or somebody else's.
    TaskClosed = "task_closed",
    // What an agent's manifest breaks.
    /// The manifest is not as it must be.
    ManifestInvalid = "manifest_invalid",
    /// The manifest is larger than allowed.
    ManifestTooLarge = "manifest_too_large",
    /// The manifest declares a scope of the platform.
    ManifestScopeReserved = "manifest_scope_reserved",
    /// A tool of the manifest needs a scope that it does not declare.
    ManifestScopeUndeclared = "manifest_scope_undeclared",
    /// Two tools of the manifest have one name.
    ManifestToolDuplicate = "manifest_tool_duplicate",
    /// The schema of a tool's arguments cannot be used.
    ManifestSchemaInvalid = "manifest_schema_invalid",
    /// A scope of the manifest has no words for whoever decides.
    ManifestFallbackMissing = "manifest_fallback_missing",
    /// A scope of the manifest says that less is at stake than there is.
    ManifestSensitivityBelowFloor = "manifest_sensitivity_below_floor",
    // What became of a tool call.
    /// A person said that they will not do it.
    Refused = "refused",
    /// The brain called a tool that nobody has.
    ToolNotFound = "tool_not_found",
    /// The caller has not been granted the tool's scope.
    ScopeNotGranted = "scope_not_granted",
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "invalid_arguments",
    /// Someone who was asked said no.
    Denied = "denied",
    /// Nobody answered the question in time.
    ApprovalExpired = "approval_expired",
    /// The approval was already used or decided.
    ApprovalClosed = "approval_closed",
    /// No such approval.
    ApprovalNotFound = "approval_not_found",
    /// Too many calls of the tool at once.
    ToolBusy = "tool_busy",
    /// The tool took longer than its time limit.
    ToolTimeout = "tool_timeout",
    /// The tool ran and failed.
    ToolFailed = "tool_failed",
    /// What the tool runs on cannot be reached.
    ToolUnavailable = "tool_unavailable",
    /// The tool's result does not fit its declared schema.
    InvalidOutput = "invalid_output",
    /// The call was cut short; it may or may not have had an effect.
    Interrupted = "interrupted",
    /// The caller stopped it.
    Cancelled = "cancelled",
    /// The call was waiting for an answer and was given up.
    Abandoned = "abandoned",
    // What became of somebody else's skill, by the protocol's own words.
    /// A document, an input or an answer is not as it must be.
    ValidationError = "validation_error",
    /// The skill wants a credential.
    AuthRequired = "auth_required",
    /// The credential does not allow it.
    PermissionDenied = "permission_denied",
    /// The skill did not end in time.
    InvocationTimeout = "invocation_timeout",
    /// The provider cannot be reached, or may not be.
    EndpointUnreachable = "endpoint_unreachable",
    /// The skill follows a version of the protocol we cannot read.
    VersionIncompatible = "version_incompatible",
    /// The skill ran and failed.
    ExecutionFailed = "execution_failed",
    // What became of a turn.
    /// The brain failed.
    BrainFailed = "brain_failed",
    /// The turn took longer than allowed.
    TurnDeadline = "turn_deadline",
    /// The turn took more steps than allowed.
    TooManySteps = "too_many_steps",
    /// The turn produced more than allowed.
    TurnTooLarge = "turn_too_large",
    // People, their devices, and what they allow agents.
    /// No such person has an account here.
    PersonNotFound = "person_not_found",
    /// The invite is unknown, used or expired.
    InviteInvalid = "invite_invalid",
    /// The person has no such device.
    DeviceNotFound = "device_not_found",
    /// The device could not show that it is the one it says.
    DeviceRefused = "device_refused",
    /// There are as many as are allowed.
    LimitReached = "limit_reached",
    /// Only the owner of an agent may do that.
    NotOwner = "not_owner",
    /// The manifest is another one by now.
    ManifestStale = "manifest_stale",
    /// The agent's manifest has no such scope.
    ScopeUnknown = "scope_unknown",
    /// The agent does not work without that scope.
    ScopeRequired = "scope_required",
    /// No such relation belongs to the caller.
    RelationNotFound = "relation_not_found",
    /// Nobody of that name may send or read there without a relation between person and agent.
    RelationRequired = "relation_required",
    /// No conversation of that id has the caller among its members.
    ConversationNotFound = "conversation_not_found",
    /// The conversation has no such message.
    MessageNotFound = "message_not_found",
    /// No such stream is open on this connection.
    StreamNotFound = "stream_not_found",
    /// The same client message id was used for another message.
    MessageClash = "message_clash",
    /// Another device took the call upon itself.
    MessageClaimed = "message_claimed",
    /// Keys that are not signed as they must be, or older than those that are known.
    BundleRefused = "bundle_refused",
    /// The device or agent has no keys here.
    KeysNotFound = "keys_not_found",
    /// Nothing was backed up.
    BackupNotFound = "backup_not_found",
    /// The person already deals with that agent.
    RelationExists = "relation_exists",
    /// A device of the person must sign what is to be allowed.
    ConsentUnsigned = "consent_unsigned",
    /// The signature under what is to be allowed does not hold.
    ConsentForged = "consent_forged",
    /// A grant ledger does not hold.
    LedgerBroken = "ledger_broken",
    // What is sealed between them.
    /// A device shows keys that are not trusted.
    DeviceUntrusted = "device_untrusted",
    /// A sealed message is not as its sender sealed it, or not for this device.
    SealBroken = "seal_broken",
    /// The session a message was sealed in is lost.
    SealSessionLost = "seal_session_lost",
    /// A sealed message came again.
    MessageReplayed = "message_replayed",
    /// A backup of keys cannot be opened.
    BackupUnreadable = "backup_unreadable",
    // The server itself.
    /// The server is stopping.
    ShuttingDown = "shutting_down",
    /// The store cannot be read or written.
    StoreUnavailable = "store_unavailable",
    /// The caller has stored as much as one caller may.
    QuotaExceeded = "quota_exceeded",
    /// Too many long computations wait.
    ComputationQueueFull = "computation_queue_full",
    /// The server holds as much for callers as it can.
    ServerBusy = "server_busy",
    /// An issuer of access tokens does not answer.
    IssuerUnavailable = "issuer_unavailable",
    /// A fault of ours.
    Internal = "internal",
    /// An outgoing request went where it may not go.
    OutboundRefused = "outbound_refused",
    // The operator's files and commands.
    /// The agent file is wrong.
    AgentFileInvalid = "agent_file_invalid",
    /// Two agent files declare the same name.
    AgentNameTaken = "agent_name_taken",
    /// The operator's settings are wrong.
    ConfigInvalid = "config_invalid",
    /// The data directory holds a database without its key, or a key without its database.
    DataDirIncomplete = "data_dir_incomplete",
    /// Another process uses the data directory.
    DataDirInUse = "data_dir_in_use",
    /// The data directory or a file in it cannot be used.
    DataDirUnusable = "data_dir_unusable",
    /// The key that opens a device's stored data is missing or wrong.
    StorageLocked = "storage_locked",
    /// The disk of the data directory is full.
    DiskFull = "disk_full",
    /// The database or its write-ahead file is damaged.
    StoreDamaged = "store_damaged",
    /// The address to listen on cannot be used.
    ListenFailed = "listen_failed",
    /// Keys are needed to listen beyond loopback.
    KeysRequired = "keys_required",
    /// Programs that cannot be confined beside tools that need another person's approval.
    ProgramsUnconfined = "programs_unconfined",
    /// The certificate or key cannot be used.
    TlsInvalid = "tls_invalid",
    /// No such key.
    KeyNotFound = "key_not_found",
    /// No such grant.
    GrantNotFound = "grant_not_found",
    /// The domain is not followed.
    NotFollowed = "not_followed",
    /// The agent is not listed in the directory.
    NotRegistered = "not_registered",
    /// The caller may not have that agent listed in the directory.
    RegistrationRefused = "registration_refused",
    /// The directory has no room for another agent.
    DirectoryFull = "directory_full",
    /// The public address is not the one the DIDs were made under.
    PublicUrlChanged = "public_url_changed",
    /// There is no DID to show or to sign with.
    DidUnavailable = "did_unavailable",
    /// What another agent says of itself was checked and does not hold.
    PeerUntrusted = "peer_untrusted",
    /// No interface of another agent was agreed upon that could be used.
    NegotiationFailed = "negotiation_failed",
    /// No protocol could be drafted.
    DraftFailed = "draft_failed",
    /// There is no such protocol between the two.
    DraftNotFound = "draft_not_found",
    /// The protocol cannot be used: not both sides accepted it, or it is another.
    DraftNotAccepted = "draft_not_accepted",
    /// No server is there to take the answer to a message.
    NoMessageService = "no_message_service",
    /// The audit chain is broken.
    AuditBroken = "audit_broken",
}

impl Code {
    /// The code of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_that_says_what_to_do() {
        for code in Code::ALL {
            let page = code.page();
            assert!(page.starts_with(&format!("# {code}\n")), "{code}: the page begins with its code");
            assert!(page.contains("## What to do"), "{code}: the page says what to do");
            assert_eq!(Code::parse(code.as_str()), Some(*code));
        }
    }
}
