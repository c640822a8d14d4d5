//! Conversations between people and agents, as whoever carries them sees them: who takes part, in which
//! order messages came and of which kind they are. What they say is sealed and nobody's business here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Code;
use crate::happening::Recipient;
use crate::ids::{ClientMessageId, ConversationId, DeviceId, InvalidName, MessageId};
use crate::time::Timestamp;

/// How many may take part in a group.
pub const MAX_MEMBERS: usize = 500;

/// The largest sealed message, in bytes.
pub const MAX_ENVELOPE: usize = 512 * 1024;

/// The name of a stream, by which an answer is read while it is being written: the name its sender gave the sealed
/// letter that begins it.
pub type StreamId = ClientMessageId;

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationType {
    /// Two people.
    H2h,
    /// A person and an agent.
    H2a,
    /// Several.
    Group,
}

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentType {
    /// Words.
    Text,
    /// A picture.
    Image,
    /// A film.
    Video,
    /// Sound.
    Audio,
    /// A file.
    File,
    /// Something to act on.
    Artifact,
    /// A word between the programs, such as that a session was lost.
    System,
}

/// Which artifact it is, in clear: the relay limits calls by it. Version 1 has no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MsgSubtype {
    /// An agent calls a tool of a person's device.
    ArtifactToolCall,
    /// A person's device answers.
    ArtifactResponse,
}

/// Who sends, as the wire says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderType {
    /// A person.
    Human,
    /// An agent.
    Agent,
}

impl Recipient {
    /// Its kind as a sender.
    #[must_use]
    pub const fn sender_type(&self) -> SenderType {
        match self {
            Self::Person(_) => SenderType::Human,
            Self::Agent(_) => SenderType::Agent,
        }
    }

    /// Its name without its kind.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Person(name) => name.as_str(),
            Self::Agent(id) => id.as_str(),
        }
    }
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// Names it.
    pub id: ConversationId,
    /// Who takes part.
    #[serde(rename = "type")]
    pub kind: ConversationType,
    /// They, sorted.
    pub members: Vec<Recipient>,
    /// Who began it.
    pub created_by: Recipient,
    /// When.
    pub created_at: Timestamp,
    /// Counts the changes of who takes part.
    pub revision: u64,
}

/// Why there is no such conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongMembers {
    /// A conversation of two has not two.
    #[error("a conversation of two needs exactly one other besides you")]
    NotTwo,
    /// A group has too few or too many.
    #[error("a group has 2 to {MAX_MEMBERS} members, at least one of them a person")]
    Size,
}

impl Conversation {
    /// The type of a conversation between these two; none between agents.
    #[must_use]
    pub fn type_of_two(one: &Recipient, other: &Recipient) -> Option<ConversationType> {
        match (one, other) {
            (Recipient::Person(_), Recipient::Person(_)) => Some(ConversationType::H2h),
            (Recipient::Agent(_), Recipient::Agent(_)) => None,
            _ => Some(ConversationType::H2a),
        }
    }

    /// Sorts members, leaves out who stands twice, and checks that they fit the type.
    ///
    /// # Errors
    /// They do not.
    pub fn members(kind: ConversationType, mut members: Vec<Recipient>) -> Result<Vec<Recipient>, WrongMembers> {
        members.sort();
        members.dedup();
        let people = members.iter().filter(|member| matches!(member, Recipient::Person(_))).count();
        match kind {
            ConversationType::H2h if members.len() == 2 && people == 2 => Ok(members),
            ConversationType::H2a if members.len() == 2 && people == 1 => Ok(members),
            ConversationType::H2h | ConversationType::H2a => Err(WrongMembers::NotTwo),
            ConversationType::Group if (2..=MAX_MEMBERS).contains(&members.len()) && people > 0 => Ok(members),
            ConversationType::Group => Err(WrongMembers::Size),
        }
    }

    /// Whether someone takes part.
    #[must_use]
    pub fn has(&self, member: &Recipient) -> bool {
        self.members.binary_search(member).is_ok()
    }

    /// The other one of two; none in a group.
    #[must_use]
    pub fn other(&self, member: &Recipient) -> Option<&Recipient> {
        match self.kind {
            ConversationType::Group => None,
            ConversationType::H2h | ConversationType::H2a => self.members.iter().find(|other| *other != member),
        }
    }

    /// The key under which two find their conversation again; none for a group.
    #[must_use]
    pub fn pair(&self) -> Option<String> {
        match (self.kind, self.members.as_slice()) {
            (ConversationType::H2h | ConversationType::H2a, [one, other]) => Some(format!("{one} {other}")),
            _ => None,
        }
    }
}

/// A message somebody sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Its sender's name for it.
    pub client_id: ClientMessageId,
    /// Who sends it.
    pub sender: Recipient,
    /// On which device, where a person does.
    pub device: Option<DeviceId>,
    /// What it holds.
    pub content_type: ContentType,
    /// Which artifact it is.
    pub subtype: Option<MsgSubtype>,
    /// The sealed message, byte for byte.
    pub envelope: Arc<[u8]>,
}

/// Why a message is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostRefused {
    /// It holds nothing.
    #[error("the envelope is empty")]
    Empty,
    /// It is too large.
    #[error("the envelope has more than {MAX_ENVELOPE} bytes")]
    TooLarge,
    /// Only artifacts have a subtype.
    #[error("msg_subtype goes with content_type \"artifact\" alone")]
    NotAnArtifact,
    /// Only agents call.
    #[error("artifact_tool_call is sent by agents; people answer with artifact_response")]
    NotAnAgent,
    /// Only people answer.
    #[error("artifact_response is sent by people; agents call with artifact_tool_call")]
    NotAPerson,
}

impl PostRefused {
    /// Its code.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::TooLarge => Code::BodyTooLarge,
            _ => Code::BadRequest,
        }
    }
}

impl Post {
    /// Whether it may be sent at all.
    ///
    /// # Errors
    /// It may not.
    pub fn check(&self) -> Result<(), PostRefused> {
        if self.envelope.is_empty() {
            return Err(PostRefused::Empty);
        }
        if self.envelope.len() > MAX_ENVELOPE {
            return Err(PostRefused::TooLarge);
        }
        if self.subtype.is_some() && self.content_type != ContentType::Artifact {
            return Err(PostRefused::NotAnArtifact);
        }
        match (self.subtype, &self.sender) {
            (Some(MsgSubtype::ArtifactToolCall), Recipient::Person(_)) => Err(PostRefused::NotAnAgent),
            (Some(MsgSubtype::ArtifactResponse), Recipient::Agent(_)) => Err(PostRefused::NotAPerson),
            _ => Ok(()),
        }
    }

    /// Whether it is a tool call, of which an agent has so many a minute.
    #[must_use]
    pub fn is_tool_call(&self) -> bool {
        self.subtype == Some(MsgSubtype::ArtifactToolCall)
    }

    /// Whether a repeated request is the same: everything but the client's name for it, byte for byte.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        (self.content_type, self.subtype) == (other.content_type, other.subtype) && self.envelope == other.envelope
    }
}

/// Where a message is. Its name says it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessagePlace {
    /// In which conversation.
    pub conversation: ConversationId,
    /// Its number there.
    pub seq: u64,
}

impl MessagePlace {
    /// The message's name: its conversation's and its number.
    ///
    /// # Errors
    /// The conversation's name is too long for one; those made here are not.
    pub fn id(&self) -> Result<MessageId, InvalidName> {
        let name = self.conversation.as_str();
        MessageId::parse(&format!("msg_{}-{}", name.strip_prefix(CONVERSATION).unwrap_or(name), self.seq))
    }

    /// The place a name says; none when it is no name made here.
    #[must_use]
    pub fn of(id: &MessageId) -> Option<Self> {
        let (name, number) = id.as_str().strip_prefix("msg_")?.rsplit_once('-')?;
        let seq: u64 = number.parse().ok().filter(|seq| *seq > 0)?;
        let conversation = ConversationId::parse(&format!("{CONVERSATION}{name}")).ok()?;
        // One name for one message: no leading zeros or signs.
        (number == seq.to_string()).then_some(Self { conversation, seq })
    }
}

/// How the names of conversations made here begin.
pub const CONVERSATION: &str = "cnv_";

/// A message in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// Where.
    pub conversation: ConversationId,
    /// Its number there, from one, without gaps.
    pub seq: u64,
    /// When it came.
    pub at: Timestamp,
    /// The message.
    pub post: Post,
}

impl Posted {
    /// Where it is.
    #[must_use]
    pub fn place(&self) -> MessagePlace {
        MessagePlace { conversation: self.conversation.clone(), seq: self.seq }
    }
}

/// The device that took a tool call upon itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The device.
    pub device: DeviceId,
    /// When.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AgentId, PersonName};

    fn person(name: &str) -> Recipient {
        Recipient::Person(PersonName::parse(name).unwrap())
    }

    fn agent(id: &str) -> Recipient {
        Recipient::Agent(AgentId::parse(id).unwrap())
    }

    #[test]
    fn who_takes_part_fits_the_type() {
        use ConversationType::{Group, H2a, H2h};
        let (ada, bob, hotel) = (person("ada"), person("bob"), agent("hotel"));
        for (kind, members, fits) in [
            (H2a, vec![hotel.clone(), ada.clone()], true),
            (H2a, vec![ada.clone(), bob.clone()], false),
            (H2h, vec![bob.clone(), ada.clone()], true),
            (H2h, vec![ada.clone(), ada.clone()], false),
            (H2h, vec![ada.clone(), hotel.clone()], false),
            (Group, vec![ada.clone(), bob.clone(), hotel.clone()], true),
            (Group, vec![hotel.clone(), agent("other")], false),
            (Group, vec![ada.clone()], false),
            (Group, (0..=MAX_MEMBERS).map(|number| person(&format!("p{number}"))).collect(), false),
        ] {
            assert_eq!(Conversation::members(kind, members.clone()).is_ok(), fits, "{kind:?} {members:?}");
        }
        assert_eq!(Conversation::type_of_two(&hotel, &agent("other")), None);
    }

    #[test]
    fn a_message_is_named_by_its_place() {
        let place = MessagePlace { conversation: ConversationId::parse("cnv_a-1_b").unwrap(), seq: 12 };
        let id = place.id().unwrap();
        assert_eq!(id.as_str(), "msg_a-1_b-12");
        assert_eq!(MessagePlace::of(&id), Some(place));
        for wrong in ["msg_a", "msg_a-0", "msg_a-01", "a-1", "msg_a-18446744073709551616", "msg_a-x"] {
            assert_eq!(MessagePlace::of(&MessageId::parse(wrong).unwrap()), None, "{wrong}");
        }
    }

    #[test]
    fn agents_call_and_people_answer() {
        let post = |sender, content_type, subtype| Post {
            client_id: ClientMessageId::parse("m1").unwrap(),
            sender,
            device: None,
            content_type,
            subtype,
            envelope: Arc::from(*b"x"),
        };
        use ContentType::{Artifact, Text};
        use MsgSubtype::{ArtifactResponse, ArtifactToolCall};
        for (sender, content, subtype, outcome) in [
            (person("ada"), Text, None, Ok(())),
            (agent("hotel"), Artifact, Some(ArtifactToolCall), Ok(())),
            (person("ada"), Artifact, Some(ArtifactResponse), Ok(())),
            (person("ada"), Artifact, Some(ArtifactToolCall), Err(PostRefused::NotAnAgent)),
            (agent("hotel"), Artifact, Some(ArtifactResponse), Err(PostRefused::NotAPerson)),
            (agent("hotel"), Text, Some(ArtifactToolCall), Err(PostRefused::NotAnArtifact)),
        ] {
            assert_eq!(post(sender, content, subtype).check(), outcome);
        }
        let full = |bytes: usize| Post { envelope: vec![0; bytes].into(), ..post(person("ada"), Text, None) };
        assert_eq!(full(0).check(), Err(PostRefused::Empty));
        assert_eq!(full(MAX_ENVELOPE).check(), Ok(()));
        assert_eq!(full(MAX_ENVELOPE + 1).check(), Err(PostRefused::TooLarge));
        assert!(full(1).says_the_same(&Post { client_id: ClientMessageId::parse("m2").unwrap(), ..full(1) }));
        assert!(!full(1).says_the_same(&full(2)));
        assert!(!full(1).says_the_same(&Post { content_type: Artifact, ..full(1) }));
    }
}
