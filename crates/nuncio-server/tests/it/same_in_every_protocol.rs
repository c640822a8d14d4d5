//! Every protocol uses one call chain: the same calls get the same decisions and leave the same audit records.

use std::time::Duration;

use nuncio_core::approval::ApprovalAnswer;
use nuncio_core::audit::{AuditDecision, AuditOutcome, AuditRecord};
use nuncio_core::digest::Digest;
use nuncio_core::execution::TraceIds;
use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::policy::Protocol;
use nuncio_core::principal::Principal;
use nuncio_engine::call::{ClientDecision, ToolCallOutcome, ToolCallRequest};
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::{ApiKeyHolder, Gateway, ManualClock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agents::{DESK, call_once, desk, echo, held, held_pid, messages, result_of, scope, tool};

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
enum EventDuringCall {
    Nothing,
    Operators(fn() -> ApprovalAnswer),
    TimeRunsOut(Duration),
}

struct CallCase {
    name: &'static str,
    tool: &'static str,
    input: Value,
    offered: bool,
    meanwhile: EventDuringCall,
    says: &'static str,
    decision: AuditDecision,
    outcome: AuditOutcome,
}

fn allowed(by: &[&str]) -> AuditDecision {
    AuditDecision::Allowed { by: by.iter().map(|&by| by.to_owned()).collect() }
}

fn refused(by: &str, code: nuncio_core::ErrorCode) -> AuditDecision {
    AuditDecision::Refused { by: by.to_owned(), code }
}

fn cases() -> Vec<CallCase> {
    use nuncio_core::ErrorCode;
    let case = |name, tool, says, decision, outcome| CallCase {
        name,
        tool,
        input: json!({"note": "ü"}),
        offered: true,
        meanwhile: EventDuringCall::Nothing,
        says,
        decision,
        outcome,
    };
    let policy = || allowed(&["policy"]);
    vec![
        case("allowed", "echo", "{\"note\":\"ü\"}", policy(), AuditOutcome::Completed),
        case("allowed by scope", "read", "{\"note\":\"ü\"}", policy(), AuditOutcome::Completed),
        case(
            "unknown tool",
            "nothing",
            "Tool not found: nothing",
            refused("policy", ErrorCode::ToolNotFound),
            AuditOutcome::NotRun,
        ),
        CallCase {
            offered: false,
            ..case(
                "out of reach",
                "read",
                "Tool not found: read",
                refused("policy", ErrorCode::ToolNotFound),
                AuditOutcome::NotRun,
            )
        },
        case(
            "scope not granted",
            "write",
            "Tool call denied: the scope notes:write has not been granted; an operator of the server \
    can grant it with `nuncio grant create`",
            refused("policy", ErrorCode::ScopeNotGranted),
            AuditOutcome::NotRun,
        ),
        CallCase {
            input: json!({"a": "one"}),
            ..case(
                "invalid arguments",
                "strict",
                "Invalid arguments: at /a: \"one\" is not of type \"number\"",
                refused("policy", ErrorCode::InvalidArguments),
                AuditOutcome::NotRun,
            )
        },
        CallCase {
            meanwhile: EventDuringCall::Operators(|| ApprovalAnswer::Allow),
            ..case("allowed by operator", "sign", "signed", allowed(&["operator"]), AuditOutcome::Completed)
        },
        CallCase {
            meanwhile: EventDuringCall::Operators(|| ApprovalAnswer::Deny { reason: Some("not today".to_owned()) }),
            ..case(
                "denied by operator",
                "sign",
                "Tool call denied: not today",
                refused("operator", ErrorCode::Denied),
                AuditOutcome::NotRun,
            )
        },
        CallCase {
            meanwhile: EventDuringCall::Operators(|| ApprovalAnswer::Deny { reason: None }),
            ..case(
                "denied by operator without a word",
                "sign",
                "Tool call denied",
                refused("operator", ErrorCode::Denied),
                AuditOutcome::NotRun,
            )
        },
        case(
            "tool failed",
            "fail",
            "Tool execution failed: `sh` ended with exit status: 3: out of paper",
            policy(),
            AuditOutcome::Failed { code: ErrorCode::ToolFailed },
        ),
        CallCase {
            meanwhile: EventDuringCall::TimeRunsOut(Duration::from_secs(5)),
            ..case(
                "tool timeout",
                "held",
                "Tool execution failed: it took longer than its time limit",
                policy(),
                AuditOutcome::Failed { code: ErrorCode::ToolTimeout },
            )
        },
        case(
            "invalid output",
            "shape",
            "Tool execution failed: its result does not match the declared output schema: at /sum: \"three\" is not of \
             type \"number\"",
            policy(),
            AuditOutcome::Failed { code: ErrorCode::InvalidOutput },
        ),
        case(
            "no structured output",
            "shapeless",
            "Tool execution failed: it returned no structured result, but an output schema is declared",
            policy(),
            AuditOutcome::Failed { code: ErrorCode::InvalidOutput },
        ),
    ]
}

/// A gateway with a manual clock, and a caller who may read and erase notes but not write them.
struct ProtocolTestGateway {
    gateway: Gateway,
    clock: ManualClock,
    guest: ApiKeyHolder,
}

impl ProtocolTestGateway {
    async fn new() -> Self {
        let output = "output = { type = \"object\", properties = { sum = { type = \"number\" } } }";
        let agent = desk(&[
            scope("notes:read", "low"),
            scope("notes:write", "medium"),
            scope("notes:erase", "high"),
            echo(),
            tool("read", "cat", "scope = \"notes:read\""),
            tool("write", "cat", "scope = \"notes:write\""),
            tool("erase", "printf erased", "scope = \"notes:erase\""),
            tool("sign", "printf signed", "human_authorization = true"),
            tool("strict", "cat", "input = { type = \"object\", properties = { a = { type = \"number\" } } }"),
            tool("fail", "echo 'out of paper' >&2; exit 3", ""),
            held("timeout_ms = 5000"),
            tool("shape", "printf '{\"sum\":\"three\"}'", output),
            tool("shapeless", "printf three", output),
        ]);
        let clock = ManualClock::new();
        let gateway = Gateway::builder().agent(DESK, &agent).clock(&clock).start().await;
        let guest = gateway.key(&["notes:read", "notes:erase"]).await;
        Self { gateway, clock, guest }
    }

    async fn meanwhile(&self, what: EventDuringCall) {
        match what {
            EventDuringCall::Nothing => {}
            EventDuringCall::Operators(answer) => {
                let question = self.gateway.question().await;
                self.gateway
                    .engine()
                    .approvals()
                    .decide_approval(&question.id, answer(), Principal::Operator)
                    .await
                    .unwrap();
            }
            EventDuringCall::TimeRunsOut(span) => {
                held_pid(&self.gateway).await;
                self.clock.pass(span).await;
                std::fs::remove_file(self.gateway.file(DESK, "held.pid")).unwrap();
            }
        }
    }

    /// The outcome of `doing`, and the only audit record that it added.
    async fn recorded<T>(&self, doing: impl Future<Output = T>) -> (T, AuditRecord) {
        let before = self.gateway.audit().await.len();
        let done = doing.await;
        let mut added = self.gateway.audit().await.split_off(before);
        assert_eq!(added.len(), 1, "one call leaves one record: {added:#?}");
        (done, added.remove(0))
    }

    /// A call made by the brain in an app's session. The app trusts every tool it has switched on.
    async fn by_aap(&self, case: &CallCase) -> (Value, AuditRecord) {
        self.recorded(async {
            let tools: &[(&str, bool)] =
                if case.offered && case.tool != "nothing" { &[(case.tool, true)] } else { &[] };
            let session = self.guest.aap.session(DESK, tools).await;
            let turn = self.guest.aap.play(&session, call_once("c1", case.tool, case.input.clone()));
            let (answer, ()) = tokio::join!(turn, self.meanwhile(case.meanwhile));
            assert_eq!(answer["stopReason"], "end_turn", "{}: {answer}", case.name);
            result_of(messages(&answer), "c1").clone()
        })
        .await
    }

    async fn by(&self, protocol: Protocol, case: &CallCase) -> (Value, AuditRecord) {
        self.recorded(async {
            let called = self.call(protocol, case.tool, &case.input, case.offered, ClientDecision::NotAsked);
            match tokio::join!(called, self.meanwhile(case.meanwhile)).0 {
                ToolCallOutcome::Ended(ended) => json!(ended.content()),
                ToolCallOutcome::AskClient => panic!("{}: there is no client to ask", case.name),
            }
        })
        .await
    }

    async fn call(
        &self,
        protocol: Protocol,
        tool: &str,
        input: &Value,
        offered: bool,
        client: ClientDecision,
    ) -> ToolCallOutcome {
        let engine = self.gateway.engine();
        let call = ToolCallRequest {
            caller: &self.guest.caller,
            protocol,
            published: &engine.agents().agent(DESK).unwrap(),
            id: CallId::parse("direct").unwrap(),
            tool: ToolName::parse(tool).unwrap(),
            arguments: input.as_object().unwrap().clone(),
            offered,
            client,
            turn: None,
            target: None,
            pending_insert: None,
            trace: &TraceIds::default(),
            on_start: None,
            deadline: engine.now().after(10 * MINUTE),
            cancel: &CancellationToken::new(),
        };
        engine.calls().call(call).await.unwrap()
    }

    async fn assert_chain_holds(&self, records: usize) {
        let proof = self.gateway.order(AdminCommand::AuditVerify).await.unwrap();
        assert_eq!((&proof["intact"], &proof["records"]), (&json!(true), &json!(records)));
    }
}

fn comparable(record: &AuditRecord) -> Value {
    let mut record = json!(record);
    let fields = record.as_object_mut().unwrap();
    for own in ["call", "session", "turn", "request", "protocol", "asked_at", "ended_at"] {
        fields.shift_remove(own);
    }
    // The approval ids differ; only the presence of an id is compared.
    if let Some(approval) = fields.get_mut("references").and_then(|references| references.get_mut("approval")) {
        *approval = "one".into();
    }
    // The start times differ; only the presence of a start time is compared.
    fields.entry("started_at").and_modify(|at| *at = "began".into());
    record
}

#[tokio::test]
async fn every_protocol_gets_the_same_decision_and_audit_record() {
    let world = ProtocolTestGateway::new().await;
    let mut records = 0;
    for case in cases() {
        let (said, aap) = world.by_aap(&case).await;
        assert_eq!(said, case.says, "{}", case.name);
        assert_eq!((&aap.decision, &aap.outcome), (&case.decision, &case.outcome), "{}", case.name);
        assert_eq!(aap.arguments_digest, Digest::of_json(&case.input), "{}", case.name);
        assert_eq!((aap.protocol, &aap.caller), (Protocol::Aap, &world.guest.caller.principal), "{}", case.name);
        assert!(aap.session.is_some() && aap.turn == Some(1) && aap.request.is_some(), "{}: {aap:?}", case.name);
        for protocol in [Protocol::Skill, Protocol::Anp, Protocol::Mcp] {
            let (said, other) = world.by(protocol, &case).await;
            assert_eq!(said, case.says, "{} by {}", case.name, protocol.as_str());
            assert_eq!(comparable(&other), comparable(&aap), "{} by {}", case.name, protocol.as_str());
            assert_eq!((other.protocol, other.session), (protocol, None));
        }
        records += 4;
    }
    world.assert_chain_holds(records).await;
}

#[tokio::test]
async fn high_sensitivity_call_needs_an_operator_in_every_protocol_except_aap() {
    let world = ProtocolTestGateway::new().await;
    let erase = CallCase {
        name: "erase",
        tool: "erase",
        input: json!({}),
        offered: true,
        meanwhile: EventDuringCall::Nothing,
        says: "erased",
        decision: allowed(&["policy"]),
        outcome: AuditOutcome::Completed,
    };
    let (said, record) = world.by_aap(&erase).await;
    assert_eq!((said, record.decision), (json!("erased"), allowed(&["policy"])));
    for protocol in [Protocol::Skill, Protocol::Anp, Protocol::A2h] {
        let asked = CallCase { meanwhile: EventDuringCall::Operators(|| ApprovalAnswer::Allow), ..erase_again(&erase) };
        let (said, record) = world.by(protocol, &asked).await;
        assert_eq!((said, record.decision), (json!("erased"), allowed(&["operator"])), "{}", protocol.as_str());
        let denied = CallCase {
            meanwhile: EventDuringCall::Operators(|| ApprovalAnswer::Deny { reason: None }),
            ..erase_again(&erase)
        };
        let (_, record) = world.by(protocol, &denied).await;
        assert_eq!(record.decision, refused("operator", nuncio_core::ErrorCode::Denied), "{}", protocol.as_str());
    }
    world.assert_chain_holds(7).await;
}

#[tokio::test]
async fn high_sensitivity_call_in_a_conversation_without_an_app_needs_an_operator() {
    let world = ProtocolTestGateway::new().await;
    let (engine, caller) = (world.gateway.engine(), &world.guest.caller);
    let conversations = engine.conversations();
    let served = engine.agents().agent(DESK).unwrap();
    for protocol in [Protocol::Skill, Protocol::Anp, Protocol::A2h] {
        let ((), record) = world
            .recorded(async {
                let session = conversations.open_unattended_session(caller, &served, None).await.unwrap();
                let text = json!({"script": call_once("c1", "erase", json!({}))}).to_string();
                let turn =
                    conversations.begin_unattended_turn(caller, session.as_str(), text, protocol, None).await.unwrap();
                tokio::select! {
                    () = turn.finished() => {}
                    () = world.meanwhile(EventDuringCall::Operators(|| ApprovalAnswer::Allow)) => turn.finished().await,
                }
            })
            .await;
        assert_eq!(record.decision, allowed(&["operator"]), "{}", protocol.as_str());
    }
}

fn erase_again(case: &CallCase) -> CallCase {
    CallCase { input: case.input.clone(), decision: case.decision.clone(), outcome: case.outcome.clone(), ..*case }
}

#[tokio::test]
async fn permission_answer_of_the_app_is_recorded_as_decided_by_the_client() {
    let world = ProtocolTestGateway::new().await;
    let aap = &world.guest.aap;
    for (granted, tool, says, decision) in [
        (true, "echo", "{}", allowed(&["client"])),
        (true, "sign", "signed", allowed(&["client", "operator"])),
        (false, "echo", "Tool call denied: no thanks", refused("client", nuncio_core::ErrorCode::Denied)),
        // A call that the app refused causes no question to operators.
        (false, "sign", "Tool call denied: no thanks", refused("client", nuncio_core::ErrorCode::Denied)),
    ] {
        let (said, record) = world
            .recorded(async {
                let session = aap.session(DESK, &[(tool, false)]).await;
                let waiting = aap.play(&session, call_once("c1", tool, json!({}))).await;
                assert_eq!(waiting["stopReason"], "tool_use");
                let permission = json!([
                    {"role": "tool_permission", "toolCallId": "c1", "granted": granted, "reason": "no thanks"},
                ]);
                let operators = async {
                    if granted && tool == "sign" {
                        world.meanwhile(EventDuringCall::Operators(|| ApprovalAnswer::Allow)).await;
                    }
                };
                let ((status, answer), ()) = tokio::join!(aap.turn(&session, permission), operators);
                assert_eq!(status, 200, "{answer}");
                result_of(messages(&answer), "c1").clone()
            })
            .await;
        assert_eq!((said, record.decision), (json!(says), decision));
    }
    world.assert_chain_holds(4).await;
}

#[tokio::test]
async fn call_waiting_for_app_permission_leaves_no_audit_record() {
    let world = ProtocolTestGateway::new().await;
    let called = world.call(Protocol::Aap, "echo", &json!({}), true, ClientDecision::AskFirst).await;
    assert_eq!(called, ToolCallOutcome::AskClient);
    assert_eq!(world.gateway.audit().await, []);
    // A call that is refused anyway causes no question.
    let called = world.call(Protocol::Aap, "write", &json!({}), true, ClientDecision::AskFirst).await;
    assert!(matches!(called, ToolCallOutcome::Ended(_)), "{called:?}");
    world.assert_chain_holds(1).await;
}
