//! Context of an invocation (§5.3): priority, timeout, trace id.

use serde_json::{Value, json};

use super::form::time;
use super::wire::{Api, WAIT, ended, execution_id, status_path, wish, wish_in};
use crate::verdict::{CheckFailure, CheckVerdict, ensure, equal};

checks![
    context_may_be_left_out,
    context_priorities,
    context_high_overtakes_low,
    context_timeouts_that_are_none_are_400,
    context_huge_timeouts_are_fine,
    context_trace_ids,
    context_caller_types_are_free,
];

async fn context_may_be_left_out(api: &Api) -> CheckVerdict {
    for body in [wish(WAIT, json!({ "text": "x" })), wish_in(WAIT, json!({ "text": "x" }), json!({}))] {
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    Ok(())
}

async fn context_priorities(api: &Api) -> CheckVerdict {
    for priority in ["low", "normal", "high"] {
        let body = wish_in(WAIT, json!({ "text": "x" }), json!({ "priority": priority }));
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    for priority in [json!("urgent"), json!("HIGH"), json!(""), json!(1), json!(null)] {
        let body = wish_in(WAIT, json!({ "text": "x" }), json!({ "priority": priority }));
        api.invoke_with(WAIT, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

/// Submits to a skill that runs one execution at a time.
async fn queued(api: &Api, delay: u64, priority: &str) -> Result<String, CheckFailure> {
    let body = wish_in("probe/single", json!({ "text": priority, "delay_ms": delay }), json!({ "priority": priority }));
    execution_id(&api.invoke_with("probe/single", &body, &[]).await?)
}

async fn context_high_overtakes_low(api: &Api) -> CheckVerdict {
    // The first one occupies the only slot; the others wait.
    let first = queued(api, 400, "normal").await?;
    let low = queued(api, 0, "low").await?;
    let high = queued(api, 0, "high").await?;
    let ends = |over: Value| time(&over["timestamps"], "completed_at").map(str::to_owned);
    let (low, high) = (api.over(&low).await?, api.over(&high).await?);
    ended(&low, "completed")?;
    ended(&api.over(&first).await?, "completed")?;
    let (low, high) = (ends(low)?, ends(high)?);
    ensure(high <= low, || format!("expected high before low, got {high} and {low}"))
}

async fn context_timeouts_that_are_none_are_400(api: &Api) -> CheckVerdict {
    for timeout in [json!(0), json!(-1), json!("100"), json!(null), json!(true), json!([1])] {
        let body = wish_in(WAIT, json!({ "text": "x" }), json!({ "timeout_ms": timeout }));
        let error = api.invoke_with(WAIT, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
        equal("path", json!("/context/timeout_ms"), error["details"]["violations"][0]["path"].clone())?;
    }
    Ok(())
}

async fn context_huge_timeouts_are_fine(api: &Api) -> CheckVerdict {
    for timeout in [json!(1e300), json!(u64::MAX), json!(60_000.5)] {
        let body = wish_in(WAIT, json!({ "text": "x" }), json!({ "timeout_ms": timeout }));
        let id = execution_id(&api.invoke_with(WAIT, &body, &[]).await?)?;
        ended(&api.over(&id).await?, "completed")?;
    }
    Ok(())
}

async fn context_trace_ids(api: &Api) -> CheckVerdict {
    for trace in ["trace-7f3a9b2c", "", "日本"] {
        let body = wish_in(WAIT, json!({ "text": "x" }), json!({ "trace_id": trace }));
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    for trace in ["line\nbreak".to_owned(), "x".repeat(10_000)] {
        let body = wish_in(WAIT, json!({ "text": "x" }), json!({ "trace_id": trace }));
        api.invoke_with(WAIT, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    // An invalid trace context is ignored, as W3C requires.
    for traceparent in ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "nonsense"] {
        let body = wish(WAIT, json!({ "text": "x" }));
        let id = execution_id(&api.invoke_with(WAIT, &body, &[("traceparent", traceparent)]).await?)?;
        api.get(&status_path(&id)).await?.status(200)?;
    }
    Ok(())
}

async fn context_caller_types_are_free(api: &Api) -> CheckVerdict {
    for kind in ["ifay", "service", "user", "something else"] {
        let mut body = wish(WAIT, json!({ "text": "x" }));
        body["caller"]["type"] = json!(kind);
        api.invoke_with(WAIT, &body, &[]).await?.status(202)?;
    }
    Ok(())
}
