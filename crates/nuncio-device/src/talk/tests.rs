use std::sync::Arc;

use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_identity::seal::MemoryKeyStore;

use super::chat_store::{self, ChatRecord, ChatSummary};
use super::*;
use crate::records::Records;

fn agent() -> AgentId {
    AgentId::parse("agt_1").unwrap()
}

fn text(text: &str) -> ChatRecord {
    ChatRecord {
        mine: false,
        client_id: None,
        device: None,
        said: ChatContent::Text { text: text.to_owned(), cut: false },
        at: Timestamp::from_millis(0),
        mode: None,
        new_keys: false,
    }
}

/// Stores a message of a conversation.
fn put(records: &Records, conversation: &str, seq: u64, line: &ChatRecord) {
    let mut thread = ChatSummary::load(records, &agent()).unwrap();
    let place = thread.place(&ConversationId::parse(conversation).unwrap(), seq).unwrap();
    let changes = chat_store::put(records, &agent(), thread, place, line).unwrap();
    records.save(changes).unwrap();
}

fn said(lines: &ChatPage) -> Vec<String> {
    let text = |line: &ChatMessage| match &line.said {
        ChatContent::Text { text, .. } => text.clone(),
        other => format!("{other:?}"),
    };
    lines.lines.iter().map(text).collect()
}

#[test]
fn messages_are_ordered_by_relay_sequence_without_duplicates() {
    let records = Records::new(Arc::new(MemoryKeyStore::new()));
    for (seq, words) in [(2, "two"), (1, "one"), (2, "two again"), (10, "ten")] {
        put(&records, "cnv_a", seq, &text(words));
    }
    // A relay that lost its data counts from one again; nothing is overwritten.
    put(&records, "cnv_b", 1, &text("anew"));
    let all = chat_store::read(&records, &agent(), None, 10).unwrap();
    assert_eq!(said(&all), ["one", "two", "ten", "anew"]);
    assert!(!all.more);
    let last = chat_store::read(&records, &agent(), None, 2).unwrap();
    assert_eq!(said(&last), ["ten", "anew"]);
    assert!(last.more);
    let before = chat_store::read(&records, &agent(), last.lines[0].place, 2).unwrap();
    assert_eq!(said(&before), ["one", "two"]);
    assert!(!before.more);
    let place = last.lines[0].place.unwrap();
    assert_eq!(place.to_string().parse(), Ok(place));
    assert!("".parse::<MessagePosition>().is_err() && "1-x".parse::<MessagePosition>().is_err());
}

#[test]
fn oldest_messages_are_deleted_with_their_client_ids_at_the_limits() {
    let records = Records::new(Arc::new(MemoryKeyStore::new()));
    let named = ClientMessageId::parse("m_1").unwrap();
    put(&records, "cnv_a", 1, &ChatRecord { client_id: Some(named.clone()), ..text("first") });
    assert!(chat_store::was_said(&records, &agent(), &named).unwrap());
    for seq in 2..=MAX_LINES + 1 {
        put(&records, "cnv_a", seq, &text("more"));
    }
    let all = chat_store::read(&records, &agent(), None, usize::MAX).unwrap();
    assert_eq!(u64::try_from(all.lines.len()).unwrap(), MAX_LINES);
    assert_eq!(all.lines[0].place.unwrap().seq, 2);
    assert!(!chat_store::was_said(&records, &agent(), &named).unwrap());
    // The limit of bytes works the same way.
    let long = "x".repeat(MAX_TEXT);
    let fit = MAX_BYTES / u64::try_from(MAX_TEXT).unwrap();
    for seq in 0..=fit {
        put(&records, "cnv_a", MAX_LINES + 2 + seq, &text(&long));
    }
    let all = chat_store::read(&records, &agent(), None, usize::MAX).unwrap();
    assert_eq!(u64::try_from(all.lines.len()).unwrap(), fit);
}

#[test]
fn agents_without_relation_are_remembered_by_id_up_to_a_limit() {
    let records = Records::new(Arc::new(MemoryKeyStore::new()));
    for number in 0..30 {
        let stranger = AgentId::parse(&format!("agt_{number}")).unwrap();
        let change = chat_store::stranger(&records, &stranger, Timestamp::from_millis(number)).unwrap();
        records.save(vec![change]).unwrap();
    }
    let all = chat_store::strangers(&records).unwrap();
    assert_eq!((all.len(), all[0].0.as_str()), (20, "agt_10"));
    assert_eq!(records.names("talk/").unwrap().len(), 1);
    let shown = chat_store::read(&records, &all[0].0, None, 10).unwrap();
    assert_eq!(shown.lines[0].said, ChatContent::Stranger);
}

#[test]
fn sanitised_text_keeps_line_breaks_and_replaces_control_characters() {
    assert_eq!(sanitise("one\r\ntwo\rthree\tfour"), ("one\ntwo\nthree\tfour".to_owned(), false));
    assert_eq!(sanitise("a\u{202e}b\u{0}c\u{7}"), ("a b c ".to_owned(), false));
    let long = "é".repeat(MAX_TEXT);
    let (kept, cut) = sanitise(&long);
    assert!(cut && kept.len() <= MAX_TEXT && long.starts_with(&kept));
}
