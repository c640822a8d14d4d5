//! Tests of the WHATWG parsing rules, with streams split at any byte.

use proptest::prelude::*;

use super::*;

const SMALL: SseLimits = SseLimits { line: 64, event: 96 };

fn read(pieces: &[&[u8]], limits: SseLimits) -> (Vec<SseEvent>, Option<SseTooLarge>, Option<SseEvent>) {
    let mut decoder = SseDecoder::new(limits);
    let mut events = Vec::new();
    let mut fault = None;
    for piece in pieces {
        let fed = decoder.feed(piece);
        events.extend(std::iter::from_fn(|| decoder.next_event()));
        fault = fault.or(fed.err());
    }
    (events, fault, decoder.finish())
}

fn events(bytes: &[u8]) -> Vec<(String, String, Option<String>)> {
    let (events, fault, _) = read(&[bytes], SseLimits::default());
    assert_eq!(fault, None);
    events.into_iter().map(|event| (event.event, event.data, event.id.map(|id| id.to_string()))).collect()
}

fn event(name: &str, data: &str) -> (String, String, Option<String>) {
    (name.to_owned(), data.to_owned(), None)
}

#[test]
fn every_kind_of_line_ending_is_recognised() {
    for end in ["\n", "\r\n", "\r"] {
        let bytes = ["event: a", "data: 1", "", "data: 2", ""].map(|line| format!("{line}{end}")).concat();
        assert_eq!(events(bytes.as_bytes()), [event("a", "1"), event("message", "2")], "{end:?}");
    }
}

#[test]
fn event_ending_in_carriage_return_is_complete_before_a_following_line_feed() {
    let mut decoder = SseDecoder::new(SMALL);
    decoder.feed(b"data: 1\r\n\r").unwrap();
    assert_eq!(decoder.next_event().unwrap().data, "1");
    decoder.feed(b"\ndata: 2\r\n\r\n").unwrap();
    assert_eq!(decoder.next_event().unwrap().data, "2");
    assert_eq!(decoder.next_event(), None);
}

#[test]
fn data_lines_of_one_event_are_joined_by_line_feeds() {
    assert_eq!(events(b"data: a\ndata\ndata:  b\n\n"), [event("message", "a\n\n b")]);
    assert_eq!(events(b"data:\n\n"), [event("message", "")]);
}

#[test]
fn comments_unknown_fields_and_empty_events_are_skipped() {
    assert_eq!(events(b": still here\n\nevent: x\n\nfoo: bar\ndata:1\n\n:\n"), [event("message", "1")]);
}

#[test]
fn byte_order_mark_is_skipped_only_at_stream_start() {
    assert_eq!(events(b"\xEF\xBB\xBFdata: 1\n\n\xEF\xBB\xBFdata: 2\n\n"), [event("message", "1")]);
}

#[test]
fn event_id_applies_to_later_events_until_replaced() {
    let ids: Vec<_> =
        events(b"id: 1\ndata\n\ndata\n\nid: a\0b\ndata\n\nid\ndata\n\n").into_iter().map(|event| event.2).collect();
    assert_eq!(ids, [Some("1".to_owned()), Some("1".to_owned()), Some("1".to_owned()), None]);
}

#[test]
fn invalid_sse_retry_field_is_ignored() {
    let mut decoder = SseDecoder::new(SMALL);
    decoder.feed(b"retry: 250\nretry: soon\nretry: 99999999999999999999999\nretry:\n").unwrap();
    assert_eq!(decoder.retry(), Some(Duration::from_millis(250)));
}

#[test]
fn invalid_utf8_is_decoded_as_the_replacement_character() {
    assert_eq!(events(b"data: a\xFFb\n\n"), [event("message", "a\u{FFFD}b")]);
}

#[test]
fn truncated_last_event_is_returned_only_by_finish() {
    let (events, _, rest) = read(&[b"data: 1\n\ndata: 2"], SMALL);
    assert_eq!(events.len(), 1);
    assert_eq!(rest.unwrap().data, "2");
    assert_eq!(read(&[b"data: 1\n\n"], SMALL).2, None);
}

#[test]
fn oversized_line_is_refused_and_earlier_events_remain() {
    let long = [b"data: 1\n\ndata: ".as_slice(), &[b'x'; 100]].concat();
    let (events, fault, rest) = read(&[&long], SMALL);
    assert_eq!((events.len(), fault, rest), (1, Some(SseTooLarge::Line(64)), None));
}

#[test]
fn oversized_event_is_refused() {
    let long = b"data: 0123456789\n".repeat(10);
    assert_eq!(read(&[&long], SMALL).1, Some(SseTooLarge::Event(96)));
}

#[test]
fn events_share_the_memory_of_their_event_id() {
    let mut bytes = b"id: ".to_vec();
    bytes.extend_from_slice(&[b'x'; 60]);
    bytes.extend_from_slice(b"\ndata\n\ndata\n\n");
    let (events, ..) = read(&[&bytes], SMALL);
    assert!(Arc::ptr_eq(events[0].id.as_ref().unwrap(), events[1].id.as_ref().unwrap()));
}

/// Random streams of event-stream syntax mixed with arbitrary bytes.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data".to_vec()),
        Just(b"data: ".to_vec()),
        Just(b"event: x".to_vec()),
        Just(b"id: 7".to_vec()),
        Just(b"retry: 5".to_vec()),
        Just(b":".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\n\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just("Grüße 你好 🦀".as_bytes().to_vec()),
        Just(b"\xEF\xBB\xBF".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_of_the_stream_yields_the_same_events(bytes in stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for place in places {
            pieces.push(&bytes[from..place]);
            from = place;
        }
        pieces.push(&bytes[from..]);
        let whole = read(&[&bytes], SMALL);
        prop_assert_eq!(&read(&pieces, SMALL), &whole);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&read(&single, SMALL), &whole);
    }

    #[test]
    fn events_written_as_text_are_parsed_back_unchanged(written in proptest::collection::vec(("[a-z_]{1,8}", "[^\r\n\0]{0,20}(\n[^\r\n\0]{0,20}){0,2}"), 0..8)) {
        let bytes: String = written
            .iter()
            .map(|(name, data)| {
                let lines: String = data.split('\n').map(|line| format!("data: {line}\n")).collect();
                format!("event: {name}\n{lines}\n")
            })
            .collect();
        let read: Vec<_> = events(bytes.as_bytes()).into_iter().map(|(name, data, _)| (name, data)).collect();
        prop_assert_eq!(read, written);
    }
}
