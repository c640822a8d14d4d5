//! Drafted protocols: if no interface fits a caller's request, an agent's brain writes a protocol. It is validated, and
//! can be used once both sides accepted the same document. Nothing in it is executed; a call under it is a message
//! whose request and response have a schema.

mod call;
mod think;

pub use crate::protocol_draft::{
    ExpectedValidity, ProtocolDefinition, ProtocolDraft, ProtocolDraftError, ProtocolDraftSide, ProtocolDraftState,
    ProtocolDraftingPolicy, ProtocolExample, ProtocolMethod, ProtocolTestCase,
};
pub use call::DraftedProtocolCall;

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::approval::{Approval, ApprovalQuestion, ApprovalState, Approver};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{ApprovalId, CallId, DraftId, ToolName};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use serde_json::{Value, json};

use crate::access::Caller;
use crate::context::{CommitResultExt as _, EngineContext};
use crate::converse::{ConversationService, IdempotencyKey};
use crate::error::EngineError;
use crate::ports::bus::BusNotice;
use crate::ports::store::{
    ApprovalChange, ApprovalStore, Change, Conflict, ProtocolDraftChange, ProtocolDraftStore, StoreError,
};
use crate::publish::PublishedAgent;

/// Time in which both sides must accept a draft, and for which an unaccepted one is kept.
const DRAFT_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of undecided drafts of all callers.
const MAX_OPEN: usize = 256;
const MAX_OPEN_OF_ONE: usize = 4;

/// Tool name under which operators see the approval of a drafted protocol.
const ACCEPT_PROTOCOL: &str = "accept_protocol";

pub struct ProtocolDraftRequest<'a> {
    pub caller: &'a Caller,
    /// Agent whose brain writes the protocol.
    pub served: &'a Arc<PublishedAgent>,
    /// The caller's request in natural language, which the brain treats as data.
    pub wanted: Value,
    /// The protocol over which the request arrived.
    pub by: Protocol,
    /// Idempotency key of the request: a repetition returns the same draft.
    pub once: IdempotencyKey,
    /// Renders the document that both sides accept.
    pub present: &'a (dyn Fn(&DraftId, &ProtocolDefinition) -> Value + Send + Sync),
}

/// A caller's answer to a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolDraftAnswer {
    Accept,
    Reject,
}

pub struct ProtocolDraftService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn ProtocolDraftStore>,
    pub(crate) approval_store: Arc<dyn ApprovalStore>,
    pub(crate) conversations: Arc<ConversationService>,
}

impl ProtocolDraftService {
    /// Whether the operator enabled drafting of protocols.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.context.limits.drafting != ProtocolDraftingPolicy::Off
    }

    /// Whether this agent drafts protocols. Rule-based and scripted brains cannot.
    #[must_use]
    pub fn can_draft(&self, served: &PublishedAgent) -> bool {
        let agent = &served.agent;
        self.is_enabled() && agent.brain.composes() && agent.presence.conversation
    }

    /// Has an agent draft a protocol, or returns the draft of the same request. The operators or their settings accept
    /// it for this side.
    ///
    /// # Errors
    /// The brain's answer is not a valid protocol, or too many drafts are open. Nothing is stored then.
    pub async fn draft_protocol(
        self: &Arc<Self>,
        wish: ProtocolDraftRequest<'_>,
    ) -> Result<ProtocolDraft, EngineError> {
        let ProtocolDraftRequest { caller, served, wanted, by, once, present } = wish;
        if let Some(before) = self.drafted_before(caller, served, &once).await? {
            return Ok(before);
        }
        let open = self.store.open_drafts(MAX_OPEN).await?;
        let now = self.context.now();
        let of_caller = open.iter().filter(|draft| draft.with == caller.principal && now < draft.expires_at);
        if open.len() >= MAX_OPEN || of_caller.count() >= MAX_OPEN_OF_ONE {
            let message = "too many drafts are undecided; accept or reject one of them first";
            return Err(EngineError::new(ErrorCode::QueueFull, message));
        }
        let definition = self.write_definition(caller, served, &wanted, by).await?;
        let id = DraftId::parse(&self.context.random_name("drf_"))?;
        let document = present(&id, &definition);
        let now = self.context.now();
        let mut draft = ProtocolDraft {
            agent: served.agent.name.clone(),
            with: caller.principal.clone(),
            key: once.key.clone(),
            asked: once.body,
            digest: Digest::of_json(&document),
            document,
            definition,
            created_at: now,
            expires_at: now.after(DRAFT_LIFETIME),
            approval: None,
            state: ProtocolDraftState::Draft,
            id,
        };
        let mut changes = Vec::new();
        if self.context.limits.drafting == ProtocolDraftingPolicy::Accept {
            let digest = draft.digest;
            draft = draft.accept_for_us(&digest, Principal::Operator, now).map_err(|error| not_accepted(&error))?;
        } else {
            let approval = self.question(&draft)?;
            draft.approval = Some(approval.id.clone());
            changes.push(ApprovalChange::Create { approval, node: None }.into());
        }
        changes.push(ProtocolDraftChange::Create(Box::new(draft.clone())).into());
        if !self.context.commit(changes).await.made_unless(Conflict::Exists)? {
            // A concurrent copy of the same request was stored first.
            let before = self.drafted_before(caller, served, &once).await?;
            return before.ok_or_else(|| EngineError::new(ErrorCode::Internal, "the draft's id is already used"));
        }
        if let Some(approval) = &draft.approval {
            self.context.bus.publish(BusNotice::Approvals).await;
            tracing::info!(%approval, draft = %draft.id, "a protocol was drafted and waits for an approval: `nuncio approve list`");
        }
        Ok(draft)
    }

    /// Deletes drafts that expired a day ago without the acceptance of both sides.
    pub(crate) async fn forget_expired_drafts(&self) -> Result<(), EngineError> {
        let before = self.context.now().before(DRAFT_LIFETIME);
        Ok(self.context.commit_one(ProtocolDraftChange::Forget(before)).await?)
    }

    /// A draft between this agent and this caller; for anyone else it does not exist. Stores its expiry or the
    /// operators' decision if the draft does not have them yet.
    pub async fn draft(
        &self,
        caller: &Caller,
        served: &PublishedAgent,
        id: &str,
    ) -> Result<ProtocolDraft, EngineError> {
        let found = match DraftId::parse(id) {
            Ok(id) => self.store.draft(&id).await?,
            Err(_) => None,
        };
        let is_theirs = |draft: &ProtocolDraft| draft.with == caller.principal && draft.agent == served.agent.name;
        match found.filter(is_theirs) {
            Some(draft) => self.refresh_draft(draft).await,
            None => {
                let id: String = id.chars().take(64).collect();
                let message = format!("there is no protocol {id:?} between you and this agent");
                Err(EngineError::new(ErrorCode::DraftNotFound, message))
            }
        }
    }

    /// Accepts or rejects a draft for the caller, who names the digest of the document.
    pub async fn answer_draft(
        &self,
        caller: &Caller,
        served: &PublishedAgent,
        id: &str,
        digest: &Digest,
        word: ProtocolDraftAnswer,
    ) -> Result<ProtocolDraft, EngineError> {
        let draft = self.draft(caller, served, id).await?;
        let (from, now) = (draft.state.word(), self.context.now());
        let mut changes = Vec::new();
        let next = match word {
            ProtocolDraftAnswer::Accept => draft.accept_for_them(digest, now),
            ProtocolDraftAnswer::Reject if draft.digest != *digest => Err(ProtocolDraftError::OtherDocument),
            ProtocolDraftAnswer::Reject => {
                changes.extend(self.withdrawn(&draft).await?);
                draft.reject(ProtocolDraftSide::Them, None, now)
            }
        };
        let next = next.map_err(|error| not_accepted(&error))?;
        if next.state.word() == from {
            return Ok(next);
        }
        changes.push(ProtocolDraftChange::Move { draft: Box::new(next.clone()), from }.into());
        match self.context.commit(changes).await {
            // The operators decided at the same moment.
            Err(StoreError::Conflict(Conflict::DraftMoved | Conflict::ApprovalMoved)) => {
                Box::pin(self.answer_draft(caller, served, id, digest, word)).await
            }
            other => {
                other?;
                tracing::info!(draft = %next.id, state = next.state.word(), "the state of a draft changed");
                Ok(next)
            }
        }
    }

    async fn drafted_before(
        &self,
        caller: &Caller,
        served: &PublishedAgent,
        once: &IdempotencyKey,
    ) -> Result<Option<ProtocolDraft>, EngineError> {
        match self.store.draft_by_key(&caller.principal, &served.agent.name, &once.key).await? {
            Some(before) if before.asked != once.body => {
                let message = "this operation id was already used for another request; use a new id for a new request";
                Err(EngineError::new(ErrorCode::IdempotencyMismatch, message))
            }
            Some(before) => self.refresh_draft(before).await.map(Some),
            None => Ok(None),
        }
    }

    /// Updates a draft with the operators' decision and its expiry.
    async fn refresh_draft(&self, draft: ProtocolDraft) -> Result<ProtocolDraft, EngineError> {
        let (from, now) = (draft.state.word(), self.context.now());
        let asked = match draft.approval.as_ref().filter(|_| draft.state.awaits_us()) {
            Some(id) => self.approval_store.approval(id).await?,
            None => None,
        };
        let mut changes = Vec::new();
        let (id, digest) = (draft.id.clone(), draft.digest);
        let next = match asked.map(|approval| (approval.state.clone(), approval)) {
            Some((ApprovalState::Allowed { by, .. }, approval)) => {
                let question = approval.question.clone();
                match approval.redeem(&question.call, &question.arguments_digest, now) {
                    Ok(used) => {
                        changes.push(ApprovalChange::Move { approval: used, from: "allowed" }.into());
                        draft.accept_for_us(&digest, by, now)
                    }
                    Err(_) => Ok(draft),
                }
            }
            Some((ApprovalState::Denied { reason, .. }, _)) => draft.reject(ProtocolDraftSide::Us, reason, now),
            _ => Ok(draft),
        };
        let next = next.map_err(|error| not_accepted(&error))?.at(now);
        if next.state.word() == from {
            return Ok(next);
        }
        changes.push(ProtocolDraftChange::Move { draft: Box::new(next.clone()), from }.into());
        match self.context.commit(changes).await {
            Ok(()) => Ok(next),
            // Another request updated the draft first.
            Err(StoreError::Conflict(Conflict::DraftMoved | Conflict::ApprovalMoved)) => self
                .store
                .draft(&id)
                .await?
                .ok_or_else(|| EngineError::new(ErrorCode::DraftNotFound, "the draft no longer exists")),
            Err(error) => Err(error.into()),
        }
    }

    /// Approval that asks the operators to accept a draft.
    fn question(&self, draft: &ProtocolDraft) -> Result<Approval, EngineError> {
        let arguments = json!({
            "protocol": draft.id, "digest": draft.digest, "description": draft.definition.description,
            "methods": draft.definition.methods,
        });
        let question = ApprovalQuestion {
            call: CallId::parse(draft.id.as_str())?,
            arguments_digest: Digest::of_json(&arguments),
            arguments,
            caller: draft.with.clone(),
            agent: draft.agent.clone(),
            tool: ToolName::parse(ACCEPT_PROTOCOL)?,
            scope: None,
            session: None,
        };
        Ok(Approval {
            id: ApprovalId::parse(&self.context.random_name("apr_"))?,
            question,
            asked_of: Approver::Operators,
            asked_at: draft.created_at,
            expires_at: draft.expires_at,
            state: ApprovalState::Pending,
        })
    }

    /// Change that withdraws the operators' approval question.
    async fn withdrawn(&self, draft: &ProtocolDraft) -> Result<Option<Change>, EngineError> {
        let asked = match &draft.approval {
            Some(id) => self.approval_store.approval(id).await?,
            None => None,
        };
        let closed = asked.and_then(|approval| approval.expire(self.context.now()).ok());
        Ok(closed.map(|approval| ApprovalChange::Move { approval, from: "pending" }.into()))
    }
}

fn not_accepted(error: &ProtocolDraftError) -> EngineError {
    EngineError::new(ErrorCode::DraftNotAccepted, error.to_string())
}
