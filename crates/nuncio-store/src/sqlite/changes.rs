//! Dispatch of changes to their statements.

use nuncio_engine::ports::store::{Change, ConsentChange, RelayChange};
use rusqlite::Connection;

use super::problem::SqlError;
use super::{
    access, accounts, approvals, audit, bundles, calls, direct_messages, directory, drafts, executions, info, jobs,
    keyring, mail, nodes, people, relations, relayed, sealed, sessions, tasks, webhooks,
};

/// Applies one change in the open transaction.
pub(super) fn apply(connection: &Connection, tip: &audit::CachedAuditHead, change: &Change) -> Result<(), SqlError> {
    match change {
        Change::Session(change) => sessions::apply(connection, change),
        Change::Call(change) => calls::apply(connection, change),
        Change::Record(change) => audit::apply(connection, tip, change),
        Change::Access(change) => access::apply(connection, change),
        Change::Approval(change) => approvals::apply(connection, change),
        Change::Task(change) => tasks::apply(connection, change),
        Change::Execution(change) => executions::apply(connection, change),
        Change::Draft(change) => drafts::apply(connection, change),
        Change::DirectMessage(change) => direct_messages::apply(connection, change),
        Change::Directory(change) => directory::apply(connection, change),
        Change::Consent(change) => apply_consent(connection, change),
        Change::Relay(change) => apply_relay(connection, change),
        Change::Node(change) => nodes::apply(connection, change),
        Change::Keyring(change) => keyring::apply(connection, change),
        Change::Info(change) => info::apply(connection, change),
        Change::Sealed(change) => sealed::apply(connection, change),
        Change::Job(change) => jobs::apply(connection, change),
    }
}

fn apply_consent(connection: &Connection, change: &ConsentChange) -> Result<(), SqlError> {
    match change {
        ConsentChange::PutPerson(person) => people::put(connection, person),
        ConsentChange::CreateInvite(invite) => people::invite(connection, invite),
        ConsentChange::Enrol { invite, device } => people::enrol(connection, invite, device),
        ConsentChange::RevokeDevice { id, at } => people::revoke(connection, id, *at),
        ConsentChange::UseNonce { digest, now, kept_until } => people::use_nonce(connection, digest, *now, *kept_until),
        ConsentChange::CreateAccount { account, words } => accounts::create(connection, account, words),
        ConsentChange::UpdateAccount { account, words } => accounts::update(connection, account, words),
        ConsentChange::Publish { account, words, version, name_history } => {
            accounts::publish(connection, account, words, version, name_history)
        }
        ConsentChange::CreateRelation { relation, manifest_version } => {
            relations::create(connection, relation, *manifest_version)
        }
        ConsentChange::MoveRelation { from, relation, manifest_version } => {
            relations::move_on(connection, *from, relation, *manifest_version)
        }
        ConsentChange::AppendLedger(entry) => relations::append(connection, entry),
        ConsentChange::PutMail { recipient, at, notification } => {
            mail::put(connection, std::slice::from_ref(recipient), *at, notification)
        }
        ConsentChange::ReadMail { recipient, reader, seq } => mail::mark_read(connection, recipient, reader, *seq),
        ConsentChange::ForgetMail { before, limit } => mail::forget(connection, *before, *limit),
    }
}

fn apply_relay(connection: &Connection, change: &RelayChange) -> Result<(), SqlError> {
    match change {
        RelayChange::CreateConversation(conversation) => relayed::create(connection, conversation),
        RelayChange::UpdateConversation(conversation) => relayed::update(connection, conversation),
        RelayChange::PostMessage { conversation, revision, at, post, to } => {
            relayed::post(connection, conversation, *revision, *at, post, to)
        }
        RelayChange::ReadConversation { conversation, reader, seq } => {
            relayed::read_up_to(connection, conversation, reader, *seq)
        }
        RelayChange::ClaimMessage { place, claim } => relayed::claim(connection, place, claim),
        RelayChange::ForgetMessages { before, limit } => relayed::forget(connection, *before, *limit),
        RelayChange::PutBundle(bundle) => bundles::put(connection, bundle),
        RelayChange::EndorseBundle { id, endorsement } => bundles::endorse(connection, id, endorsement),
        RelayChange::PutOneTimeKeys { id, keys, most } => bundles::put_one_time(connection, id, keys, *most),
        RelayChange::TakeOneTimeKey { id, key_id } => bundles::take_one_time(connection, id, key_id),
        RelayChange::RemoveBundle(id) => bundles::remove(connection, id),
        RelayChange::PutBackup { person, content, at } => bundles::put_backup(connection, person, content, *at),
        RelayChange::RemoveBackup(person) => bundles::remove_backup(connection, person),
        RelayChange::PutWebhook(webhook) => webhooks::put(connection, webhook),
        RelayChange::RemoveWebhook(agent) => webhooks::remove(connection, agent),
        RelayChange::LogDelivery { agent, logged } => webhooks::log(connection, agent, logged),
        RelayChange::ForgetDeliveryLog { before, limit } => webhooks::forget_log(connection, *before, *limit),
    }
}
