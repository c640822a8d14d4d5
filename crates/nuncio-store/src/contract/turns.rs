use nuncio_core::policy::Protocol;
use nuncio_core::session::{Session, SessionSettings};
use nuncio_core::turn::{StreamMode, Turn, TurnState};
use nuncio_engine::ports::store::{Change, Conflict, SessionChange};

use super::sample::{self, NOW, later, session_id};
use super::{TestDatabase, assert_one_winner, made, race, refusal};

fn running(session: &str, number: u64) -> Turn {
    let session = session_id(session);
    let (mode, protocol) = (StreamMode::Delta, Protocol::Anp);
    Turn { session, number, mode, protocol, started_at: NOW, state: TurnState::Running }
}

pub async fn turn_state_and_events_are_stored_at_begin_and_end(place: &dyn TestDatabase) {
    let store = place.open().await;
    let id = session_id("s");
    made(&*store, [sample::create("s")]).await;
    made(&*store, [sample::begin("s", 1)]).await;
    assert_eq!(store.turn(&id, 1).await.unwrap(), Some(running("s", 1)));
    assert_eq!(store.turn_events(&id, 1).await.unwrap(), None);
    let session = store.session(&id).await.unwrap().unwrap();
    assert_eq!((session.turns, session.running), (1, true));

    made(&*store, [sample::end("s", 1)]).await;
    let state = TurnState::Stopped { at: later(9), stop: sample::stop("s", 1) };
    assert_eq!(store.turn(&id, 1).await.unwrap(), Some(Turn { state, ..running("s", 1) }));
    assert_eq!(store.turn_events(&id, 1).await.unwrap(), Some(vec![0, 159, 146, 150, u8::MAX]));
    let session = store.session(&id).await.unwrap().unwrap();
    assert_eq!((session.turns, session.running), (1, false));
    assert_eq!(store.turn(&id, 2).await.unwrap(), None);
}

pub async fn beginning_a_turn_stores_changed_session_settings(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    let begin = |number, settings| {
        Change::from(SessionChange::BeginTurn {
            session: session_id("s"),
            number,
            node: sample::here(),
            mode: StreamMode::None,
            protocol: Protocol::Aap,
            at: NOW,
            settings: Some(settings),
        })
    };
    made(&*store, [begin(1, sample::settings())]).await;
    let expected = Session { settings: sample::settings(), turns: 1, running: true, ..sample::session("s") };
    assert_eq!(store.session(&session_id("s")).await.unwrap(), Some(expected));
    let settings = async || store.session(&session_id("s")).await.unwrap().unwrap().settings;
    made(&*store, [sample::end("s", 1), sample::begin("s", 2)]).await;
    assert_eq!(settings().await, sample::settings());
    made(&*store, [sample::end("s", 2), begin(3, SessionSettings::default())]).await;
    assert_eq!(settings().await, SessionSettings::default());
}

/// Beginning a turn is refused with `TurnRunning` unless its number is the next and no turn runs.
pub async fn turns_run_one_at_a_time_and_in_order(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    for number in [0, 2] {
        assert_eq!(refusal(&*store, [sample::begin("s", number)]).await, Conflict::TurnRunning, "{number} at first");
    }
    made(&*store, [sample::begin("s", 1)]).await;
    for number in [0, 1, 2, 3] {
        assert_eq!(refusal(&*store, [sample::begin("s", number)]).await, Conflict::TurnRunning, "{number} beside 1");
    }
    made(&*store, [sample::end("s", 1)]).await;
    for number in [0, 1, 3] {
        assert_eq!(refusal(&*store, [sample::begin("s", number)]).await, Conflict::TurnRunning, "{number} after 1");
    }
    made(&*store, [sample::begin("s", 2)]).await;
    assert_eq!(store.running_turns(&sample::here()).await.unwrap(), [running("s", 2)]);
}

pub async fn turn_of_unknown_session_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [sample::begin("s", 1)]).await, Conflict::NoSession);
    assert_eq!(refusal(&*store, [sample::end("s", 1)]).await, Conflict::NoSession);
}

/// Ending a turn that is over or never began is refused with `TurnOver`, and changes nothing.
pub async fn turn_ends_only_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    assert_eq!(refusal(&*store, [sample::end("s", 1)]).await, Conflict::TurnOver);
    made(&*store, [sample::begin("s", 1), sample::end("s", 1), sample::begin("s", 2)]).await;
    let first = store.turn(&session_id("s"), 1).await.unwrap();
    let again = Change::from(SessionChange::EndTurn {
        session: session_id("s"),
        number: 1,
        at: later(100),
        stop: sample::stop("s", 1),
        events: Vec::new(),
    });
    assert_eq!(refusal(&*store, [again]).await, Conflict::TurnOver);
    assert_eq!(refusal(&*store, [sample::end("s", 3)]).await, Conflict::TurnOver);
    assert_eq!(store.turn(&session_id("s"), 1).await.unwrap(), first);
    assert_eq!(store.turn_events(&session_id("s"), 1).await.unwrap().map(|events| events.len()), Some(5));
    assert!(store.session(&session_id("s")).await.unwrap().unwrap().running, "the second turn is still running");
}

pub async fn running_turns_are_listed(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.running_turns(&sample::here()).await.unwrap(), []);
    for id in ["a", "b", "c"] {
        made(&*store, [sample::create(id), sample::begin(id, 1)]).await;
    }
    let end = Change::from(SessionChange::EndTurn {
        session: session_id("b"),
        number: 1,
        at: NOW,
        stop: sample::stop("b", 1),
        events: Vec::new(),
    });
    made(&*store, [end]).await;
    assert_eq!(store.turn_events(&session_id("b"), 1).await.unwrap(), Some(Vec::new()));
    let mut found = store.running_turns(&sample::here()).await.unwrap();
    found.sort_by(|one, other| one.session.cmp(&other.session));
    assert_eq!(found, [running("a", 1), running("c", 1)]);
}

pub async fn numbers_above_i64_max_are_not_found_and_refused_in_commits(place: &dyn TestDatabase) {
    let store = place.open().await;
    let id = session_id("s");
    made(&*store, [sample::create("s")]).await;
    for number in [u64::MAX, u64::MAX / 2 + 1] {
        assert_eq!(store.turn(&id, number).await.unwrap(), None);
        assert_eq!(store.turn_events(&id, number).await.unwrap(), None);
        assert_eq!(store.audit_links(number, 10).await.unwrap(), []);
        assert!(store.commit(vec![sample::begin("s", number)]).await.is_err());
        assert!(store.commit(vec![sample::append("s", 0, number, "far away")]).await.is_err());
    }
    assert_eq!(store.session(&id).await.unwrap(), Some(sample::session("s")));
}

/// Of 32 concurrent begins of a turn one succeeds; the others are refused with `TurnRunning`.
pub async fn only_one_of_many_concurrent_turn_begins_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    let units = (0..32).map(|n| vec![sample::append("s", 1, n, "me first"), sample::begin("s", 1)]);
    assert_one_winner(&race(&store, units).await, Conflict::TurnRunning);
    assert_eq!(store.running_turns(&sample::here()).await.unwrap(), [running("s", 1)]);
    assert_eq!(store.messages(&session_id("s"), 0).await.unwrap().len(), 1, "the losers left nothing");
}
