//! Approvals: a call waits until a person other than its caller allows or denies it.

use futures_util::StreamExt as _;
use nuncio_core::ErrorCode;
use nuncio_core::approval::{Approval, ApprovalAnswer, ApprovalError, ApprovalQuestion, ApprovalState, Approver};
use nuncio_core::audit::references::ApprovalReference;
use nuncio_core::digest::{Digest, canonical};
use nuncio_core::execution::ExecutionFailure;
use nuncio_core::ids::{ApprovalId, Incarnation};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::call_failure::{CallRefusal, cancelled, denial};
use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::ports::bus::BusNotice;
use crate::ports::store::{ApprovalChange, ApprovalStore, Change, Conflict};

/// An approval of one call, and the change that marks it as used.
#[derive(Debug)]
pub(crate) struct ApprovalPermit {
    pub(crate) by: Principal,
    /// Change that marks the approval as used, committed together with the start of the call.
    pub(crate) redeemed: Change,
    /// Reference to the approval, for the audit record.
    pub(crate) approval: ApprovalReference,
}

/// Service for approvals: asks approvers and stores their answers.
pub struct ApprovalService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn ApprovalStore>,
}

impl ApprovalService {
    /// Stores an approval and waits until it is decided, expires, or the call is cancelled. An expired, denied or
    /// cancelled approval is the inner error; the outer error is a failure of the store.
    pub(crate) async fn ask(
        &self,
        question: ApprovalQuestion,
        approver: Approver,
        deadline: Timestamp,
        cancel: &CancellationToken,
    ) -> Result<Result<Box<ApprovalPermit>, CallRefusal>, EngineError> {
        // Subscribed before the approval is created, so that no answer is missed.
        let mut notices = self.context.bus.subscribe();
        let now = self.context.now();
        let approval = Approval {
            id: ApprovalId::parse(&self.context.random_name("apr_"))?,
            question,
            asked_of: approver,
            asked_at: now,
            expires_at: deadline.min(now.after(self.context.limits.approval)),
            state: ApprovalState::Pending,
        };
        let (id, expires_at) = (approval.id.clone(), approval.expires_at);
        let node = Some(self.context.incarnation.clone());
        let create = ApprovalChange::Create { approval, node };
        self.context.until_available(|| async { Ok(self.context.commit_one(create.clone()).await?) }).await?;
        self.context.bus.publish(BusNotice::Approvals).await;
        tracing::info!(approval = %id, "waiting for an approval: `nuncio approve list`");

        loop {
            let current = self.context.until_available(|| self.approval(&id)).await?;
            if current.state != ApprovalState::Pending {
                return Ok(self.reply(current));
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    self.context.until_available(|| self.close(current.clone())).await?;
                    return Ok(Err(CallRefusal::new("policy", cancelled())));
                }
                _ = notices.next() => {}
                () = self.context.clock.sleep_until(expires_at) => {
                    self.context.until_available(|| self.close(current.clone())).await?;
                }
                () = self.context.until_next_poll() => {}
            }
        }
    }

    fn reply(&self, approval: Approval) -> Result<Box<ApprovalPermit>, CallRefusal> {
        let approval_reference = reference(&approval);
        let no = |by: &str, code: ErrorCode, reason: Option<&str>| {
            let failure = ExecutionFailure { code, message: denial(reason) };
            Err(CallRefusal { by: by.to_owned(), failure, approval: Some(approval_reference) })
        };
        match approval.state.clone() {
            ApprovalState::Allowed { by, .. } => {
                let question = approval.question.clone();
                match approval.redeem(&question.call, &question.arguments_digest, self.context.now()) {
                    Ok(used) => Ok(Box::new(ApprovalPermit {
                        by,
                        approval: reference(&used),
                        redeemed: ApprovalChange::Move { approval: used, from: "allowed" }.into(),
                    })),
                    Err(error) => no("policy", ErrorCode::ApprovalExpired, Some(&error.to_string())),
                }
            }
            ApprovalState::Denied { by, reason, .. } => no(&by.to_string(), ErrorCode::Denied, reason.as_deref()),
            ApprovalState::Expired { .. } => {
                no("policy", ErrorCode::ApprovalExpired, Some("it was not approved in time"))
            }
            ApprovalState::Used { .. } | ApprovalState::Pending => {
                no("policy", ErrorCode::ApprovalClosed, Some("the approval was already used"))
            }
        }
    }

    /// Expires an unanswered approval. An answer that was stored first stays valid.
    async fn close(&self, approval: Approval) -> Result<(), EngineError> {
        let Ok(expired) = approval.expire(self.context.now()) else { return Ok(()) };
        let change = ApprovalChange::Move { approval: expired, from: "pending" };
        self.context.commit_one(change).await.made_unless(Conflict::ApprovalMoved)?;
        Ok(())
    }

    /// Time that a question waits for its answer.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        self.context.limits.approval
    }

    /// Lists the approvals that wait for an answer and have not expired, whoever is asked.
    pub async fn pending_approvals(&self) -> Result<Vec<Approval>, EngineError> {
        let now = self.context.now();
        let mut pending = self.store.pending_approvals().await?;
        pending.retain(|approval| approval.expires_at > now);
        Ok(pending)
    }

    /// Allows or denies a pending approval. The caller of the tool cannot decide on its own call.
    pub async fn decide_approval(
        &self,
        id: &ApprovalId,
        answer: ApprovalAnswer,
        by: Principal,
    ) -> Result<Approval, EngineError> {
        let closed = |error: &dyn std::fmt::Display| {
            EngineError::new(ErrorCode::ApprovalClosed, format!("approval {id}: {error}"))
        };
        let decided = self.approval(id).await?.decide(answer, by, self.context.now()).map_err(|error| match error {
            ApprovalError::OwnCall(_) => EngineError::new(ErrorCode::Denied, error.to_string()),
            other => closed(&other),
        })?;
        let change = ApprovalChange::Move { approval: decided.clone(), from: "pending" };
        if !self.context.commit_one(change).await.made_unless(Conflict::ApprovalMoved)? {
            return Err(closed(&Conflict::ApprovalMoved));
        }
        self.context.bus.publish(BusNotice::Approvals).await;
        Ok(decided)
    }

    /// Expires the approvals for which calls of a dead incarnation waited, and returns their number.
    pub(crate) async fn close_approvals_of(&self, node: &Incarnation) -> Result<usize, EngineError> {
        let pending = self.store.pending_approvals_of(node).await?;
        let count = pending.len();
        for approval in pending {
            self.close(approval).await?;
        }
        Ok(count)
    }

    async fn approval(&self, id: &ApprovalId) -> Result<Approval, EngineError> {
        self.store.approval(id).await?.ok_or_else(|| {
            let message = format!("there is no approval {id}; `nuncio approve list` shows the pending ones");
            EngineError::new(ErrorCode::ApprovalNotFound, message)
        })
    }
}

fn reference(approval: &Approval) -> ApprovalReference {
    ApprovalReference { hash: Digest::of_bytes(&canonical(approval)), id: approval.id.clone() }
}
