//! Store of people, devices, agent accounts, relations and notifications.

use async_trait::async_trait;
use nuncio_core::account::{AccountOwner, AgentAccount, PublishedManifest};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, DeviceId, PersonName, RelationId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::relation::Relation;
use nuncio_core::time::Timestamp;
use nuncio_judge::name_history::ManifestNameHistory;

use super::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum ConsentChange {
    /// Creates a person; no conflict if they exist.
    PutPerson(Person),
    /// Creates an invite. `Missing` if there is no such person; `Exists` if the code is taken.
    CreateInvite(Invite),
    /// Enrols a device. `Moved` unless the invite is stored and unused; `Exists` if the device's id or key is taken.
    Enrol {
        /// The invite as used by the device, which replaces the stored one.
        invite: Invite,
        device: Device,
    },
    /// Revokes a device. `Missing` if it does not exist or is already revoked.
    RevokeDevice { id: DeviceId, at: Timestamp },
    /// Marks a nonce as used. `Exists` if it was used before. Also deletes some nonces whose `kept_until` has passed.
    UseNonce { digest: Digest, now: Timestamp, kept_until: Timestamp },
    /// Creates an agent account. `Exists` if its id is taken.
    CreateAccount {
        account: AgentAccount,
        /// Search text of the account, in lower case.
        words: String,
    },
    /// Updates an account. `Missing` if it does not exist; `Moved` unless its stored revision is the previous one.
    UpdateAccount {
        /// The changed account, with its next revision.
        account: AgentAccount,
        /// Search text of the account, in lower case.
        words: String,
    },
    /// Adds a manifest version and updates its account. `Missing` if there is no account, `Moved` if it changed since
    /// it was read, `Exists` if the version is taken.
    Publish {
        /// The account with its next revision, manifest version and hash.
        account: AgentAccount,
        /// Search text of the account, in lower case.
        words: String,
        version: Box<PublishedManifest>,
        /// Manifest name_history including the new version.
        name_history: Box<ManifestNameHistory>,
    },
    /// Creates a relation. `Missing` if person or agent is missing; `Moved` unless the agent's manifest is at
    /// `manifest_version`; `Exists` if the id is taken or person and agent have an active relation. Increments the
    /// account's revision.
    CreateRelation { relation: Relation, manifest_version: u64 },
    /// Updates a relation. `Missing` if it does not exist; `Moved` unless its stored revision is `from` and the agent's
    /// manifest is at `manifest_version`, if given. Increments the account's revision.
    MoveRelation { from: u64, relation: Relation, manifest_version: Option<u64> },
    /// Appends an entry to a relation's ledger. `Missing` if there is no such relation; `Moved` unless the
    /// entry follows the last one.
    AppendLedger(LedgerEntry),
    /// Adds a notification with the next number of its recipient.
    PutMail { recipient: RelayParty, at: Timestamp, notification: Notification },
    /// Advances a reader's position in the mail, never back and at most to the last notification.
    ReadMail { recipient: RelayParty, reader: String, seq: u64 },
    /// Deletes at most `limit` notifications older than `before`.
    ForgetMail { before: Timestamp, limit: usize },
}

#[async_trait]
pub trait PersonStore: Send + Sync {
    async fn person(&self, name: &PersonName) -> Result<Option<Person>, StoreError>;
    async fn people(&self) -> Result<Vec<Person>, StoreError>;
    /// Finds an invite by the digest of its code.
    async fn invite(&self, code: &Digest) -> Result<Option<Invite>, StoreError>;
    /// Invites of a person, oldest first, including used and expired ones.
    async fn invites(&self, person: &PersonName) -> Result<Vec<Invite>, StoreError>;
    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError>;
    /// Devices of a person, oldest first, including revoked ones.
    async fn devices(&self, person: &PersonName) -> Result<Vec<Device>, StoreError>;
}

#[async_trait]
pub trait AgentAccountStore: Send + Sync {
    async fn account(&self, id: &AgentId) -> Result<Option<AgentAccount>, StoreError>;
    /// Finds an account by the digest of its token.
    async fn account_by_token(&self, token: &Digest) -> Result<Option<AgentAccount>, StoreError>;
    /// Accounts of an owner with an id above `after`, ordered by id.
    async fn accounts_of(
        &self,
        owner: &AccountOwner,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, StoreError>;
    /// Public accounts whose search text contains all `words`, with an id above `after`, ordered by id.
    async fn public_accounts(
        &self,
        words: &[String],
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, StoreError>;
    /// All scopes and tools that an agent's manifests ever had.
    async fn name_history(&self, agent: &AgentId) -> Result<Option<ManifestNameHistory>, StoreError>;
    async fn manifest(&self, agent: &AgentId, version: u64) -> Result<Option<PublishedManifest>, StoreError>;
    /// At most `limit` manifest versions below `before`, newest first.
    async fn manifests(&self, agent: &AgentId, before: u64, limit: usize)
    -> Result<Vec<PublishedManifest>, StoreError>;
}

#[async_trait]
pub trait RelationStore: Send + Sync {
    async fn relation(&self, id: &RelationId) -> Result<Option<Relation>, StoreError>;
    async fn relation_between(&self, person: &PersonName, agent: &AgentId) -> Result<Option<Relation>, StoreError>;
    /// Relations of a person with an id above `after`, including ended ones, ordered by id.
    async fn relations_of(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError>;
    /// At most `limit` active relations with an agent, ordered by person, of people with a name above `after`.
    async fn relations_with(
        &self,
        agent: &AgentId,
        after: Option<&PersonName>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError>;
    /// Active relations with an agent, ordered by person; with all agents if `agent` is `None`.
    async fn active_relations(&self, agent: Option<&AgentId>) -> Result<Vec<Relation>, StoreError>;
    /// At most `limit` ledger entries of a relation with a number above `after`, in order.
    async fn ledger(&self, relation: &RelationId, after: u64, limit: usize) -> Result<Vec<LedgerEntry>, StoreError>;
}

/// Reads notifications to people and agents.
#[async_trait]
pub trait NotificationStore: Send + Sync {
    /// Notifications to a recipient with a number above `after`, in order.
    async fn mail(
        &self,
        recipient: &RelayParty,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, StoreError>;
    /// Number of the last notification to a recipient; zero if there is none.
    async fn mail_head(&self, recipient: &RelayParty) -> Result<u64, StoreError>;
    /// Number of the last notification that a reader has read; zero if there is none.
    async fn mail_read(&self, recipient: &RelayParty, reader: &str) -> Result<u64, StoreError>;
    /// Whether any notification is older than `time`.
    async fn is_any_mail_before(&self, time: Timestamp) -> Result<bool, StoreError>;
}
