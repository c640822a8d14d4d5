//! Authorization: keys, their scopes, grants, and loopback access.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::{AuditDecision, AuditOutcome};
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Clock as _;
use nuncio_server::admin::AdminCommand;
use nuncio_server::settings::{GrantSetting, LoopbackAccess};
use nuncio_testkit::{AapClient, Gateway, ManualClock, Method};
use serde_json::{Value, json};

use crate::agents::{DESK, call, call_once, count, desk, echo, messages, result_of, runs, scope, tool};

const NOT_GRANTED: &str = "Tool call denied: the scope notes:write has not been granted; an operator of the server \
    can grant it with `nuncio grant create`";

/// An agent whose tool `count` needs the scope `notes:write`, and `read` the scope `notes:read`.
fn agent() -> String {
    desk(&[
        scope("notes:read", "low"),
        scope("notes:write", "medium"),
        echo(),
        tool("read", "printf read", "scope = \"notes:read\""),
        count("scope = \"notes:write\""),
    ])
}

async fn start() -> Gateway {
    Gateway::builder().agent(DESK, &agent()).start().await
}

async fn grant(gateway: &Gateway, principal: &Principal, term: GrantTerm) {
    let (agent, scope) = (AgentName::parse(DESK).unwrap(), ScopeId::parse("notes:write").unwrap());
    let engine = gateway.engine();
    engine.access().create_grant(principal.clone(), agent, vec![scope], term, Principal::Operator).await.unwrap();
}

/// Result of `count` when the client's agent calls it.
async fn counted(aap: &AapClient) -> Value {
    let session = aap.session(DESK, &[("count", true)]).await;
    let answer = aap.play(&session, call_once("c1", "count", json!({}))).await;
    result_of(messages(&answer), "c1").clone()
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn session_is_not_found_for_other_callers() {
    let gateway = start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let session = ada.aap.session(DESK, &[("echo", true)]).await;
    ada.aap.say(&session, "hello").await;
    let before = ada.aap.history(&session).await;

    let turn = json!({"messages": [{"role": "user", "content": "mine now"}]});
    let requests = [
        (Method::GET, String::new(), None),
        (Method::DELETE, String::new(), None),
        (Method::GET, "/history?type=full".to_owned(), None),
        (Method::GET, "/history?type=compacted".to_owned(), None),
        (Method::GET, "/stream".to_owned(), None),
        (Method::POST, "/cancel".to_owned(), None),
        (Method::POST, "/turns".to_owned(), Some(turn.clone())),
        (Method::POST, "/turns".to_owned(), Some(json!("not even a turn"))),
    ];
    for (method, path, body) in requests {
        // Other callers get the same response as for a session that does not exist.
        for id in [session.as_str(), "ses_never_made"] {
            let mut request = bob.aap.request(method.clone(), &format!("/sessions/{id}{path}"));
            if let Some(body) = &body {
                request = request.json(body);
            }
            let response = request.header("Last-Event-ID", "1.0").send().await.unwrap();
            assert_eq!(response.status(), 404, "{method} {path}");
            let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
            assert_eq!(answer["code"], "session_not_found", "{method} {path}");
        }
    }
    assert_eq!(bob.aap.get("/sessions").await, (200, json!({"sessions": []})));
    assert_eq!(ada.aap.history(&session).await, before, "the history is unchanged");
    assert_eq!(ada.aap.get("/sessions").await.1["sessions"][0]["sessionId"], session.as_str());
}

#[tokio::test]
async fn running_turn_cannot_be_read_or_cancelled_by_another_caller() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let session = ada.aap.session(DESK, &[]).await;
    let mut stream = ada.aap.stream(&session, "delta", json!([[{"sleep": 7000}, {"text": "still mine"}]])).await;
    stream.up_to("turn_start").await;
    for (method, path) in [(Method::POST, "cancel"), (Method::GET, "stream")] {
        let response = bob.aap.request(method, &format!("/sessions/{session}/{path}")).send().await.unwrap();
        assert_eq!(response.status(), 404);
    }
    clock.pass(Duration::from_secs(7)).await;
    let stop = stream.rest().await.pop().unwrap();
    assert_eq!((stop.event.as_str(), &stop.data["cancelled"]), ("turn_stop", &Value::Null));
}

#[tokio::test]
async fn idempotency_keys_are_separate_per_caller() {
    let gateway = start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let create = async |aap: &AapClient| -> String {
        let request = aap.request(Method::POST, "/sessions").header("Idempotency-Key", "same");
        request.json(&json!({"agent": {"name": DESK}})).send().await.unwrap().text().await.unwrap()
    };
    let hers = create(&ada.aap).await;
    assert_eq!(create(&ada.aap).await, hers);
    assert_ne!(create(&bob.aap).await, hers);
}

#[tokio::test]
async fn revoked_key_is_refused_at_once() {
    let gateway = start().await;
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let session = ada.aap.session(DESK, &[]).await;
    let Principal::Key(id) = &ada.caller.principal else { panic!("the caller of a key is a key principal") };
    gateway.order(AdminCommand::KeyRevoke { which: id.to_string() }).await.unwrap();
    assert_eq!(ada.aap.get("/meta").await.0, 200, "a public document");
    for path in ["/sessions", &format!("/sessions/{session}")] {
        assert_eq!(code(&ada.aap.get(path).await), (401, "unauthorized"), "{path}");
    }
    assert_eq!(ada.aap.post("/sessions", json!({"agent": {"name": DESK}})).await.0, 401);
    assert_eq!(bob.aap.get("/sessions").await.0, 200, "other keys are not affected");
    let again = gateway.order(AdminCommand::KeyRevoke { which: id.to_string() }).await.unwrap_err();
    assert_eq!(again.code, ErrorCode::KeyNotFound);
}

#[tokio::test]
async fn key_has_only_the_scopes_it_was_created_with() {
    let gateway = start().await;
    let reader = gateway.key(&["notes:read"]).await;
    assert_eq!(counted(&reader.aap).await, NOT_GRANTED);
    let session = reader.aap.session(DESK, &[("read", true), ("echo", true)]).await;
    let script = json!([[call("c1", "read", json!({})), call("c2", "echo", json!({}))], []]);
    let answer = reader.aap.play(&session, script).await;
    assert_eq!(result_of(messages(&answer), "c1"), "read");
    assert_eq!(result_of(messages(&answer), "c2"), "{}", "a tool without a scope is open to every caller of the agent");

    let anyone = gateway.key(&[]).await;
    assert_eq!(counted(&anyone.aap).await, "counted");
    assert_eq!(runs(&gateway), 1);
}

#[tokio::test]
async fn trusting_a_tool_does_not_grant_its_scope() {
    let gateway = start().await;
    let reader = gateway.key(&["notes:read"]).await;
    for trust in [true, false] {
        let session = reader.aap.session(DESK, &[("count", trust)]).await;
        let answer = reader.aap.play(&session, call_once("c1", "count", json!({}))).await;
        assert_eq!(result_of(messages(&answer), "c1"), NOT_GRANTED, "refused without asking anyone");
    }
    assert_eq!(runs(&gateway), 0);
}

#[tokio::test]
async fn timed_grant_expires_at_its_end() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).start().await;
    let reader = gateway.key(&["notes:read"]).await;
    assert_eq!(counted(&reader.aap).await, NOT_GRANTED);
    let end = clock.now().after(Duration::from_secs(60));
    grant(&gateway, &reader.caller.principal, GrantTerm::Until(end)).await;
    clock.advance(Duration::from_millis(59_999));
    assert_eq!(counted(&reader.aap).await, "counted");
    clock.advance(Duration::from_millis(1));
    assert_eq!(counted(&reader.aap).await, NOT_GRANTED);
    assert_eq!(runs(&gateway), 1);
}

#[tokio::test]
async fn open_ended_grant_ends_when_revoked() {
    let gateway = start().await;
    let reader = gateway.key(&["notes:read"]).await;
    let made = gateway
        .order(AdminCommand::GrantCreate {
            principal: reader.caller.principal.clone(),
            agent: AgentName::parse(DESK).unwrap(),
            scopes: vec![ScopeId::parse("notes:write").unwrap()],
            until: None,
            once: false,
        })
        .await
        .unwrap();
    assert_eq!(counted(&reader.aap).await, "counted");
    assert_eq!(counted(&reader.aap).await, "counted");
    let id = serde_json::from_value(made["grant"]["id"].clone()).unwrap();
    gateway.order(AdminCommand::GrantRevoke { id }).await.unwrap();
    assert_eq!(counted(&reader.aap).await, NOT_GRANTED);
    assert_eq!(gateway.order(AdminCommand::GrantList).await.unwrap(), json!({"grants": []}));
}

#[tokio::test]
async fn grant_applies_only_to_its_principal_and_agent() {
    let other = agent().replace("name = \"desk\"", "name = \"other\"");
    let gateway = Gateway::builder().agent(DESK, &agent()).agent("other", &other).start().await;
    let (ada, bob) = (gateway.key(&["notes:read"]).await, gateway.key(&["notes:read"]).await);
    grant(&gateway, &ada.caller.principal, GrantTerm::UntilRevoked).await;
    assert_eq!(counted(&ada.aap).await, "counted");
    assert_eq!(counted(&bob.aap).await, NOT_GRANTED);
    let session = ada.aap.session("other", &[("count", true)]).await;
    let answer = ada.aap.play(&session, call_once("c1", "count", json!({}))).await;
    assert_eq!(result_of(messages(&answer), "c1"), NOT_GRANTED);
}

#[tokio::test]
async fn anonymous_callers_of_an_open_server_have_only_granted_scopes() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).open_to_anyone().start().await;
    let anyone = gateway.aap();
    assert_eq!(counted(&anyone).await, NOT_GRANTED);
    grant(&gateway, &Principal::Anonymous, GrantTerm::Until(clock.now().after(Duration::from_secs(60)))).await;
    assert_eq!(counted(&anyone).await, "counted");
    clock.advance(Duration::from_secs(60));
    assert_eq!(counted(&anyone).await, NOT_GRANTED);
    let record = gateway.audit().await.pop().unwrap();
    assert_eq!(record.caller, Principal::Anonymous);
}

#[tokio::test]
async fn grant_in_the_settings_applies_without_an_admin_command() {
    let setting = GrantSetting {
        principal: Principal::Anonymous,
        agent: Some(AgentName::parse(DESK).unwrap()),
        scopes: Some(vec![ScopeId::parse("notes:write").unwrap()]),
    };
    let builder = Gateway::builder().agent(DESK, &agent()).open_to_anyone();
    let gateway = builder.settings(|settings| settings.grant.push(setting)).start().await;
    assert_eq!(counted(&gateway.aap()).await, "counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_time_grant_admits_exactly_one_of_concurrent_calls() {
    for round in 0..4 {
        let gateway = start().await;
        let reader = gateway.key(&["notes:read"]).await;
        grant(&gateway, &reader.caller.principal, GrantTerm::Once).await;
        // Two calls of one step, concurrently in two sessions.
        let script = json!([[call("c1", "count", json!({})), call("c2", "count", json!({}))], []]);
        let turns = (0..2).map(|_| {
            let (aap, script) = (reader.aap.clone(), script.clone());
            tokio::spawn(async move {
                let session = aap.session(DESK, &[("count", true)]).await;
                aap.play(&session, script).await
            })
        });
        for turn in turns.collect::<Vec<_>>() {
            turn.await.unwrap();
        }
        assert_eq!(runs(&gateway), 1, "round {round}");
        let audit = gateway.audit().await;
        let ran = audit.iter().filter(|record| record.outcome == AuditOutcome::Completed).count();
        let refused = audit.iter().filter(|record| matches!(record.decision, AuditDecision::Refused { .. })).count();
        assert_eq!((ran, refused), (1, 3), "round {round}: {audit:#?}");
        assert_eq!(gateway.order(AdminCommand::GrantList).await.unwrap(), json!({"grants": []}));
    }
}

#[tokio::test]
async fn two_one_time_grants_admit_two_calls() {
    let gateway = start().await;
    let reader = gateway.key(&["notes:read"]).await;
    grant(&gateway, &reader.caller.principal, GrantTerm::Once).await;
    grant(&gateway, &reader.caller.principal, GrantTerm::Once).await;
    assert_eq!(counted(&reader.aap).await, "counted");
    assert_eq!(counted(&reader.aap).await, "counted");
    assert_eq!(counted(&reader.aap).await, NOT_GRANTED);
    assert_eq!(runs(&gateway), 2);
}

#[tokio::test]
async fn call_that_waits_for_approval_is_refused_after_its_key_is_revoked() {
    let agent = desk(&[scope("notes:write", "medium"), count("scope = \"notes:write\"\nhuman_authorization = true")]);
    let gateway = Gateway::builder().agent(DESK, &agent).start().await;
    let (ada, _other) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let session = ada.aap.session(DESK, &[("count", true)]).await;
    let turn = ada.aap.play(&session, call_once("c1", "count", json!({})));
    let operators = async {
        let question = gateway.question().await;
        let Principal::Key(id) = &ada.caller.principal else { panic!("the caller of a key is a key principal") };
        gateway.order(AdminCommand::KeyRevoke { which: id.to_string() }).await.unwrap();
        gateway.order(AdminCommand::ApproveAllow { id: question.id }).await.unwrap();
    };
    let (answer, ()) = tokio::join!(turn, operators);
    assert_eq!(result_of(messages(&answer), "c1"), NOT_GRANTED);
    assert_eq!(runs(&gateway), 0);
}

#[tokio::test]
async fn loopback_server_needs_no_key_until_the_first_key_is_created() {
    let gateway = start().await;
    let local = gateway.aap();
    let session = local.session(DESK, &[]).await;
    assert_eq!(counted(&local).await, "counted", "a local caller has every scope");

    let guest = gateway.key(&[]).await;
    for path in ["/sessions", &format!("/sessions/{session}")] {
        assert_eq!(code(&local.get(path).await), (401, "unauthorized"), "{path}");
    }
    assert_eq!(local.get("/meta").await.0, 200, "the list of agents is public");
    assert_eq!(guest.aap.get("/sessions").await, (200, json!({"sessions": []})), "a key does not inherit");
    assert_eq!(guest.aap.get(&format!("/sessions/{session}")).await.0, 404);
}

#[tokio::test]
async fn open_loopback_server_serves_local_requests_without_a_key_even_if_keys_exist() {
    let builder = Gateway::builder().agent(DESK, &agent());
    let gateway = builder.settings(|settings| settings.access.loopback = Some(LoopbackAccess::Open)).start().await;
    let reader = gateway.key(&["notes:read"]).await;
    let local = gateway.aap();
    let session = local.session(DESK, &[]).await;
    assert_eq!(counted(&local).await, "counted", "a local caller has every scope");
    assert_eq!(counted(&reader.aap).await, NOT_GRANTED, "a request with a key counts as that key, not as local");
    assert_eq!(
        reader.aap.get(&format!("/sessions/{session}")).await.0,
        404,
        "a key does not own the sessions of local"
    );

    let ask = async |headers: &str| {
        let head = format!("GET /aap/sessions HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        gateway.raw(head).await.unwrap()
    };
    // AAP clients must send some credential.
    for text in ["Authorization: Bearer none\r\n", "X-API-Key: none\r\n"] {
        assert_eq!(ask(text).await.status, 200, "{text}");
    }
    // A text with the form of a credential of this server must be valid.
    let Principal::Key(id) = &reader.caller.principal else { panic!("the caller of a key is a key principal") };
    gateway.order(AdminCommand::KeyRevoke { which: id.to_string() }).await.unwrap();
    let wrong = [reader.secret.as_str(), "nk_unknown", "nsk_unknown", "hsk_unknown", "eyJhbGciOiJub25lIn0.e30."];
    for token in wrong {
        for header in [format!("Authorization: Bearer {token}\r\n"), format!("X-API-Key: {token}\r\n")] {
            let refused = ask(&header).await;
            assert_eq!((refused.status, refused.code().as_str()), (401, "unauthorized"), "{header}");
        }
    }
    assert_eq!(local.get("/sessions").await.0, 200);
}

#[tokio::test]
async fn forwarded_request_needs_a_credential_on_an_open_loopback_server() {
    let builder = Gateway::builder().agent(DESK, &agent());
    let gateway = builder.settings(|settings| settings.access.loopback = Some(LoopbackAccess::Open)).start().await;
    let guest = gateway.key(&[]).await;
    let ask = async |path: &str, headers: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        gateway.raw(head).await.unwrap()
    };
    let bearer = format!("Authorization: Bearer {}\r\n", guest.secret);
    for forwarded in ["Forwarded: for=192.0.2.1\r\n", "X-Forwarded-For: 192.0.2.1\r\n", "Via: 1.1 proxy\r\n"] {
        for host in ["Host: localhost\r\n", "Host: agents.example\r\n"] {
            let refused = ask("/aap/sessions", &format!("{host}{forwarded}")).await;
            assert_eq!((refused.status, refused.code().as_str()), (403, "forwarded_refused"), "{forwarded}");
            let text = ask("/aap/sessions", &format!("{host}{forwarded}Authorization: Bearer none\r\n")).await;
            assert_eq!(text.status, 403, "text that is no credential is none: {forwarded}");
            assert_eq!(ask("/aap/sessions", &format!("{host}{forwarded}{bearer}")).await.status, 200, "{forwarded}");
            assert_eq!(ask("/healthz", &format!("{host}{forwarded}")).await.status, 200, "{forwarded}");
            let page = ask("/", &format!("{host}{forwarded}")).await;
            assert!(page.body.contains("data-needed"), "the page asks for a key: {}", page.body);
        }
    }
    let page = ask("/", "Host: localhost\r\n").await;
    assert!(!page.body.contains("data-needed"), "the page asks for no key");
}

#[tokio::test]
async fn loopback_setting_has_no_effect_on_a_network_server() {
    let builder = Gateway::builder().agent(DESK, &agent()).open_to_anyone();
    let gateway = builder.settings(|settings| settings.access.loopback = Some(LoopbackAccess::Open)).start().await;
    assert_eq!(counted(&gateway.aap()).await, NOT_GRANTED, "a request from this machine is anonymous");
}

#[tokio::test]
async fn empty_bearer_counts_as_no_credential() {
    let gateway = start().await;
    let ask = async |path: &str, authorization: &str| {
        let head = format!("GET /aap{path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Connection: close\r\n\r\n");
        gateway.raw(head).await.unwrap()
    };
    let empty = ["", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n", "Authorization: bearer   \r\n"];
    for authorization in empty {
        assert_eq!(ask("/sessions", authorization).await.status, 200, "{authorization:?}");
    }
    let guest = gateway.key(&[]).await;
    for authorization in empty {
        assert_eq!(ask("/meta", authorization).await.status, 200, "{authorization:?}");
        let refused = ask("/sessions", authorization).await;
        assert_eq!((refused.status, refused.code().as_str()), (401, "unauthorized"), "{authorization:?}");
        assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer"), "{refused:?}");
    }
    // The scheme's case does not matter; the key's does.
    let secret = &guest.secret;
    assert_eq!(ask("/sessions", &format!("Authorization: bearer {secret}\r\n")).await.status, 200);
    for wrong in [
        format!("Authorization: Bearer {}\r\n", secret.to_uppercase()),
        format!("Authorization: Bearer {secret}x\r\n"),
        "Authorization: Bearer \u{fc}\r\n".to_owned(),
        "Authorization: Basic Og==\r\n".to_owned(),
    ] {
        let refused = ask("/sessions", &wrong).await;
        assert_eq!((refused.status, refused.code().as_str()), (401, "unauthorized"), "{wrong:?}");
    }
}

#[tokio::test]
async fn keys_and_grants_survive_a_restart() {
    let gateway = start().await;
    let reader = gateway.key(&["notes:read"]).await;
    grant(&gateway, &reader.caller.principal, GrantTerm::UntilRevoked).await;
    let data = gateway.stop().await;
    let stored = std::fs::read(data.path().join("nuncio.db")).unwrap();
    let secret = reader.secret.as_bytes();
    assert!(!stored.windows(secret.len()).any(|bytes| bytes == secret), "keys are stored hashed");

    let next = Gateway::builder().agent(DESK, &agent()).data(data).start().await;
    assert_eq!(next.aap().get("/sessions").await.0, 401);
    assert_eq!(counted(&next.aap_with_key(&reader.secret)).await, "counted");
}
