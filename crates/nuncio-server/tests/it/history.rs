//! Stored conversations: history, settings and the session list.

use std::collections::HashSet;
use std::time::Duration;

use nuncio_testkit::{AapClient, Gateway, ManualClock};
use serde_json::{Value, json};

use crate::agents::{DESK, desk, echo, tool};

fn agent() -> String {
    let options = "
[[option]]
name = \"language\"
type = \"text\"
default = \"English\"
[[option]]
name = \"model\"
type = \"select\"
options = [\"small\", \"large\"]
default = \"small\"
[[option]]
name = \"apiKey\"
type = \"secret\"
";
    desk(&[options.to_owned(), echo()])
}

async fn start() -> Gateway {
    Gateway::builder().agent(DESK, &agent()).start().await
}

async fn show(aap: &AapClient, session: &str) -> Value {
    let (status, body) = aap.get(&format!("/sessions/{session}")).await;
    assert_eq!(status, 200, "{body}");
    body
}

async fn change(aap: &AapClient, session: &str, changes: Value) -> (u16, Value) {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    aap.post(&format!("/sessions/{session}/turns"), body).await
}

#[tokio::test]
async fn full_history_equals_the_messages_of_all_turns() {
    let gateway = start().await;
    let aap = gateway.aap();
    let seed = json!([
        {"role": "system", "content": "be kind", "vendor": {"cache": true}},
        {"role": "user", "content": "plain \u{1F600} \u{0} \"quoted\"\n", "id": 7},
        {"role": "user", "content": [{"type": "text", "text": "", "x": null, "y": [1.5, -0.25, 1e300, 9_007_199_254_740_993_u64]}]},
        {"role": "assistant", "content": "said as a text"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s=="},
            {"type": "tool_use", "toolCallId": "old", "name": "gone", "input": {"deep": {"er": [null, {}]}}, "sig": 1},
        ]},
        {"role": "tool", "toolCallId": "old", "content": [{"type": "text", "text": "result", "lang": "de"}], "is_error": false},
    ]);
    let session = aap.session_with(json!({"agent": {"name": DESK}, "messages": seed, "unknown": 1})).await;
    assert_eq!(json!(aap.history(&session).await), seed);

    let said = json!({"role": "user", "content": [{"type": "text", "text": "hello", "mood": "good"}], "client": "x"});
    let (status, answer) = aap.turn(&session, json!([said])).await;
    assert_eq!(status, 200, "{answer}");
    let mut expected = seed.as_array().unwrap().clone();
    expected.push(said);
    expected.push(json!({"role": "assistant", "content": [{"type": "text", "text": "You said: hello"}]}));
    assert_eq!(aap.history(&session).await, expected);

    let data = gateway.stop().await;
    let next = Gateway::builder().agent(DESK, &agent()).data(data).start().await;
    assert_eq!(next.aap().history(&session).await, expected, "also after a restart");
}

#[tokio::test]
async fn client_tool_results_keep_unknown_fields_and_permissions_are_not_stored() {
    let gateway = start().await;
    let aap = gateway.aap();
    let mine = json!([{"name": "mine", "description": "", "parameters": {"type": "object"}, "strict": true}]);
    let request = json!({"agent": {"name": DESK, "tools": [{"name": "echo"}]}, "tools": mine});
    let session = aap.session_with(request).await;
    assert_eq!(show(&aap, &session).await["tools"], mine);
    let script = json!([
        [{"tool": {"id": "c1", "name": "mine", "input": {}}}, {"tool": {"id": "c2", "name": "echo", "input": {"a": 1}}}],
        [{"echo": "results"}],
    ]);
    assert_eq!(aap.play(&session, script).await["stopReason"], "tool_use");
    let result = json!({"role": "tool", "toolCallId": "c1", "content": "mine says", "took_ms": 12});
    let permission = json!({"role": "tool_permission", "toolCallId": "c2", "granted": true});
    let (status, answer) = aap.turn(&session, json!([permission, result])).await;
    assert_eq!(status, 200, "{answer}");
    let history = aap.history(&session).await;
    assert_eq!(history[2], result);
    assert_eq!(history[3], json!({"role": "tool", "toolCallId": "c2", "content": "{\"a\":1}"}));
    assert!(history.iter().all(|message| message["role"] != "tool_permission"));
    assert_eq!(answer["messages"][0], history[3], "the answer begins with the result of the granted call");
}

#[tokio::test]
async fn history_request_without_a_type_or_with_a_type_not_offered_is_refused() {
    let gateway = start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    aap.say(&session, "hello").await;
    for kind in ["full", "compacted"] {
        let (status, body) = aap.get(&format!("/sessions/{session}/history?type={kind}")).await;
        let keys: Vec<_> = body["history"].as_object().unwrap().keys().collect();
        assert_eq!((status, keys), (200, vec![&kind.to_owned()]));
        assert_eq!(body["history"][kind].as_array().unwrap().len(), 2);
    }
    for query in ["", "?type=", "?type=all", "?type=full&type=full"] {
        let (status, body) = aap.get(&format!("/sessions/{session}/history{query}")).await;
        assert_eq!((status, &body["code"]), (400, &json!("bad_request")), "{query}");
    }
    let shy = agent().replace("[brain]", "[capabilities]\nhistory = [\"compacted\"]\n[brain]");
    let gateway = Gateway::builder().agent(DESK, &shy).start().await;
    let session = gateway.aap().session(DESK, &[]).await;
    let (status, body) = gateway.aap().get(&format!("/sessions/{session}/history?type=full")).await;
    assert_eq!((status, &body["code"]), (404, &json!("history_not_offered")));
    assert_eq!(gateway.aap().get(&format!("/sessions/{session}/history?type=compacted")).await.0, 200);
}

#[tokio::test]
async fn session_options_merge_per_key_and_invalid_changes_set_nothing() {
    let gateway = start().await;
    let aap = gateway.aap();
    let request = json!({"agent": {"name": DESK, "options": {"language": "Deutsch"}}});
    let session = aap.session_with(request).await;
    assert_eq!(
        show(&aap, &session).await["agent"]["options"],
        json!({"language": "Deutsch"}),
        "defaults are not filled in"
    );

    assert_eq!(change(&aap, &session, json!({"agent": {"options": {"model": "large"}}})).await.0, 200);
    let merged = json!({"language": "Deutsch", "model": "large"});
    assert_eq!(show(&aap, &session).await["agent"]["options"], merged);
    for nothing in [json!({}), json!({"agent": {}}), json!({"agent": {"options": {}}}), json!({"agent": null})] {
        assert_eq!(change(&aap, &session, nothing).await.0, 200);
        assert_eq!(show(&aap, &session).await["agent"]["options"], merged);
    }

    let before = aap.history(&session).await;
    for (wrong, code) in [
        (json!({"options": {"model": "huge"}}), "bad_option"),
        (json!({"options": {"modell": "large"}}), "bad_option"),
        (json!({"options": {"language": 5}}), "bad_option"),
        (json!({"options": {"language": "Français", "model": "huge"}}), "bad_option"),
        (json!({"options": [], "tools": []}), "bad_request"),
        (json!({"tools": [{"name": "none"}]}), "unknown_tool"),
        (json!({"tools": [{"name": "echo"}, {"name": "echo"}]}), "tool_name_taken"),
    ] {
        let (status, body) = change(&aap, &session, json!({"agent": wrong})).await;
        assert_eq!((status, &body["code"]), (400, &json!(code)), "{wrong}");
    }
    assert_eq!(aap.history(&session).await, before, "no message was stored");
    assert_eq!(show(&aap, &session).await["agent"]["options"], merged, "no option was set, not even in part");
}

#[tokio::test]
async fn settings_changed_by_a_turn_persist_across_a_restart() {
    let gateway = start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("echo", true)]).await;
    let mine = json!([{"name": "mine", "description": "d", "parameters": {"type": "object"}}]);
    let changes = json!({
        "agent": {"name": "ignored", "tools": [{"name": "echo"}], "options": {"model": "large"}},
        "tools": mine,
    });
    assert_eq!(change(&aap, &session, changes).await.0, 200);
    let mut expected = json!({
        "sessionId": session,
        "agent": {"name": DESK, "tools": [{"name": "echo"}], "options": {"model": "large"}},
        "tools": mine,
    });
    let before = show(&aap, &session).await;
    expected["createdAt"] = before["createdAt"].clone();
    assert_eq!(before, expected);
    let data = gateway.stop().await;
    let next = Gateway::builder().agent(DESK, &agent()).data(data).start().await;
    let aap = next.aap();
    assert_eq!(show(&aap, &session).await, expected);
    // An empty list differs from an absent one.
    assert_eq!(change(&aap, &session, json!({"agent": {"tools": []}, "tools": []})).await.0, 200);
    let shown = show(&aap, &session).await;
    assert_eq!((&shown["agent"]["tools"], shown.get("tools")), (&json!([]), None));
    let answer = aap.play(&session, json!([[{"echo": "tools"}]])).await;
    assert_eq!(answer["messages"][0]["content"][0]["text"], "[]");
}

#[tokio::test]
async fn client_tool_may_have_the_name_of_a_disabled_but_not_of_an_enabled_or_hidden_tool() {
    let hidden = tool("secret", "cat", "expose = false");
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo(), hidden])).start().await;
    let aap = gateway.aap();
    let mine = |name: &str| json!([{"name": name, "description": "d", "parameters": {"type": "object"}}]);
    let session = aap.session_with(json!({"agent": {"name": DESK}, "tools": mine("echo")})).await;
    // The app's own tool is offered and called, not the agent's disabled one.
    let called = aap.play(&session, json!([[{"tool": {"id": "c1", "name": "echo", "input": {}}}]])).await;
    assert_eq!(called["stopReason"], "tool_use", "{called}");
    let (status, _) = aap.turn(&session, json!([{"role": "tool", "toolCallId": "c1", "content": "mine"}])).await;
    assert_eq!(status, 200);
    assert!(gateway.audit().await.is_empty(), "the agent's tool did not run");

    let before = show(&aap, &session).await;
    let both = json!({"agent": {"name": DESK, "tools": [{"name": "echo"}]}, "tools": mine("echo")});
    for (path, body) in [
        ("/sessions".to_owned(), both),
        ("/sessions".to_owned(), json!({"agent": {"name": DESK}, "tools": mine("secret")})),
        // Enabling the agent's tool while the app's tool has its name.
        (
            format!("/sessions/{session}/turns"),
            json!({"messages": [{"role": "user", "content": "hi"}], "agent": {"tools": [{"name": "echo"}]}}),
        ),
    ] {
        let (status, refused) = aap.post(&path, body).await;
        assert_eq!((status, &refused["code"]), (400, &json!("tool_name_taken")), "{refused}");
    }
    assert_eq!(show(&aap, &session).await, before, "nothing was changed");
    // The app's tool is withdrawn in the same turn.
    let swapped = json!({"agent": {"tools": [{"name": "echo"}]}, "tools": []});
    assert_eq!(change(&aap, &session, swapped).await.0, 200);
}

#[tokio::test]
async fn settings_changed_by_a_turn_persist_even_if_the_turn_fails() {
    let gateway = start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let body = json!({
        "messages": [{"role": "user", "content": json!({"script": [[{"throw": "no"}]]}).to_string()}],
        "agent": {"options": {"model": "large"}},
    });
    let (status, answer) = aap.post(&format!("/sessions/{session}/turns"), body).await;
    assert_eq!((status, &answer["stopReason"]), (200, &json!("error")));
    assert_eq!(show(&aap, &session).await["agent"]["options"], json!({"model": "large"}));
}

/// The session ids on a page, and the cursor of the next page.
async fn page(aap: &AapClient, after: Option<&str>) -> (Vec<String>, Option<String>) {
    let query = after.map(|after| format!("?after={after}")).unwrap_or_default();
    let (status, body) = aap.get(&format!("/sessions{query}")).await;
    assert_eq!(status, 200, "{body}");
    let sessions = body["sessions"].as_array().unwrap();
    let ids = sessions.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect();
    assert!(body.get("next").is_none_or(Value::is_string), "absent on the last page: {body}");
    (ids, body["next"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn sessions_are_listed_newest_first_page_by_page_across_a_restart() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).start().await;
    let aap = gateway.aap();
    // Thirty sessions at each of four times, so that pages break between sessions of the same time.
    let mut made = Vec::new();
    for _ in 0..4 {
        let mut together = HashSet::new();
        for _ in 0..30 {
            together.insert(aap.session(DESK, &[]).await);
        }
        made.push(together);
        clock.advance(Duration::from_millis(1));
    }
    let (first, next) = page(&aap, None).await;
    assert_eq!(first.len(), 50);
    let next = next.unwrap();

    let data = gateway.stop().await;
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).data(data).start().await;
    let aap = gateway.aap();
    // Sessions that are created or deleted meanwhile do not shift the next page.
    let newest = aap.session(DESK, &[]).await;
    assert_eq!(aap.delete(&format!("/sessions/{}", first[49])).await.0, 204);
    let (second, next) = page(&aap, Some(&next)).await;
    let (third, end) = page(&aap, next.as_deref()).await;
    assert_eq!((second.len(), third.len(), end), (50, 20, None));

    let all: Vec<_> = [first.as_slice(), &second, &third].concat();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 120, "none twice");
    for (moment, together) in made.iter().rev().enumerate() {
        let listed: HashSet<_> = all[moment * 30..][..30].iter().cloned().collect();
        assert_eq!(&listed, together, "newest first");
    }
    assert_eq!(page(&aap, None).await.0[0], newest);
    assert_eq!(page(&aap, Some("")).await.0[0], newest, "an empty cursor starts at the newest message");
}

#[tokio::test]
async fn session_list_of_exactly_one_page_has_no_next_cursor() {
    let gateway = start().await;
    let aap = gateway.aap();
    for _ in 0..50 {
        aap.session(DESK, &[]).await;
    }
    let (ids, next) = page(&aap, None).await;
    assert_eq!((ids.len(), next), (50, None));
}

#[tokio::test]
async fn malformed_session_cursor_is_refused() {
    let gateway = start().await;
    for wrong in ["x", "MTIz", "%00", "bm90LWEtbnVtYmVyL3Nlc18x", "0"] {
        let (status, body) = gateway.aap().get(&format!("/sessions?after={wrong}")).await;
        assert_eq!((status, &body["code"]), (400, &json!("bad_cursor")), "{wrong}");
    }
}
