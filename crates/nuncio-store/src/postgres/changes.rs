//! Dispatch of changes to their statements.

use nuncio_engine::ports::store::{Change, ConsentChange, RelayChange};

use super::writes::{Translated, Writes};
use super::{
    access, accounts, approvals, audit, bundles, calls, direct_messages, directory, drafts, executions, info, jobs,
    keyring, mail, nodes, people, relations, relayed, sealed, sessions, tasks, webhooks,
};

/// Appends the statements of one change.
pub(super) fn translate(change: &Change, head: &mut audit::LaneAuditHead, out: &mut Writes) -> Translated {
    match change {
        Change::Session(change) => sessions::translate(change, out),
        Change::Call(change) => calls::translate(change, out),
        Change::Record(change) => audit::translate(change, head, out),
        Change::Access(change) => access::translate(change, out),
        Change::Approval(change) => approvals::translate(change, out),
        Change::Task(change) => tasks::translate(change, out),
        Change::Execution(change) => executions::translate(change, out),
        Change::Draft(change) => drafts::translate(change, out),
        Change::DirectMessage(change) => direct_messages::translate(change, out),
        Change::Directory(change) => directory::translate(change, out),
        Change::Consent(change) => translate_consent(change, out),
        Change::Relay(change) => translate_relay(change, out),
        Change::Node(change) => nodes::translate(change, out),
        Change::Sealed(change) => sealed::translate(change, out),
        Change::Keyring(change) => keyring::translate(change, out),
        Change::Info(change) => info::translate(change, out),
        Change::Job(change) => jobs::translate(change, out),
    }
}

fn translate_consent(change: &ConsentChange, out: &mut Writes) -> Translated {
    match change {
        ConsentChange::PutPerson(person) => people::put(person, out),
        ConsentChange::CreateInvite(invite) => people::invite(invite, out),
        ConsentChange::Enrol { invite, device } => people::enrol(invite, device, out),
        ConsentChange::RevokeDevice { id, at } => people::revoke(id, *at, out),
        ConsentChange::UseNonce { digest, now, kept_until } => people::use_nonce(digest, *now, *kept_until, out),
        ConsentChange::CreateAccount { account, words } => accounts::create(account, words, out),
        ConsentChange::UpdateAccount { account, words } => accounts::update(account, words, out),
        ConsentChange::Publish { account, words, version, name_history } => {
            accounts::publish(account, words, version, name_history, out)
        }
        ConsentChange::CreateRelation { relation, manifest_version } => {
            relations::create(relation, *manifest_version, out)
        }
        ConsentChange::MoveRelation { from, relation, manifest_version } => {
            relations::move_on(*from, relation, *manifest_version, out)
        }
        ConsentChange::AppendLedger(entry) => relations::append(entry, out),
        ConsentChange::PutMail { recipient, at, notification } => {
            mail::put(std::slice::from_ref(recipient), *at, notification, out)
        }
        ConsentChange::ReadMail { recipient, reader, seq } => mail::mark_read(recipient, reader, *seq, out),
        ConsentChange::ForgetMail { before, limit } => mail::forget(*before, *limit, out),
    }
}

fn translate_relay(change: &RelayChange, out: &mut Writes) -> Translated {
    match change {
        RelayChange::CreateConversation(conversation) => relayed::create(conversation, out),
        RelayChange::UpdateConversation(conversation) => relayed::update(conversation, out),
        RelayChange::PostMessage { conversation, revision, at, post, to } => {
            relayed::post(conversation, *revision, *at, post, to, out)
        }
        RelayChange::ReadConversation { conversation, reader, seq } => {
            relayed::read_up_to(conversation, reader, *seq, out)
        }
        RelayChange::ClaimMessage { place, claim } => relayed::claim(place, claim, out),
        RelayChange::ForgetMessages { before, limit } => relayed::forget(*before, *limit, out),
        RelayChange::PutBundle(bundle) => bundles::put(bundle, out),
        RelayChange::EndorseBundle { id, endorsement } => bundles::endorse(id, endorsement, out),
        RelayChange::PutOneTimeKeys { id, keys, most } => bundles::put_one_time(id, keys, *most, out),
        RelayChange::TakeOneTimeKey { id, key_id } => bundles::take_one_time(id, key_id, out),
        RelayChange::RemoveBundle(id) => bundles::remove(id, out),
        RelayChange::PutBackup { person, content, at } => bundles::put_backup(person, content, *at, out),
        RelayChange::RemoveBackup(person) => bundles::remove_backup(person, out),
        RelayChange::PutWebhook(webhook) => webhooks::put(webhook, out),
        RelayChange::RemoveWebhook(agent) => webhooks::remove(agent, out),
        RelayChange::LogDelivery { agent, logged } => webhooks::log(agent, logged, out),
        RelayChange::ForgetDeliveryLog { before, limit } => webhooks::forget_log(*before, *limit, out),
    }
}
