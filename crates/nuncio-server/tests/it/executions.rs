//! Executions: access, acceptance, outcome and audit records.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::approval::ApprovalAnswer;
use nuncio_core::audit::{AuditDecision, AuditOutcome};
use nuncio_core::digest::Digest;
use nuncio_core::execution::{Execution, ExecutionState, Priority, TraceIds};
use nuncio_core::ids::ScopeId;
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::converse::IdempotencyKey;
use nuncio_engine::invoke::{ExecutionRequest, ExecutionSubmitError, QueueLimitReached, SubmittedExecution};
use nuncio_engine::skills::{SkillAccessDenied, SkillPermit};
use nuncio_engine::{AuthenticationMethod, Caller, Engine};
use nuncio_testkit::{ApiKeyHolder, Gateway, ManualClock, eventually};
use serde_json::{Value, json};

use crate::agents::{DESK, call_once, count, desk, echo, held, held_pid, release, runs, scope, tool};

pub(crate) const OPEN: &str = "skill = { type = \"task\" }";

pub(crate) fn anyone() -> Caller {
    Caller::new(Principal::Anonymous)
}

/// The caller of a request that carries the holder's key.
pub(crate) fn with_key(holder: &ApiKeyHolder) -> Caller {
    Caller { authentication: AuthenticationMethod::Key, ..holder.caller.clone() }
}

/// A request to execute a skill.
#[derive(Clone)]
pub(crate) struct Invocation {
    pub(crate) skill: String,
    pub(crate) submission: ExecutionRequest,
}

impl Invocation {
    pub(crate) fn new(skill: String, inputs: Value) -> Self {
        let Value::Object(inputs) = inputs else { panic!("inputs are an object") };
        let submission = ExecutionRequest {
            protocol: Protocol::Skill,
            inputs,
            priority: Priority::Normal,
            timeout: None,
            trace: TraceIds::default(),
            callback: None,
            idempotency: None,
        };
        Self { skill, submission }
    }

    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.submission.timeout = Some(timeout);
        self
    }

    pub(crate) fn with_priority(mut self, priority: Priority) -> Self {
        self.submission.priority = priority;
        self
    }

    pub(crate) fn with_key(mut self, key: &str, body: &str) -> Self {
        let idempotency = IdempotencyKey { key: key.to_owned(), body: Digest::of_bytes(body.as_bytes()) };
        self.submission.idempotency = Some(idempotency);
        self
    }
}

/// An invocation of a tool of the agent under test.
pub(crate) fn invocation(tool: &str, inputs: Value) -> Invocation {
    Invocation::new(format!("{DESK}/{tool}"), inputs)
}

pub(crate) async fn submit_as(
    engine: &Engine,
    caller: &Caller,
    Invocation { skill, submission }: Invocation,
) -> Result<SubmittedExecution, ExecutionSubmitError> {
    let permit = permit(engine, caller, &skill).unwrap_or_else(|denied| panic!("{skill}: {denied:?}"));
    engine.executions().submit(&permit, submission, None).await
}

pub(crate) fn permit(engine: &Engine, caller: &Caller, skill: &str) -> Result<SkillPermit, SkillAccessDenied> {
    let offered = engine.skills().skill(Some(caller), skill).ok_or(SkillAccessDenied::NotFound)?;
    engine.skills().permit(caller.clone(), offered)
}

pub(crate) async fn submit(gateway: &Gateway, invocation: Invocation) -> Execution {
    submit_as(gateway.engine(), &anyone(), invocation).await.unwrap().execution
}

/// The current state of an execution.
pub(crate) async fn look(gateway: &Gateway, execution: &Execution) -> Execution {
    gateway.engine().executions().execution(&Caller::new(Principal::Operator), execution.id.as_str()).await.unwrap()
}

/// Waits for an execution's end.
pub(crate) async fn over(gateway: &Gateway, execution: &Execution) -> Execution {
    let operator = Caller::new(Principal::Operator);
    let over = gateway.engine().executions().execution_until(&operator, execution.id.as_str(), Timestamp::LAST);
    let over = tokio::time::timeout(Duration::from_secs(60), over).await.expect("it comes to an end").unwrap();
    assert!(over.state.is_over(), "{over:?}");
    over
}

pub(crate) fn output(execution: &Execution) -> &Value {
    match &execution.state {
        ExecutionState::Completed { output } => output,
        other => panic!("not completed: {other:?}"),
    }
}

pub(crate) fn code(execution: &Execution) -> (&'static str, ErrorCode) {
    match &execution.state {
        ExecutionState::Failed { failure } | ExecutionState::TimedOut { failure } => {
            (execution.state.as_str(), failure.code)
        }
        other => panic!("it did not fail: {other:?}"),
    }
}

pub(crate) async fn start(tools: &[String]) -> Gateway {
    Gateway::builder().agent(DESK, &desk(tools)).start().await
}

async fn nothing_is_held(gateway: &Gateway) {
    eventually("no execution is open any more", async || (gateway.engine().load().open_executions == 0).then_some(()))
        .await;
}

#[tokio::test]
async fn execution_moves_from_accepted_to_running_to_completed() {
    let gateway = start(&[held(OPEN)]).await;
    let accepted = submit(&gateway, invocation("held", json!({"a": 1}))).await;
    assert_eq!((&accepted.state, accepted.attempt), (&ExecutionState::Accepted, 0));
    assert!(accepted.id.as_str().starts_with("exe_"));
    assert_eq!(accepted.updated_at, accepted.order.created_at);

    held_pid(&gateway).await;
    let running = look(&gateway, &accepted).await;
    assert_eq!((&running.state, running.attempt), (&ExecutionState::Running, 1));
    assert_eq!(running.order, accepted.order);
    assert_eq!(gateway.engine().load().open_executions, 1);

    release(&gateway, "held.gate", "at last").await;
    let completed = over(&gateway, &accepted).await;
    assert_eq!((output(&completed), completed.attempt), (&json!("at last"), 1));
    assert!(completed.updated_at >= running.updated_at);
    assert_eq!(look(&gateway, &accepted).await, completed, "the ended execution does not change");

    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].call.as_str(), format!("{}.1", accepted.id));
    assert_eq!((&audit[0].outcome, audit[0].protocol), (&AuditOutcome::Completed, Protocol::Skill));
    assert_eq!(audit[0].caller, Principal::Anonymous);
    assert_eq!(audit[0].arguments_digest, Digest::of_json(&json!({"a": 1})));
}

#[tokio::test]
async fn output_that_violates_its_schema_fails_the_execution() {
    let weight = "output = { type = \"object\", properties = { kg = { type = \"number\" } }, required = [\"kg\"] }";
    let more = format!("{weight}\n{OPEN}");
    let gateway = start(&[
        tool("good", "printf '{\"kg\":2.5}'", &more),
        tool("bad", "printf '{\"kg\":\"heavy\"}'", &more),
        tool("silent", "printf words", &more),
    ])
    .await;
    let good = submit(&gateway, invocation("good", json!({}))).await;
    assert_eq!(output(&over(&gateway, &good).await), &json!({"kg": 2.5}));
    for name in ["bad", "silent"] {
        let bad = submit(&gateway, invocation(name, json!({}))).await;
        assert_eq!(code(&over(&gateway, &bad).await), ("failed", ErrorCode::InvalidOutput), "{name}");
    }
    assert_eq!(gateway.audit().await.len(), 3);
}

#[tokio::test]
async fn failing_tool_fails_the_execution_without_retry() {
    let gateway = start(&[tool("broken", "echo ran >> runs; echo why >&2; exit 3", OPEN)]).await;
    let failed = submit(&gateway, invocation("broken", json!({}))).await;
    let failed = over(&gateway, &failed).await;
    assert_eq!((code(&failed), failed.attempt, runs(&gateway)), (("failed", ErrorCode::ToolFailed), 1, 1));
    assert_eq!(gateway.audit().await[0].outcome, AuditOutcome::Failed { code: ErrorCode::ToolFailed });
}

const BOUND: &str = "input = { type = \"object\", properties = { room = { type = \"string\" }, \
    nights = { type = \"integer\", default = 2 } }, required = [\"room\"], additionalProperties = false }\n\
    skill = { type = \"task\" }";

#[tokio::test]
async fn omitted_inputs_get_their_defaults() {
    let gateway = start(&[tool("book", "cat", BOUND)]).await;
    for (given, taken) in [
        (json!({"room": "101"}), json!({"room": "101", "nights": 2})),
        (json!({"room": "101", "nights": 5}), json!({"room": "101", "nights": 5})),
    ] {
        let execution = submit(&gateway, invocation("book", given)).await;
        assert_eq!(&Value::Object(execution.order.inputs.clone()), &taken);
        assert_eq!(output(&over(&gateway, &execution).await), &taken);
    }
}

#[tokio::test]
async fn invalid_inputs_create_no_execution() {
    let program = "echo ran >> runs; cat";
    let gateway = start(&[tool("book", program, BOUND)]).await;
    for (inputs, places) in [
        (json!({}), vec![""]),
        (json!({"room": 101}), vec!["/room"]),
        (json!({"room": "101", "nights": "two"}), vec!["/nights"]),
        (json!({"room": "101", "view": "sea"}), vec![""]),
        (json!({"room": 1, "nights": null}), vec!["/nights", "/room"]),
    ] {
        let wished = invocation("book", inputs.clone()).with_key("k", "wrong");
        let Err(ExecutionSubmitError::Inputs(faults)) = submit_as(gateway.engine(), &anyone(), wished).await else {
            panic!("{inputs} was not refused for its inputs");
        };
        let mut found: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, places, "{inputs}: {faults:?}");
        nothing_is_held(&gateway).await;
    }
    assert_eq!((runs(&gateway), gateway.audit().await), (0, Vec::new()));
    let good =
        submit_as(gateway.engine(), &anyone(), invocation("book", json!({"room": "1"})).with_key("k", "right")).await;
    assert!(!good.unwrap().again, "the refused request did not use up the key");
}

#[tokio::test]
async fn same_idempotency_key_returns_the_same_execution() {
    let gateway = start(&[count(OPEN), echo().replace("run =", &format!("{OPEN}\nrun ="))]).await;
    let (ada, eve) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let engine = gateway.engine();
    let ask = |by: &Caller, tool: &str, body: &str| {
        let (by, submission) = (by.clone(), invocation(tool, json!({"b": body})).with_key("key", body));
        async move { submit_as(engine, &by, submission).await }
    };
    let first = ask(&ada.caller, "count", "one").await.unwrap();
    assert!(!first.again);
    let again = ask(&ada.caller, "count", "one").await.unwrap();
    assert_eq!((&again.execution.id, again.again), (&first.execution.id, true));
    over(&gateway, &first.execution).await;
    let after = ask(&ada.caller, "count", "one").await.unwrap();
    assert_eq!(
        (output(&after.execution), after.again),
        (&json!("counted"), true),
        "a repeated key returns the ended execution"
    );

    let Err(ExecutionSubmitError::Engine(error)) = ask(&ada.caller, "count", "two").await else {
        panic!("it was accepted")
    };
    assert_eq!(error.code, ErrorCode::IdempotencyMismatch);
    for (by, tool) in [(&eve.caller, "count"), (&ada.caller, "echo"), (&anyone(), "count")] {
        let other = ask(by, tool, "two").await.unwrap();
        assert!(
            !other.again && other.execution.id != first.execution.id,
            "keys of other callers and skills are separate"
        );
        over(&gateway, &other.execution).await;
    }
    assert_eq!(runs(&gateway), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_with_one_idempotency_key_run_once() {
    let gateway = start(&[count(OPEN)]).await;
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let engine = gateway.engine().clone();
            tokio::spawn(async move {
                submit_as(&engine, &anyone(), invocation("count", json!({})).with_key("k", "b")).await
            })
        })
        .collect();
    let mut submitted = Vec::new();
    for task in tasks {
        submitted.push(task.await.unwrap().unwrap());
    }
    let first = &submitted[0].execution;
    assert!(submitted.iter().all(|other| other.execution.id == first.id), "{submitted:?}");
    assert_eq!(submitted.iter().filter(|other| !other.again).count(), 1);
    over(&gateway, first).await;
    assert_eq!((runs(&gateway), gateway.audit().await.len()), (1, 1));
    nothing_is_held(&gateway).await;
}

#[tokio::test]
async fn execution_is_visible_only_to_its_caller() {
    let gateway = start(&[held(OPEN)]).await;
    let (ada, eve) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let engine = gateway.engine();
    let hers = submit_as(engine, &ada.caller, invocation("held", json!({}))).await.unwrap().execution;
    held_pid(&gateway).await;
    for other in [&eve.caller, &anyone()] {
        let id = hers.id.as_str();
        assert_eq!(engine.executions().execution(other, id).await.unwrap_err().code, ErrorCode::ExecutionNotFound);
        assert_eq!(
            engine.executions().execution_until(other, id, engine.now()).await.unwrap_err().code,
            ErrorCode::ExecutionNotFound
        );
        assert_eq!(
            engine.executions().cancel_execution(other, id).await.unwrap_err().code,
            ErrorCode::ExecutionNotFound
        );
    }
    assert_eq!(look(&gateway, &hers).await.state, ExecutionState::Running, "the execution was not cancelled");
    release(&gateway, "held.gate", "done").await;
    over(&gateway, &hers).await;
    assert!(engine.executions().execution(&ada.caller, hers.id.as_str()).await.is_ok());
    let theirs = engine.executions().execution(&eve.caller, hers.id.as_str()).await.unwrap_err();
    let nobodys = engine.executions().execution(&eve.caller, "exe_none").await.unwrap_err();
    assert_eq!(theirs.message.replace(hers.id.as_str(), "exe_none"), nobodys.message, "the two messages are the same");
}

#[tokio::test]
async fn anonymous_execution_is_readable_by_any_caller_with_its_id() {
    let gateway = start(&[count(OPEN)]).await;
    let ada = gateway.key(&[]).await;
    let nobodys = submit(&gateway, invocation("count", json!({}))).await;
    over(&gateway, &nobodys).await;
    for caller in [&anyone(), &ada.caller] {
        assert!(gateway.engine().executions().execution(caller, nobodys.id.as_str()).await.is_ok());
    }
    for wrong in ["", "exe_", "../../etc", "exe_\u{0}", &"x".repeat(10_000)] {
        let error = gateway.engine().executions().execution(&anyone(), wrong).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ExecutionNotFound);
        assert!(error.message.len() < 400, "{}", error.message);
    }
}

#[tokio::test]
async fn restricted_and_private_skills_are_refused_to_callers_without_their_scope() {
    let skill = |access: &str| format!("scope = \"desk:use\"\nskill = {{ type = \"task\", access = \"{access}\" }}");
    let tools = [
        scope("desk:use", "low"),
        scope("desk:other", "low"),
        count(OPEN),
        tool("limited", "printf ok", &skill("restricted")),
        tool("secret", "printf ok", &skill("private")),
    ];
    let gateway = start(&tools).await;
    let engine = gateway.engine();
    let (may, other) = (gateway.key(&["desk:use"]).await, gateway.key(&["desk:other"]).await);
    let ids = |scopes: &[&str]| scopes.iter().map(|scope| ScopeId::parse(scope).unwrap()).collect();
    let denied = |by: Caller, tool: &str| permit(engine, &by, &format!("{DESK}/{tool}")).err();
    let lacks = SkillAccessDenied::Ungranted { required: ids(&["desk:use"]), granted: ids(&["desk:other"]) };
    assert_eq!(denied(anyone(), "count"), None);
    assert_eq!(denied(anyone(), "none"), Some(SkillAccessDenied::NotFound));
    assert_eq!(denied(anyone(), "limited"), Some(SkillAccessDenied::Unknown));
    assert_eq!(
        denied(other.caller.clone(), "limited"),
        Some(SkillAccessDenied::Unknown),
        "the credential is not of the declared kind"
    );
    assert_eq!(denied(with_key(&other), "limited"), Some(lacks));
    assert_eq!(denied(with_key(&may), "limited"), None);
    for nobody in [anyone(), with_key(&other)] {
        assert_eq!(
            denied(nobody, "secret"),
            Some(SkillAccessDenied::NotFound),
            "a private skill is reported as not found"
        );
    }
    assert_eq!(denied(with_key(&may), "secret"), None);

    let seen = |by: Option<&Caller>| -> Vec<_> {
        engine.skills().visible_to(by).iter().map(|offered| offered.skill().id.to_string()).collect()
    };
    let public = ["desk/count", "desk/limited"];
    assert_eq!(seen(None), public);
    assert_eq!(seen(Some(&anyone())), public);
    assert_eq!(seen(Some(&with_key(&other))), public);
    assert_eq!(seen(Some(&with_key(&may))), ["desk/count", "desk/limited", "desk/secret"]);
    assert!(engine.skills().skill(None, "desk/secret").is_none() && engine.skills().has_private_skills());
}

#[tokio::test]
async fn queued_execution_fails_if_the_key_of_its_caller_is_revoked() {
    let more = "scope = \"desk:use\"\nskill = { type = \"task\", concurrency = 1 }";
    let gateway = start(&[scope("desk:use", "low"), held(more)]).await;
    let (ada, eve) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let engine = gateway.engine();
    let first = submit_as(engine, &with_key(&eve), invocation("held", json!({}))).await.unwrap().execution;
    held_pid(&gateway).await;
    let hers = submit_as(engine, &with_key(&ada), invocation("held", json!({}))).await.unwrap().execution;
    let Principal::Key(id) = &ada.caller.principal else { panic!("the caller has a key") };
    engine.access().revoke_key(id.as_str()).await.unwrap();
    release(&gateway, "held.gate", "done").await;
    assert_eq!(output(&over(&gateway, &first).await), "done");
    let refused = over(&gateway, &hers).await;
    assert_eq!((code(&refused), refused.attempt), (("failed", ErrorCode::ScopeNotGranted), 0));
    assert_eq!(gateway.audit().await[1].outcome, AuditOutcome::NotRun);
}

#[tokio::test]
async fn execution_over_the_limit_per_caller_is_refused_before_acceptance() {
    let settings = |limits: &mut nuncio_server::settings::LimitSettings| limits.executions_per_caller = 1;
    let gateway =
        Gateway::builder().agent(DESK, &desk(&[held(OPEN)])).settings(|all| settings(&mut all.limits)).start().await;
    let first = submit(&gateway, invocation("held", json!({})).with_key("k", "b")).await;
    let full = submit_as(gateway.engine(), &anyone(), invocation("held", json!({}))).await;
    assert_eq!(full, Err(ExecutionSubmitError::Full(QueueLimitReached::Caller)));
    let again = submit_as(gateway.engine(), &anyone(), invocation("held", json!({})).with_key("k", "b")).await.unwrap();
    assert!(again.again, "a repeated request does not count against the limit");
    release(&gateway, "held.gate", "done").await;
    over(&gateway, &first).await;
    nothing_is_held(&gateway).await;
    assert_eq!(gateway.audit().await.len(), 1, "refused executions have no audit record");
    std::fs::remove_file(gateway.file(DESK, "held.pid")).unwrap();
    std::fs::remove_file(gateway.file(DESK, "held.gate")).unwrap();
    let second = submit(&gateway, invocation("held", json!({}))).await;
    release(&gateway, "held.gate", "too").await;
    assert_eq!(output(&over(&gateway, &second).await), "too");
}

fn sign() -> String {
    tool("sign", "echo ran >> runs; printf signed", &format!("human_authorization = true\n{OPEN}"))
}

#[tokio::test]
async fn execution_waits_for_operator_approval() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[sign()])).clock(&clock).start().await;
    let operator = Principal::Operator;
    let yes = submit(&gateway, invocation("sign", json!({"page": 1}))).await;
    let question = gateway.question().await;
    assert_eq!(question.question.arguments, json!({"page": 1}));
    assert_eq!(look(&gateway, &yes).await.state, ExecutionState::Accepted, "it has not begun");
    assert_eq!(runs(&gateway), 0);
    gateway.engine().approvals().decide_approval(&question.id, ApprovalAnswer::Allow, operator.clone()).await.unwrap();
    let yes = over(&gateway, &yes).await;
    assert_eq!((output(&yes), yes.attempt, runs(&gateway)), (&json!("signed"), 1, 1));

    let no = submit(&gateway, invocation("sign", json!({"page": 2}))).await;
    let question = gateway.question().await;
    let deny = ApprovalAnswer::Deny { reason: Some("too dear".into()) };
    gateway.engine().approvals().decide_approval(&question.id, deny, operator).await.unwrap();
    let no = over(&gateway, &no).await;
    assert_eq!((code(&no), no.attempt, runs(&gateway)), (("failed", ErrorCode::Denied), 0, 1));

    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 2);
    assert_eq!(audit[0].decision, AuditDecision::Allowed { by: vec!["operator".into()] });
    assert_eq!(audit[1].decision, AuditDecision::Refused { by: "operator".into(), code: ErrorCode::Denied });
}

#[tokio::test]
async fn unanswered_approval_fails_the_execution_unless_its_timeout_comes_first() {
    let clock = ManualClock::new();
    // The time that an approval waits does not count towards the tool's timeout.
    let more = format!("human_authorization = true\ntimeout_ms = 5000\n{OPEN}");
    let gateway =
        Gateway::builder().agent(DESK, &desk(&[tool("sign", "printf signed", &more)])).clock(&clock).start().await;
    let offered = gateway.engine().skills().any_skill("desk/sign").unwrap();
    assert_eq!(gateway.engine().skills().execution_timeout(&offered), Duration::from_secs(305));
    let unanswered = submit(&gateway, invocation("sign", json!({}))).await;
    gateway.question().await;
    clock.pass(Duration::from_secs(300)).await;
    assert_eq!(code(&over(&gateway, &unanswered).await), ("failed", ErrorCode::ApprovalExpired));
    let hurried = invocation("sign", json!({})).with_timeout(Duration::from_secs(20));
    let hurried = submit(&gateway, hurried).await;
    gateway.question().await;
    clock.pass(Duration::from_secs(20)).await;
    assert_eq!(code(&over(&gateway, &hurried).await).0, "timeout");
}

/// The agent `desk` with the script brain, published as one skill.
pub(crate) fn whole_desk(tools: &[String]) -> String {
    let skill = "version = \"1.0.0\"\ndescription = \"Does what it is told.\"\nskill = { type = \"knowledge\" }\n";
    desk(tools).replacen("version = \"1.0.0\"\n", skill, 1)
}

pub(crate) fn script(script: &Value) -> Value {
    json!({"text": json!({"script": script}).to_string()})
}

#[tokio::test]
async fn agent_skill_answers_and_leaves_no_session() {
    let gateway = Gateway::builder().agent(DESK, &whole_desk(&[count("")])).start().await;
    let ada = gateway.key(&[]).await;
    let engine = gateway.engine();
    let asked = invocation("ask", script(&call_once("c1", "count", json!({}))));
    let execution = submit_as(engine, &ada.caller, asked).await.unwrap().execution;
    let answered = over(&gateway, &execution).await;
    assert_eq!((output(&answered), answered.attempt), (&json!({"text": "done"}), 1));
    assert_eq!(runs(&gateway), 1, "its tools run");
    assert_eq!(ada.aap.get("/sessions").await.1, json!({"sessions": []}), "and its conversation is gone");
    let audit = gateway.audit().await;
    assert_eq!(audit.len(), 1);
    assert_eq!((audit[0].protocol, &audit[0].caller), (Protocol::Skill, &ada.caller.principal));

    for wrong in [json!({}), json!({"text": ""}), json!({"text": 1}), json!({"text": "hi", "x": 1})] {
        let refusal = submit_as(engine, &ada.caller, invocation("ask", wrong.clone())).await;
        assert!(matches!(refusal, Err(ExecutionSubmitError::Inputs(_))), "{wrong}");
    }
    nothing_is_held(&gateway).await;
}

#[tokio::test]
async fn failing_agent_fails_its_skill_execution() {
    let gateway = Gateway::builder().agent(DESK, &whole_desk(&[])).start().await;
    let wrong = json!({"text": json!({"script": [[{"error": "no"}]]}).to_string()});
    let failed = submit(&gateway, invocation("ask", wrong)).await;
    let failed = over(&gateway, &failed).await;
    assert_eq!(failed.state.as_str(), "failed", "{failed:?}");
    assert_eq!(gateway.engine().load().running_turns, 0);
}

#[tokio::test]
async fn template_that_fails_ends_the_turn_with_an_error_in_conversations_and_skills() {
    let intents = "[[intent]]\nname = \"greet\"\nkeywords = [\"hello\"]\nanswer = \"{{ language + 1 }}\"\n";
    let agent = whole_desk(&[intents.to_owned()]).replace("kind = \"script\"", "kind = \"rules\"");
    let gateway = Gateway::builder().agent(DESK, &agent).start().await;
    let aap = gateway.aap();
    let session = aap.session(DESK, &[]).await;
    let answer = aap.say(&session, "hello").await;
    let message = "`answer` of the intent `greet` could not be rendered: \
                   tried to use + operator on unsupported types string and number";
    assert_eq!(answer["error"], json!({"code": "brain_failed", "message": message}), "{answer}");
    assert_eq!(answer["messages"], json!([]), "the failed turn has no message");

    let failed = submit(&gateway, invocation("ask", json!({"text": "hello"}))).await;
    let failed = over(&gateway, &failed).await;
    assert_eq!(failed.state.as_str(), "failed", "{failed:?}");
    assert!(format!("{:?}", failed.state).contains(message), "{failed:?}");
}

#[tokio::test]
async fn queue_runs_by_priority_then_acceptance_order() {
    let log = "input = { type = \"object\", properties = { n = { type = \"string\" } } }\n\
               skill = { type = \"task\", concurrency = 1 }";
    let program = "[ \"$N\" = gate ] && { mkfifo gate; cat gate; }; echo \"$N\" >> order";
    let tool = tool("log", program, log).replace("'''] }", "'''], env = { N = \"{{ args.n }}\" } }");
    let gateway = start(&[tool]).await;
    let first = submit(&gateway, invocation("log", json!({"n": "gate"}))).await;
    let mut all = vec![first];
    for (name, priority) in [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)] {
        all.push(submit(&gateway, invocation("log", json!({"n": name})).with_priority(priority)).await);
    }
    assert_eq!(look(&gateway, &all[3]).await.state, ExecutionState::Accepted);
    release(&gateway, "gate", "go").await;
    for execution in &all {
        output(&over(&gateway, execution).await);
    }
    assert_eq!(std::fs::read_to_string(gateway.file(DESK, "order")).unwrap(), "gate\nhigh\nnormal\nlow\n");
}
