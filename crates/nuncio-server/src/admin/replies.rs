//! Replies to admin commands: the server serialises them, the command line reads them.

use std::path::PathBuf;

use nuncio_anp::directory::{DirectoryEntry, RemoteRegistrationStatus};
use nuncio_core::approval::Approval;
use nuncio_core::audit::{AuditChainId, StoredAuditLink};
use nuncio_core::digest::Digest;
use nuncio_core::grant::{Grant, KeyScopes};
use nuncio_core::ids::{AgentName, GrantId, KeyId, PersonName};
use nuncio_core::person::Device;
use nuncio_core::task::HumanTask;
use nuncio_core::time::Timestamp;
use nuncio_engine::directory::ListingId;
use nuncio_engine::follow::{FollowedDomain, ServerOrigin};
use nuncio_engine::ports::store::{ApiKey, KeyKind, KeyRole, PersonLink, SentDirectMessage};
use nuncio_engine::record::ListedAuditRecord;
use nuncio_skill::crawl::UnlistedSkill;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::access_state::KeylessAccess;

/// Defines reply types, whose public fields have the same form on both sides of the admin socket.
macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$attribute])* pub $field: $type,)*
        }
    )*};
}

replies! {
    /// An API key as operators see it, without digests and secrets.
    KeyInfo {
        id: KeyId,
        #[serde(flatten)]
        kind: KeyKind,
        name: Option<String>,
        scopes: KeyScopes,
        role: KeyRole,
        person: Option<PersonName>,
        created_at: Timestamp,
        rotated_at: Option<Timestamp>,
        expires_at: Option<Timestamp>,
        lifetime_seconds: Option<u64>,
        previous: Option<PreviousSecretInfo>,
        revoked_at: Option<Timestamp>,
    }

    /// The secret that a rotation replaced, while it is still valid.
    PreviousSecretInfo { until: Timestamp }

    /// Reply to `KeyCreate` and `KeyRotate`, the only ones that contain a secret.
    KeyWithSecret {
        #[serde(flatten)]
        info: KeyInfo,
        #[serde(rename = "key")]
        secret: String,
    }

    KeyList {
        keys: Vec<KeyInfo>,
        /// Whether requests without a key are served; `None` from an earlier version.
        #[serde(default)]
        access: Option<KeylessAccess>,
    }
    RevokedKey { revoked: KeyInfo }
    CreatedGrant {
        grant: Grant,
        /// Whether the agent is served and has these scopes; `false` if no server runs, so nobody knows.
        #[serde(default)]
        checked: bool,
    }
    GrantList { grants: Vec<Grant> }
    RevokedGrant { revoked: GrantId }

    UserInvitation {
        user: PersonName,
        code: String,
        expires_at: Timestamp,
        /// The enrolment URL; `None` while no server runs.
        server: Option<String>,
        /// Fingerprint of the server's public key.
        fingerprint: Digest,
        /// Link with all of the above for `nuncio device join`; `None` while no server runs.
        link: Option<String>,
    }

    UserList { users: Vec<UserInfo> }

    UserInfo {
        name: PersonName,
        since: Timestamp,
        /// Number of the person's valid devices.
        devices: usize,
    }

    UserDevices { devices: Vec<Device> }
    RevokedDevices { revoked: Vec<Device> }

    AgentSafetyNumber {
        agent: AgentName,
        person: PersonName,
        /// Twelve groups of five digits.
        safety_number: String,
    }

    ForgottenUser {
        /// The pseudonym that replaces the person's name in all records.
        forgotten: PersonName,
        /// Number of redacted audit records and ledger entries.
        redacted: u64,
    }

    ApprovalList { approvals: Vec<Approval> }
    DecidedApproval { approval: Approval }

    TaskList {
        /// The server's time, from which the time left is counted.
        now: Timestamp,
        tasks: Vec<HumanTask>,
    }

    TaskDetails {
        /// The server's time, from which the time left is counted.
        now: Timestamp,
        task: HumanTask,
    }

    ChangedTask { task: HumanTask }

    /// A followed domain, with its skills that the registry does not list.
    FollowedDomainInfo {
        #[serde(flatten)]
        state: FollowedDomain,
        unlisted: Vec<UnlistedSkill>,
    }

    /// Reply to `RegistryFollow`.
    FollowResult {
        followed: FollowedDomainInfo,
        /// Whether the domain was read before the reply.
        visited: bool,
    }

    UnfollowedDomain { unfollowed: ServerOrigin }
    FollowedDomainList { followed: Vec<FollowedDomainInfo> }

    /// Reply to `RegistryAdd`.
    AddedAgent {
        agent: DirectoryEntry,
        /// False if the agent was listed before.
        new: bool,
    }

    RemovedAgent {
        removed: ListingId,
        url: Url,
    }

    /// Reply to `RegistryAgents`.
    AgentDirectory {
        agents: Vec<DirectoryEntry>,
        /// Registrations of this server's agents with other directories.
        elsewhere: Vec<RemoteRegistrationStatus>,
    }

    /// Reply to `MessageSend` and `MessageShow`.
    SentMessage { letter: SentDirectMessage }
    LinkedDid { link: PersonLink }
    UnlinkedDid { unlinked: String }
    DidLinkList { links: Vec<PersonLink> }

    /// The DID of an agent, or of the server itself.
    DidInfo {
        /// `None` for the server itself.
        agent: Option<AgentName>,
        did: String,
        /// URL of the DID document.
        document: String,
        since: Timestamp,
        /// Earlier DIDs, oldest first.
        retired: Vec<String>,
    }

    DidList {
        public_url: Option<String>,
        dids: Vec<DidInfo>,
        /// The reason why the server has no DIDs, if it has none.
        none_because: Option<String>,
    }

    /// Reply to `DidRotate` and `DidMove`.
    RotatedDids {
        /// The new public URL, if the DIDs were moved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        public_url: Option<String>,
        rotated: Vec<DidInfo>,
    }

    AuditRecordList { records: Vec<NumberedAuditRecord> }

    NumberedAuditRecord {
        seq: u64,
        hash: Digest,
        /// Position of the record in its audit chain, if there are several chains.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of_chain: Option<AuditChainPosition>,
        /// The record as it is stored, in the format of the version that wrote it; `None` if it is not JSON.
        record: Option<Value>,
        /// Name of the caller's key, if the caller has a key with a name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller_name: Option<String>,
        /// Name of the key that the record is about, if its subject is the id of a key with a name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject_name: Option<String>,
    }

    AuditChainPosition {
        chain: AuditChainId,
        seq: u64,
    }

    /// Reply to `AuditVerify` for an intact chain; a broken one is an error.
    AuditVerification {
        records: u64,
        hash: Digest,
        /// Number of signed checkpoints that agree with the chains.
        checkpoints: usize,
        /// Number of audit chains, if there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chains: Option<usize>,
        /// Number of records that sign the heads of all chains.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rounds: Option<usize>,
        intact: bool,
        /// Number of pruned records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pruned: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    }

    PrunedRecords {
        /// Number of deleted records.
        pruned: u64,
        before: Timestamp,
    }
}

impl From<ListedAuditRecord> for NumberedAuditRecord {
    fn from(listed: ListedAuditRecord) -> Self {
        let ListedAuditRecord { stored: StoredAuditLink { number, chain, link }, record, caller_name, subject_name } =
            listed;
        let of_chain = (number != link.seq).then_some(AuditChainPosition { chain, seq: link.seq });
        Self { seq: number, hash: link.hash, of_chain, record, caller_name, subject_name }
    }
}

impl From<ApiKey> for KeyInfo {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            kind: key.kind,
            name: key.name,
            scopes: key.scopes,
            role: key.role,
            person: key.person,
            created_at: key.created_at,
            rotated_at: key.rotated_at,
            expires_at: key.expires_at,
            lifetime_seconds: key.lifetime_seconds,
            previous: key.previous.map(|previous| PreviousSecretInfo { until: previous.until }),
            revoked_at: key.revoked_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use nuncio_engine::ports::store::PreviousSecret;
    use serde_json::json;

    use super::*;

    #[test]
    fn key_reply_has_the_fields_of_the_stored_key_and_no_sealed_secret() {
        for kind in [KeyKind::Bearer, KeyKind::Signing { sealed: "sealed".to_owned() }] {
            let previous = PreviousSecret { digest: Digest::ZERO, kind: kind.clone(), until: Timestamp::LAST };
            let key = ApiKey {
                id: KeyId::parse("key_1").unwrap(),
                kind,
                name: Some("phone".to_owned()),
                digest: Digest::ZERO,
                scopes: KeyScopes::All,
                role: KeyRole::App,
                person: None,
                created_at: Timestamp::from_millis(0),
                rotated_at: None,
                expires_at: Some(Timestamp::LAST),
                lifetime_seconds: Some(60),
                previous: Some(previous),
                revoked_at: None,
            };
            let stored = json!(key);
            let reply = json!(KeyWithSecret { info: key.into(), secret: "nk_1".to_owned() });
            let read: KeyWithSecret = serde_json::from_value(reply.clone()).unwrap();
            assert_eq!(json!(read.info), stored);
            assert_eq!(json!(read), reply);
            assert!(!reply.to_string().contains("sealed"), "{reply}");
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RekeyedStore {
    /// Number of values that were sealed again.
    pub values: u64,
    /// File of the new key.
    pub file: PathBuf,
}
