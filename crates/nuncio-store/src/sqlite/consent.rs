//! Dispatch of consent changes and reads to their statements.

use async_trait::async_trait;
use nuncio_core::account::{Account, AccountOwner, ManifestVersion};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, DeviceId, PersonName, RelationId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::notification::{QueuedNotification, Recipient};
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::relation::Relation;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{AccountStore, ConsentChange, MailboxStore, PersonStore, RelationStore, StoreError};
use nuncio_judge::lineage::Lineage;
use rusqlite::Connection;

use super::problem::SqlProblem;
use super::{SqliteStore, accounts, mail, people, relations};

/// Page size up to which mail is read on the calling thread.
const FEW_MAILS: usize = 32;

/// Applies one change in the open transaction.
pub(super) fn apply(connection: &Connection, change: &ConsentChange) -> Result<(), SqlProblem> {
    match change {
        ConsentChange::PutPerson(person) => people::put(connection, person),
        ConsentChange::CreateInvite(invite) => people::invite(connection, invite),
        ConsentChange::Enrol { invite, device } => people::enrol(connection, invite, device),
        ConsentChange::RevokeDevice { id, at } => people::revoke(connection, id, *at),
        ConsentChange::UseNonce { digest, now, kept_until } => people::use_nonce(connection, digest, *now, *kept_until),
        ConsentChange::CreateAccount { account, words } => accounts::create(connection, account, words),
        ConsentChange::UpdateAccount { account, words } => accounts::update(connection, account, words),
        ConsentChange::Publish { account, words, version, lineage } => {
            accounts::publish(connection, account, words, version, lineage)
        }
        ConsentChange::CreateRelation { relation, manifest_version } => {
            relations::create(connection, relation, *manifest_version)
        }
        ConsentChange::MoveRelation { from, relation, manifest_version } => {
            relations::move_on(connection, *from, relation, *manifest_version)
        }
        ConsentChange::AppendLedger(entry) => relations::append(connection, entry),
        ConsentChange::PutMail { recipient, at, notification } => mail::put(connection, recipient, *at, notification),
        ConsentChange::ReadMail { recipient, reader, seq } => mail::mark_read(connection, recipient, reader, *seq),
        ConsentChange::ForgetMail { before, limit } => mail::forget(connection, *before, *limit),
    }
}

#[async_trait]
impl PersonStore for SqliteStore {
    async fn person(&self, name: &PersonName) -> Result<Option<Person>, StoreError> {
        self.readers.point(|connection| people::one(connection, name))
    }

    async fn people(&self) -> Result<Vec<Person>, StoreError> {
        self.readers.list(people::all_people).await
    }

    async fn invite(&self, code: &Digest) -> Result<Option<Invite>, StoreError> {
        self.readers.point(|connection| people::invite_of(connection, code))
    }

    async fn invites(&self, person: &PersonName) -> Result<Vec<Invite>, StoreError> {
        let person = person.clone();
        self.readers.list(move |connection| people::invites_of(connection, &person)).await
    }

    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError> {
        self.readers.point(|connection| people::device(connection, id))
    }

    async fn devices(&self, person: &PersonName) -> Result<Vec<Device>, StoreError> {
        let person = person.clone();
        self.readers.list(move |connection| people::devices_of(connection, &person)).await
    }
}

#[async_trait]
impl AccountStore for SqliteStore {
    async fn account(&self, id: &AgentId) -> Result<Option<Account>, StoreError> {
        self.readers.point(|connection| accounts::one(connection, id))
    }

    async fn account_by_token(&self, token: &Digest) -> Result<Option<Account>, StoreError> {
        self.readers.point(|connection| accounts::by_token(connection, token))
    }

    async fn accounts_of(
        &self,
        owner: &AccountOwner,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError> {
        let (owner, after) = (owner.clone(), after.cloned());
        self.readers.list(move |connection| accounts::of(connection, &owner, after.as_ref(), limit)).await
    }

    async fn public_accounts(
        &self,
        words: &[String],
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError> {
        let (words, after) = (words.to_vec(), after.cloned());
        self.readers.list(move |connection| accounts::public(connection, &words, after.as_ref(), limit)).await
    }

    async fn lineage(&self, agent: &AgentId) -> Result<Option<Lineage>, StoreError> {
        let agent = agent.clone();
        self.readers.list(move |connection| accounts::lineage(connection, &agent)).await
    }

    async fn manifest(&self, agent: &AgentId, version: u64) -> Result<Option<ManifestVersion>, StoreError> {
        let agent = agent.clone();
        self.readers.list(move |connection| accounts::manifest(connection, &agent, version)).await
    }

    async fn manifests(&self, agent: &AgentId, before: u64, limit: usize) -> Result<Vec<ManifestVersion>, StoreError> {
        let agent = agent.clone();
        self.readers.list(move |connection| accounts::manifests(connection, &agent, before, limit)).await
    }
}

#[async_trait]
impl RelationStore for SqliteStore {
    async fn relation(&self, id: &RelationId) -> Result<Option<Relation>, StoreError> {
        self.readers.point(|connection| relations::one(connection, id))
    }

    async fn relation_between(&self, person: &PersonName, agent: &AgentId) -> Result<Option<Relation>, StoreError> {
        self.readers.point(|connection| relations::between(connection, person, agent))
    }

    async fn relations_of(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError> {
        let (person, after) = (person.clone(), after.cloned());
        self.readers.list(move |connection| relations::of(connection, &person, after.as_ref(), limit)).await
    }

    async fn active_relations(&self, agent: Option<&AgentId>) -> Result<Vec<Relation>, StoreError> {
        let agent = agent.cloned();
        self.readers.list(move |connection| relations::active(connection, agent.as_ref())).await
    }

    async fn ledger(&self, relation: &RelationId, after: u64, limit: usize) -> Result<Vec<LedgerEntry>, StoreError> {
        let relation = relation.clone();
        self.readers.list(move |connection| relations::ledger(connection, &relation, after, limit)).await
    }
}

#[async_trait]
impl MailboxStore for SqliteStore {
    async fn mail(
        &self,
        recipient: &Recipient,
        after: u64,
        limit: usize,
    ) -> Result<Vec<QueuedNotification>, StoreError> {
        let few = limit.min(FEW_MAILS);
        let first = self.readers.point(|connection| mail::after(connection, recipient, after, few))?;
        if few == limit || first.len() < few {
            return Ok(first);
        }
        let recipient = recipient.clone();
        self.readers.list(move |connection| mail::after(connection, &recipient, after, limit)).await
    }

    async fn mail_head(&self, recipient: &Recipient) -> Result<u64, StoreError> {
        self.readers.point(|connection| mail::head(connection, recipient))
    }

    async fn mail_read(&self, recipient: &Recipient, reader: &str) -> Result<u64, StoreError> {
        self.readers.point(|connection| mail::read_up_to(connection, recipient, reader))
    }

    async fn is_any_mail_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        self.readers.point(|connection| mail::is_any_before(connection, time))
    }
}
