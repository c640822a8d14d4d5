//! Cancelling an execution: the execution ends as `failed`, and the request may be repeated.

use reqwest::Method;
use serde_json::json;

use super::form;
use super::wire::{ALL, SkillServerUnderTest, WAIT, ended, status_path};
use crate::verdict::{CheckStopReason, CheckVerdict, equal};

checks![
    cancel_by_delete,
    cancel_by_post,
    cancel_twice_is_accepted,
    cancel_of_finished_execution_changes_nothing,
    cancel_of_human_task_ends_it,
    cancel_at_completion_leaves_one_final_state
];

async fn cancel(api: &SkillServerUnderTest, id: &str, method: Method) -> Result<(), CheckStopReason> {
    let path = match method {
        Method::POST => format!("{}/cancel", status_path(id)),
        _ => status_path(id),
    };
    form::response(&api.call(api.request(method, &path)).await?.status(202)?.json()?)
}

async fn cancelled(api: &SkillServerUnderTest, id: &str) -> CheckVerdict {
    let over = api.wait_until_over(id).await?;
    ended(&over, "failed")?;
    form::response(&over)?;
    equal("details.reason", json!("cancelled"), over["error"]["details"]["reason"].clone())
}

async fn cancel_by_delete(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(WAIT, json!({ "text": "x", "delay_ms": 60_000 })).await?;
    cancel(api, &id, Method::DELETE).await?;
    cancelled(api, &id).await
}

async fn cancel_by_post(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(WAIT, json!({ "text": "x", "delay_ms": 60_000 })).await?;
    cancel(api, &id, Method::POST).await?;
    cancelled(api, &id).await
}

async fn cancel_twice_is_accepted(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(WAIT, json!({ "text": "x", "delay_ms": 60_000 })).await?;
    for method in [Method::DELETE, Method::POST, Method::DELETE] {
        cancel(api, &id, method).await?;
    }
    cancelled(api, &id).await?;
    cancel(api, &id, Method::DELETE).await?;
    cancelled(api, &id).await
}

async fn cancel_of_finished_execution_changes_nothing(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(ALL, json!({ "text": "x" })).await?;
    let over = api.wait_until_over(&id).await?;
    cancel(api, &id, Method::DELETE).await?;
    equal("the end", over, api.wait_until_over(&id).await?)
}

async fn cancel_of_human_task_ends_it(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted("probe/person", json!({ "text": "carry it" })).await?;
    cancel(api, &id, Method::DELETE).await?;
    cancelled(api, &id).await
}

async fn cancel_at_completion_leaves_one_final_state(api: &SkillServerUnderTest) -> CheckVerdict {
    for delay in 0..12 {
        let id = api.accepted(WAIT, json!({ "text": "x", "delay_ms": delay })).await?;
        cancel(api, &id, Method::DELETE).await?;
        let over = api.wait_until_over(&id).await?;
        form::response(&over)?;
        // The end that came first, completion or cancellation, must not change.
        equal("the end, later", over, api.wait_until_over(&id).await?)?;
    }
    Ok(())
}
