//! The client of the official Rust SDK, in both revisions.

use nuncio_core::policy::Protocol;
use nuncio_testkit::Gateway;
use rmcp::model::{CallToolRequestParams, ClientConfig, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;

use super::{AGENT, agent};
use crate::agents::DESK;

#[tokio::test]
async fn client_of_the_rust_sdk_lists_and_calls_tools_in_both_revisions() {
    let gateway = Gateway::builder().agent(DESK, &agent()).start().await;
    let key = gateway.key(&[]).await;
    let stateless = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    for lifecycle in [ClientLifecycleMode::Initialize, stateless] {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let config = StreamableHttpClientTransportConfig::with_uri(format!("{}{AGENT}", gateway.url()))
            .auth_header(key.secret.clone());
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let client = serve_client_with_lifecycle(ClientConfig::default(), transport, lifecycle).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["echo", "sized", "listed", "strict", "breaks", "count", "danger", "held", "ask"]);
        let arguments = json!({"note": "ü"}).as_object().unwrap().clone();
        let called = client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await.unwrap();
        let called = serde_json::to_value(called).unwrap();
        assert_eq!(called["content"][0]["text"], "{\"note\":\"ü\"}", "{called}");
        let sized = client.call_tool(CallToolRequestParams::new("sized")).await.unwrap();
        assert_eq!(serde_json::to_value(sized).unwrap()["structuredContent"], json!({"size": 3}));
        assert!(client.call_tool(CallToolRequestParams::new("nothing")).await.is_err());
        client.cancel().await.unwrap();
    }
    let records = gateway.audit().await;
    assert!(records.iter().all(|record| record.protocol == Protocol::Mcp), "{records:#?}");
    assert_eq!(records.len(), 6);
}
