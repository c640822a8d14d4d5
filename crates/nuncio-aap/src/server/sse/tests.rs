use super::*;

mod resume;

fn encoded(mode: StreamMode, event: TurnLogEvent<'_>) -> String {
    let mut out = BytesMut::new();
    encode(&mut out, mode, 2, 7, event);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn event_is_written_as_id_event_and_single_line_data_with_a_blank_line_at_the_end() {
    assert_eq!(
        encoded(StreamMode::Delta, TurnLogEvent::Delta(ModelOutputKind::Text, "a\n\"ü\"")),
        "id: 2.7\nevent: text_delta\ndata: {\"delta\":\"a\\n\\\"ü\\\"\"}\n\n"
    );
    assert_eq!(
        encoded(StreamMode::Message, TurnLogEvent::Block(ModelOutputKind::Thinking, "hm")),
        "id: 2.7\nevent: thinking\ndata: {\"thinking\":\"hm\"}\n\n"
    );
    assert_eq!(encoded(StreamMode::Message, TurnLogEvent::Started), "id: 2.7\nevent: turn_start\ndata: {}\n\n");
}

#[test]
fn message_mode_omits_deltas_and_delta_mode_omits_whole_blocks() {
    assert_eq!(encoded(StreamMode::Message, TurnLogEvent::Delta(ModelOutputKind::Text, "a")), "");
    assert_eq!(encoded(StreamMode::Delta, TurnLogEvent::Block(ModelOutputKind::Text, "a")), "");
}
