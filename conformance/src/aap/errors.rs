//! Malformed requests: paths, methods, media types, bodies that are not JSON or too large.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method};
use serde_json::json;

use super::script::user;
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    error_bodies_are_json,
    error_unknown_path_is_404,
    error_wrong_method_is_405,
    error_media_type_is_415,
    error_charset_parameter_is_ignored,
    error_bad_json_is_400,
    error_deep_json_is_400,
    error_large_body_is_413,
    error_server_stays_up,
];

async fn error_bodies_are_json(api: &AapServerUnderTest) -> CheckVerdict {
    let turn = json!({ "messages": [user("hello")] });
    api.get("/sessions/nobody").await?.refused(404)?;
    api.delete("/sessions/nobody").await?.refused(404)?;
    api.get("/sessions/nobody/history?type=full").await?.refused(404)?;
    api.get("/sessions/nobody/stream").await?.refused(404)?;
    api.post_turn("nobody", &turn).await?.refused(404)?;
    api.post("/sessions/nobody/cancel", &json!({})).await?.refused(404)?;
    api.post("/sessions", &json!({})).await?.refused(400)
}

async fn error_unknown_path_is_404(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    for path in ["/nothing/here".to_owned(), format!("/sessions/{session}/nothing"), "/metadata".to_owned()] {
        api.get(&path).await?.refused(404)?;
        api.post(&path, &json!({})).await?.refused(404)?;
    }
    Ok(())
}

async fn error_wrong_method_is_405(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let cases = [
        (Method::POST, "/meta".to_owned(), "GET"),
        (Method::DELETE, "/meta".to_owned(), "GET"),
        (Method::PUT, "/sessions".to_owned(), "POST"),
        (Method::DELETE, "/sessions".to_owned(), "GET"),
        (Method::PATCH, format!("/sessions/{session}"), "DELETE"),
        (Method::POST, format!("/sessions/{session}/history"), "GET"),
        (Method::GET, format!("/sessions/{session}/turns"), "POST"),
        (Method::DELETE, format!("/sessions/{session}/turns"), "POST"),
        (Method::GET, format!("/sessions/{session}/cancel"), "POST"),
        (Method::POST, format!("/sessions/{session}/stream"), "GET"),
    ];
    for (method, path, allowed) in cases {
        let request = api.request(method, &path).header(CONTENT_TYPE, "application/json").body("{}");
        let reply = api.call(request).await?;
        reply.refused(405)?;
        let allow = reply.header("allow");
        ensure(allow.split(',').any(|method| method.trim() == allowed), || {
            format!("{}: expected `Allow` with {allowed}, got {allow:?}", reply.asked)
        })?;
    }
    Ok(())
}

async fn error_media_type_is_415(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let creation = json!({ "agent": { "name": api.any_agent()? } }).to_string();
    let turn = json!({ "messages": [user("hello")] }).to_string();
    for (path, body) in [("/sessions".to_owned(), creation), (format!("/sessions/{session}/turns"), turn)] {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml"] {
            let request = api.request(Method::POST, &path).header(CONTENT_TYPE, kind).body(body.clone());
            api.call(request).await?.refused(415)?;
        }
    }
    Ok(())
}

async fn error_charset_parameter_is_ignored(api: &AapServerUnderTest) -> CheckVerdict {
    let body = json!({ "agent": { "name": api.any_agent()? } }).to_string();
    for kind in ["application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON"] {
        let request = api.request(Method::POST, "/sessions").header(CONTENT_TYPE, kind).body(body.clone());
        api.created(&api.call(request).await?)?;
    }
    Ok(())
}

async fn error_bad_json_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let bodies: [&[u8]; 7] =
        [b"", b"{", b"not json", b"{} {}", b"{\"messages\":[}", b"\xff\xfe{}", b"{\"a\":\"\xc3\x28\"}"];
    for path in ["/sessions".to_owned(), format!("/sessions/{session}/turns")] {
        for body in bodies {
            let request = api.request(Method::POST, &path).header(CONTENT_TYPE, "application/json").body(body.to_vec());
            api.call(request).await?.refused(400)?;
        }
        for body in ["[]", "null", "\"text\"", "7"] {
            let request = api.request(Method::POST, &path).header(CONTENT_TYPE, "application/json").body(body);
            api.call(request).await?.refused(400)?;
        }
    }
    Ok(())
}

async fn error_deep_json_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!("{{\"agent\":{{\"name\":\"script\"}},\"messages\":{deep}}}");
    let request = api.request(Method::POST, "/sessions").header(CONTENT_TYPE, "application/json").body(body);
    api.call(request).await?.refused(400)
}

async fn error_large_body_is_413(api: &AapServerUnderTest) -> CheckVerdict {
    const CHUNK_BYTES: usize = 64 * 1024;
    const CHUNK_COUNT: usize = 512;
    // The length is announced, and the body follows after a pause, so that the response of a server that refuses at
    // once can be read before it closes the connection.
    let pieces = stream::iter(0..CHUNK_COUNT).then(|n| async move {
        if n == 1 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok::<_, std::io::Error>(vec![b' '; CHUNK_BYTES])
    });
    let request = api
        .request(Method::POST, "/sessions")
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, CHUNK_BYTES * CHUNK_COUNT)
        .body(Body::wrap_stream(pieces));
    api.call(request).await?.refused(413)
}

async fn error_server_stays_up(api: &AapServerUnderTest) -> CheckVerdict {
    // After several malformed requests on one connection, the next valid request is served.
    let session = api.any_session().await?;
    for path in ["/sessions/%00", "/sessions/..%2f..%2fetc", "/sessions/%ff%fe", "/sessions/%F0%9F%8F%A8"] {
        let reply = api.get(path).await?;
        ensure(matches!(reply.code, 400 | 404), || format!("{path}: expected 400 or 404, got {}", reply.code))?;
        reply.error_body()?;
    }
    equal("sessionId", session.as_str(), api.read_session(&session).await?["sessionId"].as_str().unwrap_or_default())
}
