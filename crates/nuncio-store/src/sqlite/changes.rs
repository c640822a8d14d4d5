//! Dispatch of changes to their statements.

use nuncio_engine::ports::store::Change;
use rusqlite::Connection;

use super::problem::SqlProblem;
use super::{
    approvals, audit, callbacks, calls, consent, direct_messages, directory, drafts, executions, followed, forget,
    grants, idempotency, keys, messages, relay, sessions, tasks, turns,
};

/// Applies one change in the open transaction.
pub(super) fn apply(connection: &Connection, tip: &audit::AuditTip, change: &Change) -> Result<(), SqlProblem> {
    match change {
        Change::CreateSession { session, messages } => sessions::create(connection, session, messages),
        Change::DeleteSession(id) => sessions::delete(connection, id),
        Change::BeginTurn { session, number, mode, protocol, at, settings } => {
            turns::begin(connection, session, *number, (*mode, *protocol), *at, settings.as_ref())
        }
        Change::AppendMessage { session, turn, number, message } => {
            messages::append(connection, session, *turn, *number, message)
        }
        Change::SetPending { session, pending } => sessions::set_pending(connection, session, pending),
        Change::SetSummary { session, summary } => sessions::set_summary(connection, session, summary),
        Change::EndTurn { session, number, at, stop, events } => {
            turns::end(connection, session, *number, *at, stop, events)
        }
        Change::Remember(record) => idempotency::insert(connection, record),
        Change::StartCall { key, record, place } => calls::start(connection, key, record, place.as_ref()),
        Change::FinishCall(key) => calls::finish(connection, key),
        Change::Audit(record) => audit::append(connection, tip, record),
        Change::ForgetPerson(forgotten) => forget::person(connection, forgotten),
        Change::PruneAudit { through, limit } => audit::prune(connection, *through, *limit),
        Change::PruneSessions { ids, before } => sessions::prune(connection, ids, *before),
        Change::CreateKey(key) => keys::create(connection, key),
        Change::RevokeKey { id, at } => keys::revoke(connection, id, *at),
        Change::RotateKey { key, replaced } => keys::rotate(connection, key, replaced),
        Change::CreateGrant(grant) => grants::create(connection, grant),
        Change::RevokeGrant(id) => grants::revoke(connection, id),
        Change::UseGrant(id) => grants::use_up(connection, id),
        Change::CreateApproval(approval) => approvals::create(connection, approval),
        Change::MoveApproval { approval, from } => approvals::move_on(connection, approval, from),
        Change::CreateExecution { execution, lease, idempotency, call } => {
            executions::create(connection, execution, lease, idempotency.as_ref(), call.as_ref())
        }
        Change::ClaimExecution { id, attempt, from, lease } => executions::claim(connection, id, *attempt, from, lease),
        Change::StartExecution { id, owner, attempt, at, call } => {
            executions::start(connection, id, (owner, *attempt), *at, call.as_ref())
        }
        Change::MarkStarted { id, owner, attempt } => executions::mark_started(connection, id, owner, *attempt),
        Change::FinishAttempt { id, owner, attempt, started } => {
            executions::finish_attempt(connection, id, (owner, *attempt), *started)
        }
        Change::EndExecution { id, owner, attempt, state, at, kept_until } => {
            executions::end(connection, id, (owner, *attempt), state, *at, *kept_until)
        }
        Change::RenewLeases(lease) => executions::renew(connection, lease),
        Change::ForgetExecutions { at, limit } => executions::forget(connection, *at, *limit),
        Change::PutCallback(callback) => callbacks::put(connection, callback),
        Change::RemoveCallback(execution) => callbacks::remove(connection, execution),
        Change::CreateTask(task) => tasks::create(connection, task),
        Change::MoveTask { from, to } => tasks::move_on(connection, from, to),
        Change::CreateDraft(draft) => drafts::create(connection, draft),
        Change::MoveDraft { draft, from } => drafts::move_on(connection, draft, from),
        Change::ForgetDrafts(before) => drafts::forget(connection, *before),
        Change::PutPendingReply(owed) => direct_messages::owe(connection, owed),
        Change::RemovePendingReply(id) => direct_messages::settle(connection, id),
        Change::CreateDirectMessage(letter) => direct_messages::create(connection, letter),
        Change::AnswerDirectMessage { agent, id, from, answer } => {
            direct_messages::answer(connection, agent, id, from, answer)
        }
        Change::ForgetDirectMessages(before) => direct_messages::forget(connection, *before),
        Change::LinkPerson(link) => direct_messages::link(connection, link),
        Change::UnlinkPerson(principal) => direct_messages::unlink(connection, principal),
        Change::Follow(domain) => followed::create(connection, domain),
        Change::UpdateFollowed { followed: domain, offers } => followed::update(connection, domain, offers.as_deref()),
        Change::Unfollow(domain) => followed::remove(connection, domain),
        Change::PutListing { entry, description } => directory::put(connection, entry, description),
        Change::UpdateListing(entry) => directory::update(connection, entry),
        Change::RemoveListing(id) => directory::remove(connection, id),
        Change::Consent(change) => consent::apply(connection, tip, change),
        Change::Relay(change) => relay::apply(connection, change),
    }
}
