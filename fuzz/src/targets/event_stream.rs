//! Event streams: the decoded events do not depend on how the bytes were split into packets.

use nuncio_http::sse::{SseDecoder, SseEvent, SseLimits, SseTooLarge};

const LIMITS: SseLimits = SseLimits { line: 64, event: 96 };

/// Decodes an event stream in packets; the first byte of the input is the packet size.
pub fn run(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let size = usize::from(size).max(1);
    let whole = decode(std::iter::once(stream), LIMITS);
    assert_eq!(whole, decode(stream.chunks(size), LIMITS));
    for event in &whole.0 {
        assert!(event.data.len() <= LIMITS.event && event.event.len() <= LIMITS.event, "{event:?}");
    }
    // Decoding replaces invalid UTF-8, so a decoded event stays the same when it is encoded and decoded again.
    let (events, _) = decode(std::iter::once(stream), SseLimits::default());
    for event in events {
        let lines: String = event.data.split('\n').map(|line| format!("data: {line}\n")).collect();
        let sent = format!("event: {}\n{lines}\n", event.event);
        let (again, _) = decode(std::iter::once(sent.as_bytes()), SseLimits::default());
        assert_eq!(again.first().map(|again| (&again.event, &again.data)), Some((&event.event, &event.data)));
    }
}

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: SseLimits) -> (Vec<SseEvent>, Result<(), SseTooLarge>) {
    let mut decoder = SseDecoder::new(limits);
    let mut events = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        result = result.and(decoder.feed(piece));
        events.extend(std::iter::from_fn(|| decoder.next_event()));
    }
    (events, result)
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let streams: [&[u8]; 8] = [
        b"\x03event: greeting\ndata: hello\n\n",
        b"\x01data: one\ndata: two\r\ndata\r\rid: 7\ndata: x\n\n",
        b"\x02\xef\xbb\xbfdata: after a byte order mark\n\n",
        b"\x05: comment\nretry: 100\nid\ndata:no space\n\ndata:  two\n\n",
        b"\x04id: a\0b\ndata: null in id\n\n",
        b"\x02event: turn_stop\ndata: {\"stopReason\":\"end_turn\"}\nid: 1.2\n\n",
        b"\x01data: \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\xa6\x80\n\n",
        b"\x07data: \xff\xfe\n\r\n",
    ];
    streams.map(<[u8]>::to_vec).to_vec()
}
