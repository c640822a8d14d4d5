//! Implementation of the store traits by their statements.

use async_trait::async_trait;
use nuncio_core::approval::Approval;
use nuncio_core::audit::{ChainHead, ChainLink};
use nuncio_core::digest::Digest;
use nuncio_core::execution::{CallAuthorization, Execution, ExecutionLease};
use nuncio_core::grant::Grant;
use nuncio_core::ids::{AgentName, ApprovalId, CallId, DraftId, ExecutionId, RelationId, SessionId, SkillId, TaskId};
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;
use nuncio_core::task::Task;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::Turn;
use nuncio_engine::directory::DirectoryListing;
use nuncio_engine::drafting::ProtocolDraft;
use nuncio_engine::follow::{Domain, FollowedDomain};
use nuncio_engine::ports::store::{
    AccessStore, ApiKey, ApprovalStore, AuditStore, CallStore, Change, DirectMessageStore, DirectoryStore, DraftStore,
    ExecutionCallback, ExecutionStore, IdempotencyRecord, PendingReply, PersonLink, RedactedLedgerEntry,
    SentDirectMessage, SessionCursor, SessionStore, StartedCall, Store, StoreCheck, StoreError, StoredMessage,
    TaskStore,
};
use tokio::sync::watch;

use super::{
    SqliteStore, approvals, audit, callbacks, calls, check, direct_messages, directory, drafts, executions, followed,
    forget, grants, idempotency, keys, messages, sessions, tasks, turns,
};

/// Number of messages up to which a history is read on the calling thread.
const SHORT_HISTORY: usize = 32;

#[async_trait]
impl SessionStore for SqliteStore {
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.readers.point(|connection| sessions::one(connection, id))
    }

    async fn sessions(
        &self,
        owner: &Principal,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let (owner, after) = (owner.clone(), after.cloned());
        self.readers.list(move |connection| sessions::of(connection, &owner, after.as_ref(), limit)).await
    }

    async fn messages(&self, session: &SessionId, from: u64) -> Result<Vec<StoredMessage>, StoreError> {
        let short = self.readers.point(|connection| messages::of_short(connection, session, from, SHORT_HISTORY))?;
        if let Some(messages) = short {
            return Ok(messages);
        }
        let session = session.clone();
        self.readers.list(move |connection| messages::of(connection, &session, from)).await
    }

    async fn turn(&self, session: &SessionId, number: u64) -> Result<Option<Turn>, StoreError> {
        self.readers.point(|connection| turns::one(connection, session, number))
    }

    async fn turn_events(&self, session: &SessionId, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let session = session.clone();
        self.readers.list(move |connection| turns::events(connection, &session, number)).await
    }

    async fn idle_sessions(&self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.readers.list(move |connection| sessions::idle(connection, before, limit)).await
    }

    async fn running_turns(&self) -> Result<Vec<Turn>, StoreError> {
        self.readers.list(turns::running).await
    }

    async fn idempotency_record(
        &self,
        owner: &Principal,
        request: &str,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.readers.point(|connection| idempotency::one(connection, owner, request, key))
    }
}

#[async_trait]
impl AccessStore for SqliteStore {
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.readers.list(keys::all).await
    }

    async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.readers.list(grants::all).await
    }

    async fn links(&self) -> Result<Vec<PersonLink>, StoreError> {
        self.readers.list(direct_messages::links).await
    }
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit_links(&self, after: u64, limit: usize) -> Result<Vec<ChainLink>, StoreError> {
        self.readers.list(move |connection| audit::links(connection, after, limit)).await
    }

    async fn audit_links_of(&self, call: &CallId, limit: usize) -> Result<Vec<ChainLink>, StoreError> {
        let call = call.clone();
        self.readers.list(move |connection| audit::links_of(connection, &call, limit)).await
    }

    async fn audit_head(&self) -> Result<ChainHead, StoreError> {
        self.readers.point(audit::head)
    }

    fn audit_growth(&self) -> watch::Receiver<u64> {
        self.writer.audit_growth()
    }

    async fn erased_ledger(&self, relation: Option<&RelationId>) -> Result<Vec<RedactedLedgerEntry>, StoreError> {
        let relation = relation.cloned();
        self.readers.list(move |connection| forget::erased(connection, relation.as_ref())).await
    }
}

#[async_trait]
impl ExecutionStore for SqliteStore {
    async fn execution(&self, id: &ExecutionId) -> Result<Option<Execution>, StoreError> {
        self.readers.point(|connection| executions::one(connection, id))
    }

    async fn execution_by_key(
        &self,
        caller: &Principal,
        skill: &SkillId,
        key: &str,
    ) -> Result<Option<(ExecutionId, Digest)>, StoreError> {
        self.readers.point(|connection| executions::by_key(connection, caller, skill, key))
    }

    async fn unfinished_executions(&self) -> Result<Vec<(Execution, ExecutionLease)>, StoreError> {
        self.readers.list(executions::unfinished).await
    }

    async fn is_any_execution_to_forget(&self, at: Timestamp) -> Result<bool, StoreError> {
        self.readers.point(|connection| executions::is_any_to_forget(connection, at))
    }

    async fn callbacks(&self, until: Timestamp, limit: usize) -> Result<Vec<ExecutionCallback>, StoreError> {
        self.readers.list(move |connection| callbacks::first(connection, until, limit)).await
    }
}

#[async_trait]
impl DirectoryStore for SqliteStore {
    async fn followed(&self) -> Result<Vec<FollowedDomain>, StoreError> {
        self.readers.list(followed::every).await
    }

    async fn followed_domain(&self, domain: &Domain) -> Result<Option<(FollowedDomain, Option<String>)>, StoreError> {
        let domain = domain.clone();
        self.readers.list(move |connection| followed::one(connection, &domain)).await
    }

    async fn directory(&self) -> Result<Vec<(DirectoryListing, String)>, StoreError> {
        self.readers.list(directory::every).await
    }
}

#[async_trait]
impl DirectMessageStore for SqliteStore {
    async fn pending_replies(&self, until: Timestamp, limit: usize) -> Result<Vec<PendingReply>, StoreError> {
        self.readers.list(move |connection| direct_messages::owed(connection, until, limit)).await
    }

    async fn direct_message(&self, agent: &AgentName, id: &str) -> Result<Option<SentDirectMessage>, StoreError> {
        self.readers.point(|connection| direct_messages::one(connection, agent, id))
    }
}

#[async_trait]
impl ApprovalStore for SqliteStore {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.readers.point(|connection| approvals::one(connection, id))
    }

    async fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        self.readers.list(approvals::pending).await
    }
}

#[async_trait]
impl CallStore for SqliteStore {
    async fn started_calls(&self) -> Result<Vec<StartedCall>, StoreError> {
        self.readers.list(calls::all).await
    }

    async fn begun_calls(&self) -> Result<Vec<(Execution, ExecutionLease, CallAuthorization)>, StoreError> {
        self.readers.list(executions::begun).await
    }
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        self.readers.point(|connection| tasks::one(connection, id))
    }

    async fn open_tasks(&self, limit: usize) -> Result<Vec<Task>, StoreError> {
        self.readers.list(move |connection| tasks::open(connection, limit)).await
    }
}

#[async_trait]
impl DraftStore for SqliteStore {
    async fn draft(&self, id: &DraftId) -> Result<Option<ProtocolDraft>, StoreError> {
        self.readers.point(|connection| drafts::one(connection, id))
    }

    async fn draft_by_key(
        &self,
        with: &Principal,
        agent: &AgentName,
        key: &str,
    ) -> Result<Option<ProtocolDraft>, StoreError> {
        self.readers.point(|connection| drafts::by_key(connection, with, agent, key))
    }

    async fn open_drafts(&self, limit: usize) -> Result<Vec<ProtocolDraft>, StoreError> {
        self.readers.list(move |connection| drafts::open(connection, limit)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.writer.commit(changes).await
    }

    async fn bytes_stored(&self, owner: &Principal) -> Result<u64, StoreError> {
        self.readers.point(|connection| executions::bytes_stored(connection, owner))
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.writer.check().await
    }

    async fn check(&self) -> Result<StoreCheck, StoreError> {
        let path = self.path.clone();
        let checked = tokio::task::spawn_blocking(move || check::full(&path)).await;
        checked.map_err(|error| StoreError::Unavailable(format!("the check was given up: {error}")))?
    }

    async fn compact(&self) -> Result<(), StoreError> {
        self.writer.compact().await
    }

    fn queued(&self) -> usize {
        self.writer.queued()
    }
}
