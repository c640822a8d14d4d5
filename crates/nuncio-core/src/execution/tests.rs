use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::caller::AuthenticationMethod;
use crate::principal::Principal;

fn order() -> AcceptedInvocation {
    AcceptedInvocation {
        skill: SkillId::parse("hotel/book").unwrap(),
        version: SkillVersion { major: 1, minor: 0, patch: 0 },
        agent: AgentName::parse("hotel").unwrap(),
        target: InvocationTarget::Tool(ToolName::parse("book").unwrap()),
        caller: Caller::new(Principal::Anonymous),
        protocol: Protocol::Skill,
        inputs: Map::new(),
        priority: Priority::Normal,
        trace: TraceIds::default(),
        callback: None,
        created_at: Timestamp::from_millis(1000),
        timeout_ms: 500,
        keep_ms: 2000,
    }
}

fn failure(code: ErrorCode) -> ExecutionFailure {
    ExecutionFailure { code, message: "it broke".to_owned() }
}

#[derive(Debug, Clone)]
enum LifecycleStep {
    Begin,
    Complete,
    Fail,
    TimeOut,
    GoBack,
}

fn steps() -> impl Strategy<Value = Vec<(LifecycleStep, i64)>> {
    let step = prop_oneof![
        Just(LifecycleStep::Begin),
        Just(LifecycleStep::Complete),
        Just(LifecycleStep::Fail),
        Just(LifecycleStep::TimeOut),
        Just(LifecycleStep::GoBack)
    ];
    prop::collection::vec((step, 0_i64..5000), 0..12)
}

proptest! {
    /// Any sequence of transitions at any times: states move one way and final states never change.
    #[test]
    fn execution_state_and_update_time_never_go_back(steps in steps()) {
        let mut execution = Execution::accepted(ExecutionId::parse("exe_1").unwrap(), order());
        for (step, at) in steps {
            let before = execution.clone();
            let at = Timestamp::from_millis(at);
            let done = match step {
                LifecycleStep::Begin => execution.begin(at),
                LifecycleStep::Complete => execution.end(ExecutionState::Completed { output: json!(1) }, at),
                LifecycleStep::Fail => execution.end(ExecutionState::Failed { failure: failure(ErrorCode::ToolFailed) }, at),
                LifecycleStep::TimeOut => execution.end(ExecutionState::TimedOut { failure: failure(ErrorCode::ToolTimeout) }, at),
                LifecycleStep::GoBack => execution.end(ExecutionState::Accepted, at),
            };
            prop_assert!(execution.updated_at >= before.updated_at);
            prop_assert_eq!(done.is_err(), execution == before || matches!(step, LifecycleStep::GoBack));
            if before.state.is_over() {
                prop_assert_eq!(&execution, &before);
            }
            if let ExecutionState::Completed { .. } = &execution.state {
                prop_assert!(execution.attempt > 0);
            }
            prop_assert_eq!(execution.completed_at().is_some(), execution.state.is_over());
        }
    }
}

#[test]
fn accepted_invocation_round_trips_through_json() {
    let mut order = order();
    order.trace.trace_id = Some("trace-1".to_owned());
    order.caller.authentication =
        AuthenticationMethod::Token { scopes: [ScopeId::parse("book:write").unwrap()].into(), people: true };
    let text = serde_json::to_string(&order).unwrap();
    assert_eq!(serde_json::from_str::<AcceptedInvocation>(&text).unwrap(), order);
}

#[test]
fn low_priority_execution_precedes_a_high_priority_one_five_minutes_newer() {
    let low = Timestamp::from_millis(0).after(Priority::Low.handicap());
    let high = Timestamp::from_millis(300_001).after(Priority::High.handicap());
    assert!(low < high);
}

#[test]
fn only_timeout_codes_end_an_execution_as_timed_out() {
    for code in [ErrorCode::ToolTimeout, ErrorCode::TurnDeadline] {
        assert_eq!(ExecutionState::of_failure(failure(code)).as_str(), "timeout");
    }
    for code in [ErrorCode::Cancelled, ErrorCode::ToolFailed, ErrorCode::Denied, ErrorCode::ApprovalExpired] {
        assert_eq!(ExecutionState::of_failure(failure(code)).as_str(), "failed");
    }
}
