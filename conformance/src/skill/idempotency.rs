//! `Idempotency-Key`: a repeated request is one execution.

use serde_json::json;

use super::wire::{ALL, SkillServerUnderTest, WAIT, execution_id, fresh, invocation, invocation_in_context};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    idempotent_is_the_same_execution,
    idempotent_in_parallel,
    idempotent_other_body_is_422,
    idempotent_after_the_end,
    idempotent_in_the_context,
    idempotent_by_skill,
    idempotent_without_key_runs_again,
    idempotency_key_of_invalid_length_is_400,
];

const IDEMPOTENCY_HEADER: &str = "idempotency-key";

async fn idempotent_is_the_same_execution(api: &SkillServerUnderTest) -> CheckVerdict {
    let (key, body) = (fresh(api).await?, invocation(WAIT, json!({ "text": "x", "delay_ms": 200 })));
    let first = api.invoke_with(WAIT, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?;
    let second = api.invoke_with(WAIT, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?;
    equal("execution_id", execution_id(&first)?, execution_id(&second)?)?;
    ensure(first.header("idempotency-replayed").is_empty(), || "expected the first to be no repetition".to_owned())?;
    equal("idempotency-replayed", "true", second.header("idempotency-replayed"))
}

async fn idempotent_in_parallel(api: &SkillServerUnderTest) -> CheckVerdict {
    let (key, body) = (fresh(api).await?, invocation(WAIT, json!({ "text": "x", "delay_ms": 100 })));
    let headers = [(IDEMPOTENCY_HEADER, key.as_str())];
    let replies = futures_util::future::try_join_all((0..12).map(|_| api.invoke_with(WAIT, &body, &headers))).await?;
    let mut ids = Vec::new();
    for reply in &replies {
        ids.push(execution_id(reply)?);
    }
    ids.dedup();
    equal("executions", 1, ids.len())
}

async fn idempotent_other_body_is_422(api: &SkillServerUnderTest) -> CheckVerdict {
    let key = fresh(api).await?;
    execution_id(
        &api.invoke_with(ALL, &invocation(ALL, json!({ "text": "x" })), &[(IDEMPOTENCY_HEADER, &key)]).await?,
    )?;
    let error = api
        .invoke_with(ALL, &invocation(ALL, json!({ "text": "y" })), &[(IDEMPOTENCY_HEADER, &key)])
        .await?
        .refused_as(422, "VALIDATION_ERROR")?;
    equal("details.reason", json!("idempotency_mismatch"), error["details"]["reason"].clone())
}

async fn idempotent_after_the_end(api: &SkillServerUnderTest) -> CheckVerdict {
    let (key, body) = (fresh(api).await?, invocation(ALL, json!({ "text": "x" })));
    let id = execution_id(&api.invoke_with(ALL, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?)?;
    api.wait_until_over(&id).await?;
    let again = api.invoke_with(ALL, &body, &[(IDEMPOTENCY_HEADER, &key)]).await?.status(202)?.json()?;
    equal("execution_id", json!(id), again["execution_id"].clone())?;
    let over =
        api.invoke_with(ALL, &body, &[(IDEMPOTENCY_HEADER, &key), ("prefer", "wait=30")]).await?.status(200)?.json()?;
    equal("execution_id", json!(id), over["execution_id"].clone())
}

async fn idempotent_in_the_context(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation_in_context(ALL, json!({ "text": "x" }), json!({ "idempotency_key": fresh(api).await? }));
    let first = execution_id(&api.invoke_with(ALL, &body, &[]).await?)?;
    equal("execution_id", first, execution_id(&api.invoke_with(ALL, &body, &[]).await?)?)
}

async fn idempotent_by_skill(api: &SkillServerUnderTest) -> CheckVerdict {
    let key = fresh(api).await?;
    let mut ids = Vec::new();
    for skill in [ALL, WAIT] {
        ids.push(execution_id(
            &api.invoke_with(skill, &invocation(skill, json!({ "text": "x" })), &[(IDEMPOTENCY_HEADER, &key)]).await?,
        )?);
    }
    ensure(ids[0] != ids[1], || "expected the key of one skill to mean nothing to another".to_owned())
}

async fn idempotent_without_key_runs_again(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation(ALL, json!({ "text": "x" }));
    let first = execution_id(&api.invoke_with(ALL, &body, &[]).await?)?;
    let second = execution_id(&api.invoke_with(ALL, &body, &[]).await?)?;
    ensure(first != second, || format!("expected two executions, got {first} twice"))
}

async fn idempotency_key_of_invalid_length_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation(ALL, json!({ "text": "x" }));
    let long = "x".repeat(300);
    for key in ["", long.as_str()] {
        api.invoke_with(ALL, &body, &[(IDEMPOTENCY_HEADER, key)]).await?.refused_as(400, "VALIDATION_ERROR")?;
        let body = invocation_in_context(ALL, json!({ "text": "x" }), json!({ "idempotency_key": key }));
        api.invoke_with(ALL, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}
