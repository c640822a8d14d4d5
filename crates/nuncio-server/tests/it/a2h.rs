//! A2H over HTTP and WebSockets: people's devices, external and served agents, manifests and consent.

use nuncio_core::ids::PersonName;
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::a2h::{AnonymousA2hClient, TestDevice};
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock};
use serde_json::{Value, json};

use crate::agents::{DESK, desk};

#[path = "a2h/agent_files.rs"]
mod agent_files;
#[path = "a2h/agents.rs"]
mod agents;
#[path = "a2h/consent.rs"]
mod consent;
#[path = "a2h/engine_lifetime.rs"]
mod engine_lifetime;
#[path = "a2h/manifests.rs"]
mod manifests;
#[path = "a2h/people.rs"]
mod people;
#[path = "a2h/queued_calls.rs"]
mod queued_calls;
#[path = "a2h/relay.rs"]
mod relay;
#[path = "a2h/relay_groups.rs"]
mod relay_groups;
#[path = "a2h/relay_keys.rs"]
mod relay_keys;
#[path = "a2h/relay_shapes.rs"]
mod relay_shapes;
#[path = "a2h/relay_sockets.rs"]
mod relay_sockets;
#[path = "a2h/requirement_rows.rs"]
mod requirement_rows;
#[path = "a2h/socket_admission.rs"]
mod socket_admission;
#[path = "a2h/sockets.rs"]
mod sockets;
#[path = "a2h/streams.rs"]
mod streams;
#[path = "a2h/streams_sealed.rs"]
mod streams_sealed;
#[path = "a2h/webhooks.rs"]
mod webhooks;

pub(crate) struct A2hTestServer {
    pub(crate) gateway: Gateway,
    clock: ManualClock,
    pub(crate) server: AnonymousA2hClient,
}

impl A2hTestServer {
    async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    pub(crate) async fn with(change: impl FnOnce(GatewayBuilder) -> GatewayBuilder) -> Self {
        let clock = ManualClock::new();
        let builder = Gateway::builder().agent(DESK, &desk(&[])).clock(&clock);
        let gateway = change(builder).start().await;
        let server = AnonymousA2hClient::at(gateway.url());
        Self { gateway, clock, server }
    }

    async fn invite(&self, name: &str) -> String {
        let order = AdminCommand::UserInvite { name: PersonName::parse(name).unwrap(), seconds: None };
        self.gateway.order(order).await.unwrap()["code"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn person(&self, name: &str) -> TestDevice {
        TestDevice::enrol(&self.server, &self.invite(name).await).await
    }
}

/// The example manifest of A2H §2.2.
pub(crate) fn seed() -> Value {
    json!({
        "schema_version": "1.0",
        "agent_version": "1.0.0",
        "tools": [{
            "name": "read_file",
            "description_i18n_key": "agent.cap.read_file.description",
            "input_schema": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
                "additionalProperties": false,
            },
            "permission_scope": "filesystem:read",
            "required": false,
            "timeout_ms": 5000,
        }],
        "permission_scopes": [{
            "id": "filesystem:read",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "description_i18n_key": "agent.scope.filesystem_read.description",
            "sensitivity": "medium",
        }],
        "capability_flags": {
            "supports_streaming": true,
            "supports_artifacts": true,
            "supports_voice": false,
            "supports_group_chat": false,
        },
    })
}

fn with_required(names: &[&str]) -> Value {
    let mut manifest = seed();
    let schema = &mut manifest["tools"][0]["input_schema"];
    for name in names {
        schema["properties"][name] = json!({"type": "string"});
        schema["required"].as_array_mut().unwrap().push(json!(name));
    }
    manifest
}

/// The example manifest with another preset scope, and a tool that needs it.
fn with_scope(id: &str, sensitivity: &str) -> Value {
    let mut manifest = seed();
    let stem = id.replace(':', "_");
    let scope = json!({
        "id": id, "sensitivity": sensitivity,
        "label_i18n_key": format!("agent.scope.{stem}.label"),
        "description_i18n_key": format!("agent.scope.{stem}.description"),
    });
    manifest["permission_scopes"].as_array_mut().unwrap().push(scope);
    let tool = json!({
        "name": stem, "description_i18n_key": "x", "permission_scope": id,
        "input_schema": {"type": "object", "additionalProperties": false},
    });
    manifest["tools"].as_array_mut().unwrap().push(tool);
    manifest
}

pub(crate) fn agent_body(manifest: &Value) -> Value {
    json!({"display_name": "Notes", "public": true, "capability_manifest": manifest})
}
