//! People, their devices, agents' accounts, what is allowed between them, and what they are told.

use async_trait::async_trait;
use nuncio_core::account::{Account, AccountOwner, ManifestVersion};
use nuncio_core::audit::AuditEventRecord;
use nuncio_core::digest::Digest;
use nuncio_core::happening::{Notification, QueuedNotification, Recipient};
use nuncio_core::ids::{AgentId, DeviceId, PersonName, RelationId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::lineage::Lineage;
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::relation::Relation;
use nuncio_core::time::Timestamp;

use super::{Change, StoreError};

/// One change of people, agents and what is between them.
#[derive(Debug, Clone, PartialEq)]
pub enum ConsentChange {
    /// A person has an account; no fault when they have one already.
    PutPerson(Person),
    /// A device may come in. `Missing` if there is no such person, `Exists` if the code is taken.
    CreateInvite(Invite),
    /// A device comes in by an invite: `Moved` unless that is stored and unused, `Exists` if the device's
    /// id or key is taken.
    Enrol {
        /// The invite, used.
        invite: Invite,
        /// The device.
        device: Device,
    },
    /// A device is taken away. `Missing` if it is not there or was taken away.
    RevokeDevice {
        /// Which.
        id: DeviceId,
        /// When.
        at: Timestamp,
    },
    /// Something counts once: `Exists` if that is kept. Some of what was kept long enough is forgotten.
    UseNonce {
        /// Its digest.
        digest: Digest,
        /// Now.
        now: Timestamp,
        /// Until when it is kept.
        kept_until: Timestamp,
    },
    /// An agent has an account. `Exists`.
    CreateAccount {
        /// The account.
        account: Account,
        /// By which words it is found, in lower case.
        words: String,
    },
    /// An account is as given from now on: `Missing`, or `Moved` unless its stored revision is the one
    /// before.
    UpdateAccount {
        /// The account, with its next revision.
        account: Account,
        /// By which words it is found, in lower case.
        words: String,
    },
    /// The same, with a new version of the manifest. `Exists` if the version is taken.
    Publish {
        /// The account, with its next revision, the version and its hash.
        account: Account,
        /// By which words it is found, in lower case.
        words: String,
        /// The version.
        version: Box<ManifestVersion>,
        /// The lineage with it.
        lineage: Box<Lineage>,
    },
    /// A person deals with an agent: `Missing` if one of the two is not there, `Moved` unless the agent's
    /// manifest is at that version, `Exists` if the id is taken or there is an active relation between
    /// them. The account's revision goes up.
    CreateRelation {
        /// The relation.
        relation: Relation,
        /// The version of the manifest.
        manifest_version: u64,
    },
    /// A relation moves on: `Missing`, or `Moved` unless its stored revision is `from` and the agent's
    /// manifest is at the version, if one is given. The account's revision goes up.
    MoveRelation {
        /// The revision it had.
        from: u64,
        /// The relation as it is to be.
        relation: Relation,
        /// The version of the manifest.
        manifest_version: Option<u64>,
    },
    /// An entry goes to the end of its relation's ledger. `Missing` if there is no such relation, `Moved`
    /// unless the entry before it is the last.
    AppendLedger(LedgerEntry),
    /// Someone is told something, under the next of their numbers.
    PutMail {
        /// Who.
        recipient: Recipient,
        /// When.
        at: Timestamp,
        /// What.
        happening: Notification,
    },
    /// A reader has read up to that number; never back. Numbers beyond the last count as the last.
    ReadMail {
        /// Whose mail.
        recipient: Recipient,
        /// Which of their readers.
        reader: String,
        /// Up to which number.
        seq: u64,
    },
    /// At most `limit` of what was told before that time is forgotten.
    ForgetMail {
        /// The time.
        before: Timestamp,
        /// How many at most.
        limit: usize,
    },
    /// A record goes to the end of the audit chain.
    Record(AuditEventRecord),
}

impl From<ConsentChange> for Change {
    fn from(change: ConsentChange) -> Self {
        Self::Consent(Box::new(change))
    }
}

/// People and their devices.
#[async_trait]
pub trait People {
    /// A person.
    async fn person(&self, name: &PersonName) -> Result<Option<Person>, StoreError>;
    /// Every person, by name.
    async fn people(&self) -> Result<Vec<Person>, StoreError>;
    /// The invite of that code's digest.
    async fn invite(&self, code: &Digest) -> Result<Option<Invite>, StoreError>;
    /// A person's invites, oldest first, those used or expired too.
    async fn invites(&self, person: &PersonName) -> Result<Vec<Invite>, StoreError>;
    /// A device.
    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError>;
    /// A person's devices, oldest first, those taken away too.
    async fn devices(&self, person: &PersonName) -> Result<Vec<Device>, StoreError>;
}

/// Agents' accounts and manifests.
#[async_trait]
pub trait Accounts {
    /// An account.
    async fn account(&self, id: &AgentId) -> Result<Option<Account>, StoreError>;
    /// The account whose token has that digest.
    async fn account_by_token(&self, token: &Digest) -> Result<Option<Account>, StoreError>;
    /// An owner's accounts by id, those behind `after`, at most `limit`.
    async fn accounts_of(
        &self,
        owner: &AccountOwner,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError>;
    /// The public accounts in whose words all of `words` occur, by id, those behind `after`, at most `limit`.
    async fn public_accounts(
        &self,
        words: &[String],
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError>;
    /// What an agent ever asked for.
    async fn lineage(&self, agent: &AgentId) -> Result<Option<Lineage>, StoreError>;
    /// One version of an agent's manifest.
    async fn manifest(&self, agent: &AgentId, version: u64) -> Result<Option<ManifestVersion>, StoreError>;
    /// An agent's versions before that number, the newest first, at most `limit`.
    async fn manifests(&self, agent: &AgentId, before: u64, limit: usize) -> Result<Vec<ManifestVersion>, StoreError>;
}

/// What is between people and agents.
#[async_trait]
pub trait Relations {
    /// A relation.
    async fn relation(&self, id: &RelationId) -> Result<Option<Relation>, StoreError>;
    /// The active relation between the two.
    async fn relation_between(&self, person: &PersonName, agent: &AgentId) -> Result<Option<Relation>, StoreError>;
    /// A person's relations by id, ended ones too, those behind `after`, at most `limit`.
    async fn relations_of(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError>;
    /// Every active relation with that agent, by person; with every agent when it is none.
    async fn active_relations(&self, agent: Option<&AgentId>) -> Result<Vec<Relation>, StoreError>;
    /// A ledger's entries after `seq`, at most `limit`.
    async fn ledger(&self, relation: &RelationId, after: u64, limit: usize) -> Result<Vec<LedgerEntry>, StoreError>;
}

/// What people and agents are told.
#[async_trait]
pub trait Mailboxes {
    /// What a recipient was told after `seq`, in order, at most `limit`.
    async fn mail(
        &self,
        recipient: &Recipient,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, StoreError>;
    /// The number of the last thing a recipient was told; zero for none.
    async fn mail_head(&self, recipient: &Recipient) -> Result<u64, StoreError>;
    /// Up to which number a reader has read; zero for none.
    async fn mail_read(&self, recipient: &Recipient, reader: &str) -> Result<u64, StoreError>;
    /// Whether anything was told before that time and is still kept.
    async fn is_any_mail_before(&self, time: Timestamp) -> Result<bool, StoreError>;
}
