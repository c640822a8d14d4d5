//! Approvals by operators: a question about one call that a person other than the caller answers once.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::approval::{ApprovalAnswer, Approver};
use nuncio_core::audit::{AuditDecision, AuditOutcome};
use nuncio_core::digest::Digest;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::{AapClient, Gateway, ManualClock};
use serde_json::{Value, json};

use crate::agents::{DESK, call, call_once, desk, echo, messages, result_of, tool};

const APPROVAL: Duration = Duration::from_secs(300);

fn agent() -> String {
    desk(&[echo(), tool("sign", "cat >> signed; echo >> signed; printf done", "human_authorization = true")])
}

async fn start(clock: &ManualClock) -> Gateway {
    Gateway::builder().agent(DESK, &agent()).clock(clock).start().await
}

fn signed(gateway: &Gateway) -> Vec<Value> {
    let text = std::fs::read_to_string(gateway.file(DESK, "signed")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn allow(gateway: &Gateway, id: &nuncio_core::ids::ApprovalId) {
    gateway.order(AdminCommand::ApproveAllow { id: id.clone() }).await.unwrap();
}

/// Starts a scripted turn in its own task, because it will wait.
fn play(aap: &AapClient, session: &str, script: Value) -> tokio::task::JoinHandle<Value> {
    let (aap, session) = (aap.clone(), session.to_owned());
    tokio::spawn(async move { aap.play(&session, script).await })
}

#[tokio::test]
async fn call_with_human_authorization_waits_for_an_operator_even_if_the_app_trusts_it() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let turn = play(&aap, &session, call_once("c1", "sign", json!({"page": 1})));

    let question = gateway.question().await;
    assert_eq!(question.asked_of, Approver::Operators);
    assert_eq!(question.question.arguments, json!({"page": 1}));
    assert_eq!(question.question.arguments_digest, Digest::of_json(&json!({"page": 1})));
    assert_eq!(question.question.session.as_ref().unwrap().as_str(), session);
    assert_eq!(signed(&gateway), [] as [Value; 0], "nothing runs before the answer");

    let listed = gateway.order(AdminCommand::ApproveList).await.unwrap();
    assert_eq!(listed["approvals"][0]["id"], question.id.as_str());
    allow(&gateway, &question.id).await;
    assert_eq!(result_of(messages(&turn.await.unwrap()), "c1"), "done");
    assert_eq!(signed(&gateway), [json!({"page": 1})]);
}

#[tokio::test]
async fn permission_by_the_app_does_not_replace_operator_approval() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", false)]).await;
    let waiting = aap.play(&session, call_once("c1", "sign", json!({}))).await;
    assert_eq!(waiting["stopReason"], "tool_use");
    assert_eq!(gateway.questions(0).await, [], "the app is asked first");
    let yes = json!([{"role": "tool_permission", "toolCallId": "c1", "granted": true}]);
    let turn = aap.turn(&session, yes);
    let operators = async {
        let question = gateway.question().await;
        assert_eq!(signed(&gateway), [] as [Value; 0]);
        let no = AdminCommand::ApproveDeny { id: question.id, reason: Some("not this one".into()) };
        gateway.order(no).await.unwrap();
    };
    let ((status, answer), ()) = tokio::join!(turn, operators);
    assert_eq!(status, 200);
    assert_eq!(result_of(messages(&answer), "c1"), "Tool call denied: not this one");
    assert_eq!(signed(&gateway), [] as [Value; 0]);
}

#[tokio::test]
async fn unanswered_approval_times_out_as_denied_and_is_recorded() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let turn = play(&aap, &session, call_once("c1", "sign", json!({})));
    let question = gateway.question().await;
    clock.pass(APPROVAL).await;

    assert_eq!(result_of(messages(&turn.await.unwrap()), "c1"), "Tool call denied: it was not approved in time");
    assert_eq!(gateway.questions(0).await, []);
    let late = gateway.order(AdminCommand::ApproveAllow { id: question.id }).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::ApprovalClosed);
    assert_eq!(signed(&gateway), [] as [Value; 0]);
    let record = gateway.audit().await.remove(0);
    assert_eq!(record.decision, AuditDecision::Refused { by: "policy".into(), code: ErrorCode::ApprovalExpired });
    assert_eq!((record.outcome, record.started_at), (AuditOutcome::NotRun, None));
}

#[tokio::test]
async fn approval_is_closed_at_the_deadline_of_its_turn() {
    let clock = ManualClock::new();
    let settings = |settings: &mut nuncio_server::settings::Settings| settings.limits.turn_seconds = 60;
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).settings(settings).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let turn = play(&aap, &session, call_once("c1", "sign", json!({})));
    let question = gateway.question().await;
    assert_eq!(question.asked_at.until(question.expires_at), Duration::from_secs(60));
    clock.pass(Duration::from_secs(60)).await;
    let answer = turn.await.unwrap();
    assert_eq!((&answer["stopReason"], &answer["error"]["code"]), (&json!("error"), &json!("turn_deadline")));
    assert_eq!(gateway.questions(0).await, []);
}

#[tokio::test]
async fn approval_is_bound_to_one_call_and_its_arguments_and_used_once() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let script = json!([
        [call("c1", "sign", json!({"page": 1})), call("c2", "sign", json!({"page": 2}))],
        [{"text": "done"}],
    ]);
    let turn = play(&aap, &session, script.clone());
    let questions = gateway.questions(2).await;
    let second = questions.iter().find(|question| question.question.arguments == json!({"page": 2})).unwrap();
    allow(&gateway, &second.id).await;
    let first = gateway.question().await;
    assert_eq!(first.question.arguments, json!({"page": 1}), "each call has its own approval");
    gateway.order(AdminCommand::ApproveDeny { id: first.id.clone(), reason: None }).await.unwrap();
    let answer = turn.await.unwrap();
    assert_eq!(result_of(messages(&answer), "c1"), "Tool call denied");
    assert_eq!(result_of(messages(&answer), "c2"), "done");
    assert_eq!(signed(&gateway), [json!({"page": 2})]);

    // An answer counts once; the same calls cause new questions.
    for id in [&first.id, &second.id] {
        let again = gateway.order(AdminCommand::ApproveAllow { id: id.clone() }).await.unwrap_err();
        assert_eq!(again.code, ErrorCode::ApprovalClosed);
    }
    let turn = play(&aap, &session, script);
    let anew = gateway.questions(2).await;
    assert!(anew.iter().all(|question| question.id != first.id && question.id != second.id));
    for question in anew {
        gateway.order(AdminCommand::ApproveDeny { id: question.id, reason: None }).await.unwrap();
    }
    turn.await.unwrap();
    assert_eq!(signed(&gateway), [json!({"page": 2})]);
}

#[tokio::test]
async fn caller_cannot_approve_its_own_call() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let guest = gateway.key(&[]).await;
    let session = guest.aap.session(DESK, &[("sign", true)]).await;
    let turn = play(&guest.aap, &session, call_once("c1", "sign", json!({})));
    let question = gateway.question().await;
    let engine = gateway.engine();
    let own = engine
        .approvals()
        .decide_approval(&question.id, ApprovalAnswer::Allow, guest.caller.principal.clone())
        .await
        .unwrap_err();
    assert_eq!(own.code, ErrorCode::Denied);
    assert_eq!(gateway.question().await.id, question.id, "the question still waits");
    // The holder of another key may answer.
    let other = gateway.key(&[]).await;
    engine
        .approvals()
        .decide_approval(&question.id, ApprovalAnswer::Allow, other.caller.principal.clone())
        .await
        .unwrap();
    assert_eq!(result_of(messages(&turn.await.unwrap()), "c1"), "done");
    let record = gateway.audit().await.remove(0);
    assert_eq!(record.decision, AuditDecision::Allowed { by: vec![other.caller.principal.to_string()] });
}

#[tokio::test]
async fn answer_to_an_unknown_approval_is_refused() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let id = nuncio_core::ids::ApprovalId::parse("apr_nobody_asked").unwrap();
    let error = gateway.order(AdminCommand::ApproveAllow { id }).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ApprovalNotFound);
}

#[tokio::test]
async fn cancelling_a_turn_closes_its_approval() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let turn = play(&aap, &session, call_once("c1", "sign", json!({})));
    let question = gateway.question().await;
    let stop = aap.cancel(&session).await;
    assert_eq!((&stop["stopReason"], &stop["cancelled"]), (&json!("end_turn"), &json!(true)));
    turn.await.unwrap();
    assert_eq!(gateway.questions(0).await, []);
    let late = gateway.order(AdminCommand::ApproveAllow { id: question.id }).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::ApprovalClosed);
    assert_eq!(signed(&gateway), [] as [Value; 0]);
    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].outcome, AuditOutcome::NotRun);
}

#[tokio::test]
async fn deleting_a_session_closes_its_approval() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let turn = play(&aap, &session, call_once("c1", "sign", json!({})));
    gateway.question().await;
    assert_eq!(aap.delete(&format!("/sessions/{session}")).await.0, 204);
    turn.await.unwrap();
    assert_eq!(gateway.questions(0).await, []);
    assert_eq!(gateway.audit().await.len(), 1);
    assert_eq!(signed(&gateway), [] as [Value; 0]);
}

#[tokio::test]
async fn recovery_closes_open_approvals_after_a_crash() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let _turn = play(&aap, &session, call_once("c1", "sign", json!({})));
    let question = gateway.question().await;

    let data = gateway.data_as_after_a_crash();
    let next = Gateway::builder().agent(DESK, &agent()).clock(&clock).data(data).start().await;
    assert_eq!(next.questions(0).await, []);
    let late = next.order(AdminCommand::ApproveAllow { id: question.id }).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::ApprovalClosed);
    let history = next.aap().history(&session).await;
    assert_eq!(result_of(&history, "c1"), "Tool call not run: the server stopped before it began");
    assert_eq!(next.aap().say(&session, "hello").await["stopReason"], "end_turn");
    assert_eq!(signed(&next), [] as [Value; 0]);
}

#[tokio::test]
async fn call_waiting_for_approval_at_a_crash_is_recorded() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let _turn = play(&aap, &session, call_once("c1", "sign", json!({})));
    gateway.question().await;
    let data = gateway.data_as_after_a_crash();
    let next = Gateway::builder().agent(DESK, &agent()).clock(&clock).data(data).start().await;
    let audit = next.audit().await;
    assert_eq!(audit.iter().map(|record| &record.outcome).collect::<Vec<_>>(), [&AuditOutcome::NotRun]);
}

#[tokio::test]
async fn recovered_call_is_recorded_with_the_protocol_of_its_turn() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (engine, caller) = (gateway.engine(), Caller::new(Principal::Anonymous));
    let session = engine
        .conversations()
        .open_unattended_session(&caller, &engine.agents().agent(DESK).unwrap(), None)
        .await
        .unwrap();
    let script = json!({"script": call_once("c1", "sign", json!({}))}).to_string();
    engine.conversations().begin_unattended_turn(&caller, session.as_str(), script, Protocol::Anp, None).await.unwrap();
    gateway.question().await;
    let data = gateway.data_as_after_a_crash();
    let next = Gateway::builder().agent(DESK, &agent()).clock(&clock).data(data).start().await;
    let audit = next.audit().await;
    assert_eq!(audit.iter().map(|record| record.protocol).collect::<Vec<_>>(), [Protocol::Anp]);
}

#[tokio::test]
async fn stopping_the_server_closes_open_approvals() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    let turn = play(&aap, &session, call_once("c1", "sign", json!({})));
    gateway.question().await;
    // A stopping server ends the waiting turn after its grace period.
    let (data, ()) = tokio::join!(gateway.stop(), clock.pass(Duration::from_secs(30)));
    let answer = turn.await.unwrap();
    assert_eq!((&answer["stopReason"], &answer["error"]["code"]), (&json!("error"), &json!("shutting_down")));

    let next = Gateway::builder().agent(DESK, &agent()).clock(&clock).data(data).start().await;
    assert_eq!(next.questions(0).await, []);
    assert_eq!(next.audit().await.len(), 1);
    assert_eq!(next.aap().say(&session, "hello").await["stopReason"], "end_turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_concurrent_approval_answers_is_accepted() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[("sign", true)]).await;
    for round in 0..8 {
        let turn = play(&aap, &session, call_once("c1", "sign", json!({"round": round})));
        let question = gateway.question().await;
        let answers = (0..8).map(|number| {
            let (engine, id) = (gateway.engine().clone(), question.id.clone());
            tokio::spawn(async move {
                let answer =
                    if number % 2 == 0 { ApprovalAnswer::Allow } else { ApprovalAnswer::Deny { reason: None } };
                engine.approvals().decide_approval(&id, answer.clone(), Principal::Operator).await.map(|_| answer)
            })
        });
        let mut won = Vec::new();
        for answer in answers.collect::<Vec<_>>() {
            match answer.await.unwrap() {
                Ok(answer) => won.push(answer),
                Err(error) => assert_eq!(error.code, ErrorCode::ApprovalClosed),
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        let said = result_of(messages(&turn.await.unwrap()), "c1").clone();
        let ran = signed(&gateway).contains(&json!({"round": round}));
        match won.remove(0) {
            ApprovalAnswer::Allow => assert!(said == "done" && ran, "{said}"),
            ApprovalAnswer::Deny { .. } => assert!(said == "Tool call denied" && !ran, "{said}"),
        }
    }
}
