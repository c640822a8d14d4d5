//! Interfaces served by other hosts are published as declared.

use nuncio_anp::validate::{AnpDocumentType, check};
use nuncio_testkit::Gateway;
use serde_json::json;

use crate::agents::{DESK, desk, echo};
use crate::dids::get;

#[tokio::test]
async fn declared_mcp_interface_is_published_unchanged_in_the_description() {
    let mcp = "[[interface]]\nname = \"mcp\"\nprotocol = \"MCP\"\nversion = \"1.0\"\nurl = \"https://hotel.example/mcp\"\ndescription = \"The same over MCP.\"\n";
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo(), mcp.to_owned()])).start().await;
    let description = get(&gateway, "/agents/desk/ad.json", "localhost", "").await.json();
    let interfaces = description["interfaces"].as_array().unwrap();
    let found: Vec<_> = interfaces.iter().filter(|it| it["protocol"] == "MCP").collect();
    let wanted = json!({
        "id": "interface.desk.elsewhere.mcp",
        "type": "StructuredInterface",
        "protocol": "MCP",
        "version": "1.0",
        "url": "https://hotel.example/mcp",
        "description": "The same over MCP.",
    });
    assert_eq!(found, [&wanted], "the interface is published as declared, without added access rules");
    assert!(check(AnpDocumentType::AgentDescription, &description).valid);
}
