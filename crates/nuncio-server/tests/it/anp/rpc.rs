//! `/agents/{name}/rpc`: an agent's tools as JSON-RPC methods, through the call chain.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::{AuditDecision, AuditOutcome};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_identity::challenge::{DidAuthChallenge, IssuedAccessToken};
use nuncio_server::admin::AdminCommand;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{APPROVAL, RPC, bearer, outcome, post, request, signed, world, world_with};
use crate::agents::{DESK, desk, gone, held_pid, release, runs, tool};

#[tokio::test]
async fn unidentified_caller_gets_a_challenge_and_is_admitted_with_a_signature() {
    let world = world().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": 1}}).to_string();
    let answer = post(&world.gateway, RPC, &[], &body).await;
    assert_eq!(answer.status, 401);
    assert!(DidAuthChallenge::read(answer.header("www-authenticate").unwrap()).unwrap().is_retryable());
    assert!(answer.header("accept-signature").unwrap().contains("\"@target-uri\""));
    assert_eq!(world.gateway.audit().await.len(), 0, "no tool was called yet");

    let answer = world.send(&world.ada, RPC, &body).await;
    assert_eq!(answer.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}));
    let token = IssuedAccessToken::read(answer.header("authentication-info").unwrap()).unwrap().access_token;
    let answer = post(&world.gateway, RPC, &bearer(&token), &body).await;
    assert_eq!((answer.status, answer.header("authentication-info")), (200, None));
    let records = world.gateway.audit().await;
    let ada = Principal::Did(world.ada.did.to_string());
    assert!(records.iter().all(|record| record.caller == ada && record.protocol == Protocol::Anp), "{records:#?}");
    assert_eq!(records.len(), 2);

    for token in [&token[..token.len() - 3], "nk_unknown", "eyJhbGciOiJFZERTQSJ9.e30.c2ln"] {
        let answer = post(&world.gateway, RPC, &bearer(token), &body).await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (401, Some("invalid_access_token")));
    }
    let mut wrong = signed(&world.gateway, &world.ada, RPC, &body);
    assert_eq!(post(&world.gateway, "/agents/desk/rpc?x=1", &wrong, &body).await.status, 401);
    wrong[2].1 = wrong[2].1.replace("sig1=:", "sig1=:AAAA");
    assert_eq!(post(&world.gateway, RPC, &wrong, &body).await.status, 401);
    assert_eq!(world.gateway.audit().await.len(), 2);
}

#[tokio::test]
async fn invalid_token_on_an_open_server_gets_a_challenge() {
    let gateway = nuncio_testkit::Gateway::builder().agent(DESK, &super::agent()).dev().start().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {}}).to_string();
    assert_eq!(post(&gateway, RPC, &[], &body).await.status, 200);
    assert_eq!(post(&gateway, RPC, &bearer("whatever"), &body).await.status, 200);
    let foreign = post(&gateway, RPC, &bearer("eyJhbGciOiJFZERTQSJ9.e30.c2ln"), &body).await;
    assert_eq!((foreign.status, foreign.json()["error"].as_str()), (401, Some("invalid_access_token")));
    let older = vec![("Authorization".to_owned(), "didwba did=\"x".to_owned())];
    assert_eq!(post(&gateway, RPC, &older, &body).await.status, 401, "whatever the case of the scheme");
    let records = gateway.audit().await;
    assert!(records.iter().all(|record| record.caller == Principal::Local) && records.len() == 2, "{records:#?}");
}

#[tokio::test]
async fn rpc_ids_are_echoed_and_invalid_requests_are_errors() {
    let world = world().await;
    let echo = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "echo"});
    for id in [json!(1), json!("one"), json!(-7), json!(1.5), Value::Null] {
        let answer = world.ask(&world.ada, RPC, &echo(id.clone())).await;
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    for (body, id, code) in [
        ("{", Value::Null, -32700),
        ("", Value::Null, -32700),
        ("\"text\"", Value::Null, -32600),
        ("{}", Value::Null, -32600),
        (r#"{"jsonrpc":"1.0","id":3,"method":"echo"}"#, json!(3), -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"echo"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"echo"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":4,"method":4}"#, json!(4), -32600),
        (r#"{"jsonrpc":"2.0","id":5,"method":"echo","params":[1]}"#, json!(5), -32602),
        (r#"{"jsonrpc":"2.0","id":6,"method":"Echo!"}"#, json!(6), -32601),
        (r#"{"jsonrpc":"2.0","id":6,"method":"secret"}"#, json!(6), -32601),
        (r#"{"jsonrpc":"2.0","id":6,"method":"nothing"}"#, json!(6), -32601),
        (r#"{"jsonrpc":"2.0","id":6,"method":"strict","params":{}}"#, json!(6), -32602),
        (r#"{"jsonrpc":"2.0","id":6,"method":"breaks","params":{}}"#, json!(6), -32000),
        (r#"{"jsonrpc":"2.0","id":6,"method":"echo","params":{"a":1,"a":2}}"#, Value::Null, -32700),
    ] {
        let answer = world.send(&world.ada, RPC, body).await;
        assert_eq!(answer.status, 200, "{body}");
        let answer = answer.json();
        assert_eq!((&answer["id"], outcome(&answer)), (&id, Err(code)), "{body}: {answer}");
    }
    let message = world.ask(&world.ada, RPC, &json!({"jsonrpc": "2.0", "id": 1, "method": "strict"})).await;
    assert!(message["error"]["message"].as_str().unwrap().contains('n'), "{message}");
    assert_eq!(
        world.call(&world.ada, "sized", json!({})).await,
        Ok(json!({"size": 3})),
        "the result has the type of its schema"
    );
    assert_eq!(world.send(&world.ada, "/agents/nobody/rpc", "{}").await.status, 404);
}

#[tokio::test]
async fn json_result_of_a_tool_without_output_schema_is_returned_as_json() {
    let tools = [
        tool("object", r#"printf '{"size": 3}'"#, ""),
        tool("list", "printf '[1, 2]'", ""),
        tool("number", "printf 42", ""),
        tool("words", "printf '{not json'", ""),
        "[[tool]]\nname = \"fixed\"\ndescription = \"d\"\ninput = { type = \"object\" }\nrun = { answer = '{\"n\": 1}' }\n"
            .to_owned(),
        "[[tool]]\nname = \"digits\"\ndescription = \"d\"\ninput = { type = \"object\" }\nrun = { answer = '007' }\n"
            .to_owned(),
    ];
    let world = world_with(|builder| builder.agent(DESK, &desk(&tools))).await;
    for (method, expected) in [
        ("object", json!({"size": 3})),
        ("list", json!([1, 2])),
        ("number", json!(42)),
        ("words", json!("{not json")),
        ("fixed", json!({"n": 1})),
        ("digits", json!("007")),
    ] {
        assert_eq!(world.call(&world.ada, method, json!({})).await, Ok(expected), "{method}");
    }
}

#[tokio::test]
async fn rpc_batch_gets_one_response_without_entries_for_notifications() {
    let world = world().await;
    let one = |id: u32, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method});
    let notice = json!({"jsonrpc": "2.0", "method": "echo"});
    let answer = world.ask(&world.ada, RPC, &json!([one(1, "echo"), notice, one(2, "secret"), 3])).await;
    let mut codes: Vec<_> = answer.as_array().unwrap().iter().map(|it| (it["id"].clone(), outcome(it))).collect();
    codes.sort_by_key(|(id, _)| id.to_string());
    assert_eq!(codes, [(json!(1), Ok(json!({}))), (json!(2), Err(-32601)), (Value::Null, Err(-32600))]);
    assert_eq!(world.gateway.audit().await.len(), 3, "each call has a record, also a notification");

    for body in [notice.clone(), json!([notice, notice]), json!({"jsonrpc": "2.0", "method": "echo", "params": []})] {
        let answer = world.send(&world.ada, RPC, &body.to_string()).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{body}");
        assert!(answer.header("authentication-info").is_some(), "a notification also returns a token");
    }
    for batch in [json!([]), Value::Array(vec![notice; 33])] {
        assert_eq!(outcome(&world.ask(&world.ada, RPC, &batch).await), Err(-32600));
    }
    assert_eq!(world.gateway.audit().await.len(), 6);
}

#[tokio::test]
async fn ungranted_method_is_forbidden_and_granted_one_runs() {
    let world = world().await;
    let bob = world.peer.someone("bob", world.gateway.engine().now());
    assert_eq!(world.call(&world.ada, "count", json!({})).await, Err(1006));
    world.grant(&world.ada, "notes:write").await;
    assert_eq!(world.call(&world.ada, "count", json!({})).await, Ok(json!("counted")));
    assert_eq!(world.call(&bob, "count", json!({})).await, Err(1006), "it was given to ada");
    assert_eq!(runs(&world.gateway), 1);
    let refused = world.gateway.audit().await.remove(0);
    assert_eq!(refused.decision, AuditDecision::Refused { by: "policy".into(), code: ErrorCode::ScopeNotGranted });
}

#[tokio::test]
async fn rpc_call_with_human_authorization_waits_for_approval() {
    let world = std::sync::Arc::new(world().await);
    world.grant(&world.ada, "danger:do").await;
    let ran = |file: &str| std::fs::read_to_string(world.gateway.file(DESK, file)).unwrap_or_default().lines().count();
    for (tool, file) in [("careful", "cares"), ("danger", "dangers")] {
        let call = || {
            let world = std::sync::Arc::clone(&world);
            tokio::spawn(async move { world.call(&world.ada, tool, json!({})).await })
        };
        let waiting = call();
        let question = world.gateway.question().await;
        assert_eq!(ran(file), 0);
        world.gateway.order(AdminCommand::ApproveAllow { id: question.id }).await.unwrap();
        assert_eq!((waiting.await.unwrap(), ran(file)), (Ok(json!("done")), 1));

        let waiting = call();
        let question = world.gateway.question().await;
        world.gateway.order(AdminCommand::ApproveDeny { id: question.id, reason: None }).await.unwrap();
        assert_eq!((waiting.await.unwrap(), ran(file)), (Err(1006), 1));

        let waiting = call();
        world.gateway.question().await;
        world.clock.pass(APPROVAL).await;
        assert_eq!((waiting.await.unwrap(), ran(file)), (Err(1006), 1));
        world.gateway.questions(0).await;
    }
}

#[tokio::test]
async fn rpc_call_over_its_time_limit_is_stopped() {
    let world = std::sync::Arc::new(world().await);
    let calling = {
        let world = std::sync::Arc::clone(&world);
        tokio::spawn(async move { world.call(&world.ada, "held", json!({})).await })
    };
    let pid = held_pid(&world.gateway).await;
    world.clock.pass(Duration::from_secs(30)).await;
    assert_eq!(calling.await.unwrap(), Err(1012));
    gone(pid).await;
}

#[tokio::test]
async fn client_disconnect_stops_the_rpc_call_with_one_record() {
    let world = world().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "held"}).to_string();
    let headers = signed(&world.gateway, &world.ada, RPC, &body);
    let mut stream = TcpStream::connect(world.gateway.address()).await.unwrap();
    stream.write_all(request(RPC, &headers, &body).as_bytes()).await.unwrap();
    let pid = held_pid(&world.gateway).await;
    drop(stream);
    gone(pid).await;
    let records = nuncio_testkit::eventually("the call is recorded", async || {
        Some(world.gateway.audit().await).filter(|records| !records.is_empty())
    })
    .await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].protocol, Protocol::Anp);
    assert_eq!(records[0].outcome, AuditOutcome::Failed { code: ErrorCode::Cancelled });
}

#[tokio::test]
async fn rpc_chat_continues_a_given_session_and_otherwise_starts_a_new_one() {
    let world = world().await;
    let say = async |text: &str, session: Option<&Value>| {
        let mut params = json!({"message": json!({"script": [[{"text": text}]]}).to_string()});
        if let Some(session) = session {
            params["session"] = session.clone();
        }
        world.call(&world.ada, "chat", params).await
    };
    let first = say("good day", None).await.unwrap();
    assert_eq!(first["text"], "good day");
    let second = say("again", Some(&first["session"])).await.unwrap();
    assert_eq!(second, json!({"text": "again", "session": first["session"]}));
    assert_ne!(say("anew", None).await.unwrap()["session"], first["session"]);

    let bob = world.peer.someone("bob", world.gateway.engine().now());
    let into = json!({"message": "let me in", "session": first["session"]});
    assert_eq!(world.call(&bob, "chat", into).await, Err(-32602), "the session belongs to another caller");
    for wrong in
        [json!({}), json!({"message": 1}), json!({"message": "x", "session": 1}), json!({"message": "x", "y": 1})]
    {
        assert_eq!(world.call(&world.ada, "chat", wrong.clone()).await, Err(-32602), "{wrong}");
    }
    // The agent's own calls are recorded with the caller as principal.
    let script = json!([[{"tool": {"id": "c1", "name": "count", "input": {}}}], [{"text": "tried"}]]);
    let params = json!({"message": json!({"script": script}).to_string()});
    assert_eq!(world.call(&world.ada, "chat", params).await.unwrap()["text"], "tried");
    let record = world.gateway.audit().await.pop().unwrap();
    assert_eq!((record.protocol, record.caller), (Protocol::Anp, Principal::Did(world.ada.did.to_string())));
    assert_eq!(runs(&world.gateway), 0, "notes:write was not given");
}

#[tokio::test]
async fn rpc_chat_in_a_busy_conversation_gets_a_busy_error() {
    let world = std::sync::Arc::new(world().await);
    let session = world.call(&world.ada, "chat", json!({"message": "hello"})).await.unwrap()["session"].clone();
    let script = json!([[{"tool": {"id": "c1", "name": "held", "input": {}}}], [{"text": "done"}]]);
    let params = json!({"message": json!({"script": script}).to_string(), "session": session});
    let talking = {
        let (world, params) = (std::sync::Arc::clone(&world), params.clone());
        tokio::spawn(async move { world.call(&world.ada, "chat", params).await })
    };
    held_pid(&world.gateway).await;
    assert_eq!(world.call(&world.ada, "chat", params).await, Err(1012));
    release(&world.gateway, "held.gate", "x").await;
    assert_eq!(talking.await.unwrap().unwrap()["text"], "done");
}
