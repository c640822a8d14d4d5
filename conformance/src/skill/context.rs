//! Context of an invocation (§5.3): priority, timeout, trace id.

use serde_json::{Value, json};

use super::form::time;
use super::wire::{SkillServerUnderTest, WAIT, ended, execution_id, invocation, invocation_in_context, status_path};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal};

checks![
    context_is_optional,
    context_priorities,
    context_high_priority_runs_before_low,
    context_with_invalid_timeout_is_400,
    context_with_huge_timeout_is_accepted,
    context_trace_ids,
    context_accepts_any_caller_type,
];

async fn context_is_optional(api: &SkillServerUnderTest) -> CheckVerdict {
    for body in
        [invocation(WAIT, json!({ "text": "x" })), invocation_in_context(WAIT, json!({ "text": "x" }), json!({}))]
    {
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    Ok(())
}

async fn context_priorities(api: &SkillServerUnderTest) -> CheckVerdict {
    for priority in ["low", "normal", "high"] {
        let body = invocation_in_context(WAIT, json!({ "text": "x" }), json!({ "priority": priority }));
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    for priority in [json!("urgent"), json!("HIGH"), json!(""), json!(1), json!(null)] {
        let body = invocation_in_context(WAIT, json!({ "text": "x" }), json!({ "priority": priority }));
        api.invoke_with(WAIT, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

/// Submits an execution to a skill that runs one execution at a time.
async fn queued(api: &SkillServerUnderTest, delay: u64, priority: &str) -> Result<String, CheckStopReason> {
    let body = invocation_in_context(
        "probe/single",
        json!({ "text": priority, "delay_ms": delay }),
        json!({ "priority": priority }),
    );
    execution_id(&api.invoke_with("probe/single", &body, &[]).await?)
}

async fn context_high_priority_runs_before_low(api: &SkillServerUnderTest) -> CheckVerdict {
    // The first execution occupies the only slot; the others wait. On a busy machine it may end before both are
    // queued, which shows nothing; it then takes longer the next time.
    let mut verdict = Ok(());
    for occupied_ms in [400, 2_000, 8_000] {
        let first = queued(api, occupied_ms, "normal").await?;
        let low = queued(api, 0, "low").await?;
        let high = queued(api, 0, "high").await?;
        let ends = |over: Value| time(&over["timestamps"], "completed_at").map(str::to_owned);
        let (low, high) = (api.wait_until_over(&low).await?, api.wait_until_over(&high).await?);
        ended(&low, "completed")?;
        ended(&api.wait_until_over(&first).await?, "completed")?;
        let (low, high) = (ends(low)?, ends(high)?);
        verdict = ensure(high <= low, || format!("expected high before low, got {high} and {low}"));
        if verdict.is_ok() {
            break;
        }
    }
    verdict
}

async fn context_with_invalid_timeout_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    for timeout in [json!(0), json!(-1), json!("100"), json!(null), json!(true), json!([1])] {
        let body = invocation_in_context(WAIT, json!({ "text": "x" }), json!({ "timeout_ms": timeout }));
        let error = api.invoke_with(WAIT, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
        equal("path", json!("/context/timeout_ms"), error["details"]["violations"][0]["path"].clone())?;
    }
    Ok(())
}

async fn context_with_huge_timeout_is_accepted(api: &SkillServerUnderTest) -> CheckVerdict {
    for timeout in [json!(1e300), json!(u64::MAX), json!(60_000.5)] {
        let body = invocation_in_context(WAIT, json!({ "text": "x" }), json!({ "timeout_ms": timeout }));
        let id = execution_id(&api.invoke_with(WAIT, &body, &[]).await?)?;
        ended(&api.wait_until_over(&id).await?, "completed")?;
    }
    Ok(())
}

async fn context_trace_ids(api: &SkillServerUnderTest) -> CheckVerdict {
    for trace in ["trace-7f3a9b2c", "", "日本"] {
        let body = invocation_in_context(WAIT, json!({ "text": "x" }), json!({ "trace_id": trace }));
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    for trace in ["line\nbreak".to_owned(), "x".repeat(10_000)] {
        let body = invocation_in_context(WAIT, json!({ "text": "x" }), json!({ "trace_id": trace }));
        api.invoke_with(WAIT, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    // An invalid trace context is ignored, as W3C requires.
    for traceparent in ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "nonsense"] {
        let body = invocation(WAIT, json!({ "text": "x" }));
        let id = execution_id(&api.invoke_with(WAIT, &body, &[("traceparent", traceparent)]).await?)?;
        api.get(&status_path(&id)).await?.status(200)?;
    }
    Ok(())
}

async fn context_accepts_any_caller_type(api: &SkillServerUnderTest) -> CheckVerdict {
    for kind in ["ifay", "service", "user", "something else"] {
        let mut body = invocation(WAIT, json!({ "text": "x" }));
        body["caller"]["type"] = json!(kind);
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    Ok(())
}
