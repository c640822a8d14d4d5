//! What the person says. It is on disk before anything is sent, has one name however often it is said, and is tried until
//! the relay has it or says no.

use std::time::Duration;

use nuncio_a2h::peer::Sent;
use nuncio_core::Code;
use nuncio_core::conversation::ContentType;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId};
use nuncio_engine::ports::entropy::timed_name;
use serde_json::json;

use super::kept::{self, Kept, Thread, Unsent};
use super::{Lines, MAX_TEXT, MAX_UNSENT, Place, Said, State, words};
use crate::device::Device;
use crate::error::DeviceError;
use crate::news::News;
use crate::records::Records;

/// How long the way to the relay is looked for before a message counts as failed.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(30);

impl Device {
    /// The last `limit` lines of what was said with an agent, before a place or up to now; oldest first. What is on its
    /// way stands at the end.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub fn lines(&self, agent: &AgentId, before: Option<Place>, limit: usize) -> Result<Lines, DeviceError> {
        Ok(kept::read(self.records(), agent, before, limit)?)
    }

    /// A name for something that is about to be said.
    ///
    /// # Errors
    /// None can be made.
    pub fn new_words(&self) -> Result<ClientMessageId, DeviceError> {
        let name = timed_name(self.entropy(), "m_", self.now());
        ClientMessageId::parse(&name).map_err(|why| DeviceError::new(Code::Internal, why.to_string()))
    }

    /// Says something to an agent. When this returns it is on disk and on its way; said again under the same name, it
    /// is one message.
    ///
    /// # Errors
    /// There is nothing in it, too much, or too much is on its way already.
    pub fn say(&self, agent: &AgentId, client_id: &ClientMessageId, text: &str) -> Result<(), DeviceError> {
        let (text, cut) = words(text.trim_end());
        if cut {
            let message = format!("a message has at most {} KB: say it in parts", MAX_TEXT / 1024);
            return Err(DeviceError::new(Code::BodyTooLarge, message));
        }
        if text.trim().is_empty() {
            return Err(DeviceError::new(Code::BadRequest, "there is nothing in the message"));
        }
        {
            let _turn = self.turn();
            let records = self.records();
            let waiting = kept::unsent(records, agent)?;
            if kept::was_said(records, agent, client_id)? || waiting.iter().any(|(known, _)| known == client_id) {
                return Ok(());
            }
            if waiting.len() >= MAX_UNSENT {
                let message = format!("{MAX_UNSENT} messages wait already: send them again or drop them first");
                return Err(DeviceError::new(Code::LimitReached, message));
            }
            let mut thread = Thread::load(records, agent)?;
            thread.begun = true;
            let unsent = Unsent { text, at: self.now(), state: State::Sending };
            let name = kept::unsent_name(agent, client_id);
            records.save(vec![Records::put(&name, &unsent), thread.put(agent)])?;
        }
        self.tell(News::Talk { agent: agent.clone() });
        self.send_words(agent.clone(), client_id.clone());
        Ok(())
    }

    /// Tries again to send what failed.
    ///
    /// # Errors
    /// What is kept cannot be read or written.
    pub fn say_again(&self, agent: &AgentId, client_id: &ClientMessageId) -> Result<(), DeviceError> {
        let failed = |state: &State| matches!(state, State::Failed { .. });
        if self.move_unsent(agent, client_id, failed, State::Sending)? {
            self.send_words(agent.clone(), client_id.clone());
        }
        Ok(())
    }

    /// Drops what failed: it was never said.
    ///
    /// # Errors
    /// What is kept cannot be read or written.
    pub fn drop_words(&self, agent: &AgentId, client_id: &ClientMessageId) -> Result<(), DeviceError> {
        {
            let _turn = self.turn();
            let name = kept::unsent_name(agent, client_id);
            match self.records().get::<Unsent>(&name)? {
                Some(Unsent { state: State::Failed { .. }, .. }) => self.records().save(vec![Records::gone(&name)])?,
                _ => return Ok(()),
            }
        }
        self.tell(News::Talk { agent: agent.clone() });
        Ok(())
    }

    /// Sends what a process before this one left.
    pub(crate) fn resume_talk(&self) -> Result<(), DeviceError> {
        for (agent, client_id) in kept::all_unsent(self.records())? {
            let unsent = self.records().get::<Unsent>(&kept::unsent_name(&agent, &client_id))?;
            if unsent.is_some_and(|unsent| unsent.state == State::Sending) {
                self.send_words(agent, client_id);
            }
        }
        Ok(())
    }

    fn send_words(&self, agent: AgentId, client_id: ClientMessageId) {
        let device = self.clone();
        tokio::spawn(async move {
            if let Err(error) = device.deliver(&agent, &client_id).await {
                tracing::warn!(%agent, %error, "a message was not sent");
                let state = State::Failed { code: error.code, why: nuncio_core::text::plain(&error.message) };
                if let Err(error) = device.move_unsent(&agent, &client_id, |_| true, state) {
                    tracing::error!(%agent, %error, "it cannot be kept that a message was not sent");
                }
            }
        });
    }

    /// Sends until the relay has it; what may go better later is tried again.
    async fn deliver(&self, agent: &AgentId, client_id: &ClientMessageId) -> Result<(), DeviceError> {
        let name = kept::unsent_name(agent, client_id);
        let Some(Unsent { text, at, .. }) = self.records().get(&name)? else { return Ok(()) };
        let other = Recipient::Agent(agent.clone());
        let mut pause = Duration::from_secs(1);
        loop {
            let sent = async {
                let conversation = self.peer().conversation_with(&other).await?.id.clone();
                let payload = json!({"type": "text", "text": text});
                let seq = self.peer().send_as(client_id.clone(), &conversation, ContentType::Text, payload).await?;
                Ok::<_, nuncio_a2h::peer::SendError>((conversation, seq))
            };
            match sent.await {
                Ok((conversation, Some(seq))) => {
                    return self.was_sent(agent, &conversation, seq, client_id, self.now());
                }
                // One got through before: the relay tells its number by itself.
                Ok((_, None)) => return Ok(()),
                Err(error) if !error.may_pass() || self.now() >= at.after(PATIENCE) => return Err(error.into()),
                Err(error) => tracing::info!(%agent, %error, "a message is tried again in {pause:?}"),
            }
            self.pause(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// The relay has what this device sent.
    pub(crate) async fn heard_sent(&self, sent: Sent) {
        let Some(agent) = self.agent_of(&sent.conversation).await else { return };
        let done = self.was_sent(&agent, &sent.conversation, sent.seq, &sent.client_id, sent.at);
        if let Err(error) = done {
            tracing::error!(%agent, %error, "it cannot be kept that a message was sent");
        }
    }

    fn was_sent(
        &self,
        agent: &AgentId,
        conversation: &ConversationId,
        seq: u64,
        client_id: &ClientMessageId,
        at: nuncio_core::time::Timestamp,
    ) -> Result<(), DeviceError> {
        {
            let _turn = self.turn();
            let records = self.records();
            let name = kept::unsent_name(agent, client_id);
            // Heard twice, by the answer and by what the relay tells: once is enough.
            let Some(unsent) = records.get::<Unsent>(&name)? else { return Ok(()) };
            let mut thread = Thread::load(records, agent)?;
            let Some(place) = thread.place(conversation, seq) else { return Ok(()) };
            let line = Kept {
                mine: true,
                client_id: Some(client_id.clone()),
                device: Some(self.identity().device.clone()),
                said: Said::Text { text: unsent.text, cut: false },
                at,
                mode: None,
                new_keys: false,
            };
            let mut changes = kept::put(records, agent, thread, place, &line)?;
            changes.push(Records::gone(&name));
            records.save(changes)?;
        }
        self.tell(News::Talk { agent: agent.clone() });
        Ok(())
    }

    /// Writes down how far a message has got; whether it was as expected.
    fn move_unsent(
        &self,
        agent: &AgentId,
        client_id: &ClientMessageId,
        expected: impl Fn(&State) -> bool,
        state: State,
    ) -> Result<bool, DeviceError> {
        {
            let _turn = self.turn();
            let name = kept::unsent_name(agent, client_id);
            let Some(mut unsent) = self.records().get::<Unsent>(&name)? else { return Ok(false) };
            if !expected(&unsent.state) {
                return Ok(false);
            }
            if state == State::Sending {
                unsent.at = self.now();
            }
            unsent.state = state;
            self.records().set(&name, &unsent)?;
        }
        self.tell(News::Talk { agent: agent.clone() });
        Ok(true)
    }
}
