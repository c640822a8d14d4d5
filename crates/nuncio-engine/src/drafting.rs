//! Protocols made up with callers for whom nothing fits: an agent's brain writes one, machines check it, and it
//! can be used once both sides accepted that very document. Nothing in it is ever run; a call under it is a
//! message to the agent whose request and answer have a shape.

mod call;
mod think;

pub use call::DraftedCall;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::approval::{Approval, ApprovalQuestion, ApprovalState, Approver};
use nuncio_core::digest::Digest;
use nuncio_core::drafting::{Blueprint, DraftError, DraftSide, DraftState, DraftingPolicy, ProtocolDraft};
use nuncio_core::ids::{ApprovalId, CallId, DraftId, ToolName};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::{Value, json};

use crate::Engine;
use crate::access::Caller;
use crate::converse::Idempotency;
use crate::error::EngineError;
use crate::ports::bus::Notice;
use crate::ports::entropy::random_name;
use crate::ports::store::{Change, Conflict, StoreError};
use crate::publish::Served;

/// How long both sides have to accept a draft, and how long one is remembered that they did not.
const OPEN: Duration = Duration::from_secs(24 * 3600);

/// How many drafts may wait for somebody, in all and for one caller.
const MAX_OPEN: usize = 256;
const MAX_OPEN_OF_ONE: usize = 4;

/// What operators are asked under.
const ACCEPT_PROTOCOL: &str = "accept_protocol";

/// A wish for a protocol.
pub struct Drafting<'a> {
    /// Who wishes.
    pub caller: &'a Caller,
    /// Whose brain is to write it.
    pub served: &'a Arc<Served>,
    /// What the caller wants done, as they said it. To the brain it is data.
    pub wanted: Value,
    /// The protocol it is wished by.
    pub by: Protocol,
    /// The request: the same again is the same draft.
    pub once: Idempotency,
    /// The document that both sides see, from what was made up.
    pub present: &'a (dyn Fn(&DraftId, &Blueprint) -> Value + Send + Sync),
}

/// What a caller says to a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// They accept it.
    Accept,
    /// They do not want it.
    Reject,
}

impl Engine {
    /// Whether anyone here makes up protocols.
    #[must_use]
    pub fn drafts(&self) -> bool {
        self.limits().drafting != DraftingPolicy::Off
    }

    /// Whether an agent makes up protocols. Brains that only know what they were told beforehand cannot.
    #[must_use]
    pub fn can_draft(&self, served: &Served) -> bool {
        let agent = &served.agent;
        self.drafts() && agent.brain.composes() && agent.presence.conversation
    }

    /// Has an agent make up a protocol, or finds the one that the same request made. Whether our side accepts
    /// it is for the operators to say, or for their settings.
    ///
    /// # Errors
    /// What the brain wrote is no protocol, there are too many already, or the store cannot be used; nothing is
    /// kept then.
    pub async fn draft_protocol(&self, wish: Drafting<'_>) -> Result<ProtocolDraft, EngineError> {
        let Drafting { caller, served, wanted, by, once, present } = wish;
        if let Some(before) = self.drafted_before(caller, served, &once).await? {
            return Ok(before);
        }
        let open = self.store().open_drafts(MAX_OPEN).await?;
        let of_caller = open.iter().filter(|draft| draft.with == caller.principal && !is_late(draft, self.now()));
        if open.len() >= MAX_OPEN || of_caller.count() >= MAX_OPEN_OF_ONE {
            let message = "there are too many drafts that nobody has decided on; accept or reject one of them first";
            return Err(EngineError::new(Code::QueueFull, message));
        }
        let blueprint = self.think_up(caller, served, &wanted, by).await?;
        let id = DraftId::parse(&random_name(self.entropy(), "drf_"))?;
        let document = present(&id, &blueprint);
        let now = self.now();
        let mut draft = ProtocolDraft {
            agent: served.agent.name.clone(),
            with: caller.principal.clone(),
            key: once.key.clone(),
            asked: once.body,
            digest: Digest::of_json(&document),
            document,
            blueprint,
            created_at: now,
            expires_at: now.after(OPEN),
            approval: None,
            state: DraftState::Draft,
            id,
        };
        let mut changes = vec![Change::ForgetDrafts(now.before(OPEN))];
        if self.limits().drafting == DraftingPolicy::Accept {
            let digest = draft.digest;
            draft = draft.accept_for_us(&digest, Principal::Operator, now).map_err(|error| not_accepted(&error))?;
        } else {
            let approval = self.question(&draft)?;
            draft.approval = Some(approval.id.clone());
            changes.push(Change::CreateApproval(approval));
        }
        changes.push(Change::CreateDraft(Box::new(draft.clone())));
        match self.store().commit(changes).await {
            // The same request came twice at once, and the other was first.
            Err(StoreError::Conflict(Conflict::Exists)) => {
                let before = self.drafted_before(caller, served, &once).await?;
                return before.ok_or_else(|| EngineError::new(Code::Internal, "the draft's id was taken"));
            }
            other => other?,
        }
        if let Some(approval) = &draft.approval {
            self.bus().publish(Notice::Approvals).await;
            tracing::info!(%approval, draft = %draft.id, "a protocol was drafted and waits for an approval: `nuncio approve list`");
        }
        Ok(draft)
    }

    /// A draft between that agent and that caller, as it is now. To anyone else it does not exist.
    ///
    /// # Errors
    /// There is none, or the store cannot be used.
    pub async fn draft(&self, caller: &Caller, served: &Served, id: &str) -> Result<ProtocolDraft, EngineError> {
        let found = match DraftId::parse(id) {
            Ok(id) => self.store().draft(&id).await?,
            Err(_) => None,
        };
        let is_theirs = |draft: &ProtocolDraft| draft.with == caller.principal && draft.agent == served.agent.name;
        match found.filter(is_theirs) {
            Some(draft) => self.settle_draft(draft).await,
            None => {
                let message = format!(
                    "there is no protocol {:?} between you and this agent",
                    id.chars().take(64).collect::<String>()
                );
                Err(EngineError::new(Code::DraftNotFound, message))
            }
        }
    }

    /// The caller accepts or rejects a draft, by the digest of what they saw.
    ///
    /// # Errors
    /// There is no such draft, it is over, or what they saw is another document.
    pub async fn answer_draft(
        &self,
        caller: &Caller,
        served: &Served,
        id: &str,
        digest: &Digest,
        word: Word,
    ) -> Result<ProtocolDraft, EngineError> {
        let draft = self.draft(caller, served, id).await?;
        let (from, now) = (draft.state.word(), self.now());
        let mut changes = Vec::new();
        let next = match word {
            Word::Accept => draft.accept_for_them(digest, now),
            Word::Reject if draft.digest != *digest => Err(DraftError::OtherDocument),
            Word::Reject => {
                changes.extend(self.withdrawn(&draft).await?);
                draft.reject(DraftSide::Them, None, now)
            }
        };
        let next = next.map_err(|error| not_accepted(&error))?;
        if next.state.word() == from {
            return Ok(next);
        }
        changes.push(Change::MoveDraft { draft: Box::new(next.clone()), from });
        match self.store().commit(changes).await {
            // Our side said something at the same moment.
            Err(StoreError::Conflict(Conflict::DraftMoved | Conflict::ApprovalMoved)) => {
                Box::pin(self.answer_draft(caller, served, id, digest, word)).await
            }
            other => {
                other?;
                tracing::info!(draft = %next.id, state = next.state.word(), "a draft moved on");
                Ok(next)
            }
        }
    }

    async fn drafted_before(
        &self,
        caller: &Caller,
        served: &Served,
        once: &Idempotency,
    ) -> Result<Option<ProtocolDraft>, EngineError> {
        match self.store().draft_by_key(&caller.principal, &served.agent.name, &once.key).await? {
            Some(before) if before.asked != once.body => {
                let message = "this operation came before and asked for something else; use a new id for a new wish";
                Err(EngineError::new(Code::IdempotencyMismatch, message))
            }
            Some(before) => self.settle_draft(before).await.map(Some),
            None => Ok(None),
        }
    }

    /// The draft with what the operators said meanwhile, and with what time did to it.
    async fn settle_draft(&self, draft: ProtocolDraft) -> Result<ProtocolDraft, EngineError> {
        let (from, now) = (draft.state.word(), self.now());
        let asked = match draft.approval.as_ref().filter(|_| draft.state.awaits_us()) {
            Some(id) => self.store().approval(id).await?,
            None => None,
        };
        let mut changes = Vec::new();
        let (id, digest) = (draft.id.clone(), draft.digest);
        let next = match asked.as_ref().map(|approval| approval.state.clone()) {
            Some(ApprovalState::Allowed { by, .. }) => {
                let used = asked.map(|it| {
                    let question = it.question.clone();
                    it.redeem(&question.call, &question.arguments_digest, now)
                });
                match used {
                    Some(Ok(used)) => {
                        changes.push(Change::MoveApproval { approval: used, from: "allowed" });
                        draft.accept_for_us(&digest, by, now)
                    }
                    _ => Ok(draft),
                }
            }
            Some(ApprovalState::Denied { reason, .. }) => draft.reject(DraftSide::Us, reason, now),
            _ => Ok(draft),
        };
        let next = next.map_err(|error| not_accepted(&error))?.at(now);
        if next.state.word() == from {
            return Ok(next);
        }
        changes.push(Change::MoveDraft { draft: Box::new(next.clone()), from });
        match self.store().commit(changes).await {
            Ok(()) => Ok(next),
            // Somebody else was just as curious.
            Err(StoreError::Conflict(Conflict::DraftMoved | Conflict::ApprovalMoved)) => {
                self.store().draft(&id).await?.ok_or_else(|| EngineError::new(Code::DraftNotFound, "the draft is gone"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The approvals that outlive the process: those of drafts that wait.
    pub(crate) async fn lasting_approvals(&self) -> Result<HashSet<ApprovalId>, EngineError> {
        let open = self.store().open_drafts(MAX_OPEN).await?;
        let now = self.now();
        Ok(open.into_iter().filter(|draft| !is_late(draft, now)).filter_map(|draft| draft.approval).collect())
    }

    /// What the operators are asked. They see what they say yes to.
    fn question(&self, draft: &ProtocolDraft) -> Result<Approval, EngineError> {
        let arguments = json!({
            "protocol": draft.id, "digest": draft.digest, "description": draft.blueprint.description,
            "methods": draft.blueprint.methods,
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
            id: ApprovalId::parse(&random_name(self.entropy(), "apr_"))?,
            question,
            asked_of: Approver::Operators,
            asked_at: draft.created_at,
            expires_at: draft.expires_at,
            state: ApprovalState::Pending,
        })
    }

    /// The operators need not be asked any more.
    async fn withdrawn(&self, draft: &ProtocolDraft) -> Result<Option<Change>, EngineError> {
        let asked = match &draft.approval {
            Some(id) => self.store().approval(id).await?,
            None => None,
        };
        let closed = asked.and_then(|approval| approval.expire(self.now()).ok());
        Ok(closed.map(|approval| Change::MoveApproval { approval, from: "pending" }))
    }
}

fn is_late(draft: &ProtocolDraft, now: Timestamp) -> bool {
    now >= draft.expires_at
}

fn not_accepted(error: &DraftError) -> EngineError {
    EngineError::new(Code::DraftNotAccepted, error.to_string())
}
