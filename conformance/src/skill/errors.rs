//! Errors (§8): one format, and the seven codes with their statuses.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method};
use serde_json::json;

use super::wire::{SkillServerUnderTest, WELL_KNOWN, invocation, invoke_path, status_path};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    errors_have_one_format,
    errors_unknown_skill_is_404,
    errors_unknown_path_is_404,
    errors_wrong_method_is_405,
    errors_media_type_is_415,
    errors_json_content_types_are_accepted,
    errors_large_body_is_413,
    errors_server_stays_up,
];

/// Id of the first skill in the index; `nobody/nothing` if the index is empty.
fn any_skill(api: &SkillServerUnderTest) -> String {
    api.entries().first().and_then(|entry| entry["id"].as_str()).unwrap_or("nobody/nothing").to_owned()
}

async fn errors_have_one_format(api: &SkillServerUnderTest) -> CheckVerdict {
    let skill = any_skill(api);
    for (method, path, body) in [
        (Method::GET, "/skills/nobody/nothing.json".to_owned(), ""),
        (Method::POST, invoke_path("nobody/nothing"), "{}"),
        (Method::GET, status_path("nobody"), ""),
        (Method::DELETE, status_path("nobody"), ""),
        (Method::POST, WELL_KNOWN.to_owned(), "{}"),
        (Method::PATCH, invoke_path(&skill), "{}"),
        (Method::GET, format!("{WELL_KNOWN}?type=nothing"), ""),
        (Method::GET, "/skills/%ff.json".to_owned(), ""),
        (Method::GET, "/skills".to_owned(), ""),
        (Method::GET, "/executions".to_owned(), ""),
        (Method::GET, format!("{WELL_KNOWN}/"), ""),
    ] {
        let reply = api.call(api.request(method, &path).header(CONTENT_TYPE, "application/json").body(body)).await?;
        ensure((400..500).contains(&reply.code), || {
            format!("{}: expected a refusal, got {}", reply.asked, reply.code)
        })?;
        reply.envelope()?;
    }
    Ok(())
}

async fn errors_unknown_skill_is_404(api: &SkillServerUnderTest) -> CheckVerdict {
    for id in ["nobody/nothing", "nothing", "%00", "%ff", "..%2f..", "nobody/nothing/invoke"] {
        api.invoke(id, json!({})).await?.refused_as(404, "SKILL_NOT_FOUND")?;
    }
    let error = api.invoke("nobody/nothing", json!({})).await?.envelope()?;
    equal("details.skill_id", json!("nobody/nothing"), error["details"]["skill_id"].clone())?;
    let message = error["message"].as_str().unwrap_or_default();
    ensure(message.contains("nobody/nothing"), || format!("expected the id in the message, got {message}"))
}

async fn errors_unknown_path_is_404(api: &SkillServerUnderTest) -> CheckVerdict {
    for path in ["/skills", "/skills/", "/skills/nothing", "/executions", "/executions/a/b", "/executions/a/result/b"] {
        api.get(path).await?.refused_as(404, "SKILL_NOT_FOUND")?;
    }
    Ok(())
}

async fn errors_wrong_method_is_405(api: &SkillServerUnderTest) -> CheckVerdict {
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let reply = api.call(api.request(method, WELL_KNOWN)).await?;
        reply.refused_as(405, "VALIDATION_ERROR")?;
        ensure(reply.header("allow").contains("GET"), || {
            format!("expected Allow with GET, got {:?}", reply.header("allow"))
        })?;
    }
    Ok(())
}

async fn errors_media_type_is_415(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation("probe/all", json!({ "text": "x" })).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"] {
        let request =
            api.request(Method::POST, &invoke_path("probe/all")).header(CONTENT_TYPE, kind).body(body.clone());
        api.call(request).await?.refused_as(415, "VALIDATION_ERROR")?;
    }
    let request = api.request(Method::POST, &invoke_path("probe/all")).body(body);
    api.call(request).await?.refused_as(415, "VALIDATION_ERROR").map(drop)
}

async fn errors_json_content_types_are_accepted(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation("probe/all", json!({ "text": "x" })).to_string();
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.skill+json"] {
        let request =
            api.request(Method::POST, &invoke_path("probe/all")).header(CONTENT_TYPE, kind).body(body.clone());
        api.call(request).await?.status(202)?;
    }
    Ok(())
}

async fn errors_large_body_is_413(api: &SkillServerUnderTest) -> CheckVerdict {
    const CHUNK_BYTES: usize = 64 * 1024;
    const CHUNK_COUNT: usize = 64;
    // The length is announced, and the body follows after a pause, so that the response of a server that refuses at
    // once can be read before it closes the connection.
    let pieces = stream::iter(0..CHUNK_COUNT).then(|n| async move {
        if n == 1 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok::<_, std::io::Error>(vec![b' '; CHUNK_BYTES])
    });
    let request = api
        .request(Method::POST, &invoke_path("probe/all"))
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, CHUNK_BYTES * CHUNK_COUNT)
        .body(Body::wrap_stream(pieces));
    api.call(request).await?.refused_as(413, "VALIDATION_ERROR").map(drop)
}

async fn errors_server_stays_up(api: &SkillServerUnderTest) -> CheckVerdict {
    for path in [
        "/skills/%00/invoke",
        "/skills/..%2f..%2fetc%2fpasswd",
        "/executions/%0d%0aX-Injected:%20yes",
        "/skills/%F0%9F%8F%A8.json",
    ] {
        let reply = api.get(path).await?;
        reply.refused_as(404, "SKILL_NOT_FOUND")?;
        equal("X-Injected", "", reply.header("x-injected"))?;
    }
    equal("index", &api.index, &api.get(WELL_KNOWN).await?.status(200)?.json()?)
}
