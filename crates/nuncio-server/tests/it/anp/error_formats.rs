//! Requests refused before any route get the error format of their protocol.

use super::world;
use crate::dids::{desk_did, path_of};

#[tokio::test]
async fn wrong_http_method_is_refused_with_an_allow_header() {
    let world = world().await;
    let did = path_of(&desk_did(&world.gateway));
    for (method, path, allowed) in [
        ("POST", "/.well-known/agent-descriptions", "GET,HEAD"),
        ("DELETE", "/agents/desk/ad.json", "GET,HEAD"),
        ("PUT", "/agents/desk/interfaces/tools.json", "GET,HEAD"),
        ("POST", "/agents/desk/information/x.json", "GET,HEAD"),
        ("GET", "/agents/desk/rpc", "POST"),
        ("GET", "/anp", "POST"),
        ("PUT", "/registry/agents", "GET,HEAD,POST"),
        ("GET", "/registry/agents/reg_0", "DELETE"),
        ("POST", "/registry/ad.json", "GET,HEAD"),
        ("POST", "/.well-known/did.json", "GET,HEAD"),
        ("POST", did.as_str(), "GET,HEAD"),
    ] {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        let answer = world.gateway.raw(request).await.unwrap();
        assert_eq!(answer.status, 405, "{method} {path}");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "method_not_allowed", "{method} {path}: {error}");
        assert!(error["message"].as_str().unwrap().contains("Allow"), "{error}");
    }
}

#[tokio::test]
async fn unknown_path_is_refused_in_the_error_format_of_its_protocol() {
    let world = world().await;
    for (path, place) in [
        ("/agents/nobody", "/error/code"),
        ("/anp/x", "/error/code"),
        ("/registry/agents/x/y", "/error/code"),
        ("/registry/x", "/error/code"),
        ("/aap/x", "/code"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = world.gateway.raw(request).await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.json().pointer(place).is_some_and(serde_json::Value::is_string), "{path}: {}", answer.body);
    }
}
