//! Requests of pages on other origins: allowed with a key, refused by an open loopback server.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HOST, ORIGIN};
use serde_json::json;

use super::script::user;
use super::wire::{AapServerUnderTest, HttpReply};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal};

checks![
    cors_preflight_before_authentication,
    cors_preflight_allows,
    cors_on_every_answer,
    cors_open_server_refuses_other_origins,
    cors_open_server_refuses_simple_requests,
    cors_open_server_refuses_other_hosts,
];

const OTHER_ORIGIN: &str = "https://app.example";

async fn preflight(api: &AapServerUnderTest, path: &str, method: &str) -> Result<HttpReply, CheckStopReason> {
    let request = api
        .anonymous(Method::OPTIONS, path)
        .header(ORIGIN, OTHER_ORIGIN)
        .header("access-control-request-method", method)
        .header("access-control-request-headers", "authorization,content-type");
    api.call(request).await
}

/// Routes that a browser app uses, each with the method of its preflight.
const PREFLIGHT_ROUTES: [(&str, &str); 5] = [
    ("/meta", "GET"),
    ("/sessions", "POST"),
    ("/sessions/any", "DELETE"),
    ("/sessions/any/turns", "POST"),
    ("/sessions/any/history?type=full", "GET"),
];

async fn cors_preflight_before_authentication(api: &AapServerUnderTest) -> CheckVerdict {
    for (path, method) in PREFLIGHT_ROUTES {
        let reply = preflight(api, path, method).await?;
        // An open loopback server may refuse, but not with 401 or a server error.
        ensure(matches!(reply.code, 200 | 204 | 403), || {
            format!("{}: expected an answer to the preflight, got {} {}", reply.asked, reply.code, reply.text())
        })?;
    }
    Ok(())
}

async fn cors_preflight_allows(api: &AapServerUnderTest) -> CheckVerdict {
    for (path, method) in PREFLIGHT_ROUTES {
        let reply = preflight(api, path, method).await?;
        ensure(matches!(reply.code, 200 | 204), || format!("{}: expected 204, got {}", reply.asked, reply.code))?;
        allows_origin(&reply)?;
        let headers = reply.header("access-control-allow-headers").to_ascii_lowercase();
        // In a list of allowed headers, `*` does not cover `authorization`.
        for wanted in ["authorization", "content-type"] {
            ensure(lists(&headers, wanted), || {
                format!("{}: expected allow-headers with {wanted}, got {headers:?}", reply.asked)
            })?;
        }
        let methods = reply.header("access-control-allow-methods");
        ensure(methods == "*" || lists(methods, method), || {
            format!("{}: expected allow-methods with {method}, got {methods:?}", reply.asked)
        })?;
    }
    Ok(())
}

async fn cors_on_every_answer(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let from_elsewhere = |method, path: &str| api.request(method, path).header(ORIGIN, OTHER_ORIGIN);
    for path in ["/meta", "/sessions", "/sessions/nobody", "/nothing/here"] {
        allows_origin(&api.call(from_elsewhere(Method::GET, path)).await?)?;
    }
    let denied = api.call(api.anonymous(Method::GET, "/sessions").header(ORIGIN, OTHER_ORIGIN)).await?;
    equal("status without the key", 401, denied.code)?;
    allows_origin(&denied)?;
    let body = json!({ "messages": [user("hello")], "stream": "message" });
    let turn = api.posting(&format!("/sessions/{session}/turns"), &body, &[("origin", OTHER_ORIGIN)]);
    allows_origin(&api.call(turn).await?)
}

async fn cors_open_server_refuses_other_origins(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let agent = json!({ "agent": { "name": api.any_agent()? } });
    let turn = json!({ "messages": [user("hello")] });
    for origin in [OTHER_ORIGIN, "http://localhost.evil.example", "null"] {
        let headers = [("origin", origin)];
        api.post_with("/sessions", &agent, &headers).await?.refused(403)?;
        api.post_with(&format!("/sessions/{session}/turns"), &turn, &headers).await?.refused(403)?;
        let delete = api.request(Method::DELETE, &format!("/sessions/{session}")).header(ORIGIN, origin);
        api.call(delete).await?.refused(403)?;
        // A GET may be answered, but without a header that lets the page read the response.
        let reply = api.call(api.request(Method::GET, "/sessions").header(ORIGIN, origin)).await?;
        equal("access-control-allow-origin", "", reply.header("access-control-allow-origin"))?;
    }
    api.read_session(&session).await.map(drop)
}

async fn cors_open_server_refuses_simple_requests(api: &AapServerUnderTest) -> CheckVerdict {
    // These are requests that a page can send without a preflight.
    let body = json!({ "agent": { "name": api.any_agent()? } }).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let request = api.request(Method::POST, "/sessions").header(CONTENT_TYPE, kind).header(ORIGIN, OTHER_ORIGIN);
        let reply = api.call(request.body(body.clone())).await?;
        ensure(matches!(reply.code, 403 | 415), || format!("expected 403 or 415, got {}", reply.code))?;
        reply.error_body()?;
    }
    Ok(())
}

async fn cors_open_server_refuses_other_hosts(api: &AapServerUnderTest) -> CheckVerdict {
    // These are host names of a DNS rebinding attack on the loopback address.
    for host in ["evil.example", "localhost.evil.example:7400", "127.0.0.1.evil.example"] {
        let reply = api.call(api.request(Method::GET, "/sessions").header(HOST, host)).await?;
        ensure((400..500).contains(&reply.code), || format!("Host {host}: expected a refusal, got {}", reply.code))?;
        reply.error_body()?;
    }
    Ok(())
}

fn allows_origin(reply: &HttpReply) -> CheckVerdict {
    let allowed = reply.header("access-control-allow-origin");
    ensure(matches!(allowed, "*" | OTHER_ORIGIN), || {
        format!("{} ({}): expected allow-origin for {OTHER_ORIGIN}, got {allowed:?}", reply.asked, reply.code)
    })
}

fn lists(header: &str, wanted: &str) -> bool {
    header.split(',').any(|entry| entry.trim().eq_ignore_ascii_case(wanted))
}
