//! Tests of the `aap` brain with a server that behaves like the server of the AAP SDK 0.8.0: after a permission it runs
//! the tool, but sends no `tool_result`, and often no `turn_stop`. The result is only in its history.

use nuncio_testkit::{AapClient, Gateway, Method};
use serde_json::{Value, json};

use crate::scripted::{ScriptedResponse, ScriptedServer, created, events};

const TURNS: &str = "POST /api/sessions/s1/turns";
const HISTORY: &str = "GET /api/sessions/s1/history";

/// How the server behaves where the SDK has several ways.
#[derive(Debug, Clone, Copy)]
struct SdkServerOptions {
    /// The stream mode that it offers: `delta`, `message` or `none`.
    mode: &'static str,
    /// The kind of history that it offers.
    history: &'static str,
    turn_stop: bool,
    /// Number of history requests that fail first.
    history_failures: usize,
}

const SDK: SdkServerOptions = SdkServerOptions { mode: "delta", history: "full", turn_stop: true, history_failures: 0 };

impl SdkServerOptions {
    /// Answers to a question, and to the permission for the call `c1` of the tool `add`. The result is in the history
    /// before the agent goes on.
    fn answers(self) -> Vec<ScriptedResponse> {
        let capabilities =
            json!({"stream": {self.mode: {}}, "history": {self.history: {}}, "application": {"tools": {}}});
        let meta = json!({"version": 3, "agents": [{
            "name": "far", "version": "1.0.0",
            "tools": [{"name": "add", "description": "", "parameters": {"type": "object"}}],
            "capabilities": capabilities,
        }]});
        let call = json!({"toolCallId": "c1", "name": "add", "input": {"a": 1}});
        let mut tool_use = call.clone();
        tool_use["type"] = json!("tool_use");
        let asked = json!({"role": "assistant", "content": [tool_use]});
        let said = json!({"role": "assistant", "content": [{"type": "text", "text": "It is 3."}]});
        let waiting = json!([{"role": "user", "content": "How much is it?"}, asked]);
        let mut running = waiting.clone();
        running.as_array_mut().unwrap().push(json!({"role": "tool", "toolCallId": "c1", "content": "3"}));
        let mut whole = running.clone();
        whole.as_array_mut().unwrap().push(said.clone());
        let history =
            |messages: &Value| ScriptedResponse::json(HISTORY, 200, &json!({"history": {self.history: messages}}));
        let text = match self.mode {
            "delta" => ("text_delta", json!({"delta": "It is 3."})),
            _ => ("text", json!({"text": "It is 3."})),
        };
        let mut answers = vec![
            ScriptedResponse::json("GET /api/meta", 200, &meta),
            created(),
            self.turn(("tool_call", call), &asked, "tool_use"),
            self.turn(text, &said, "end_turn"),
        ];
        if !self.turn_stop {
            // The client looks up how the first turn ended, too.
            answers.push(history(&waiting));
        }
        answers.extend(std::iter::repeat_n(ScriptedResponse::text(HISTORY, 500, "failed"), self.history_failures));
        answers.extend([history(&running), history(&whole)]);
        answers
    }

    fn turn(self, event: (&str, Value), message: &Value, reason: &str) -> ScriptedResponse {
        if self.mode == "none" {
            return ScriptedResponse::json(TURNS, 200, &json!({"stopReason": reason, "messages": [message]}));
        }
        let mut list = vec![("turn_start", json!({})), event];
        if self.turn_stop {
            list.push(("turn_stop", json!({"stopReason": reason})));
        }
        ScriptedResponse::stream(TURNS, events(&list))
    }
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

/// A conversation at an agent with the brain `aap`, where the call `c1` waits for a permission.
struct ConversationAwaitingPermission {
    server: ScriptedServer,
    _gateway: Gateway,
    aap: AapClient,
    session: String,
}

impl ConversationAwaitingPermission {
    async fn start(behaviour: SdkServerOptions) -> Self {
        let server = ScriptedServer::start(behaviour.answers()).await;
        let (gateway, aap) = near(&server).await;
        let session = aap.session("near", &[]).await;
        let asked = aap.say(&session, "How much is it?").await;
        assert_eq!(asked["stopReason"], "tool_use", "{asked}");
        Self { server, _gateway: gateway, aap, session }
    }

    /// The messages in the answer to the granted permission, and those of the history since.
    async fn grant(self) -> [Value; 2] {
        let (status, answer) = self.aap.turn(&self.session, granted()).await;
        assert_eq!((status, &answer["stopReason"]), (200, &json!("end_turn")), "{answer}");
        let sent = self.server.asked("/turns").len();
        assert_eq!(sent, 2, "the permission is sent once, because the server runs the tool for each one");
        let history = self.aap.history(&self.session).await;
        [answer["messages"].clone(), json!(history[2..])]
    }
}

fn granted() -> Value {
    json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}])
}

fn expected() -> Value {
    json!([
        {"role": "tool", "toolCallId": "c1", "content": "3"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is 3."}]},
    ])
}

#[tokio::test]
async fn unstreamed_result_of_a_granted_call_comes_before_the_text_that_follows_it() {
    let rows = [
        SDK,
        SdkServerOptions { mode: "message", ..SDK },
        SdkServerOptions { mode: "none", ..SDK },
        SdkServerOptions { mode: "none", history: "compacted", ..SDK },
        SdkServerOptions { turn_stop: false, ..SDK },
    ];
    for behaviour in rows {
        let [answer, history] = ConversationAwaitingPermission::start(behaviour).await.grant().await;
        assert_eq!((answer, history), (expected(), expected()), "{behaviour:?}");
    }
}

#[tokio::test]
async fn unstreamed_result_of_a_granted_call_comes_before_the_text_in_a_stream() {
    let asked = ConversationAwaitingPermission::start(SDK).await;
    let body = json!({"messages": granted(), "stream": "delta"});
    let path = format!("/sessions/{}/turns", asked.session);
    let stream = asked.aap.request(Method::POST, &path).json(&body).send().await.unwrap().text().await.unwrap();
    let names: Vec<_> = stream.lines().filter_map(|line| line.strip_prefix("event:")).map(str::trim).collect();
    assert_eq!(names, ["turn_start", "tool_result", "text_delta", "turn_stop"], "{stream}");
}

#[tokio::test]
async fn result_of_a_granted_call_survives_failed_history_requests() {
    let behaviour = SdkServerOptions { history_failures: 2, ..SDK };
    let [_, history] = ConversationAwaitingPermission::start(behaviour).await.grant().await;
    assert_eq!(history, expected());
}
