//! Repeated `kill -9` in the middle of commits, on the same data directory: everything that was acknowledged to a
//! client is stored; everything else is stored completely or not at all.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nuncio_testkit::ReceivedSseEvent;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::client::{Client, call, last_text, new_session, play, turns, user};
use crate::home::TestAgentFolder;
use crate::random::random;

const KILLS: usize = 24;
const CLIENTS: usize = 6;
const TURNS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_data_survives_twenty_four_kills() {
    let home = TestAgentFolder::script();
    let mut survived = SurvivalCounts::default();
    let mut server = home.start();
    for round in 0..KILLS {
        let storm = Arc::new(LoadUntilKill {
            round,
            kill_after: usize::try_from(random(40)).unwrap() + 1,
            acknowledged: AtomicUsize::new(0),
            enough: Notify::new(),
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (storm, client) = (Arc::clone(&storm), server.aap());
                tokio::spawn(async move { storm.talk(&client, number).await })
            })
            .collect();
        storm.enough.notified().await;
        server.kill9();
        let mut acknowledged = Vec::new();
        for client in clients {
            acknowledged.extend(client.await.unwrap());
        }

        server = home.start();
        home.json_command(&["audit", "verify"]).json();
        let sessions = every_session(&server.aap()).await;
        for session in &acknowledged {
            assert!(sessions.contains(&session.id), "session {} was acknowledged and is gone", session.id);
            survived.count(session);
            check(&server.aap(), session).await;
        }
    }
    // At the end all sessions are checked again, also those that were not acknowledged.
    for id in every_session(&server.aap()).await {
        survived.sessions_there += 1;
        assert_no_partial_turn(&server.aap().history(&id).await);
    }
    survived.audit_records = home.audit().len();
    println!("{survived:?} after {KILLS} kills");
    assert!(survived.sessions > 0 && survived.turns > 0 && survived.cut_short > 0, "{survived:?}");
}

#[derive(Debug, Default)]
struct SurvivalCounts {
    /// Number of acknowledged sessions, all of which were found.
    sessions: usize,
    /// Number of turns whose end was received, all of which were found.
    turns: usize,
    /// Number of turns whose end was not received.
    cut_short: usize,
    sessions_there: usize,
    audit_records: usize,
}

impl SurvivalCounts {
    fn count(&mut self, session: &AcknowledgedSession) {
        self.sessions += 1;
        self.turns += session.turns.iter().filter(|turn| turn.messages.is_some()).count();
        self.cut_short += session.turns.iter().filter(|turn| turn.messages.is_none()).count();
    }
}

struct AcknowledgedSession {
    id: String,
    turns: Vec<AcknowledgedTurn>,
}

struct AcknowledgedTurn {
    body: Value,
    key: String,
    messages: Option<Vec<Value>>,
}

struct LoadUntilKill {
    round: usize,
    kill_after: usize,
    acknowledged: AtomicUsize,
    enough: Notify,
}

impl LoadUntilKill {
    /// Runs sessions and turns until a request fails because the server was killed. Returns the acknowledged sessions;
    /// the last one may end with an unacknowledged turn.
    async fn talk(&self, client: &Client, number: usize) -> Vec<AcknowledgedSession> {
        let mut acknowledged = Vec::new();
        loop {
            let made = client.try_post("/sessions", &new_session("script", &[("add", true), ("lookup", false)])).await;
            let Ok((201, body)) = made else { return acknowledged };
            self.acknowledge();
            let id = body["sessionId"].as_str().unwrap().to_owned();
            acknowledged.push(AcknowledgedSession { id, turns: Vec::new() });
            let session = acknowledged.last_mut().unwrap();
            for turn in 0..TURNS {
                let name = format!("{}-{number}-{}-{turn}", self.round, session.id);
                let mode = if turn % 2 == 0 { "none" } else { "message" };
                let body = json!({"messages": [play(&script(&name, turn))], "stream": mode});
                session.turns.push(AcknowledgedTurn { body, key: name, messages: None });
                let begun = session.turns.last_mut().unwrap();
                begun.messages = begun.send(client, &session.id).await;
                if begun.messages.is_none() {
                    return acknowledged;
                }
                self.acknowledge();
            }
        }
    }

    fn acknowledge(&self) {
        if self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == self.kill_after {
            self.enough.notify_one();
        }
    }
}

/// Script with two parallel tool calls and an answer; the last turn of a session ends with a pending call.
fn script(name: &str, turn: usize) -> Value {
    let sums = [1, 2].map(|n| call(&format!("{name}-{n}"), "add", json!({"a": n, "b": turn})));
    if turn == TURNS - 1 {
        return json!([sums, [call(&format!("{name}-w"), "lookup", json!({"key": name}))]]);
    }
    json!([sums, [{"text": name}, {"echo": "results"}]])
}

impl AcknowledgedTurn {
    /// Sends the turn; returns its messages, or `None` if the server was killed before its end.
    async fn send(&self, client: &Client, session: &str) -> Option<Vec<Value>> {
        let request =
            client.request(Method::POST, &turns(session)).header("Idempotency-Key", &self.key).json(&self.body);
        let response = request.send().await.ok()?;
        assert_eq!(response.status(), 200);
        let streamed = self.body["stream"] != "none";
        let text = response.text().await.ok()?;
        if !streamed {
            let answer: Value = serde_json::from_str(&text).unwrap();
            return Some(answer["messages"].as_array().unwrap().clone());
        }
        let events = ReceivedSseEvent::parse(&text);
        events.last().filter(|event| event.event == "turn_stop").map(|_| from_events(&events))
    }
}

fn from_events(events: &[ReceivedSseEvent]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    let mut blocks: Vec<Value> = Vec::new();
    let close = |blocks: &mut Vec<Value>, messages: &mut Vec<Value>| {
        if !blocks.is_empty() {
            messages.push(json!({"role": "assistant", "content": std::mem::take(blocks)}));
        }
    };
    for event in events {
        let data = &event.data;
        match event.event.as_str() {
            "text" => blocks.push(json!({"type": "text", "text": data["text"]})),
            "tool_call" => blocks.push(
                json!({"type": "tool_use", "toolCallId": data["toolCallId"], "name": data["name"], "input": data["input"]}),
            ),
            "tool_result" => {
                close(&mut blocks, &mut messages);
                messages.push(json!({"role": "tool", "toolCallId": data["toolCallId"], "content": data["content"]}));
            }
            _ => {}
        }
    }
    close(&mut blocks, &mut messages);
    messages
}

async fn check(client: &Client, acknowledged: &AcknowledgedSession) {
    let history = client.history(&acknowledged.id).await;
    assert_no_partial_turn(&history);
    let by_turn = split(&history);
    for turn in &acknowledged.turns {
        let found = by_turn.get(&turn.key);
        if let Some(messages) = &turn.messages {
            assert_eq!(found, Some(messages), "turn {} of session {}", turn.key, acknowledged.id);
        }
    }
    if let Some(unsure) = acknowledged.turns.last().filter(|turn| turn.messages.is_none()) {
        // The client repeats the request: it gets the turn that began, or the turn runs for the first time.
        let answered = unsure.send(client, &acknowledged.id).await.unwrap();
        let history = client.history(&acknowledged.id).await;
        assert_no_partial_turn(&history);
        assert_eq!(split(&history).get(&unsure.key), Some(&answered), "turn {} was begun once", unsure.key);
        assert_eq!(client.events(&acknowledged.id).await.last().unwrap().event, "turn_stop");
    }
    let answer = client.turn(&acknowledged.id, json!([user("and now?")])).await;
    assert_eq!(last_text(answer["messages"].as_array().unwrap()), "You said: and now?");
    assert_no_partial_turn(&client.history(&acknowledged.id).await);
}

fn split(history: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut turns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut current = None;
    for message in history {
        if message["role"] == "user" {
            let name = named(message["content"].as_str().unwrap());
            if let Some(name) = &name {
                assert!(turns.insert(name.clone(), Vec::new()).is_none(), "turn {name} was begun twice");
            }
            current = name;
        } else if let Some(name) = &current {
            // The result that closes an abandoned call belongs to the next turn.
            if !message["content"].to_string().contains("the conversation continued without an answer to it") {
                turns.get_mut(name).unwrap().push(message.clone());
            }
        }
    }
    turns
}

fn named(content: &str) -> Option<String> {
    let script: Value = serde_json::from_str(content).ok()?;
    let id = script["script"][0][0]["tool"]["id"].as_str()?;
    id.strip_suffix("-1").map(str::to_owned)
}

/// Checks that every call is answered exactly once before the next message; only a call at the end may be pending.
fn assert_no_partial_turn(history: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    for message in history {
        if message["role"] == "tool" {
            let id = message["toolCallId"].as_str().unwrap();
            let index = open.iter().position(|call| *call == id);
            open.remove(index.unwrap_or_else(|| panic!("{id} was answered but not called: {history:#?}")));
            continue;
        }
        assert!(open.is_empty(), "{open:?} were called and not answered: {history:#?}");
        if let Some(blocks) = message["content"].as_array() {
            open.extend(blocks.iter().filter_map(|block| block["toolCallId"].as_str()));
        }
    }
    assert!(open.iter().all(|call| call.ends_with("-w")), "{open:?} are open at the end: {history:#?}");
}

async fn every_session(client: &Client) -> HashSet<String> {
    let mut ids = HashSet::new();
    let mut path = "/sessions".to_owned();
    loop {
        let (status, page) = client.get(&path).await;
        assert_eq!(status, 200, "{page}");
        ids.extend(
            page["sessions"].as_array().unwrap().iter().map(|info| info["sessionId"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => path = format!("/sessions?after={next}"),
            None => return ids,
        }
    }
}
