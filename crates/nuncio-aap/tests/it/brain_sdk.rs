//! Tests of the `aap` brain with a server that behaves like the server of the AAP SDK 0.8.0: after a permission it runs
//! the tool, but sends no `tool_result`, and often no `turn_stop`. The result is only in its history.

use nuncio_testkit::{AapClient, Gateway};
use serde_json::{Value, json};

use crate::scripted::{ScriptedAnswer, ScriptedServer, created, events};

const TURNS: &str = "POST /api/sessions/s1/turns";
const HISTORY: &str = "GET /api/sessions/s1/history";

/// Answers of the SDK's server to a question, and to the permission for the call `c1` of its tool `add`.
fn sdk_answers(turn_stop: bool) -> Vec<ScriptedAnswer> {
    let meta = json!({"version": 3, "agents": [{
        "name": "far", "version": "1.0.0",
        "tools": [{"name": "add", "description": "", "parameters": {"type": "object"}}],
        "capabilities": {"stream": {"delta": {}}, "history": {"full": {}}, "application": {"tools": {}}},
    }]});
    let asked = json!([
        {"role": "user", "content": "How much is it?"},
        {"role": "assistant", "content": [{"type": "tool_use", "toolCallId": "c1", "name": "add", "input": {"a": 1}}]},
    ]);
    let mut answered = asked.clone();
    answered.as_array_mut().unwrap().extend([
        json!({"role": "tool", "toolCallId": "c1", "content": "3"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "It is 3."}]}),
    ]);
    let history = |messages: &Value| ScriptedAnswer::json(HISTORY, 200, &json!({"history": {"full": messages}}));
    let stream = |event: (&str, Value), reason: &str| {
        let mut list = vec![("turn_start", json!({})), event];
        if turn_stop {
            list.push(("turn_stop", json!({"stopReason": reason})));
        }
        ScriptedAnswer::stream(TURNS, events(&list))
    };
    let call = ("tool_call", json!({"toolCallId": "c1", "name": "add", "input": {"a": 1}}));
    let mut answers = vec![
        ScriptedAnswer::json("GET /api/meta", 200, &meta),
        created(),
        stream(call, "tool_use"),
        stream(("text_delta", json!({"delta": "It is 3."})), "end_turn"),
    ];
    if !turn_stop {
        answers.push(history(&asked));
    }
    answers.push(history(&answered));
    answers
}

async fn near(server: &ScriptedServer) -> (Gateway, AapClient) {
    let agent = format!(
        "[agent]\nname = \"near\"\nversion = \"1.0.0\"\ndescription = \"Thinks elsewhere.\"\n\n\
         [brain]\nkind = \"aap\"\nurl = \"{}\"\n",
        server.url
    );
    let gateway = Gateway::builder().agent("near", &agent).start().await;
    let aap = gateway.aap();
    (gateway, aap)
}

async fn result_after_grant(turn_stop: bool) -> Vec<Value> {
    let server = ScriptedServer::start(sdk_answers(turn_stop)).await;
    let (_gateway, aap) = near(&server).await;
    let session = aap.session("near", &[]).await;
    let asked = aap.say(&session, "How much is it?").await;
    assert_eq!(asked["stopReason"], "tool_use", "{asked}");
    let yes = json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}]);
    let (status, answer) = aap.turn(&session, yes).await;
    assert_eq!((status, &answer["stopReason"]), (200, &json!("end_turn")), "{answer}");
    let sent = server.asked("/turns").len();
    assert_eq!(sent, 2, "the permission is sent once, because the server runs the tool for each one");
    aap.history(&session).await
}

fn expected() -> Vec<Value> {
    vec![
        json!({"role": "tool", "toolCallId": "c1", "content": "3"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "It is 3."}]}),
    ]
}

#[tokio::test]
async fn unstreamed_result_of_a_granted_call_is_taken_from_the_remote_history() {
    assert_eq!(result_after_grant(true).await[2..], expected());
}

#[tokio::test]
async fn result_of_a_granted_call_survives_a_missing_turn_stop() {
    assert_eq!(result_after_grant(false).await[2..], expected());
}
