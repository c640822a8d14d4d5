//! Sample conversations, messages, keys and webhooks.

use nuncio_core::bundle::{
    BundleKeys, KeyBundle, KeyBundleDidProof, OneTimeKey, SealMode, WrapAlgorithm, X25519PublicKey,
};
use nuncio_core::conversation::{
    ContentType, Conversation, ConversationMessage, ConversationType, MessageRef, SubmittedMessage,
};
use nuncio_core::digest::Digest;
use nuncio_core::ids::{ClientMessageId, ConversationId, DeviceId};
use nuncio_core::notification::{RelayParty, WebhookState};
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_engine::ports::store::relay::{Webhook, WebhookDeliveryLogEntry};
use nuncio_engine::ports::store::{Change, RelayChange};

use super::consent_sample::{agent_id, recipient};
use super::sample::later;

#[must_use]
pub fn agent(id: &str) -> RelayParty {
    RelayParty::Agent(agent_id(id))
}

#[must_use]
pub fn conversation_id(id: &str) -> ConversationId {
    ConversationId::parse(id).unwrap()
}

#[must_use]
pub fn device_id(id: &str) -> DeviceId {
    DeviceId::parse(id).unwrap()
}

#[must_use]
pub fn client_id(id: &str) -> ClientMessageId {
    ClientMessageId::parse(id).unwrap()
}

#[must_use]
pub fn of_two(id: &str, other: &str) -> Conversation {
    conversation(id, ConversationType::H2a, [recipient("ada"), agent(other)])
}

#[must_use]
pub fn group(id: &str, members: impl Into<Vec<RelayParty>>) -> Conversation {
    conversation(id, ConversationType::Group, members)
}

fn conversation(id: &str, kind: ConversationType, members: impl Into<Vec<RelayParty>>) -> Conversation {
    Conversation {
        id: conversation_id(id),
        kind,
        members: Conversation::members(kind, members.into()).unwrap(),
        created_by: recipient("ada"),
        created_at: later(1),
        revision: 0,
    }
}

#[must_use]
pub fn begin(conversation: &Conversation) -> Change {
    RelayChange::CreateConversation(conversation.clone()).into()
}

/// Replaces the members, at the next revision.
#[must_use]
pub fn with_members(conversation: &Conversation, members: impl Into<Vec<RelayParty>>) -> Conversation {
    let members = Conversation::members(conversation.kind, members.into()).unwrap();
    Conversation { members, revision: conversation.revision + 1, ..conversation.clone() }
}

/// A message with a binary envelope.
#[must_use]
pub fn post(sender: &RelayParty, name: &str) -> SubmittedMessage {
    SubmittedMessage {
        client_id: client_id(name),
        sender: sender.clone(),
        device: None,
        content_type: ContentType::Text,
        subtype: None,
        envelope: [&[0, 0xff, 0xfe], name.as_bytes()].concat().into(),
    }
}

/// Posts a message to a conversation at revision zero.
#[must_use]
pub fn send(conversation: &str, post: &SubmittedMessage, to: &[RelayParty], at: i64) -> Change {
    RelayChange::PostMessage {
        conversation: conversation_id(conversation),
        revision: 0,
        at: later(at),
        post: post.clone(),
        to: to.to_vec(),
    }
    .into()
}

/// A stored message with its number.
#[must_use]
pub fn posted(conversation: &str, seq: u64, post: &SubmittedMessage, at: i64) -> ConversationMessage {
    ConversationMessage { conversation: conversation_id(conversation), seq, at: later(at), post: post.clone() }
}

#[must_use]
pub fn place_of(conversation: &str, seq: u64) -> MessageRef {
    MessageRef { conversation: conversation_id(conversation), seq }
}

/// A signed key bundle.
#[must_use]
pub fn bundle(device: &str, owner: &RelayParty, seq: u64) -> KeyBundle {
    KeyBundle {
        keys: BundleKeys {
            device_id: device_id(device),
            owner: owner.clone(),
            signing_key: PublicKey::new(*Digest::of_bytes(device.as_bytes()).as_bytes()).unwrap(),
            hpke_key: X25519PublicKey::new([1; 32]),
            olm_key: Some(X25519PublicKey::new([2; 32])),
            mode: SealMode::Stateful,
            algs: vec![WrapAlgorithm::Olm, WrapAlgorithm::Hpke],
            seq,
            created_at: later(1),
        },
        signature: Signature::new([3; 64]),
        did: Some(KeyBundleDidProof {
            did: "did:wba:agent.example".to_owned(),
            verification_method: "did:wba:agent.example#key-1".to_owned(),
            signature: "c2ln".to_owned(),
        }),
        endorsement: None,
    }
}

#[must_use]
pub fn put_bundle(bundle: &KeyBundle) -> Change {
    RelayChange::PutBundle(Box::new(bundle.clone())).into()
}

#[must_use]
pub fn one_time_key(id: &str, fallback: bool) -> OneTimeKey {
    OneTimeKey {
        key_id: id.to_owned(),
        key: X25519PublicKey::new(*Digest::of_bytes(id.as_bytes()).as_bytes()),
        fallback,
        signature: Signature::new([4; 64]),
    }
}

/// A reachable webhook.
#[must_use]
pub fn webhook(agent: &str) -> Webhook {
    Webhook {
        agent: agent_id(agent),
        secret: format!("sealed for {agent}"),
        state: WebhookState::Reachable,
        failing_since: None,
        probe_at: None,
    }
}

#[must_use]
pub fn put_webhook(agent: &str, state: WebhookState) -> Change {
    RelayChange::PutWebhook(Webhook { state, ..webhook(agent) }).into()
}

/// Log entry of a successful delivery.
#[must_use]
pub fn logged(seq: u64, at: i64) -> WebhookDeliveryLogEntry {
    WebhookDeliveryLogEntry {
        seq,
        delivery_id: format!("dlv_{seq}"),
        kind: "message.new".to_owned(),
        at: later(at),
        attempts: 2,
        delivered: true,
        outcome: "204 \"fertig\" 好".to_owned(),
    }
}
