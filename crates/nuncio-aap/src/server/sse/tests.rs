use super::*;

mod resume;

fn encoded(mode: StreamMode, event: TurnLogEvent<'_>) -> String {
    let mut out = BytesMut::new();
    encode(&mut out, mode, 2, 7, event);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn event_has_four_lines_with_single_line_data() {
    assert_eq!(
        encoded(StreamMode::Delta, TurnLogEvent::Delta(OutputKind::Text, "a\n\"ü\"")),
        "id: 2.7\nevent: text_delta\ndata: {\"delta\":\"a\\n\\\"ü\\\"\"}\n\n"
    );
    assert_eq!(
        encoded(StreamMode::Message, TurnLogEvent::Block(OutputKind::Thinking, "hm")),
        "id: 2.7\nevent: thinking\ndata: {\"thinking\":\"hm\"}\n\n"
    );
    assert_eq!(encoded(StreamMode::Message, TurnLogEvent::Started), "id: 2.7\nevent: turn_start\ndata: {}\n\n");
}

#[test]
fn stream_mode_omits_events_of_the_other_mode() {
    assert_eq!(encoded(StreamMode::Message, TurnLogEvent::Delta(OutputKind::Text, "a")), "");
    assert_eq!(encoded(StreamMode::Delta, TurnLogEvent::Block(OutputKind::Text, "a")), "");
}
