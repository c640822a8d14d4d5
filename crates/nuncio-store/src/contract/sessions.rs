use nuncio_core::ids::KeyId;
use nuncio_core::message::{Block, Message};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::session::{HistorySummary, Session};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::StreamMode;
use nuncio_engine::ports::store::{Change, Conflict, SessionChange, SessionCursor, Store};

use super::sample::{self, later, session_id};
use super::{TestDatabase, made, refusal};

pub async fn session_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let session = Session {
        settings: sample::settings(),
        pending: vec![sample::pending("c1"), sample::pending("调用 2")],
        next_message: 2,
        ..sample::session("s")
    };
    let messages = vec![Message::user("hello"), Message::assistant(vec![Block::text("hi")])];
    made(&*store, [Change::from(SessionChange::Create { session: session.clone(), messages: messages.clone() })]).await;

    assert_eq!(store.session(&session.id).await.unwrap(), Some(session.clone()));
    let stored = store.messages(&session.id, 0).await.unwrap();
    assert_eq!(stored.iter().map(|stored| (stored.number, stored.turn)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    assert_eq!(stored.iter().map(|stored| stored.decode().unwrap().message).collect::<Vec<_>>(), messages);
}

pub async fn unknown_session_is_not_found(place: &dyn TestDatabase) {
    let store = place.open().await;
    let id = session_id("nobody");
    assert_eq!(store.session(&id).await.unwrap(), None);
    assert_eq!(store.messages(&id, 0).await.unwrap(), []);
    assert_eq!(store.turn(&id, 1).await.unwrap(), None);
    assert_eq!(store.turn_events(&id, 1).await.unwrap(), None);
    assert_eq!(store.sessions(&sample::owner(), None, 10).await.unwrap(), []);
}

/// A second session with the same id is refused with `Exists`, and the first stays unchanged.
pub async fn duplicate_session_id_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    let theirs = Session { owner: sample::stranger(), next_message: 1, ..sample::session("s") };
    let again = Change::from(SessionChange::Create { session: theirs, messages: vec![Message::user("mine now")] });
    assert_eq!(refusal(&*store, [again]).await, Conflict::Exists);
    assert_eq!(store.session(&session_id("s")).await.unwrap(), Some(sample::session("s")));
    assert_eq!(store.messages(&session_id("s"), 0).await.unwrap(), []);
}

pub async fn sessions_are_listed_newest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    create_at(&*store, &[("b", 2), ("d", 4), ("a", 1), ("c", 3)]).await;
    assert_eq!(ids(&store.sessions(&sample::owner(), None, 10).await.unwrap()), ["d", "c", "b", "a"]);
    assert_eq!(ids(&store.sessions(&sample::owner(), None, 2).await.unwrap()), ["d", "c"]);
    assert_eq!(ids(&store.sessions(&sample::owner(), None, usize::MAX).await.unwrap()).len(), 4);
    assert_eq!(store.sessions(&sample::owner(), None, 0).await.unwrap(), []);
}

pub async fn session_pages_have_no_gaps_or_repetitions(place: &dyn TestDatabase) {
    let store = place.open().await;
    let names: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
    create_at(&*store, &names.iter().map(String::as_str).zip(0..).collect::<Vec<_>>()).await;
    let all = store.sessions(&sample::owner(), None, 100).await.unwrap();
    for size in [1, 3, 10, 11] {
        assert_eq!(paged(&*store, size).await, all, "pages of {size}");
    }
    let after = SessionCursor::after(&all[4]);
    create_at(&*store, &[("newer", 99)]).await;
    assert_eq!(store.sessions(&sample::owner(), Some(&after), 100).await.unwrap(), all[5..]);

    made(&*store, [Change::from(SessionChange::Delete(after.id.clone()))]).await;
    assert_eq!(
        store.sessions(&sample::owner(), Some(&after), 100).await.unwrap(),
        all[5..],
        "a cursor outlives its session"
    );
}

pub async fn pages_of_sessions_with_equal_times_have_no_gaps_or_repetitions(place: &dyn TestDatabase) {
    let store = place.open().await;
    create_at(&*store, &[("b", 1), ("A", 1), ("z", 0), ("_", 1), ("c", 1), ("-", 1), ("9", 2)]).await;
    let all = store.sessions(&sample::owner(), None, 100).await.unwrap();
    assert_eq!(all.len(), 7);
    assert!(all.is_sorted_by(|newer, older| newer.created_at >= older.created_at));
    for size in 1..=3 {
        assert_eq!(paged(&*store, size).await, all, "pages of {size}");
    }
}

pub async fn sessions_of_other_owners_are_not_listed(place: &dyn TestDatabase) {
    let store = place.open().await;
    let owners = [
        Principal::Local,
        Principal::Anonymous,
        sample::owner(),
        Principal::Key(KeyId::parse("key_ad").unwrap()),
        Principal::Key(KeyId::parse("KEY_ADA").unwrap()),
        Principal::OAuth { issuer: "https://a.example/".into(), subject: "ada".into() },
        Principal::Did("did:wba:a.example:ada".into()),
    ];
    for (n, owner) in owners.iter().enumerate() {
        let session = Session { owner: owner.clone(), ..sample::session(&format!("s{n}")) };
        made(&*store, [Change::from(SessionChange::Create { session, messages: Vec::new() })]).await;
    }
    for (n, owner) in owners.iter().enumerate() {
        let theirs = store.sessions(owner, None, 100).await.unwrap();
        assert_eq!(ids(&theirs), [format!("s{n}")], "{owner}");
        assert_eq!(theirs[0].owner, *owner);
    }
    assert_eq!(store.sessions(&sample::stranger(), None, 100).await.unwrap(), []);
}

pub async fn deleting_a_session_deletes_its_messages_turns_and_idempotency_records(place: &dyn TestDatabase) {
    let store = place.open().await;
    for id in ["gone", "kept"] {
        let request = Change::from(SessionChange::Remember(sample::idempotency_record(id, id)));
        let ended = [sample::create(id), sample::begin(id, 1), sample::append(id, 1, 0, "hello"), sample::end(id, 1)];
        made(&*store, ended).await;
        made(&*store, [sample::begin(id, 2), request]).await;
    }
    let (gone, kept) = (session_id("gone"), session_id("kept"));
    made(&*store, [Change::from(SessionChange::Delete(gone.clone()))]).await;

    assert_eq!(store.session(&gone).await.unwrap(), None);
    assert_eq!(store.messages(&gone, 0).await.unwrap(), []);
    assert_eq!(store.turn(&gone, 1).await.unwrap(), None);
    assert_eq!(store.turn_events(&gone, 1).await.unwrap(), None);
    assert_eq!(store.idempotency_record(&sample::owner(), "sessions", "gone").await.unwrap(), None);

    assert!(store.session(&kept).await.unwrap().is_some());
    assert_eq!(store.messages(&kept, 0).await.unwrap().len(), 1);
    assert!(store.turn_events(&kept, 1).await.unwrap().is_some());
    assert!(store.idempotency_record(&sample::owner(), "sessions", "kept").await.unwrap().is_some());
    assert_eq!(store.running_turns(&sample::here()).await.unwrap().len(), 1);

    // Late changes of a turn that was running are refused.
    assert_eq!(refusal(&*store, [sample::append("gone", 2, 1, "late")]).await, Conflict::NoSession);
    assert_eq!(refusal(&*store, [sample::end("gone", 2)]).await, Conflict::NoSession);
    // A new session may use the id again and starts empty.
    made(&*store, [sample::create("gone")]).await;
    assert_eq!(store.messages(&gone, 0).await.unwrap(), []);
    assert_eq!(store.turn(&gone, 1).await.unwrap(), None);
}

/// Deleting an unknown session, or a session twice, is refused with `NoSession`.
pub async fn deleting_unknown_session_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let delete = || [Change::from(SessionChange::Delete(session_id("s")))];
    assert_eq!(refusal(&*store, delete()).await, Conflict::NoSession);
    made(&*store, [sample::create("s")]).await;
    made(&*store, delete()).await;
    assert_eq!(refusal(&*store, delete()).await, Conflict::NoSession);
}

pub async fn new_pending_calls_replace_the_previous_ones(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    for pending in [vec![sample::pending("c1"), sample::pending("c2")], vec![sample::pending("c3")], Vec::new()] {
        made(&*store, [Change::from(SessionChange::SetPending { session: session_id("s"), pending: pending.clone() })])
            .await;
        let expected = Session { pending, ..sample::session("s") };
        assert_eq!(store.session(&session_id("s")).await.unwrap(), Some(expected));
    }
}

/// The last summary applies; a summary for an unknown session is refused with `NoSession`.
pub async fn second_summary_replaces_the_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [sample::create("s")]).await;
    for until in [3, 8] {
        let summary = HistorySummary { until, text: format!("until {until}") };
        made(&*store, [Change::from(SessionChange::SetSummary { session: session_id("s"), summary: summary.clone() })])
            .await;
        let expected = Session { summary: Some(summary), ..sample::session("s") };
        assert_eq!(store.session(&session_id("s")).await.unwrap(), Some(expected));
    }
    let summary = HistorySummary { until: 1, text: String::new() };
    let nowhere = Change::from(SessionChange::SetSummary { session: session_id("nowhere"), summary });
    assert_eq!(refusal(&*store, [nowhere]).await, Conflict::NoSession);
}

pub async fn pending_calls_for_unknown_session_are_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let change =
        Change::from(SessionChange::SetPending { session: session_id("s"), pending: vec![sample::pending("c1")] });
    assert_eq!(refusal(&*store, [change]).await, Conflict::NoSession);
}

async fn create_at(store: &dyn Store, sessions: &[(&str, i64)]) {
    for (id, millis) in sessions {
        let session = Session { created_at: Timestamp::from_millis(*millis), ..sample::session(id) };
        made(store, [Change::from(SessionChange::Create { session, messages: Vec::new() })]).await;
    }
}

async fn paged(store: &dyn Store, size: usize) -> Vec<Session> {
    let mut seen: Vec<Session> = Vec::new();
    loop {
        let after = seen.last().map(SessionCursor::after);
        let page = store.sessions(&sample::owner(), after.as_ref(), size).await.unwrap();
        if page.is_empty() {
            return seen;
        }
        assert!(page.len() <= size);
        seen.extend(page);
        assert!(seen.len() <= 100, "the pages go in circles");
    }
}

fn ids(sessions: &[Session]) -> Vec<&str> {
    sessions.iter().map(|session| session.id.as_str()).collect()
}

pub async fn only_idle_sessions_without_running_turn_are_listed_and_pruned(place: &dyn TestDatabase) {
    let store = place.open().await;
    let created = |id: &str, at| Session { created_at: later(at), ..sample::session(id) };
    for (id, at) in [("b", 2), ("a", 1), ("new", 100), ("busy", 3), ("used", 4)] {
        made(&*store, [Change::from(SessionChange::Create { session: created(id, at), messages: Vec::new() })]).await;
    }
    let begin = |session: &str, at| {
        Change::from(SessionChange::BeginTurn {
            session: session_id(session),
            number: 1,
            node: sample::here(),
            mode: StreamMode::Delta,
            protocol: Protocol::Aap,
            at: later(at),
            settings: None,
        })
    };
    // `used` had a recent turn, and `busy` has a turn that started long ago and still runs.
    let end = Change::from(SessionChange::EndTurn {
        session: session_id("used"),
        number: 1,
        at: later(95),
        stop: sample::stop("used", 1),
        events: Vec::new(),
    });
    made(&*store, [begin("used", 90), end, begin("busy", 5)]).await;
    let idle = async |limit| {
        let ids = store.idle_sessions(later(50), limit).await.unwrap();
        ids.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(idle(9).await, ["a", "b"]);
    assert_eq!(idle(1).await, ["a"]);
    // A turn begins after the idle sessions were listed.
    made(&*store, [begin("b", 60)]).await;
    let ids = ["a", "b", "new", "busy", "absent"].map(session_id).to_vec();
    made(&*store, [Change::from(SessionChange::Prune { ids, before: later(50) })]).await;
    for (id, stays) in [("a", false), ("b", true), ("new", true), ("busy", true), ("used", true)] {
        assert_eq!(store.session(&session_id(id)).await.unwrap().is_some(), stays, "{id}");
    }
}
