//! Delivers agents' replies to remote senders.

use async_trait::async_trait;
use nuncio_engine::EngineError;
use nuncio_engine::direct_messages::DirectReplyState;
use nuncio_engine::jobs::JobHandler;
use nuncio_engine::ports::store::{ClaimedJob, PendingReply};

use super::{AnpServerState, OutgoingDirectMessage};

#[async_trait]
impl JobHandler for AnpServerState {
    async fn run(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        let messages = self.engine.direct_messages();
        let Some(reply) = messages.pending_reply(job).await? else { return Ok(()) };
        match messages.reply_content(&reply).await? {
            DirectReplyState::Nothing => messages.remove_pending_reply(job).await,
            DirectReplyState::NotYet => messages.postpone_pending_reply(job).await,
            DirectReplyState::Text(text) => self.deliver_text(job, &reply, text).await,
        }
    }
}

impl AnpServerState {
    async fn deliver_text(&self, job: &ClaimedJob, reply: &PendingReply, text: String) -> Result<(), EngineError> {
        let messages = self.engine.direct_messages();
        let Err(failed) = self.send(&OutgoingDirectMessage::answer(reply, text)).await else {
            return messages.remove_pending_reply(job).await;
        };
        let (to, why) = (&reply.to, failed.why);
        let again = match failed.later {
            true => messages.retry_pending_reply(job).await?,
            false => {
                messages.remove_pending_reply(job).await?;
                None
            }
        };
        match again {
            Some(again) => tracing::info!(to, why, %again, "an answer could not be sent"),
            None => tracing::warn!(to, why, "an answer could not be sent; it is in the conversation"),
        }
        Ok(())
    }
}
