//! `Prefer` (RFC 7240): immediate or delayed responses.

use std::time::{Duration, Instant};

use serde_json::json;

use super::form;
use super::wire::{SkillServerUnderTest, WAIT, ended, execution_id, invocation, status_path};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    wait_answers_when_done,
    wait_ends_before_the_execution,
    wait_zero_answers_immediately,
    wait_on_status,
    invalid_wait_is_ignored
];

async fn wait_answers_when_done(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation(WAIT, json!({ "text": "x", "delay_ms": 100 }));
    let reply = api.invoke_with(WAIT, &body, &[("prefer", "wait=30")]).await?;
    let over = reply.status(200)?.json()?;
    form::response(&over)?;
    ended(&over, "completed")?;
    equal("preference-applied", "wait=30", reply.header("preference-applied"))
}

async fn wait_ends_before_the_execution(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation(WAIT, json!({ "text": "x", "delay_ms": 60_000 }));
    for seconds in [0, 1] {
        let reply = api.invoke_with(WAIT, &body, &[("prefer", &format!("wait={seconds}"))]).await?;
        let id = execution_id(&reply)?;
        ensure(!reply.header("retry-after").is_empty(), || "expected Retry-After".to_owned())?;
        api.call(api.request(reqwest::Method::DELETE, &status_path(&id))).await?.status(202)?;
    }
    Ok(())
}

async fn wait_zero_answers_immediately(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation(WAIT, json!({ "text": "x", "delay_ms": 100 }));
    for prefer in ["respond-async", "respond-async, wait=30", "wait=30, respond-async"] {
        let reply = api.invoke_with(WAIT, &body, &[("prefer", prefer)]).await?;
        execution_id(&reply)?;
    }
    Ok(())
}

async fn wait_on_status(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(WAIT, json!({ "text": "x", "delay_ms": 300 })).await?;
    let over = api.get_with(&status_path(&id), &[("prefer", "wait=30")]).await?.status(200)?.json()?;
    ended(&over, "completed")
}

async fn invalid_wait_is_ignored(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation(WAIT, json!({ "text": "x", "delay_ms": 60_000 }));
    for prefer in ["wait", "wait=-1", "wait=soon", "wait=1.5", "wait=99999999999999999999", "handling=lenient", ",,;="]
    {
        let began = Instant::now();
        let id = execution_id(&api.invoke_with(WAIT, &body, &[("prefer", prefer)]).await?)?;
        // The execution takes a minute, so a server that waited for it would exceed this limit.
        ensure(began.elapsed() < Duration::from_secs(30), || format!("{prefer}: expected an answer at once"))?;
        api.call(api.request(reqwest::Method::DELETE, &status_path(&id))).await?.status(202)?;
    }
    Ok(())
}
