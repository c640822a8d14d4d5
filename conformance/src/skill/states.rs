//! The five execution states and their allowed order (§3.4.4, §5.4).

use serde_json::{Value, json};

use super::form::{self, STATUS, text, time};
use super::wire::{ALL, SkillServerUnderTest, WAIT, ended, invocation_in_context, is_over, result_path};
use crate::verdict::{CheckVerdict, ensure, equal, fail};

checks![
    states_never_go_backwards,
    states_timestamps_never_decrease,
    states_final_status_does_not_change,
    states_completed_has_output,
    states_failed_has_error,
    states_timeout_by_the_descriptor,
    states_timeout_by_the_caller,
    states_timeout_has_the_specified_details,
    states_wrong_output_is_failed,
    states_attempt_is_reported,
];

fn rank(execution: &Value) -> usize {
    // The three final states have the same rank in the order of states.
    STATUS.iter().position(|status| execution["status"] == *status).map_or(0, |rank| rank.min(2))
}

async fn states_never_go_backwards(api: &SkillServerUnderTest) -> CheckVerdict {
    let mut all = Vec::new();
    // On a busy machine the first poll may come after a short execution has ended; a longer one follows.
    for (skill, delay_ms) in [("probe/hasty", 5000), (WAIT, 300), (WAIT, 5000)] {
        let id = api.accepted(skill, json!({ "text": "x", "delay_ms": delay_ms })).await?;
        let seen = api.poll(&id, &[]).await?;
        let ranks: Vec<_> = seen.iter().map(rank).collect();
        ensure(ranks.is_sorted(), || format!("expected states one way, got {seen:?}"))?;
        all.extend(seen);
        if skill == WAIT && all.iter().any(|seen| seen["status"] == "running") {
            return Ok(());
        }
    }
    Err(fail(format!("expected to see an execution running, got {all:?}")))
}

async fn states_timestamps_never_decrease(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(WAIT, json!({ "text": "x", "delay_ms": 300 })).await?;
    let seen = api.poll(&id, &[]).await?;
    let mut before = String::new();
    for state in &seen {
        let updated = time(&state["timestamps"], "updated_at")?;
        ensure(before.as_str() <= updated, || format!("expected times in order, got {seen:?}"))?;
        equal("created_at", &seen[0]["timestamps"]["created_at"], &state["timestamps"]["created_at"])?;
        before = updated.to_owned();
    }
    Ok(())
}

async fn states_final_status_does_not_change(api: &SkillServerUnderTest) -> CheckVerdict {
    for (skill, inputs) in [(ALL, json!({ "text": "x" })), ("probe/fail", json!({ "code": "X", "message": "no" }))] {
        let over = api.invoke_and_wait(skill, inputs).await?;
        let id = text(&over, "execution_id")?;
        api.call(api.request(reqwest::Method::DELETE, &super::wire::status_path(id))).await?.status(202)?;
        equal("the end, later", over.clone(), api.wait_until_over(id).await?)?;
    }
    Ok(())
}

async fn states_completed_has_output(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait(ALL, json!({ "text": "x", "place": { "lat": 1.5, "lon": -2 } })).await?;
    ended(&over, "completed")?;
    form::response(&over)?;
    equal(
        "output",
        json!({ "text": "x", "amount": 7, "flag": false, "place": { "lat": 1.5, "lon": -2 } }),
        over["output"].clone(),
    )
}

async fn states_failed_has_error(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait("probe/fail", json!({ "code": "E1", "message": "it broke" })).await?;
    ended(&over, "failed")?;
    form::response(&over)?;
    let message = text(&over["error"], "message")?;
    ensure(message.contains("it broke"), || format!("expected what went wrong, got {message}"))?;
    equal("code", json!("EXECUTION_FAILED"), over["error"]["code"].clone())
}

async fn states_timeout_by_the_descriptor(api: &SkillServerUnderTest) -> CheckVerdict {
    equal("timeout_ms", json!(250), api.descriptor("probe/hasty").await?["endpoint"]["timeout_ms"].clone())?;
    ended(&api.invoke_and_wait("probe/hasty", json!({ "text": "x", "delay_ms": 60_000 })).await?, "timeout")?;
    // A longer timeout of the caller does not extend the descriptor's.
    let body = invocation_in_context(
        "probe/hasty",
        json!({ "text": "x", "delay_ms": 60_000 }),
        json!({ "timeout_ms": 50_000 }),
    );
    let id = super::wire::execution_id(&api.invoke_with("probe/hasty", &body, &[]).await?)?;
    ended(&api.wait_until_over(&id).await?, "timeout")
}

async fn states_timeout_by_the_caller(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation_in_context(WAIT, json!({ "text": "x", "delay_ms": 60_000 }), json!({ "timeout_ms": 200 }));
    let id = super::wire::execution_id(&api.invoke_with(WAIT, &body, &[]).await?)?;
    let over = api.wait_until_over(&id).await?;
    ended(&over, "timeout")?;
    form::response(&over)
}

async fn states_timeout_has_the_specified_details(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait("probe/hasty", json!({ "text": "x", "delay_ms": 60_000 })).await?;
    let error = &over["error"];
    equal("code", json!("INVOCATION_TIMEOUT"), error["code"].clone())?;
    equal("details.timeout_ms", json!(250), error["details"]["timeout_ms"].clone())?;
    equal("details.execution_id", &over["execution_id"], &error["details"]["execution_id"])?;
    ensure(error["retry"]["max_attempts"].is_number(), || format!("expected advice to try again, got {error}"))?;
    equal("result", over.clone(), api.get(&result_path(text(&over, "execution_id")?)).await?.status(200)?.json()?)
}

async fn states_wrong_output_is_failed(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait("probe/liar", json!({ "text": "x" })).await?;
    ended(&over, "failed")?;
    ensure(over.get("output").is_none() && is_over(&over), || format!("expected no output, got {over}"))?;
    equal("details.reason", json!("invalid_output"), over["error"]["details"]["reason"].clone())
}

async fn states_attempt_is_reported(api: &SkillServerUnderTest) -> CheckVerdict {
    equal("attempt", json!(1), api.invoke_and_wait(ALL, json!({ "text": "x" })).await?["attempt"].clone())
}
