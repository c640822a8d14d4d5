//! Snapshots of the documents of the example agents, and tests of what existing clients require.
//!
//! `INSTA_UPDATE=always cargo test -p nuncio-anp documents` rewrites the snapshots.

use std::collections::BTreeSet;

use nuncio_anp::project::{HostDocumentSettings, ToolDocumentKind, chat_method};
use nuncio_anp::server::AnpFront;
use nuncio_anp::validate::{self, AnpDocumentType};
use nuncio_anp::wire::canonical;
use nuncio_core::agent::Agent;
use nuncio_http::front::ProtocolFront as _;
use serde_json::Value;

use crate::{agent, example_agent};

const EXAMPLES: [&str; 4] = ["hotel", "process-python", "process-shell", "script"];
const DID: &str = "did:wba:grand-hotel.example:agents:hotel-assistant:e1_kx4vqS1PBWzGBbLNbmqQPXvzHNTfoMoG5ym3hVjTjNw";

fn host() -> HostDocumentSettings {
    HostDocumentSettings::new("https://grand-hotel.example/")
}

const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(SNAPSHOTS);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// Indents JSON, so that snapshots are readable; another test checks the exact bytes.
fn indented(bytes: &[u8]) -> String {
    let value: Value = serde_json::from_slice(bytes).unwrap();
    serde_json::to_string_pretty(&value).unwrap() + "\n"
}

fn documents(agent: &Agent) -> Vec<(&'static str, AnpDocumentType, Vec<u8>)> {
    let mut found =
        vec![("ad.json", AnpDocumentType::AgentDescription, canonical(&host().description(agent, Some(DID))))];
    for set in ToolDocumentKind::ALL.into_iter().filter(|set| set.is_of(agent)) {
        let name = if set == ToolDocumentKind::Tools { "tools.json" } else { "authorized.json" };
        found.push((name, AnpDocumentType::OpenRpc, canonical(&host().openrpc(agent, set))));
    }
    found
}

#[test]
fn documents_of_example_agents_are_valid_and_match_their_snapshots() {
    let _settings = snapshot_settings().bind_to_scope();
    for name in EXAMPLES {
        let agent = example_agent(name);
        for (file, kind, bytes) in documents(&agent) {
            let report = validate::validate(kind, &bytes);
            assert!(report.valid && report.warnings.is_empty(), "{name} {file}: {report}");
            insta::assert_snapshot!(format!("{name}.{file}"), indented(&bytes));
        }
    }
}

#[test]
fn every_snapshot_file_belongs_to_an_example_agent() {
    for entry in std::fs::read_dir(SNAPSHOTS).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.split('.').next().unwrap();
        assert!(EXAMPLES.contains(&name), "{file} is left over");
    }
}

#[test]
fn documents_are_canonical_json_and_identical_each_time() {
    let agent = example_agent("hotel");
    for ((_, _, once), (_, _, again)) in documents(&agent).into_iter().zip(documents(&agent)) {
        assert_eq!(once, again);
        let value: Value = serde_json::from_slice(&once).unwrap();
        assert_eq!(nuncio_core::digest::canonical(&value), once);
    }
}

/// Checks the requirements of the Python SDK's `RemoteAgent.discover` and `convert_to_openai_tool`.
fn assert_usable_by_sdk(description: &Value) {
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    assert!(text(&description["name"]) && text(&description["description"]));
    let interfaces = description["interfaces"].as_array().unwrap();
    let openrpc = |it: &&Value| it["type"] == "StructuredInterface" && it["protocol"] == "openrpc";
    let inline: Vec<_> = interfaces.iter().filter(openrpc).filter_map(|it| it.get("content")).collect();
    assert!(!inline.is_empty());
    for document in inline {
        assert!(text(&document["servers"][0]["url"]));
        for method in document["methods"].as_array().unwrap() {
            assert!(text(&method["name"]) && text(&method["description"]), "{method}");
            assert!(method["result"].is_object() && document["components"].is_object());
            for param in method["params"].as_array().unwrap() {
                assert!(text(&param["name"]) && param["schema"].is_object(), "{param}");
            }
        }
    }
}

#[test]
fn descriptions_of_example_agents_meet_the_requirements_of_the_python_sdk() {
    for name in EXAMPLES {
        let description = host().description(&example_agent(name), Some(DID));
        assert_usable_by_sdk(&serde_json::to_value(description).unwrap());
    }
}

const BUSY: &str = r##"
[agent]
name = "busy"
version = "2.0.0"
owner = { name = "Busy", email = "busy@example.com" }
created = "2026-01-15T08:00:00Z"
[[information]]
type = "Product"
description = "Rooms."
file = "products/rooms.json"
[[information]]
type = "VideoObject"
description = "A tour."
url = "https://example.com/tour.mp4"
[[interface]]
name = "mcp"
protocol = "MCP"
version = "2025-06-18"
url = "https://example.com/mcp.json"
description = "The same tools, over MCP."
[[tool]]
name = "chat"
description = "Chats."
input = { type = "object", properties = { any = {}, b = { type = "string", title = "Bee" }, a = { "$ref" = "#/$defs/A" } }, required = ["b"], "$defs" = { A = { type = "integer" } } }
run = { command = ["true"] }
[[tool]]
name = "pay"
description = "Pays."
input = { type = "object" }
output = { type = "object", properties = { receipt = { type = "string" } } }
run = { command = ["true"] }
human_authorization = true
[[tool]]
name = "secret"
description = "Hides."
input = { type = "object" }
run = { command = ["true"] }
expose = false
"##;

#[test]
fn tools_needing_approval_have_a_separate_interface() {
    let busy = agent(BUSY);
    let description = serde_json::to_value(host().description(&busy, None)).unwrap();
    assert_usable_by_sdk(&description);
    let interfaces = description["interfaces"].as_array().unwrap();
    let shown: Vec<_> = interfaces
        .iter()
        .map(|it| (it["id"].as_str().unwrap(), it["humanAuthorization"].as_bool(), it["security"].to_string()))
        .collect();
    let expected = [
        ("interface.busy.negotiation", None, r#"["didwba_sc"]"#),
        ("interface.busy.conversation", None, r#""didwba_sc""#),
        ("interface.busy.tools", Some(false), r#""nosec_sc""#),
        ("interface.busy.tools.inline", Some(false), r#""didwba_sc""#),
        ("interface.busy.authorized", Some(true), r#""nosec_sc""#),
        ("interface.busy.authorized.inline", Some(true), r#""didwba_sc""#),
        ("interface.busy.elsewhere.mcp", None, "null"),
    ];
    assert_eq!(shown, expected.map(|(id, human, security)| (id, human, security.to_owned())));
    let methods = |set| -> Vec<String> { host().openrpc(&busy, set).methods.into_iter().map(|it| it.name).collect() };
    assert_eq!(methods(ToolDocumentKind::Tools), ["chat", "agent.chat"]);
    assert_eq!(methods(ToolDocumentKind::Authorized), ["pay"]);
    assert_eq!(chat_method(&busy), Some("agent.chat"));
    assert_eq!(description["owner"]["email"], "busy@example.com");
    assert_eq!(description["created"], "2026-01-15T08:00:00.000Z");
    assert!(!description.to_string().contains("secret"));
    assert_eq!(AnpFront.inexpressible(&busy), [""; 0]);
}

#[test]
fn openrpc_lists_required_parameters_first() {
    let document = serde_json::to_value(host().openrpc(&agent(BUSY), ToolDocumentKind::Tools)).unwrap();
    let params = document["methods"][0]["params"].as_array().unwrap();
    let shown: Vec<_> = params.iter().map(|it| (it["name"].as_str().unwrap(), it["required"].as_bool())).collect();
    assert_eq!(shown, [("b", Some(true)), ("any", Some(false)), ("a", Some(false))]);
    assert_eq!(params[0]["description"], "Bee");
    assert_eq!(params[2]["schema"]["$ref"], "#/components/schemas/chat.input.A");
    assert_eq!(document["components"]["schemas"]["chat.input.A"]["type"], "integer");
    assert_eq!(document["servers"][0]["url"], "https://grand-hotel.example/agents/busy/rpc");
    // A tool without an output schema returns any JSON, or text.
    let schema = document["methods"][0]["result"]["schema"].as_object().unwrap();
    assert_eq!(schema.keys().collect::<Vec<_>>(), ["description"]);
}

#[test]
fn agent_without_conversation_publishes_no_chat_interface() {
    let quiet = agent(&BUSY.replace(
        "[[information]]\ntype = \"Product\"",
        "anp = { conversation = false }\n[[information]]\ntype = \"Product\"",
    ));
    let description = serde_json::to_value(host().description(&quiet, None)).unwrap();
    assert!(!description.to_string().contains("NaturalLanguageInterface"));
    assert_eq!(chat_method(&quiet), None);
}

#[test]
fn agent_list_of_the_host_is_paginated_and_omits_unlisted_agents() {
    let named = |n: usize, more: &str| agent(&format!("[agent]\nname = \"a{n:03}\"\nversion = \"1.0.0\"\n{more}"));
    let mut agents: Vec<_> = (0..250).rev().map(|n| named(n, "")).collect();
    agents.push(named(999, "anp = { listed = false }\n"));
    let page = |n| host().page(agents.iter(), n);
    let mut seen = BTreeSet::new();
    for n in 1..=3 {
        let found = page(n).unwrap();
        let report = validate::check(AnpDocumentType::CollectionPage, &serde_json::to_value(&found).unwrap());
        assert!(report.valid, "{report}");
        seen.extend(found.items.iter().map(|item| item.id.clone()));
        let next =
            (n < 3).then(|| format!("https://grand-hotel.example/.well-known/agent-descriptions?page={}", n + 1));
        assert_eq!(found.next, next);
    }
    assert_eq!(seen.len(), 250);
    assert!(seen.contains("https://grand-hotel.example/agents/a007/ad.json"));
    assert!(page(0).is_none() && page(4).is_none() && page(usize::MAX).is_none());
    assert_eq!(host().page(std::iter::empty(), 1).unwrap().items, []);
}
