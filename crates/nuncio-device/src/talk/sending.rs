//! Outgoing messages of the person. Each is stored before it is sent, is sent once even if it is submitted again, and
//! is retried until the relay accepts or refuses it.

use std::sync::Arc;
use std::time::Duration;

use nuncio_a2h::peer::SentMessageConfirmation;
use nuncio_core::ErrorCode;
use nuncio_core::backoff::Backoff;
use nuncio_core::conversation::ContentType;
use nuncio_core::ids::{AgentId, ClientMessageId};
use nuncio_core::notification::RelayParty;
use nuncio_engine::ports::entropy::timed_name;
use serde_json::json;

use super::chat_store::{self, AgentChatState, UnsentMessage};
use super::{
    AgentMessageService, ChatContent, ChatMessageBatch, MAX_TEXT, MAX_UNSENT, MessageDeliveryState, MessagePosition,
    StoredChatMessage, sanitise,
};
use crate::device_events::DeviceEvent;
use crate::error::DeviceError;
use crate::record_store::RecordStore;

/// How long sending is retried before a message counts as failed.
const SEND_RETRY_TIME: Duration = Duration::from_secs(24 * 3600);

const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30));

impl AgentMessageService {
    /// The last `limit` messages before a position, oldest first; without a position, the latest and then the unsent.
    pub fn page(
        &self,
        agent: &AgentId,
        before: Option<MessagePosition>,
        limit: usize,
    ) -> Result<ChatMessageBatch, DeviceError> {
        Ok(chat_store::read(&self.context.records, agent, before, limit)?)
    }

    /// Creates the client message id of the next message.
    pub fn new_id(&self) -> Result<ClientMessageId, DeviceError> {
        let name = timed_name(self.context.entropy(), "m_", self.context.now());
        ClientMessageId::parse(&name).map_err(|why| DeviceError::new(ErrorCode::Internal, why.to_string()))
    }

    /// Stores a message to an agent and queues it for sending; the same client message id is sent only once.
    ///
    /// # Errors
    /// The text is empty or too long, or too many messages are unsent.
    pub fn send(self: &Arc<Self>, agent: &AgentId, client_id: &ClientMessageId, text: &str) -> Result<(), DeviceError> {
        let (text, cut) = sanitise(text.trim_end());
        if cut {
            let message = format!("a message has at most {} KB: split it", MAX_TEXT / 1024);
            return Err(DeviceError::new(ErrorCode::BodyTooLarge, message));
        }
        if text.trim().is_empty() {
            return Err(DeviceError::new(ErrorCode::BadRequest, "the message is empty"));
        }
        {
            let _lock = self.context.state_lock();
            let records = &self.context.records;
            let waiting = chat_store::unsent(records, agent)?;
            if chat_store::was_sent(records, agent, client_id)? || waiting.iter().any(|(known, _)| known == client_id) {
                return Ok(());
            }
            if waiting.len() >= MAX_UNSENT {
                let message = format!("{MAX_UNSENT} messages are unsent: retry or delete them first");
                return Err(DeviceError::new(ErrorCode::LimitReached, message));
            }
            let mut summary = AgentChatState::load(records, agent)?;
            summary.begun = true;
            let unsent = UnsentMessage { text, at: self.context.now(), state: MessageDeliveryState::Sending };
            let name = chat_store::unsent_name(agent, client_id);
            records.save(vec![RecordStore::put(&name, &unsent), summary.put(agent)])?;
        }
        self.context.notify(DeviceEvent::Talk { agent: agent.clone() });
        self.spawn_delivery(agent.clone(), client_id.clone());
        Ok(())
    }

    pub fn retry(self: &Arc<Self>, agent: &AgentId, client_id: &ClientMessageId) -> Result<(), DeviceError> {
        let failed = |state: &MessageDeliveryState| matches!(state, MessageDeliveryState::Failed { .. });
        if self.set_delivery_state(agent, client_id, failed, MessageDeliveryState::Sending)? {
            self.spawn_delivery(agent.clone(), client_id.clone());
        }
        Ok(())
    }

    /// Deletes a message whose sending failed; a message that is still being sent is not deleted.
    pub fn delete_failed(&self, agent: &AgentId, client_id: &ClientMessageId) -> Result<(), DeviceError> {
        {
            let _lock = self.context.state_lock();
            let name = chat_store::unsent_name(agent, client_id);
            let unsent = self.context.records.get::<UnsentMessage>(&name)?;
            if !unsent.is_some_and(|unsent| matches!(unsent.state, MessageDeliveryState::Failed { .. })) {
                return Ok(());
            }
            self.context.records.save(vec![RecordStore::delete(&name)])?;
        }
        self.context.notify(DeviceEvent::Talk { agent: agent.clone() });
        Ok(())
    }

    /// Resumes sending the messages that were queued when the previous process stopped.
    pub(crate) fn resume_sending(self: &Arc<Self>) -> Result<(), DeviceError> {
        for (agent, client_id) in chat_store::all_unsent(&self.context.records)? {
            let unsent = self.context.records.get::<UnsentMessage>(&chat_store::unsent_name(&agent, &client_id))?;
            if unsent.is_some_and(|unsent| unsent.state == MessageDeliveryState::Sending) {
                self.spawn_delivery(agent, client_id);
            }
        }
        Ok(())
    }

    fn spawn_delivery(self: &Arc<Self>, agent: AgentId, client_id: ClientMessageId) {
        let messages = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = messages.deliver(&agent, &client_id).await {
                tracing::warn!(%agent, %error, "cannot send a message");
                let state =
                    MessageDeliveryState::Failed { code: error.code, why: nuncio_core::text::plain(&error.message) };
                if let Err(error) = messages.set_delivery_state(&agent, &client_id, |_| true, state) {
                    tracing::error!(%agent, %error, "cannot record that sending a message failed");
                }
            }
        });
    }

    /// Sends a stored message, with retries for [`SEND_RETRY_TIME`] after failures that may pass.
    async fn deliver(&self, agent: &AgentId, client_id: &ClientMessageId) -> Result<(), DeviceError> {
        let name = chat_store::unsent_name(agent, client_id);
        let Some(UnsentMessage { text, at, .. }) = self.context.records.get(&name)? else { return Ok(()) };
        let other = RelayParty::Agent(agent.clone());
        let mut failures = BACKOFF.start();
        loop {
            let pause = failures.next_delay();
            let sent = async {
                let conversation = self.context.peer.conversation_with(&other).await?.id.clone();
                let payload = json!({"type": "text", "text": text});
                let outbox = self.context.peer.outbox();
                let seq = outbox.send_as(client_id.clone(), &conversation, ContentType::Text, payload).await?;
                Ok::<_, nuncio_a2h::peer::SendError>((conversation, seq))
            };
            match sent.await {
                Ok((conversation, Some(seq))) => {
                    let (client_id, at) = (client_id.clone(), self.context.now());
                    return self.record_sent(agent, SentMessageConfirmation { conversation, seq, client_id, at });
                }
                // The relay accepted an earlier attempt; an event reports the number of the message.
                Ok((_, None)) => return Ok(()),
                Err(error) if !error.is_retryable() || self.context.now() >= at.after(SEND_RETRY_TIME) => {
                    return Err(error.into());
                }
                Err(error) => tracing::info!(%agent, %error, "cannot send a message; retrying in {pause:?}"),
            }
            self.context.pause(pause).await;
        }
    }

    /// Handles the relay's event that a message of this device was accepted.
    pub(crate) async fn confirm_sent(&self, sent: SentMessageConfirmation) {
        let Some(agent) = self.agent_of(&sent.conversation).await else { return };
        if let Err(error) = self.record_sent(&agent, sent) {
            tracing::error!(%agent, %error, "cannot record that a message was sent");
        }
    }

    fn record_sent(&self, agent: &AgentId, sent: SentMessageConfirmation) -> Result<(), DeviceError> {
        {
            let _lock = self.context.state_lock();
            let records = &self.context.records;
            let name = chat_store::unsent_name(agent, &sent.client_id);
            // Both the relay's response and its event report the message; the second finds nothing to do.
            let Some(unsent) = records.get::<UnsentMessage>(&name)? else { return Ok(()) };
            let mut summary = AgentChatState::load(records, agent)?;
            let Some(position) = summary.position(&sent.conversation, sent.seq) else { return Ok(()) };
            let record = StoredChatMessage {
                client_id: Some(sent.client_id),
                device: Some(self.context.identity.device.clone()),
                ..StoredChatMessage::new(true, ChatContent::Text { text: unsent.text, cut: false }, sent.at)
            };
            let mut changes = chat_store::put(records, agent, summary, position, &record)?;
            changes.push(RecordStore::delete(&name));
            records.save(changes)?;
        }
        self.context.notify(DeviceEvent::Talk { agent: agent.clone() });
        Ok(())
    }

    /// Sets the delivery state of an unsent message. Returns false if its state was not an expected one.
    fn set_delivery_state(
        &self,
        agent: &AgentId,
        client_id: &ClientMessageId,
        expected: impl Fn(&MessageDeliveryState) -> bool,
        state: MessageDeliveryState,
    ) -> Result<bool, DeviceError> {
        {
            let _lock = self.context.state_lock();
            let name = chat_store::unsent_name(agent, client_id);
            let Some(mut unsent) = self.context.records.get::<UnsentMessage>(&name)? else { return Ok(false) };
            if !expected(&unsent.state) {
                return Ok(false);
            }
            if state == MessageDeliveryState::Sending {
                unsent.at = self.context.now();
            }
            unsent.state = state;
            self.context.records.set(&name, &unsent)?;
        }
        self.context.notify(DeviceEvent::Talk { agent: agent.clone() });
        Ok(true)
    }
}
