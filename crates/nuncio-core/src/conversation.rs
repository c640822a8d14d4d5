//! Conversations between people and agents as the relay sees them: members, order and type of messages. Message
//! contents are encrypted and not visible here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ErrorCode;
use crate::ids::{ClientMessageId, ConversationId, DeviceId, InvalidName, MessageId};
use crate::notification::RelayParty;
use crate::time::Timestamp;

/// Upper limit of members in a group.
pub const MAX_MEMBERS: usize = 500;

/// Upper limit of an encrypted message, in bytes.
pub const MAX_ENVELOPE: usize = 512 * 1024;

/// Identifies the stream of an answer that is still being written: the client message id of the message that starts
/// the stream.
pub type StreamId = ClientMessageId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationType {
    /// Conversation of two people.
    H2h,
    /// Conversation of a person and an agent.
    H2a,
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentType {
    Text,
    Image,
    Video,
    Audio,
    File,
    Artifact,
    /// A message between programs, for example that a session was lost.
    System,
}

/// Type of an artifact message. It is unencrypted, because the relay rate-limits tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MsgSubtype {
    /// An agent calls a tool on a person's device.
    ArtifactToolCall,
    /// A device answers a tool call.
    ArtifactResponse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderType {
    Human,
    Agent,
}

impl RelayParty {
    #[must_use]
    pub const fn sender_type(&self) -> SenderType {
        match self {
            Self::Person(_) => SenderType::Human,
            Self::Agent(_) => SenderType::Agent,
        }
    }

    /// The person's name or the agent's id, without the prefix `person:` or `agent:`.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Person(name) => name.as_str(),
            Self::Agent(id) => id.as_str(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    pub id: ConversationId,
    #[serde(rename = "type")]
    pub kind: ConversationType,
    /// Members of the conversation, sorted.
    pub members: Vec<RelayParty>,
    pub created_by: RelayParty,
    pub created_at: Timestamp,
    /// Incremented by every change of the conversation's members, for optimistic locking.
    pub revision: u64,
}

/// Why a list of members does not fit the conversation type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationMembersError {
    /// A conversation of two does not have two members of the right kinds.
    #[error("a conversation of two needs exactly one other member besides you")]
    NotTwo,
    /// A group has too few or too many members, or no person.
    #[error("a group has 2 to {MAX_MEMBERS} members, at least one of them a person")]
    Size,
}

impl Conversation {
    /// The conversation type for two members; `None` for two agents.
    #[must_use]
    pub fn type_of_two(one: &RelayParty, other: &RelayParty) -> Option<ConversationType> {
        match (one, other) {
            (RelayParty::Person(_), RelayParty::Person(_)) => Some(ConversationType::H2h),
            (RelayParty::Agent(_), RelayParty::Agent(_)) => None,
            _ => Some(ConversationType::H2a),
        }
    }

    /// Sorts members, removes duplicates, and checks that they fit the type.
    pub fn members(
        kind: ConversationType,
        mut members: Vec<RelayParty>,
    ) -> Result<Vec<RelayParty>, ConversationMembersError> {
        members.sort();
        members.dedup();
        let people = members.iter().filter(|member| matches!(member, RelayParty::Person(_))).count();
        match kind {
            ConversationType::H2h if members.len() == 2 && people == 2 => Ok(members),
            ConversationType::H2a if members.len() == 2 && people == 1 => Ok(members),
            ConversationType::H2h | ConversationType::H2a => Err(ConversationMembersError::NotTwo),
            ConversationType::Group if (2..=MAX_MEMBERS).contains(&members.len()) && people > 0 => Ok(members),
            ConversationType::Group => Err(ConversationMembersError::Size),
        }
    }

    #[must_use]
    pub fn has(&self, member: &RelayParty) -> bool {
        self.members.binary_search(member).is_ok()
    }

    /// The other member of a conversation of two; `None` in a group.
    #[must_use]
    pub fn other(&self, member: &RelayParty) -> Option<&RelayParty> {
        match self.kind {
            ConversationType::Group => None,
            ConversationType::H2h | ConversationType::H2a => self.members.iter().find(|other| *other != member),
        }
    }

    /// Key that is unique for a conversation of two, to find it again; `None` for a group.
    #[must_use]
    pub fn pair(&self) -> Option<String> {
        match (self.kind, self.members.as_slice()) {
            (ConversationType::H2h | ConversationType::H2a, [one, other]) => Some(format!("{one} {other}")),
            _ => None,
        }
    }
}

/// A message as its sender submits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedMessage {
    /// Message id chosen by the sender.
    pub client_id: ClientMessageId,
    pub sender: RelayParty,
    /// The sending device, if the sender is a person.
    pub device: Option<DeviceId>,
    pub content_type: ContentType,
    pub subtype: Option<MsgSubtype>,
    /// The encrypted message, unchanged.
    pub envelope: Arc<[u8]>,
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageRefusal {
    #[error("the envelope is empty")]
    Empty,
    #[error("the envelope has more than {MAX_ENVELOPE} bytes")]
    TooLarge,
    /// Only artifacts have a subtype.
    #[error("msg_subtype is allowed only with content_type \"artifact\"")]
    NotAnArtifact,
    /// Only agents send tool calls.
    #[error("only agents send artifact_tool_call; people answer with artifact_response")]
    NotAnAgent,
    /// Only people's devices answer tool calls.
    #[error("only people send artifact_response; agents call with artifact_tool_call")]
    NotAPerson,
}

impl MessageRefusal {
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::TooLarge => ErrorCode::BodyTooLarge,
            _ => ErrorCode::BadRequest,
        }
    }
}

impl SubmittedMessage {
    /// Checks size, subtype and sender.
    pub fn check(&self) -> Result<(), MessageRefusal> {
        if self.envelope.is_empty() {
            return Err(MessageRefusal::Empty);
        }
        if self.envelope.len() > MAX_ENVELOPE {
            return Err(MessageRefusal::TooLarge);
        }
        if self.subtype.is_some() && self.content_type != ContentType::Artifact {
            return Err(MessageRefusal::NotAnArtifact);
        }
        match (self.subtype, &self.sender) {
            (Some(MsgSubtype::ArtifactToolCall), RelayParty::Person(_)) => Err(MessageRefusal::NotAnAgent),
            (Some(MsgSubtype::ArtifactResponse), RelayParty::Agent(_)) => Err(MessageRefusal::NotAPerson),
            _ => Ok(()),
        }
    }

    /// Whether the message is a tool call, which is rate-limited per agent.
    #[must_use]
    pub fn is_tool_call(&self) -> bool {
        self.subtype == Some(MsgSubtype::ArtifactToolCall)
    }

    /// Whether content type, subtype and envelope of two submissions are identical; sender, device and client message
    /// id are not compared.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        (self.content_type, self.subtype) == (other.content_type, other.subtype) && self.envelope == other.envelope
    }
}

/// Position of a message: conversation and number. The message id encodes both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageRef {
    pub conversation: ConversationId,
    pub seq: u64,
}

impl MessageRef {
    /// The message id: conversation id and number. Fails if the conversation id is longer than this server makes them.
    pub fn id(&self) -> Result<MessageId, InvalidName> {
        let name = self.conversation.as_str();
        MessageId::parse(&format!("msg_{}-{}", name.strip_prefix(CONVERSATION).unwrap_or(name), self.seq))
    }

    /// Decodes a message id; `None` if this server did not make it.
    #[must_use]
    pub fn of(id: &MessageId) -> Option<Self> {
        let (name, number) = id.as_str().strip_prefix("msg_")?.rsplit_once('-')?;
        let seq: u64 = number.parse().ok().filter(|seq| *seq > 0)?;
        let conversation = ConversationId::parse(&format!("{CONVERSATION}{name}")).ok()?;
        // Leading zeros or signs would give one message two ids.
        (number == seq.to_string()).then_some(Self { conversation, seq })
    }
}

/// Prefix of conversation ids made by this server.
pub const CONVERSATION: &str = "cnv_";

/// A message stored in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationMessage {
    pub conversation: ConversationId,
    /// Number of the message in its conversation; starts at 1, without gaps.
    pub seq: u64,
    pub at: Timestamp,
    pub post: SubmittedMessage,
}

impl ConversationMessage {
    #[must_use]
    pub fn reference(&self) -> MessageRef {
        MessageRef { conversation: self.conversation.clone(), seq: self.seq }
    }
}

/// The device that has claimed a tool call, so that no other device runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallClaim {
    pub device: DeviceId,
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AgentId, PersonName};

    fn person(name: &str) -> RelayParty {
        RelayParty::Person(PersonName::parse(name).unwrap())
    }

    fn agent(id: &str) -> RelayParty {
        RelayParty::Agent(AgentId::parse(id).unwrap())
    }

    #[test]
    fn conversation_members_must_fit_the_conversation_type() {
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
    fn message_id_encodes_conversation_id_and_sequence_number() {
        let place = MessageRef { conversation: ConversationId::parse("cnv_a-1_b").unwrap(), seq: 12 };
        let id = place.id().unwrap();
        assert_eq!(id.as_str(), "msg_a-1_b-12");
        assert_eq!(MessageRef::of(&id), Some(place));
        for wrong in ["msg_a", "msg_a-0", "msg_a-01", "a-1", "msg_a-18446744073709551616", "msg_a-x"] {
            assert_eq!(MessageRef::of(&MessageId::parse(wrong).unwrap()), None, "{wrong}");
        }
    }

    #[test]
    fn message_with_wrong_sender_content_type_or_size_is_refused() {
        let post = |sender, content_type, subtype| SubmittedMessage {
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
            (person("ada"), Artifact, Some(ArtifactToolCall), Err(MessageRefusal::NotAnAgent)),
            (agent("hotel"), Artifact, Some(ArtifactResponse), Err(MessageRefusal::NotAPerson)),
            (agent("hotel"), Text, Some(ArtifactToolCall), Err(MessageRefusal::NotAnArtifact)),
        ] {
            assert_eq!(post(sender, content, subtype).check(), outcome);
        }
        let full =
            |bytes: usize| SubmittedMessage { envelope: vec![0; bytes].into(), ..post(person("ada"), Text, None) };
        assert_eq!(full(0).check(), Err(MessageRefusal::Empty));
        assert_eq!(full(MAX_ENVELOPE).check(), Ok(()));
        assert_eq!(full(MAX_ENVELOPE + 1).check(), Err(MessageRefusal::TooLarge));
        assert!(
            full(1).has_same_content(&SubmittedMessage { client_id: ClientMessageId::parse("m2").unwrap(), ..full(1) })
        );
        assert!(!full(1).has_same_content(&full(2)));
        assert!(!full(1).has_same_content(&SubmittedMessage { content_type: Artifact, ..full(1) }));
    }
}
