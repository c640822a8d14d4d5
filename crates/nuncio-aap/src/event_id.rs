//! Ids of the events in a turn's stream; clients send them back in `Last-Event-ID`.

/// Id of an event in a stream: numbers of the turn and of the event, written `TURN.EVENT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    pub turn: u64,
    pub event: usize,
}

impl EventId {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (turn, event) = text.trim().split_once('.')?;
        Some(Self { turn: turn.parse().ok()?, event: event.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_id_is_parsed_from_turn_dot_event_and_other_text_is_refused() {
        assert_eq!(EventId::parse("2.7"), Some(EventId { turn: 2, event: 7 }));
        for bad in ["", "2", "2.", ".7", "2.7.1", "-1.0", "a.b", "99999999999999999999.1"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
    }
}
