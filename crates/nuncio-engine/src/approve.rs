//! Approvals: a question is put to someone who is not the caller, and the call waits.

use futures_util::StreamExt as _;
use nuncio_core::Code;
use nuncio_core::approval::{Approval, ApprovalAnswer, ApprovalError, ApprovalQuestion, ApprovalState, Approver};
use nuncio_core::audit::references::ApprovalReference;
use nuncio_core::digest::{Digest, canonical};
use nuncio_core::ids::ApprovalId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::Engine;
use crate::call::{ExecutionFailure, cancelled, denial};
use crate::error::EngineError;
use crate::ports::bus::Notice;
use crate::ports::entropy::random_name;
use crate::ports::store::{Change, Conflict, StoreError};

/// A yes for one call, and the change that uses it up.
#[derive(Debug)]
pub(crate) struct Permit {
    /// Who said yes.
    pub(crate) by: Principal,
    /// Committed together with the start of the call.
    pub(crate) redeemed: Change,
    /// For the record of the call.
    pub(crate) approval: ApprovalReference,
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Yes.
    Yes(Box<Permit>),
    /// No, or no answer.
    No {
        /// Who said so.
        by: String,
        /// What the caller is told.
        failure: ExecutionFailure,
        /// For the record of the call.
        approval: Option<ApprovalReference>,
    },
}

impl Engine {
    /// Asks, and waits for the answer, the expiry or the end of the call.
    pub(crate) async fn ask(
        &self,
        question: ApprovalQuestion,
        approver: Approver,
        deadline: Timestamp,
        cancel: &CancellationToken,
    ) -> Result<Reply, EngineError> {
        // Listening before asking, so that no answer is missed.
        let mut notices = self.bus().subscribe();
        let now = self.now();
        let approval = Approval {
            id: ApprovalId::parse(&random_name(self.entropy(), "apr_"))?,
            question,
            asked_of: approver,
            asked_at: now,
            expires_at: deadline.min(now.after(self.limits().approval)),
            state: ApprovalState::Pending,
        };
        let (id, expires_at) = (approval.id.clone(), approval.expires_at);
        self.store().commit(vec![Change::CreateApproval(approval)]).await?;
        self.bus().publish(Notice::Approvals).await;
        tracing::info!(approval = %id, "waiting for an approval: `nuncio approve list`");

        loop {
            let current = self.approval(&id).await?;
            if current.state != ApprovalState::Pending {
                return Ok(self.reply(current));
            }
            tokio::select! {
                _ = notices.next() => {}
                () = self.clock().sleep_until(expires_at) => self.close(current).await?,
                () = cancel.cancelled() => {
                    self.close(current).await?;
                    return Ok(Reply::No { by: "policy".to_owned(), failure: cancelled(), approval: None });
                }
            }
        }
    }

    fn reply(&self, approval: Approval) -> Reply {
        let approval_reference = reference(&approval);
        let no = |by: String, code: Code, message: String| Reply::No {
            by,
            failure: ExecutionFailure { code, message },
            approval: Some(approval_reference),
        };
        match approval.state.clone() {
            ApprovalState::Allowed { by, .. } => {
                let question = approval.question.clone();
                match approval.redeem(&question.call, &question.arguments_digest, self.now()) {
                    Ok(used) => Reply::Yes(Box::new(Permit {
                        by,
                        approval: reference(&used),
                        redeemed: Change::MoveApproval { approval: used, from: "allowed" },
                    })),
                    Err(error) => no("policy".into(), Code::ApprovalExpired, denial(Some(&error.to_string()))),
                }
            }
            ApprovalState::Denied { by, reason, .. } => no(by.to_string(), Code::Denied, denial(reason.as_deref())),
            ApprovalState::Expired { .. } => {
                no("policy".into(), Code::ApprovalExpired, denial(Some("nobody approved it in time")))
            }
            ApprovalState::Used { .. } | ApprovalState::Pending => {
                no("policy".into(), Code::ApprovalClosed, denial(Some("the approval was already used")))
            }
        }
    }

    /// Closes a question that nobody answered. An answer that came at the last moment wins.
    async fn close(&self, approval: Approval) -> Result<(), EngineError> {
        let Ok(expired) = approval.expire(self.now()) else { return Ok(()) };
        match self.store().commit(vec![Change::MoveApproval { approval: expired, from: "pending" }]).await {
            Err(StoreError::Conflict(Conflict::ApprovalMoved)) => Ok(()),
            other => Ok(other?),
        }
    }

    /// The questions that wait for the operators.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn pending_approvals(&self) -> Result<Vec<Approval>, EngineError> {
        let now = self.now();
        let mut pending = self.store().pending_approvals().await?;
        pending.retain(|approval| approval.expires_at > now);
        Ok(pending)
    }

    /// Answers a question.
    ///
    /// # Errors
    /// There is no such question, it is closed, or the one who answers made the call.
    pub async fn decide_approval(
        &self,
        id: &ApprovalId,
        answer: ApprovalAnswer,
        by: Principal,
    ) -> Result<Approval, EngineError> {
        let closed =
            |error: &dyn std::fmt::Display| EngineError::new(Code::ApprovalClosed, format!("approval {id}: {error}"));
        let decided = self.approval(id).await?.decide(answer, by, self.now()).map_err(|error| match error {
            ApprovalError::OwnCall(_) => EngineError::new(Code::Denied, error.to_string()),
            other => closed(&other),
        })?;
        match self.store().commit(vec![Change::MoveApproval { approval: decided.clone(), from: "pending" }]).await {
            Err(StoreError::Conflict(conflict @ Conflict::ApprovalMoved)) => return Err(closed(&conflict)),
            other => other?,
        }
        self.bus().publish(Notice::Approvals).await;
        Ok(decided)
    }

    /// Closes every question left over by a process that is gone: the calls went with it. What was asked about
    /// protocols still is.
    pub(crate) async fn close_stale_approvals(&self) -> Result<usize, EngineError> {
        let lasting = self.lasting_approvals().await?;
        let mut stale = self.store().pending_approvals().await?;
        stale.retain(|approval| !lasting.contains(&approval.id));
        let count = stale.len();
        for approval in stale {
            self.close(approval).await?;
        }
        Ok(count)
    }

    async fn approval(&self, id: &ApprovalId) -> Result<Approval, EngineError> {
        self.store().approval(id).await?.ok_or_else(|| {
            let message = format!("there is no approval {id}; `nuncio approve list` shows those that wait");
            EngineError::new(Code::ApprovalNotFound, message)
        })
    }
}

fn reference(approval: &Approval) -> ApprovalReference {
    ApprovalReference { hash: Digest::of_bytes(&canonical(approval)), id: approval.id.clone() }
}
