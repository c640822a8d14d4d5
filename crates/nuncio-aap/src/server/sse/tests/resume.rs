//! Property tests: a client that disconnects after any event and resumes receives the same bytes as one that never
//! disconnected.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nuncio_core::ErrorCode;
use nuncio_core::event::{ModelOutputKind, TurnEventLog};
use nuncio_core::ids::{CallId, SessionId, ToolName};
use nuncio_core::message::{Block, Content, ToolCall};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{StopReason, StreamMode, TokenUsage, TurnError, TurnOutcome};
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::Clock;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::{CHUNK_BYTES, TurnEventReader};
use crate::EventId;

const TURN: u64 = 3;

/// Clock without timer events, so that no heartbeat is sent.
#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }
}

/// Generated write to the event log of a turn.
#[derive(Debug, Clone)]
enum TurnEventLogWrite {
    Say(ModelOutputKind, String),
    EndBlock,
    Call(Map<String, Value>),
    Answer(Content),
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => ".{0,12}",
        2 => proptest::sample::select(vec!["\n", "\r\n\r\n", "data: x\n\n", "\u{feff}", "\u{2028}", "\\", "\"", ": "])
            .prop_map(str::to_owned),
        2 => "[äж中\u{1F600}\u{10FFFF}]{1,8}",
        // Texts whose size is close to the size limit of a chunk.
        1 => (CHUNK_BYTES - 80..CHUNK_BYTES + 80).prop_map(|size| "x".repeat(size)),
        1 => (CHUNK_BYTES / 3..CHUNK_BYTES).prop_map(|size| "中".repeat(size)),
    ]
}

fn writes() -> impl Strategy<Value = TurnEventLogWrite> {
    let voice = prop_oneof![Just(ModelOutputKind::Text), Just(ModelOutputKind::Thinking)];
    prop_oneof![
        6 => (voice, texts()).prop_map(|(voice, text)| TurnEventLogWrite::Say(voice, text)),
        1 => Just(TurnEventLogWrite::EndBlock),
        1 => (texts(), any::<i64>()).prop_map(|(text, number)| {
            let Value::Object(input) = json!({"text": text, "number": number}) else { unreachable!("it is an object") };
            TurnEventLogWrite::Call(input)
        }),
        1 => texts().prop_map(|text| TurnEventLogWrite::Answer(Content::Text(text))),
        1 => texts().prop_map(|text| TurnEventLogWrite::Answer(Content::Blocks(vec![Block::text(text), Block::image("data:,")]))),
    ]
}

fn stops() -> impl Strategy<Value = TurnOutcome> {
    (any::<bool>(), proptest::option::of(any::<u32>()), proptest::option::of(texts())).prop_map(
        |(cancelled, tokens, error)| TurnOutcome {
            stop_reason: if error.is_some() { StopReason::Error } else { StopReason::EndTurn },
            turn_id: format!("ses_1.{TURN}"),
            cancelled,
            usage: tokens.map(|tokens| TokenUsage { input_tokens: tokens.into(), output_tokens: 0 }),
            error: error.map(|message| TurnError { code: ErrorCode::BrainFailed, message }),
        },
    )
}

fn modes() -> impl Strategy<Value = StreamMode> {
    prop_oneof![Just(StreamMode::Delta), Just(StreamMode::Message)]
}

fn write(log: &mut TurnEventLog, write: &TurnEventLogWrite) {
    match write {
        TurnEventLogWrite::Say(voice, text) => log.delta(*voice, text).unwrap(),
        TurnEventLogWrite::EndBlock => log.close_block(),
        TurnEventLogWrite::Call(input) => {
            let (id, name) = (CallId::parse("c1").unwrap(), ToolName::parse("add").unwrap());
            log.tool_call(&ToolCall { id, name, input: input.clone() }).unwrap();
        }
        TurnEventLogWrite::Answer(content) => log.tool_result("c1", content).unwrap(),
    }
}

/// Copies of the event log: empty, after each write, and after the end of the turn.
fn stages(writes: &[TurnEventLogWrite], stop: &TurnOutcome) -> Vec<TurnEventLog> {
    let mut log = TurnEventLog::started();
    let mut stages = vec![log.clone()];
    for each in writes {
        write(&mut log, each);
        stages.push(log.clone());
    }
    log.stopped(stop);
    stages.push(log);
    stages
}

/// Bytes that a stream starting at event `from` yields before it has to wait or ends.
fn read(log: &TurnEventLog, mode: StreamMode, from: usize) -> String {
    let session = SessionId::parse("ses_1").unwrap();
    let turn = Arc::new(LiveTurn::with_log(session, TURN, mode, log.clone()));
    let mut reader = TurnEventReader::new(turn, mode, from, Arc::new(StoppedClock));
    let mut bytes = Vec::new();
    // A running turn leaves its reader waiting; a finished one ends the stream.
    while let Some(Some(piece)) = reader.next().now_or_never() {
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes).unwrap()
}

/// Splits the bytes of a stream into events, each with its number.
fn events(bytes: &str) -> Vec<(usize, &str)> {
    let number = |block: &str| {
        let id = block.strip_prefix("id: ").unwrap().split('\n').next().unwrap();
        let id = EventId::parse(id).unwrap();
        assert_eq!(id.turn, TURN);
        id.event
    };
    bytes.split_inclusive("\n\n").map(|block| (number(block), block)).collect()
}

/// Bytes of the stream after event `number`.
fn behind(whole: &str, number: usize) -> String {
    events(whole).into_iter().filter(|(event, _)| *event > number).map(|(_, block)| block).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resuming_finished_stream_after_any_event_yields_the_remaining_bytes(
        writes in proptest::collection::vec(writes(), 0..24), stop in stops(), mode in modes(),
    ) {
        let log = stages(&writes, &stop).pop().unwrap();
        let whole = read(&log, mode, 0);
        prop_assert!(whole.starts_with("id: 3.0\nevent: turn_start\n"));
        prop_assert!(events(&whole).last().unwrap().1.contains("\nevent: turn_stop\n"));
        // Event numbers increase, so an event id identifies a position in the stream.
        prop_assert!(events(&whole).windows(2).all(|pair| pair[0].0 < pair[1].0));
        for last in 0..log.len() {
            prop_assert_eq!(read(&log, mode, last + 1), behind(&whole, last), "behind {}", last);
        }
        // An event log that was stored and loaded gives the same bytes.
        let kept = TurnEventLog::from_bytes(&log.to_bytes()).unwrap();
        prop_assert_eq!(read(&kept, mode, 0), whole);
    }

    #[test]
    fn reconnecting_while_the_turn_runs_yields_same_bytes_as_one_connection(
        writes in proptest::collection::vec(writes(), 0..24),
        stop in stops(),
        mode in modes(),
        joins in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let stages = stages(&writes, &stop);
        let whole = read(stages.last().unwrap(), mode, 0);
        // The reader reconnects at some stages of the turn and once after its end.
        let mut moments: Vec<_> = joins.iter().map(|join| join.index(stages.len())).collect();
        moments.sort_unstable();
        moments.push(stages.len() - 1);
        let mut got = String::new();
        for moment in moments {
            let from = events(&got).last().map_or(0, |(number, _)| number + 1);
            got += &read(&stages[moment], mode, from);
            prop_assert!(whole.starts_with(&got));
        }
        prop_assert_eq!(got, whole);
    }

    #[test]
    fn event_id_from_one_stream_mode_resumes_the_stream_in_the_other_mode(
        writes in proptest::collection::vec(writes(), 0..16), stop in stops(), mode in modes(),
    ) {
        let log = stages(&writes, &stop).pop().unwrap();
        let other = if mode == StreamMode::Delta { StreamMode::Message } else { StreamMode::Delta };
        let whole = read(&log, mode, 0);
        for (number, _) in events(&read(&log, other, 0)) {
            prop_assert_eq!(read(&log, mode, number + 1), behind(&whole, number));
        }
    }
}
