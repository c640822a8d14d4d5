//! What comes. It is on disk before the message counts as taken; whoever the person does not deal with fills nothing.

use std::time::Duration;

use nuncio_a2h::peer::{Inbound, Refused, StreamEvent, Streamed};
use nuncio_core::Code;
use nuncio_core::conversation::{ContentType, ConversationType};
use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::OpenError;
use tokio::sync::broadcast;

use super::kept::{self, Kept, Thread};
use super::{Growing, Live, LiveNews, Said, Unopened, words};
use crate::device::Device;
use crate::error::DeviceError;
use crate::news::News;
use crate::standing;

/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(30);

impl Device {
    /// Takes a message that is no call. Returns once it is on disk, or nothing of it is to be kept.
    pub(crate) async fn hear(&self, message: Inbound) {
        if message.conversation_type != ConversationType::H2a {
            return;
        }
        let mine = message.sender == *self.peer().me();
        let agent = match &message.sender {
            Recipient::Agent(agent) => Some(agent.clone()),
            Recipient::Person(_) if mine => self.agent_of(&message.conversation).await,
            Recipient::Person(_) => None,
        };
        let Some(agent) = agent else { return };
        let line = Kept {
            mine,
            client_id: None,
            device: Some(message.device.clone()),
            said: said(&message),
            at: message.at,
            mode: Some(message.mode),
            new_keys: false,
        };
        let key = if mine { None } else { self.key_of(&agent, &message).await };
        self.keep_line(&agent, (&message.conversation, message.seq), line, key).await;
    }

    /// Takes word of a message that was not opened.
    pub(crate) async fn hear_refused(&self, refused: Refused) {
        let mine = refused.sender == *self.peer().me();
        let Some(agent) = self.agent_of(&refused.conversation).await else { return };
        let theirs = refused.sender == Recipient::Agent(agent.clone());
        if !mine && !theirs {
            return;
        }
        let line = Kept {
            mine,
            client_id: None,
            device: None,
            said: Said::Refused {
                why: unopened(&refused.why),
                because: nuncio_core::text::plain(&refused.why.to_string()),
            },
            at: self.now(),
            mode: None,
            new_keys: false,
        };
        self.keep_line(&agent, (&refused.conversation, refused.seq), line, None).await;
    }

    /// Takes a piece of an answer that is being written. Nothing of it is kept.
    pub(crate) fn hear_stream(&self, event: StreamEvent) {
        let Recipient::Agent(agent) = event.sender else { return };
        let (writing, stream) = (self.writing(), event.stream);
        match event.what {
            Streamed::Begun => {
                if self.is_known(&agent).unwrap_or_default() {
                    writing.begin(agent, stream);
                }
            }
            Streamed::Delta(text) => writing.add(&agent, &stream, &text),
            Streamed::Done { .. } => writing.end(&agent, &stream, Live::Done),
            Streamed::Aborted => writing.end(&agent, &stream, Live::Aborted),
        }
    }

    /// Hears of answers while they are being written, from now on; and how far each is now.
    #[must_use]
    pub fn live(&self) -> (broadcast::Receiver<LiveNews>, Vec<Growing>) {
        self.writing().listen()
    }

    /// The agent with which a conversation of two is; none where it is no such.
    pub(super) async fn agent_of(&self, conversation: &ConversationId) -> Option<AgentId> {
        let mut pause = Duration::from_secs(1);
        loop {
            match self.peer().conversation(conversation).await {
                Ok(known) if known.kind == ConversationType::H2a => {
                    return match known.other(self.peer().me()) {
                        Some(Recipient::Agent(agent)) => Some(agent.clone()),
                        _ => None,
                    };
                }
                Ok(_) => return None,
                Err(error) if !error.may_pass() => return None,
                Err(error) => tracing::info!(%conversation, %error, "a conversation is looked up again in {pause:?}"),
            }
            self.pause(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// The digest of the key a message of an agent was signed with.
    async fn key_of(&self, agent: &AgentId, message: &Inbound) -> Option<Digest> {
        let pinned = self.peer().pinned(&Recipient::Agent(agent.clone())).await.unwrap_or_default();
        let signed = pinned.iter().find(|bundle| bundle.keys.device_id == message.device)?;
        Some(Digest::of_bytes(signed.keys.signing_key.as_bytes()))
    }

    /// Keeps a line, however long the disk or the relay takes: a message is not opened twice.
    async fn keep_line(
        &self,
        agent: &AgentId,
        (conversation, seq): (&ConversationId, u64),
        line: Kept,
        key: Option<Digest>,
    ) {
        let mut pause = Duration::from_secs(1);
        loop {
            let deals = match line.mine {
                true => Ok(true),
                false => self.deals_with(agent).await,
            };
            let kept = deals.and_then(|deals| match deals {
                true => self.put_line(agent, (conversation, seq), line.clone(), key),
                false => self.put_stranger(agent, line.at),
            });
            match kept {
                Ok(()) => break,
                Err(error) => tracing::error!(%agent, %error, "a line cannot be kept; tried again in {pause:?}"),
            }
            self.pause(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        self.tell(News::Talk { agent: agent.clone() });
    }

    fn put_line(
        &self,
        agent: &AgentId,
        (conversation, seq): (&ConversationId, u64),
        mut line: Kept,
        key: Option<Digest>,
    ) -> Result<(), DeviceError> {
        let _turn = self.turn();
        let mut thread = Thread::load(self.records(), agent)?;
        // What the person said elsewhere was said by them as well.
        thread.begun |= line.mine;
        if let Some(key) = key {
            line.new_keys = thread.key.is_some_and(|before| before != key);
            thread.key = Some(key);
        }
        let Some(place) = thread.place(conversation, seq) else { return Ok(()) };
        // What was said before this device was there is many such messages, and one line.
        let elsewhere = matches!(line.said, Said::Refused { why: Unopened::NotForUs, .. });
        if std::mem::replace(&mut thread.elsewhere, elsewhere) && elsewhere {
            return Ok(self.records().save(vec![thread.put(agent)])?);
        }
        Ok(self.records().save(kept::put(self.records(), agent, thread, place, &line)?)?)
    }

    fn put_stranger(&self, agent: &AgentId, at: Timestamp) -> Result<(), DeviceError> {
        let _turn = self.turn();
        let change = kept::stranger(self.records(), agent, at)?;
        Ok(self.records().save(vec![change])?)
    }

    /// Whether the person is known to deal with an agent.
    fn is_known(&self, agent: &AgentId) -> Result<bool, DeviceError> {
        let person = &self.identity().person;
        let stands = || standing::load(self.records(), agent);
        Ok(Thread::load(self.records(), agent)?.begun
            || stands()?.is_some_and(|known| known.standing(person).is_some()))
    }

    /// Whether the person has to do with an agent: they allow it something, or have said something to it.
    async fn deals_with(&self, agent: &AgentId) -> Result<bool, DeviceError> {
        let person = &self.identity().person;
        if self.is_known(agent)? {
            return Ok(true);
        }
        // Another device may have allowed it a moment ago.
        let unknown = standing::load(self.records(), agent)?.is_none();
        match self.refresh(agent).await {
            Ok(known) if known.standing(person).is_some() => Ok(true),
            Ok(_) => {
                // Looking at a stranger leaves nothing behind.
                if unknown {
                    let _turn = self.turn();
                    self.records().save(vec![standing::gone(agent)])?;
                }
                Ok(false)
            }
            Err(error) if matches!(error.code, Code::EndpointUnreachable | Code::RateLimited) => Err(error),
            Err(_) => Ok(false),
        }
    }
}

fn said(message: &Inbound) -> Said {
    // Both names are about.
    let text = ["text", "content"].iter().find_map(|name| message.payload[name].as_str());
    match text.filter(|_| message.content_type == ContentType::Text) {
        Some(text) => {
            let (text, cut) = words(text);
            Said::Text { text, cut }
        }
        None => Said::Other,
    }
}

const fn unopened(why: &OpenError) -> Unopened {
    match why {
        OpenError::UnknownSender { .. } | OpenError::Untrusted { .. } | OpenError::StaleBundle { .. } => {
            Unopened::Untrusted
        }
        OpenError::SessionLost { .. } => Unopened::Lost,
        OpenError::NotForUs | OpenError::Unnamed => Unopened::NotForUs,
        OpenError::Downgraded | OpenError::WrongWrap => Unopened::Weaker,
        OpenError::Malformed(_)
        | OpenError::Mislabelled { .. }
        | OpenError::BadSignature
        | OpenError::Tampered
        | OpenError::Mismatched(_)
        | OpenError::Replayed
        | OpenError::FromTheFuture
        | OpenError::Keep(_) => Unopened::Changed,
    }
}
