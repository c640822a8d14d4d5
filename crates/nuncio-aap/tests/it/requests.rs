//! Tests of the requests that the AAP client sends and of its handling of invalid responses.

use nuncio_aap::client::{ApiKey, Client, ClientError, HistoryKind};
use serde_json::json;

use crate::scripted::{ScriptedResponse, ScriptedServer, client, created};

#[tokio::test]
async fn request_carries_api_key_and_escapes_session_id_in_path() {
    let server = ScriptedServer::start(vec![ScriptedResponse::text("GET /", 404, "404 Not Found")]).await;
    let http =
        nuncio_backend::fetch::GuardedFetch::new(nuncio_backend::fetch::AllowedAddresses::default(), false, None)
            .unwrap();
    let base = format!("{}/", server.url).parse().unwrap();
    let client = Client::new(base, ApiKey::parse("nk_1"), http.client_for_configured());
    assert!(client.session("../../meta?x=/y").await.unwrap_err().is_not_found());
    let asked = &server.asked("GET")[0];
    assert!(asked.line.starts_with("GET /api/sessions/..%2F..%2Fmeta%3Fx=%2Fy "), "{}", asked.line);
    assert!(asked.head.contains("authorization: bearer nk_1"), "{}", asked.head);
    assert!(!format!("{client:?}").contains("nk_1"));
}

#[tokio::test]
async fn meta_with_other_protocol_version_or_without_json_is_refused() {
    let server = ScriptedServer::start(vec![
        ScriptedResponse::json("GET /api/meta", 200, &json!({"version": 2, "agents": []})),
        ScriptedResponse::text("GET /api/meta", 200, "<html>"),
    ])
    .await;
    for _ in 0..2 {
        assert!(matches!(server.client().meta().await, Err(ClientError::NotAap(_))));
    }
}

#[tokio::test]
async fn redirect_is_an_error_and_is_not_followed() {
    let server = ScriptedServer::start(vec![ScriptedResponse::text("GET /api/meta", 302, "elsewhere")]).await;
    assert!(matches!(server.client().meta().await, Err(ClientError::Refused { status: 302, .. })));
}

#[tokio::test]
async fn cursor_of_the_session_list_is_sent_escaped_for_the_next_page() {
    let page = |next: Option<&str>| {
        let mut page = json!({"sessions": [{"sessionId": "s1", "agent": {"name": "a"}, "createdAt": "new"}]});
        if let Some(next) = next {
            page["next"] = next.into();
        }
        ScriptedResponse::json("GET /api/sessions", 200, &page)
    };
    let server = ScriptedServer::start(vec![page(Some("a&b=c")), page(None)]).await;
    let first = server.client().sessions(None).await.unwrap();
    let second = server.client().sessions(first.next.as_deref()).await.unwrap();
    assert_eq!(second.next, None);
    assert!(server.asked("GET")[1].line.contains("after=a%26b%3Dc"));
}

#[tokio::test]
async fn history_response_without_the_requested_kind_is_an_error() {
    let server = ScriptedServer::start(vec![
        created(),
        ScriptedResponse::json("GET /api/sessions/s1/history", 200, &json!({"history": {"full": []}})),
    ])
    .await;
    assert!(server.client().history("s1", HistoryKind::Full).await.unwrap().is_empty());
    assert!(matches!(server.client().history("s1", HistoryKind::Compacted).await, Err(ClientError::NotAap(_))));
    let server =
        ScriptedServer::start(vec![ScriptedResponse::json("GET /api/sessions/s1/history", 200, &json!("none"))]).await;
    assert!(matches!(server.client().history("s1", HistoryKind::Full).await, Err(ClientError::NotAap(_))));
}

#[tokio::test]
async fn closed_port_is_reported_as_unreachable_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert!(matches!(client(&url).meta().await, Err(ClientError::Unreachable(_))));
}
