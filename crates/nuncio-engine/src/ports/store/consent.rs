//! Store of people, devices, agent accounts, relations and notifications.

use async_trait::async_trait;
use nuncio_core::account::{Account, AccountOwner, ManifestVersion};
use nuncio_core::audit::AuditEventRecord;
use nuncio_core::digest::Digest;
use nuncio_core::happening::{Notification, QueuedNotification, Recipient};
use nuncio_core::ids::{AgentId, DeviceId, PersonName, RelationId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::relation::Relation;
use nuncio_core::time::Timestamp;
use nuncio_judge::lineage::Lineage;

use super::{Change, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub enum ConsentChange {
    /// Creates a person; no conflict if they exist.
    PutPerson(Person),
    /// Creates an invite. `Missing` if there is no such person; `Exists` if the code is taken.
    CreateInvite(Invite),
    /// Enrols a device. `Moved` unless the invite is stored and unused; `Exists` if the device's id or key is taken.
    Enrol {
        /// The used invite, to be stored.
        invite: Invite,
        device: Device,
    },
    /// Revokes a device. `Missing` if there is none or it is revoked.
    RevokeDevice { id: DeviceId, at: Timestamp },
    /// Marks a nonce as used. `Exists` if it was used. Some expired nonces are deleted too.
    UseNonce { digest: Digest, now: Timestamp, kept_until: Timestamp },
    /// Creates an agent account. `Exists`.
    CreateAccount {
        account: Account,
        /// Search text of the account, in lower case.
        words: String,
    },
    /// Updates an account. `Missing`; `Moved` unless its stored revision is the previous one.
    UpdateAccount {
        /// The changed account, with its next revision.
        account: Account,
        /// Search text of the account, in lower case.
        words: String,
    },
    /// Updates an account with a new manifest version. `Missing`, `Moved`; `Exists` if the version is taken.
    Publish {
        /// The account with its next revision, manifest version and hash.
        account: Account,
        /// Search text of the account, in lower case.
        words: String,
        version: Box<ManifestVersion>,
        /// Manifest lineage including the new version.
        lineage: Box<Lineage>,
    },
    /// Creates a relation. `Missing` if person or agent is missing; `Moved` unless the manifest is at that version;
    /// `Exists` if the id is taken or the two have an active relation. Increments the account's revision.
    CreateRelation { relation: Relation, manifest_version: u64 },
    /// Updates a relation. `Missing`; `Moved` unless its stored revision is `from` and, if given, the manifest is at
    /// that version. Increments the account's revision.
    MoveRelation { from: u64, relation: Relation, manifest_version: Option<u64> },
    /// Appends an entry to a relation's ledger. `Missing` if there is no such relation; `Moved` unless it follows the
    /// last entry.
    AppendLedger(LedgerEntry),
    /// Adds a notification with the recipient's next number.
    PutMail { recipient: Recipient, at: Timestamp, happening: Notification },
    /// Advances a reader's position, never back and at most to the last number.
    ReadMail { recipient: Recipient, reader: String, seq: u64 },
    /// Deletes at most `limit` notifications older than that.
    ForgetMail { before: Timestamp, limit: usize },
    /// Appends a record to the audit chain.
    Record(AuditEventRecord),
}

impl From<ConsentChange> for Change {
    fn from(change: ConsentChange) -> Self {
        Self::Consent(Box::new(change))
    }
}

#[async_trait]
pub trait PersonStore {
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
pub trait AccountStore {
    async fn account(&self, id: &AgentId) -> Result<Option<Account>, StoreError>;
    /// Finds an account by the digest of its token.
    async fn account_by_token(&self, token: &Digest) -> Result<Option<Account>, StoreError>;
    /// Accounts of an owner by id, after `after`.
    async fn accounts_of(
        &self,
        owner: &AccountOwner,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError>;
    /// Public accounts whose search text contains all `words`, by id, after `after`.
    async fn public_accounts(
        &self,
        words: &[String],
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError>;
    /// All scopes and tools that an agent's manifests ever had.
    async fn lineage(&self, agent: &AgentId) -> Result<Option<Lineage>, StoreError>;
    async fn manifest(&self, agent: &AgentId, version: u64) -> Result<Option<ManifestVersion>, StoreError>;
    /// Manifest versions before that number, newest first.
    async fn manifests(&self, agent: &AgentId, before: u64, limit: usize) -> Result<Vec<ManifestVersion>, StoreError>;
}

#[async_trait]
pub trait RelationStore {
    async fn relation(&self, id: &RelationId) -> Result<Option<Relation>, StoreError>;
    async fn relation_between(&self, person: &PersonName, agent: &AgentId) -> Result<Option<Relation>, StoreError>;
    /// Relations of a person by id, including ended ones, after `after`.
    async fn relations_of(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError>;
    /// Active relations with an agent, by person; `None` for all agents.
    async fn active_relations(&self, agent: Option<&AgentId>) -> Result<Vec<Relation>, StoreError>;
    /// Ledger entries with a number above `after`.
    async fn ledger(&self, relation: &RelationId, after: u64, limit: usize) -> Result<Vec<LedgerEntry>, StoreError>;
}

/// Notifications to people and agents.
#[async_trait]
pub trait MailboxStore {
    /// Notifications after `after`, in order.
    async fn mail(
        &self,
        recipient: &Recipient,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, StoreError>;
    /// Number of the last notification; zero for none.
    async fn mail_head(&self, recipient: &Recipient) -> Result<u64, StoreError>;
    /// Position of a reader; zero for none.
    async fn mail_read(&self, recipient: &Recipient, reader: &str) -> Result<u64, StoreError>;
    /// Whether any notification is older than that.
    async fn is_any_mail_before(&self, time: Timestamp) -> Result<bool, StoreError>;
}
