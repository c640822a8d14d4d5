use std::sync::Arc;

use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_identity::seal::MemoryKeyStore;

use super::chat_store::{self, AgentChatState};
use super::*;
use crate::record_store::RecordStore;

fn agent() -> AgentId {
    AgentId::parse("agt_1").unwrap()
}

fn text(text: &str) -> StoredChatMessage {
    StoredChatMessage::new(false, ChatContent::Text { text: text.to_owned(), cut: false }, Timestamp::from_millis(0))
}

/// Stores a message of the test agent.
fn put(records: &RecordStore, conversation: &str, seq: u64, message: &StoredChatMessage) {
    let mut summary = AgentChatState::load(records, &agent()).unwrap();
    let position = summary.position(&ConversationId::parse(conversation).unwrap(), seq).unwrap();
    let changes = chat_store::put(records, &agent(), summary, position, message).unwrap();
    records.save(changes).unwrap();
}

fn texts(page: &ChatMessageBatch) -> Vec<String> {
    let text = |message: &ChatMessage| match &message.record.content {
        ChatContent::Text { text, .. } => text.clone(),
        other => format!("{other:?}"),
    };
    page.messages.iter().map(text).collect()
}

#[test]
fn stored_messages_are_ordered_by_relay_sequence_without_duplicates() {
    let records = RecordStore::new(Arc::new(MemoryKeyStore::new()));
    for (seq, words) in [(2, "two"), (1, "one"), (2, "two again"), (10, "ten")] {
        put(&records, "cnv_a", seq, &text(words));
    }
    // A relay that lost its data counts from one again; nothing is overwritten.
    put(&records, "cnv_b", 1, &text("anew"));
    let all = chat_store::read(&records, &agent(), None, 10).unwrap();
    assert_eq!(texts(&all), ["one", "two", "ten", "anew"]);
    assert!(!all.more);
    let last = chat_store::read(&records, &agent(), None, 2).unwrap();
    assert_eq!(texts(&last), ["ten", "anew"]);
    assert!(last.more);
    let before = chat_store::read(&records, &agent(), last.messages[0].position, 2).unwrap();
    assert_eq!(texts(&before), ["one", "two"]);
    assert!(!before.more);
    let position = last.messages[0].position.unwrap();
    assert_eq!(MessagePosition::parse(&position.to_string()), Some(position));
    assert!(MessagePosition::parse("").is_none() && MessagePosition::parse("1-x").is_none());
}

#[test]
fn oldest_messages_are_deleted_beyond_the_limits_of_count_and_bytes() {
    let records = RecordStore::new(Arc::new(MemoryKeyStore::new()));
    let named = ClientMessageId::parse("m_1").unwrap();
    put(&records, "cnv_a", 1, &StoredChatMessage { client_id: Some(named.clone()), ..text("first") });
    assert!(chat_store::was_sent(&records, &agent(), &named).unwrap());
    for seq in 2..=MAX_MESSAGES + 1 {
        put(&records, "cnv_a", seq, &text("more"));
    }
    let all = chat_store::read(&records, &agent(), None, usize::MAX).unwrap();
    assert_eq!(u64::try_from(all.messages.len()).unwrap(), MAX_MESSAGES);
    assert_eq!(all.messages[0].position.unwrap().seq, 2);
    assert!(!chat_store::was_sent(&records, &agent(), &named).unwrap());
    // The limit of bytes works the same way.
    let long = "x".repeat(MAX_TEXT);
    let fit = MAX_BYTES / u64::try_from(MAX_TEXT).unwrap();
    for seq in 0..=fit {
        put(&records, "cnv_a", MAX_MESSAGES + 2 + seq, &text(&long));
    }
    let all = chat_store::read(&records, &agent(), None, usize::MAX).unwrap();
    assert_eq!(u64::try_from(all.messages.len()).unwrap(), fit);
}

#[test]
fn last_twenty_agents_that_wrote_without_relation_are_remembered_without_content() {
    let records = RecordStore::new(Arc::new(MemoryKeyStore::new()));
    for number in 0..30 {
        let stranger = AgentId::parse(&format!("agt_{number}")).unwrap();
        let change = chat_store::stranger(&records, &stranger, Timestamp::from_millis(number)).unwrap();
        records.save(vec![change]).unwrap();
    }
    let all = chat_store::strangers(&records).unwrap();
    assert_eq!((all.len(), all[0].0.as_str()), (20, "agt_10"));
    assert_eq!(records.names("talk/").unwrap().len(), 1);
    let shown = chat_store::read(&records, &all[0].0, None, 10).unwrap();
    assert_eq!(shown.messages[0].record.content, ChatContent::Stranger);
}

#[test]
fn sanitised_text_keeps_line_breaks_loses_control_characters_and_is_cut() {
    assert_eq!(sanitise("one\r\ntwo\rthree\tfour"), ("one\ntwo\nthree\tfour".to_owned(), false));
    assert_eq!(sanitise("a\u{202e}b\u{0}c\u{7}"), ("a b c ".to_owned(), false));
    let long = "é".repeat(MAX_TEXT);
    let (kept, cut) = sanitise(&long);
    assert!(cut && kept.len() <= MAX_TEXT && long.starts_with(&kept));
}
