//! Checks of what is stored after a run. The numbers are those of the promises in `docs/several-nodes.md`.

use std::path::Path;

use nuncio_core::audit::{AuditChainVerifier, AuditOutcome, AuditRecord, ChainHead};
use nuncio_core::execution::ExecutionState;
use nuncio_core::message::Message;
use nuncio_engine::ports::store::{
    ApprovalStore as _, AuditStore as _, CallStore as _, ExecutionStore as _, JobKind, JobStore as _,
    MessageStore as _, NodeStore as _, SessionStore as _, StoreError, TaskStore as _,
};
use nuncio_store::SqliteStore;

use crate::observer::Observer;

pub(crate) async fn check(file: &Path, observer: &Observer) -> Result<(), StoreError> {
    let store = SqliteStore::open(file)?;
    no_work_is_left(&store, observer).await?;
    executions_ended_once(&store, observer).await?;
    messages_are_complete(&store, observer).await?;
    audit_chain_is_complete(&store, observer).await?;
    jobs_are_done(&store, observer).await
}

/// Promise 5: all clients are done, so no incarnation has unfinished work.
async fn no_work_is_left(store: &SqliteStore, observer: &Observer) -> Result<(), StoreError> {
    for node in store.nodes().await? {
        let node = &node.incarnation;
        let left = [
            ("turns", store.running_turns(node).await?.len()),
            ("calls", store.started_calls(node).await?.len()),
            ("executions", store.unfinished_executions(node).await?.len()),
            ("approvals", store.pending_approvals_of(node).await?.len()),
            ("tasks", store.open_tasks_of(node).await?.len()),
        ];
        for (kind, count) in left {
            if count > 0 {
                observer.violation(5, format!("{count} {kind} of {node} are not finished"));
            }
        }
    }
    Ok(())
}

/// Promises 1 and 6: what was acknowledged is stored, what was seen to be over is unchanged, and each attempt has one
/// record.
async fn executions_ended_once(store: &SqliteStore, observer: &Observer) -> Result<(), StoreError> {
    let (acknowledged, ended) = {
        let seen = observer.lock();
        (seen.acknowledged.clone(), seen.ended.clone())
    };
    for id in acknowledged.values() {
        let Some(execution) = store.execution(id).await? else {
            observer.violation(1, format!("the acknowledged execution {id} is not stored"));
            continue;
        };
        if ended.get(id).is_some_and(|seen| *seen != execution) {
            observer.violation(6, format!("the ended execution {id} changed"));
        }
        let mut completed = 0;
        for attempt in 1..=execution.attempt {
            let call = nuncio_core::ids::CallId::parse(&format!("{id}.{attempt}")).expect("it is a call id");
            let records = store.audit_links_of(&call, 10).await?;
            if records.len() != 1 {
                observer.violation(6, format!("attempt {attempt} of {id} has {} records", records.len()));
            }
            for stored in records {
                let record: AuditRecord = serde_json::from_str(&stored.link.record).expect("a record is JSON");
                completed += usize::from(record.outcome == AuditOutcome::Completed);
            }
        }
        if completed != usize::from(matches!(execution.state, ExecutionState::Completed { .. })) {
            observer.violation(6, format!("{completed} attempts of {id} completed, but it is {:?}", execution.state));
        }
    }
    Ok(())
}

/// Promises 1 and 11: each acknowledged message is stored once, in order, without gaps.
async fn messages_are_complete(store: &SqliteStore, observer: &Observer) -> Result<(), StoreError> {
    let said = observer.lock().said.clone();
    for (session, expected) in said {
        let mut stored = Vec::new();
        for (number, message) in (0..).zip(store.messages(&session, 0).await?) {
            let message = message.decode()?;
            if message.number != number {
                observer.violation(11, format!("message {number} of {session} has the number {}", message.number));
            }
            if let Message::User { content, .. } = message.message {
                stored.push(content.text());
            }
        }
        if stored != expected {
            observer.violation(1, format!("{session} has the messages {stored:?} instead of {expected:?}"));
        }
    }
    Ok(())
}

/// Promises 1 and 11: what the acknowledged executions and jobs were to send has arrived, and no job is left, so no lane
/// stalls.
async fn jobs_are_done(store: &SqliteStore, observer: &Observer) -> Result<(), StoreError> {
    for kind in [JobKind::Callback, JobKind::Delivery] {
        for job in store.next_jobs(kind, usize::MAX).await? {
            observer.violation(11, format!("the {kind} {} is not done", job.key));
        }
    }
    let missing: Vec<_> = {
        let seen = observer.lock();
        let executions = seen.acknowledged.values().map(ToString::to_string);
        let expected = executions.chain(seen.jobs.acknowledged.iter().cloned());
        expected.filter(|key| !seen.jobs.arrived.contains(key)).collect()
    };
    for key in missing {
        observer.violation(1, format!("what was to be sent about {key} did not arrive"));
    }
    Ok(())
}

/// Promises 11 and 12.
async fn audit_chain_is_complete(store: &SqliteStore, observer: &Observer) -> Result<(), StoreError> {
    let mut verifier = AuditChainVerifier::after(ChainHead::START);
    for stored in store.audit_links(0, usize::MAX).await? {
        if let Err(broken) = verifier.take(&stored.link) {
            observer.violation(12, format!("the audit chain is broken: {broken}"));
            break;
        }
    }
    Ok(())
}
