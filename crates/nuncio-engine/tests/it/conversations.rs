//! What a turn reads of a long history.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_bus::LocalBus;
use nuncio_core::agent::Agent;
use nuncio_core::audit::AuditRecord;
use nuncio_core::event::TurnEventLog;
use nuncio_core::execution::Execution;
use nuncio_core::ids::{AgentName, Incarnation, SessionId};
use nuncio_core::message::{Block, Message, UnknownMessageFields};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::session::{Session, SessionSettings};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::{StopReason, StreamMode, TurnInput, TurnOutcome, turn_id};
use nuncio_engine::converse::{PermissionResponder, SessionSettingsPatch, TurnRequest};
use nuncio_engine::ports::Meter;
use nuncio_engine::ports::brain::{
    Brain, BrainError, BrainFactory, BrainStepInput, BrainStepStop, BrainWriter, HistoryNeed,
};
use nuncio_engine::ports::store::{Change, SessionChange, Store as _};
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_engine::{Caller, Engine, EngineLimits, EnginePorts};
use nuncio_store::SqliteStore;

use super::world::{AdjustableClock, RandomEntropy, SilentBackend};

const AGENT: &str = "[agent]\nname = \"helper\"\nversion = \"1.0.0\"\n[brain]\nkind = \"script\"\n";
const SESSION: &str = "s";
/// Window of the brains, in bytes: less than the history after 100 turns.
const WINDOW: usize = 2000;
const CACHE: usize = 64 << 20;

/// Brain that answers every message and stores the histories that it gets.
#[derive(Debug)]
struct RecordingBrain {
    need: HistoryNeed,
    summarizes: bool,
    histories: Mutex<Vec<Vec<Message>>>,
}

#[async_trait]
impl Brain for RecordingBrain {
    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        self.histories.lock().unwrap().push(prompt.history);
        writer.text("answer").await?;
        Ok(BrainStepStop::ended(StopReason::EndTurn))
    }

    async fn summarize(&self, prompt: BrainStepInput) -> Option<String> {
        self.summarizes.then(|| format!("{} messages", prompt.history.len()))
    }

    fn history_need(&self, _exchange: &[Message]) -> HistoryNeed {
        self.need
    }
}

#[derive(Debug)]
struct OneBrain(Arc<RecordingBrain>);

impl BrainFactory for OneBrain {
    fn brain(&self, _agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String> {
        Ok(Arc::clone(&self.0) as _)
    }
}

/// Meter that counts what turns read of their histories.
#[derive(Debug, Default)]
struct ReadCounter {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Meter for ReadCounter {
    fn history_read(&self, messages: usize, bytes: usize) {
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn turn_began(&self, _agent: &AgentName) {}
    fn turn_ended(&self, _agent: &AgentName, _stop: &TurnOutcome, _took: Duration) {}
    fn call_ended(&self, _record: &AuditRecord, _declared: bool) {}
    fn execution_ended(&self, _execution: &Execution) {}
    fn stream_opened(&self) {}
    fn stream_closed(&self) {}
    fn committed(&self, _callers: usize, _took: Duration) {}
}

/// One conversation with earlier turns, and what its next turns read.
struct LongConversation {
    engine: Engine,
    brain: Arc<RecordingBrain>,
    reads: Arc<ReadCounter>,
    _folder: tempfile::TempDir,
}

impl LongConversation {
    async fn after(earlier: u64, need: HistoryNeed, summarizes: bool, cache: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = stored(&folder.path().join("nuncio.db"), earlier).await;
        let brain = Arc::new(RecordingBrain { need, summarizes, histories: Mutex::default() });
        let reads = Arc::new(ReadCounter::default());
        let ports = EnginePorts {
            store,
            bus: Arc::new(LocalBus::default()),
            brains: Arc::new(OneBrain(Arc::clone(&brain))),
            runner: Arc::new(SilentBackend),
            clock: Arc::new(AdjustableClock::new()),
            entropy: Arc::new(RandomEntropy),
            cipher: SecretCipher::new(&[7; 32]),
            meter: Arc::clone(&reads) as _,
        };
        let limits = EngineLimits { conversation_cache: cache, ..EngineLimits::default() };
        let engine = Engine::new(ports, limits, Vec::new());
        engine.access().load().await.unwrap();
        engine.agents().publish(nuncio_agent_file::parse("agent.toml", AGENT).unwrap().agent).await.unwrap();
        Self { engine, brain, reads, _folder: folder }
    }

    /// Runs a turn and returns the number of messages that it read from the store, and their bytes.
    async fn turn(&self, text: &str) -> (usize, usize) {
        let request = TurnRequest {
            input: TurnInput::User(Message::user(text)),
            mode: StreamMode::None,
            settings: SessionSettingsPatch::default(),
            protocol: Protocol::Aap,
            prompts: PermissionResponder::Absent,
        };
        let caller = Caller::new(Principal::Local);
        let turn = self.engine.conversations().run_turn(&caller, SESSION, request, None).await.unwrap();
        assert_eq!(turn.read(TurnEventLog::stop).map(|stop| stop.stop_reason), Some(StopReason::EndTurn));
        (self.reads.messages.swap(0, Ordering::Relaxed), self.reads.bytes.swap(0, Ordering::Relaxed))
    }

    async fn turns(&self, count: usize) -> Vec<(usize, usize)> {
        let mut reads = Vec::new();
        for number in 0..count {
            reads.push(self.turn(&format!("another question {number}")).await);
        }
        reads
    }

    async fn end(self) -> Vec<Vec<Message>> {
        self.engine.shut_down(Duration::ZERO).await;
        std::mem::take(&mut self.brain.histories.lock().unwrap())
    }
}

/// A store with one session, in which `earlier` turns have ended.
async fn stored(file: &Path, earlier: u64) -> Arc<SqliteStore> {
    let id = SessionId::parse(SESSION).unwrap();
    let system = Message::System { content: "be kind".to_owned(), extra: UnknownMessageFields::new() };
    let session = Session {
        id: id.clone(),
        owner: Principal::Local,
        agent: AgentName::parse("helper").unwrap(),
        settings: SessionSettings::default(),
        pending: Vec::new(),
        turns: 0,
        running: false,
        next_message: 1,
        summary: None,
        created_at: Timestamp::from_millis(0),
    };
    let mut changes = vec![SessionChange::Create { session, messages: vec![system] }];
    for number in 1..=earlier {
        let said = |position, message| SessionChange::AppendMessage {
            session: id.clone(),
            turn: number,
            number: 2 * number - 1 + position,
            message,
        };
        changes.extend([
            SessionChange::BeginTurn {
                session: id.clone(),
                number,
                node: Incarnation::parse("before").unwrap(),
                mode: StreamMode::None,
                protocol: Protocol::Aap,
                at: Timestamp::from_millis(0),
                settings: None,
            },
            said(0, Message::user(format!("question {number:04}"))),
            said(1, Message::assistant(vec![Block::text(format!("answer {number:04}"))])),
            SessionChange::EndTurn {
                session: id.clone(),
                number,
                at: Timestamp::from_millis(0),
                stop: TurnOutcome {
                    stop_reason: StopReason::EndTurn,
                    turn_id: turn_id(&id, number),
                    cancelled: false,
                    usage: None,
                    error: None,
                },
                events: Vec::new(),
            },
        ]);
    }
    let store = Arc::new(SqliteStore::open(file).unwrap());
    store.commit(changes.into_iter().map(Change::from).collect()).await.unwrap();
    store
}

#[tokio::test]
async fn turn_reads_no_history_for_a_brain_that_needs_only_the_newest_exchange() {
    for cache in [0, CACHE] {
        for earlier in [10, 100, 1000] {
            let conversation = LongConversation::after(earlier, HistoryNeed::NewestExchange, false, cache).await;
            assert_eq!(conversation.turns(3).await, [(0, 0); 3], "{earlier} earlier turns");
            conversation.end().await;
        }
    }
}

#[tokio::test]
async fn turn_after_1000_turns_reads_as_much_as_after_100_and_no_more_than_the_window_needs() {
    for need in [HistoryNeed::Window(WINDOW), HistoryNeed::SummarizedWindow(WINDOW)] {
        let mut of_all = Vec::new();
        for earlier in [100, 1000] {
            // Nothing is cached, and no summary is made.
            let conversation = LongConversation::after(earlier, need, false, 0).await;
            let reads = conversation.turns(3).await;
            assert!(reads.iter().all(|(_, bytes)| (WINDOW..4 * WINDOW).contains(bytes)), "{need:?}: {reads:?}");
            of_all.push(reads);
            conversation.end().await;
        }
        assert_eq!(of_all[0], of_all[1], "{need:?}");
    }
}

#[tokio::test]
async fn turns_of_a_cached_conversation_read_nothing_after_the_first() {
    for (need, summarizes) in [(HistoryNeed::Window(WINDOW), false), (HistoryNeed::SummarizedWindow(WINDOW), true)] {
        for earlier in [10, 100, 1000] {
            let conversation = LongConversation::after(earlier, need, summarizes, CACHE).await;
            conversation.turn("first").await;
            assert_eq!(conversation.turns(100).await, [(0, 0); 100], "{need:?}, {earlier} earlier turns");
            conversation.end().await;
        }
    }
}

#[tokio::test]
async fn brain_gets_the_same_history_whether_or_not_the_conversation_is_cached() {
    let needs = [
        HistoryNeed::NewestExchange,
        HistoryNeed::Window(WINDOW),
        HistoryNeed::SummarizedWindow(WINDOW),
        HistoryNeed::Everything,
    ];
    for need in needs {
        for summarizes in [false, true] {
            let mut histories = Vec::new();
            for cache in [0, CACHE] {
                let conversation = LongConversation::after(30, need, summarizes, cache).await;
                conversation.turns(30).await;
                histories.push(conversation.end().await);
            }
            assert_eq!(histories[0].len(), 30);
            assert!(histories[0] == histories[1], "{need:?}, {summarizes}");
        }
    }
}
