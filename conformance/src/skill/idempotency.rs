//! `Idempotency-Key`: a repeated request is one execution.

use serde_json::json;

use super::wire::{ALL, Api, WAIT, execution_id, fresh, wish, wish_in};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    idempotent_is_the_same_execution,
    idempotent_in_parallel,
    idempotent_other_body_is_422,
    idempotent_after_the_end,
    idempotent_in_the_context,
    idempotent_by_skill,
    idempotent_without_key_runs_again,
    idempotent_keys_that_are_none,
];

const KEY: &str = "idempotency-key";

async fn idempotent_is_the_same_execution(api: &Api) -> CheckVerdict {
    let (key, body) = (fresh(api).await?, wish(WAIT, json!({ "text": "x", "delay_ms": 200 })));
    let first = api.invoke_with(WAIT, &body, &[(KEY, &key)]).await?;
    let second = api.invoke_with(WAIT, &body, &[(KEY, &key)]).await?;
    equal("execution_id", execution_id(&first)?, execution_id(&second)?)?;
    ensure(first.header("idempotency-replayed").is_empty(), || "expected the first to be no repetition".to_owned())?;
    equal("idempotency-replayed", "true", second.header("idempotency-replayed"))
}

async fn idempotent_in_parallel(api: &Api) -> CheckVerdict {
    let (key, body) = (fresh(api).await?, wish(WAIT, json!({ "text": "x", "delay_ms": 100 })));
    let headers = [(KEY, key.as_str())];
    let replies = futures_util::future::try_join_all((0..12).map(|_| api.invoke_with(WAIT, &body, &headers))).await?;
    let mut ids = Vec::new();
    for reply in &replies {
        ids.push(execution_id(reply)?);
    }
    ids.dedup();
    equal("executions", 1, ids.len())
}

async fn idempotent_other_body_is_422(api: &Api) -> CheckVerdict {
    let key = fresh(api).await?;
    execution_id(&api.invoke_with(ALL, &wish(ALL, json!({ "text": "x" })), &[(KEY, &key)]).await?)?;
    let error = api
        .invoke_with(ALL, &wish(ALL, json!({ "text": "y" })), &[(KEY, &key)])
        .await?
        .refused_as(422, "VALIDATION_ERROR")?;
    equal("details.reason", json!("idempotency_mismatch"), error["details"]["reason"].clone())
}

async fn idempotent_after_the_end(api: &Api) -> CheckVerdict {
    let (key, body) = (fresh(api).await?, wish(ALL, json!({ "text": "x" })));
    let id = execution_id(&api.invoke_with(ALL, &body, &[(KEY, &key)]).await?)?;
    api.over(&id).await?;
    let again = api.invoke_with(ALL, &body, &[(KEY, &key)]).await?.status(202)?.json()?;
    equal("execution_id", json!(id), again["execution_id"].clone())?;
    let over = api.invoke_with(ALL, &body, &[(KEY, &key), ("prefer", "wait=30")]).await?.status(200)?.json()?;
    equal("execution_id", json!(id), over["execution_id"].clone())
}

async fn idempotent_in_the_context(api: &Api) -> CheckVerdict {
    let body = wish_in(ALL, json!({ "text": "x" }), json!({ "idempotency_key": fresh(api).await? }));
    let first = execution_id(&api.invoke_with(ALL, &body, &[]).await?)?;
    equal("execution_id", first, execution_id(&api.invoke_with(ALL, &body, &[]).await?)?)
}

async fn idempotent_by_skill(api: &Api) -> CheckVerdict {
    let key = fresh(api).await?;
    let mut ids = Vec::new();
    for skill in [ALL, WAIT] {
        ids.push(execution_id(&api.invoke_with(skill, &wish(skill, json!({ "text": "x" })), &[(KEY, &key)]).await?)?);
    }
    ensure(ids[0] != ids[1], || "expected the key of one skill to mean nothing to another".to_owned())
}

async fn idempotent_without_key_runs_again(api: &Api) -> CheckVerdict {
    let body = wish(ALL, json!({ "text": "x" }));
    let first = execution_id(&api.invoke_with(ALL, &body, &[]).await?)?;
    let second = execution_id(&api.invoke_with(ALL, &body, &[]).await?)?;
    ensure(first != second, || format!("expected two executions, got {first} twice"))
}

async fn idempotent_keys_that_are_none(api: &Api) -> CheckVerdict {
    let body = wish(ALL, json!({ "text": "x" }));
    let long = "x".repeat(300);
    for key in ["", long.as_str()] {
        api.invoke_with(ALL, &body, &[(KEY, key)]).await?.refused_as(400, "VALIDATION_ERROR")?;
        let body = wish_in(ALL, json!({ "text": "x" }), json!({ "idempotency_key": key }));
        api.invoke_with(ALL, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}
