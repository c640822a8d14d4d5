//! HTTP methods of skills (§3.5.3).

use reqwest::Method;
use serde_json::{Value, json};

use super::wire::{ALL, SkillServerUnderTest, invocation, invoke_path, status_path, with};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal};

checks![
    method_get_takes_the_query,
    method_get_parses_typed_parameters,
    method_get_refuses_invalid_query,
    method_put_takes_a_body,
    method_delete_takes_the_query,
    method_post_is_always_accepted,
    method_others_are_405,
    method_of_executions,
];

async fn queried(
    api: &SkillServerUnderTest,
    method: Method,
    skill: &str,
    query: &str,
) -> Result<Value, CheckStopReason> {
    let path = format!("{}?{query}", invoke_path(skill));
    let reply = api.call(with(api.request(method, &path), &[("prefer", "wait=30")])).await?;
    Ok(reply.status(200)?.json()?["output"].clone())
}

async fn method_get_takes_the_query(api: &SkillServerUnderTest) -> CheckVerdict {
    let output = queried(api, Method::GET, "probe/get", "text=caf%C3%A9+%26+%2B").await?;
    equal("output", json!({ "text": "café & +", "count": 1 }), output)
}

async fn method_get_parses_typed_parameters(api: &SkillServerUnderTest) -> CheckVerdict {
    let output =
        queried(api, Method::GET, "probe/get", "text=7&count=5&flag=true&list=%5B%22a%22%2C%22b%22%5D").await?;
    equal("output", json!({ "text": "7", "count": 5, "flag": true, "list": ["a", "b"] }), output)
}

async fn method_get_refuses_invalid_query(api: &SkillServerUnderTest) -> CheckVerdict {
    for query in
        ["", "count=1", "text=a&count=one", "text=a&flag=yes", "text=a&text=b", "text=a&list=a", "text=a&other=1"]
    {
        api.get(&format!("{}?{query}", invoke_path("probe/get"))).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    let long = format!("{}?text={}", invoke_path("probe/get"), "x".repeat(10_000));
    api.get(&long).await?.refused_as(414, "VALIDATION_ERROR")?;
    for header in [("x-skill-priority", "urgent"), ("x-skill-timeout-ms", "0"), ("x-skill-timeout-ms", "soon")] {
        api.get_with(&format!("{}?text=a", invoke_path("probe/get")), &[header])
            .await?
            .refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn method_put_takes_a_body(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation("probe/put", json!({ "text": "x" })).to_string();
    let headers = [("content-type", "application/json"), ("prefer", "wait=30")];
    let request = with(api.request(Method::PUT, &invoke_path("probe/put")).body(body), &headers);
    equal("output", json!({ "text": "x" }), api.call(request).await?.status(200)?.json()?["output"].clone())
}

async fn method_delete_takes_the_query(api: &SkillServerUnderTest) -> CheckVerdict {
    equal("output", json!({ "text": "x" }), queried(api, Method::DELETE, "probe/delete", "text=x").await?)
}

async fn method_post_is_always_accepted(api: &SkillServerUnderTest) -> CheckVerdict {
    for skill in ["probe/get", "probe/put", "probe/delete", ALL] {
        let over = api.invoke_and_wait(skill, json!({ "text": "x" })).await?;
        equal(skill, json!("x"), over["output"]["text"].clone())?;
    }
    Ok(())
}

async fn method_others_are_405(api: &SkillServerUnderTest) -> CheckVerdict {
    for (skill, method, allowed) in [
        (ALL, Method::GET, "POST"),
        (ALL, Method::PUT, "POST"),
        (ALL, Method::DELETE, "POST"),
        (ALL, Method::PATCH, "POST"),
        ("probe/get", Method::PUT, "GET"),
        ("probe/get", Method::DELETE, "GET"),
        ("probe/put", Method::GET, "PUT"),
        ("probe/delete", Method::GET, "DELETE"),
    ] {
        let reply = api.call(api.request(method, &invoke_path(skill))).await?;
        reply.refused_as(405, "VALIDATION_ERROR")?;
        let allow = reply.header("allow");
        ensure(allow.split(',').any(|one| one.trim() == allowed), || {
            format!("{}: expected {allowed}, got {allow}", reply.asked)
        })?;
    }
    Ok(())
}

async fn method_of_executions(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(ALL, json!({ "text": "x" })).await?;
    for (method, path) in [
        (Method::POST, status_path(&id)),
        (Method::PUT, status_path(&id)),
        (Method::POST, format!("{}/result", status_path(&id))),
        (Method::GET, format!("{}/cancel", status_path(&id))),
    ] {
        let reply = api.call(api.request(method, &path)).await?;
        reply.refused_as(405, "VALIDATION_ERROR")?;
        ensure(!reply.header("allow").is_empty(), || format!("{}: expected Allow", reply.asked))?;
    }
    Ok(())
}
