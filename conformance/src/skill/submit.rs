//! Submitting an invocation (§5.2–5.4): the response and the URLs of the execution.

use std::collections::BTreeSet;

use serde_json::json;

use super::form::{self, text};
use super::wire::{ALL, SkillServerUnderTest, WAIT, ended, execution_id, invocation, result_path, status_path};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    submit_is_202,
    submit_response_has_required_fields,
    submit_ids_differ,
    submit_names_the_status_url,
    submitted_execution_is_readable_immediately,
    submit_with_urls_of_the_descriptor,
    submit_example_of_the_appendix,
    status_has_required_fields,
    result_has_required_fields,
    result_equals_the_status,
    result_before_the_end,
    result_names_its_expiry,
    unknown_execution_is_404,
    script_echo,
    script_fail,
];

async fn submit_is_202(api: &SkillServerUnderTest) -> CheckVerdict {
    let reply = api.invoke(WAIT, json!({ "text": "hello" })).await?;
    let execution = reply.status(202)?.json()?;
    equal("status", "accepted", text(&execution, "status")?)?;
    equal("skill_id", WAIT, text(&execution, "skill_id")?)
}

async fn submit_response_has_required_fields(api: &SkillServerUnderTest) -> CheckVerdict {
    form::response(&api.invoke(ALL, json!({ "text": "hello" })).await?.status(202)?.json()?)
}

async fn submit_ids_differ(api: &SkillServerUnderTest) -> CheckVerdict {
    let mut ids = BTreeSet::new();
    for _ in 0..8 {
        let id = api.accepted(ALL, json!({ "text": "hello" })).await?;
        // 128 random bits need at least this many characters.
        ensure(id.len() >= 20, || format!("expected an id that cannot be guessed, got {id}"))?;
        ids.insert(id);
    }
    equal("different ids", 8, ids.len())
}

async fn submit_names_the_status_url(api: &SkillServerUnderTest) -> CheckVerdict {
    let reply = api.invoke(WAIT, json!({ "text": "hello", "delay_ms": 50 })).await?;
    let id = execution_id(&reply)?;
    let location = reply.header("location");
    equal("execution at Location", json!(id), api.get(location).await?.status(200)?.json()?["execution_id"].clone())?;
    let seconds = reply.header("retry-after").parse::<u64>();
    ensure(seconds.is_ok(), || format!("expected Retry-After in seconds, got {:?}", reply.header("retry-after")))
}

async fn submitted_execution_is_readable_immediately(api: &SkillServerUnderTest) -> CheckVerdict {
    for _ in 0..8 {
        let id = api.accepted(ALL, json!({ "text": "hello" })).await?;
        api.get(&status_path(&id)).await?.status(200)?;
    }
    Ok(())
}

async fn submit_with_urls_of_the_descriptor(api: &SkillServerUnderTest) -> CheckVerdict {
    // The check uses only URLs from the descriptor, as a consumer would.
    let descriptor = api.descriptor(ALL).await?;
    let endpoint = &descriptor["endpoint"];
    let body = invocation(text(&descriptor, "id")?, json!({ "text": "hello" })).to_string();
    let kind = endpoint["content_type"].as_str().unwrap_or("application/json");
    let request = api.request(reqwest::Method::POST, text(endpoint, "url")?).header("content-type", kind).body(body);
    let id = execution_id(&api.call(request).await?)?;
    for name in ["status_url", "result_url"] {
        let url = text(endpoint, name)?.replace("{execution_id}", &id);
        equal(name, json!(id), api.get(&url).await?.status(200)?.json()?["execution_id"].clone())?;
    }
    Ok(())
}

async fn submit_example_of_the_appendix(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = json!({
        "caller": { "id": "ifay-instance-042", "type": "ifay" },
        "skill_id": ALL,
        "inputs": { "text": "The Skill Sharing Protocol defines a decentralized mechanism...", "amount": 100 },
        "context": { "trace_id": "trace-9e8d7c6b", "priority": "normal" },
    });
    let accepted = api.invoke_with(ALL, &body, &[]).await?.status(202)?.json()?;
    form::response(&accepted)?;
    equal("status", "accepted", text(&accepted, "status")?)?;
    let over = api.wait_until_over(text(&accepted, "execution_id")?).await?;
    ended(&over, "completed")?;
    equal("output.amount", json!(100), over["output"]["amount"].clone())
}

async fn status_has_required_fields(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(WAIT, json!({ "text": "hello", "delay_ms": 100 })).await?;
    for seen in api.poll(&id, &[]).await? {
        form::response(&seen)?;
        equal("execution_id", id.as_str(), text(&seen, "execution_id")?)?;
    }
    Ok(())
}

async fn result_has_required_fields(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(ALL, json!({ "text": "hello" })).await?;
    api.wait_until_over(&id).await?;
    let result = api.get(&result_path(&id)).await?.status(200)?.json()?;
    form::response(&result)?;
    equal("output.text", json!("hello"), result["output"]["text"].clone())
}

async fn result_equals_the_status(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(ALL, json!({ "text": "hello" })).await?;
    let over = api.wait_until_over(&id).await?;
    equal("result", over, api.get(&result_path(&id)).await?.json()?)
}

async fn result_before_the_end(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(WAIT, json!({ "text": "hello", "delay_ms": 1500 })).await?;
    let reply = api.get(&result_path(&id)).await?;
    let early = reply.status(200)?.json()?;
    form::response(&early)?;
    let status = text(&early, "status")?;
    ensure(matches!(status, "accepted" | "running"), || format!("expected accepted or running, got {status}"))?;
    ensure(!reply.header("retry-after").is_empty(), || "expected Retry-After".to_owned())?;
    ensure(reply.header("location").ends_with(&id), || {
        format!("expected its status, got {:?}", reply.header("location"))
    })?;
    let over = api.wait_until_over(&id).await?;
    ended(&over, "completed")?;
    let after = api.get(&result_path(&id)).await?;
    ensure(after.header("retry-after").is_empty(), || "expected no Retry-After at the end".to_owned())
}

async fn result_names_its_expiry(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait(ALL, json!({ "text": "hello" })).await?;
    let (end, until) =
        (form::time(&over["timestamps"], "completed_at")?, form::time(&over["timestamps"], "expires_at")?);
    ensure(until > end, || format!("expected a later time than {end}, got {until}"))
}

async fn unknown_execution_is_404(api: &SkillServerUnderTest) -> CheckVerdict {
    for id in ["nobody", "exe_00000000000000000000000000000", "%00", "%ff", "..%2f..%2fetc", "%F0%9F%8F%A8"] {
        let error = api.get(&status_path(id)).await?.refused_as(404, "SKILL_NOT_FOUND")?;
        equal("details.reason", json!("execution_not_found"), error["details"]["reason"].clone())?;
        api.get(&result_path(id)).await?.refused_as(404, "SKILL_NOT_FOUND")?;
        api.call(api.request(reqwest::Method::DELETE, &status_path(id))).await?.refused_as(404, "SKILL_NOT_FOUND")?;
    }
    Ok(())
}

async fn script_echo(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait("script/echo", json!({ "text": "hello", "delay_ms": 50 })).await?;
    ended(&over, "completed")?;
    equal("output", json!({ "text": "hello" }), over["output"].clone())
}

async fn script_fail(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait("script/fail", json!({ "code": "E42", "message": "out of paper" })).await?;
    ended(&over, "failed")?;
    let message = text(&over["error"], "message")?;
    ensure(message.contains("E42") && message.contains("out of paper"), || format!("expected both, got {message}"))
}
