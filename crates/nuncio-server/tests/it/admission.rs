//! Which callers AAP admits to an agent, and which callers may approve a call of `high` sensitivity.

use nuncio_core::approval::Approver;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, AgentName, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::a2h::{AnonymousA2hClient, TestDevice, manifest};
use nuncio_testkit::{AapClient, Gateway};
use serde_json::{Value, json};

use crate::agents::{DESK, call_once, desk, echo, messages, result_of, scope, tool};

/// An agent with a tool under a `high` scope, which adds a line to the file `dangers` each time it runs.
pub(crate) fn agent() -> String {
    let danger = tool("danger", "echo ran >> dangers; printf done", "scope = \"danger:do\"");
    desk(&[scope("danger:do", "high"), echo(), danger])
}

fn dangers(gateway: &Gateway) -> usize {
    std::fs::read_to_string(gateway.file(DESK, "dangers")).unwrap_or_default().lines().count()
}

pub(crate) async fn grant(gateway: &Gateway, to: Principal) {
    let (agent, scopes) = (AgentName::parse(DESK).unwrap(), vec![ScopeId::parse("danger:do").unwrap()]);
    gateway
        .engine()
        .access()
        .create_grant(to, agent, scopes, GrantTerm::UntilRevoked, Principal::Operator)
        .await
        .unwrap();
}

pub(crate) async fn session_status(aap: &AapClient) -> (u16, String) {
    let (status, body) = aap.post("/sessions", json!({"agent": {"name": DESK}})).await;
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

pub(crate) async fn metrics_status(gateway: &Gateway, token: &str) -> u16 {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    gateway.raw(request).await.unwrap().status
}

fn permission(granted: bool) -> Value {
    json!([{"role": "tool_permission", "toolCallId": "c1", "granted": granted}])
}

/// Starts a call that asks the app for permission, and returns its session.
async fn asked(aap: &AapClient) -> String {
    let session = aap.session(DESK, &[("danger", false)]).await;
    let waiting = aap.play(&session, call_once("c1", "danger", json!({}))).await;
    assert_eq!(waiting["stopReason"], "tool_use", "{waiting}");
    session
}

/// Checks that the trust and the permission of this caller leave the decision to the operators, and that its denial
/// counts.
pub(crate) async fn operators_decide(gateway: &Gateway, aap: &AapClient) {
    let before = dangers(gateway);
    let deny = async || {
        let question = gateway.question().await;
        assert_eq!(question.asked_of, Approver::Operators);
        gateway.order(AdminCommand::ApproveDeny { id: question.id, reason: Some("not now".into()) }).await.unwrap();
    };
    let trusting = aap.session(DESK, &[("danger", true)]).await;
    let (answer, ()) = tokio::join!(aap.play(&trusting, call_once("c1", "danger", json!({}))), deny());
    assert_eq!(result_of(messages(&answer), "c1"), "Tool call denied: not now");
    let session = asked(aap).await;
    let ((_, answer), ()) = tokio::join!(aap.turn(&session, permission(true)), deny());
    assert_eq!(result_of(messages(&answer), "c1"), "Tool call denied: not now");
    let session = asked(aap).await;
    let (_, answer) = aap.turn(&session, permission(false)).await;
    assert!(result_of(messages(&answer), "c1").as_str().unwrap().contains("denied"), "{answer}");
    assert_eq!(gateway.questions(0).await, [], "a denied call asks no further approver");
    assert_eq!(dangers(gateway), before);
}

/// Checks that the trust and the permission of this caller count as its person's approval.
pub(crate) async fn caller_decides(gateway: &Gateway, aap: &AapClient) {
    let before = dangers(gateway);
    let trusting = aap.session(DESK, &[("danger", true)]).await;
    let answer = aap.play(&trusting, call_once("c1", "danger", json!({}))).await;
    assert_eq!(result_of(messages(&answer), "c1"), "done");
    let session = asked(aap).await;
    let (_, answer) = aap.turn(&session, permission(true)).await;
    assert_eq!(result_of(messages(&answer), "c1"), "done");
    assert_eq!(dangers(gateway), before + 2);
}

#[tokio::test]
async fn local_callers_and_key_holders_may_approve_their_own_high_sensitivity_calls() {
    let gateway = Gateway::builder().agent(DESK, &agent()).start().await;
    caller_decides(&gateway, &gateway.aap()).await;
    caller_decides(&gateway, &gateway.key(&[]).await.aap).await;
}

#[tokio::test]
async fn anonymous_caller_cannot_approve_its_high_sensitivity_calls() {
    let gateway = Gateway::builder().agent(DESK, &agent()).open_to_anyone().start().await;
    grant(&gateway, Principal::Anonymous).await;
    operators_decide(&gateway, &gateway.aap()).await;
}

#[tokio::test]
async fn agent_token_reaches_aap_only_with_a_grant_and_cannot_approve_calls() {
    let gateway = Gateway::builder().agent(DESK, &agent()).start().await;
    gateway.key(&[]).await;
    let order = AdminCommand::UserInvite { name: PersonName::parse("ada").unwrap(), seconds: None };
    let code = gateway.order(order).await.unwrap()["code"].as_str().unwrap().to_owned();
    let ada = TestDevice::enrol(&AnonymousA2hClient::at(gateway.url()), &code).await;
    let body = json!({"display_name": "Notes", "public": true, "capability_manifest": manifest()});
    let (id, token) = ada.make_agent(&body).await;
    let aap = gateway.aap_with_key(&token);
    assert_eq!(session_status(&aap).await, (403, "not_admitted".to_owned()));
    assert_eq!(aap.get("/sessions").await.0, 403);
    assert_eq!(metrics_status(&gateway, &token).await, 401);
    // A device token is accepted only on A2H paths.
    assert_eq!(session_status(&gateway.aap_with_key(&ada.token)).await, (401, "unauthorized".to_owned()));
    assert_eq!(metrics_status(&gateway, &ada.token).await, 401);

    grant(&gateway, Principal::Agent(AgentId::parse(&id).unwrap())).await;
    assert_eq!(session_status(&aap).await.0, 201);
    assert_eq!(metrics_status(&gateway, &token).await, 401);
    operators_decide(&gateway, &aap).await;
}
