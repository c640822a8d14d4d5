//! Dispatch of changes to their statements.

use nuncio_engine::ports::store::{
    AccessChange, ApprovalChange, CallChange, Change, DirectMessageChange, DirectoryChange, DraftChange,
    ExecutionChange, RecordChange, SessionChange, TaskChange,
};
use rusqlite::Connection;

use super::problem::SqlProblem;
use super::{
    approvals, audit, callbacks, calls, consent, direct_messages, directory, drafts, executions, followed, forget,
    grants, idempotency, keys, messages, relay, sessions, tasks, turns,
};

/// Applies one change in the open transaction.
pub(super) fn apply(connection: &Connection, tip: &audit::AuditTip, change: &Change) -> Result<(), SqlProblem> {
    match change {
        Change::Session(change) => apply_session(connection, change),
        Change::Call(change) => apply_call(connection, change),
        Change::Record(change) => apply_record(connection, tip, change),
        Change::Access(change) => apply_access(connection, change),
        Change::Approval(change) => apply_approval(connection, change),
        Change::Task(change) => apply_task(connection, change),
        Change::Execution(change) => apply_execution(connection, change),
        Change::Draft(change) => apply_draft(connection, change),
        Change::DirectMessage(change) => apply_direct_message(connection, change),
        Change::Directory(change) => apply_directory(connection, change),
        Change::Consent(change) => consent::apply(connection, change),
        Change::Relay(change) => relay::apply(connection, change),
    }
}

fn apply_session(connection: &Connection, change: &SessionChange) -> Result<(), SqlProblem> {
    match change {
        SessionChange::Create { session, messages } => sessions::create(connection, session, messages),
        SessionChange::Delete(id) => sessions::delete(connection, id),
        SessionChange::BeginTurn { session, number, mode, protocol, at, settings } => {
            turns::begin(connection, session, *number, (*mode, *protocol), *at, settings.as_ref())
        }
        SessionChange::AppendMessage { session, turn, number, message } => {
            messages::append(connection, session, *turn, *number, message)
        }
        SessionChange::SetPending { session, pending } => sessions::set_pending(connection, session, pending),
        SessionChange::SetSummary { session, summary } => sessions::set_summary(connection, session, summary),
        SessionChange::EndTurn { session, number, at, stop, events } => {
            turns::end(connection, session, *number, *at, stop, events)
        }
        SessionChange::Remember(record) => idempotency::insert(connection, record),
        SessionChange::Prune { ids, before } => sessions::prune(connection, ids, *before),
    }
}

fn apply_call(connection: &Connection, change: &CallChange) -> Result<(), SqlProblem> {
    match change {
        CallChange::Start(call) => calls::start(connection, call),
        CallChange::Finish(key) => calls::finish(connection, key),
    }
}

fn apply_record(connection: &Connection, tip: &audit::AuditTip, change: &RecordChange) -> Result<(), SqlProblem> {
    match change {
        RecordChange::AppendCall(record) => audit::append(connection, tip, record),
        RecordChange::AppendEvent(record) => audit::append(connection, tip, record),
        RecordChange::ForgetPerson(forgotten) => forget::person(connection, forgotten),
        RecordChange::Prune { through, limit } => audit::prune(connection, *through, *limit),
    }
}

fn apply_access(connection: &Connection, change: &AccessChange) -> Result<(), SqlProblem> {
    match change {
        AccessChange::CreateKey(key) => keys::create(connection, key),
        AccessChange::RevokeKey { id, at } => keys::revoke(connection, id, *at),
        AccessChange::RotateKey { key, replaced } => keys::rotate(connection, key, replaced),
        AccessChange::CreateGrant(grant) => grants::create(connection, grant),
        AccessChange::RevokeGrant(id) => grants::revoke(connection, id),
        AccessChange::UseGrant(id) => grants::use_up(connection, id),
        AccessChange::LinkPerson(link) => direct_messages::link(connection, link),
        AccessChange::UnlinkPerson(principal) => direct_messages::unlink(connection, principal),
    }
}

fn apply_approval(connection: &Connection, change: &ApprovalChange) -> Result<(), SqlProblem> {
    match change {
        ApprovalChange::Create(approval) => approvals::create(connection, approval),
        ApprovalChange::Move { approval, from } => approvals::move_on(connection, approval, from),
    }
}

fn apply_task(connection: &Connection, change: &TaskChange) -> Result<(), SqlProblem> {
    match change {
        TaskChange::Create(task) => tasks::create(connection, task),
        TaskChange::Move { from, to } => tasks::move_on(connection, from, to),
    }
}

fn apply_execution(connection: &Connection, change: &ExecutionChange) -> Result<(), SqlProblem> {
    match change {
        ExecutionChange::Create { execution, lease, idempotency, call } => {
            executions::create(connection, execution, lease, idempotency.as_ref(), call.as_ref())
        }
        ExecutionChange::Claim { id, attempt, from, lease } => executions::claim(connection, id, *attempt, from, lease),
        ExecutionChange::Start { id, owner, attempt, at, call } => {
            executions::start(connection, id, (owner, *attempt), *at, call.as_ref())
        }
        ExecutionChange::MarkStarted { id, owner, attempt } => {
            executions::mark_started(connection, id, owner, *attempt)
        }
        ExecutionChange::FinishAttempt { id, owner, attempt, started } => {
            executions::finish_attempt(connection, id, (owner, *attempt), *started)
        }
        ExecutionChange::End { id, owner, attempt, state, at, kept_until } => {
            executions::end(connection, id, (owner, *attempt), state, *at, *kept_until)
        }
        ExecutionChange::RenewLeases(lease) => executions::renew(connection, lease),
        ExecutionChange::Forget { at, limit } => executions::forget(connection, *at, *limit),
        ExecutionChange::PutCallback(callback) => callbacks::put(connection, callback),
        ExecutionChange::RemoveCallback(execution) => callbacks::remove(connection, execution),
    }
}

fn apply_draft(connection: &Connection, change: &DraftChange) -> Result<(), SqlProblem> {
    match change {
        DraftChange::Create(draft) => drafts::create(connection, draft),
        DraftChange::Move { draft, from } => drafts::move_on(connection, draft, from),
        DraftChange::Forget(before) => drafts::forget(connection, *before),
    }
}

fn apply_direct_message(connection: &Connection, change: &DirectMessageChange) -> Result<(), SqlProblem> {
    match change {
        DirectMessageChange::PutPendingReply(reply) => direct_messages::owe(connection, reply),
        DirectMessageChange::RemovePendingReply(id) => direct_messages::settle(connection, id),
        DirectMessageChange::Create(message) => direct_messages::create(connection, message),
        DirectMessageChange::Answer { agent, id, from, answer } => {
            direct_messages::answer(connection, agent, id, from, answer)
        }
        DirectMessageChange::Forget(before) => direct_messages::forget(connection, *before),
    }
}

fn apply_directory(connection: &Connection, change: &DirectoryChange) -> Result<(), SqlProblem> {
    match change {
        DirectoryChange::Follow(domain) => followed::create(connection, domain),
        DirectoryChange::UpdateFollowed { followed: domain, offers } => {
            followed::update(connection, domain, offers.as_deref())
        }
        DirectoryChange::Unfollow(domain) => followed::remove(connection, domain),
        DirectoryChange::PutListing { entry, description } => directory::put(connection, entry, description),
        DirectoryChange::UpdateListing(entry) => directory::update(connection, entry),
        DirectoryChange::RemoveListing(id) => directory::remove(connection, id),
    }
}
