//! Tools on a person's device, called under end-to-end encryption: relay and agent in separate processes, the device in
//! its own process or on the device library.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_a2h::wire::artifact::{ToolCall, ToolOutcome};
use nuncio_identity::seal::{KeyStore, MemoryKeyStore};
use nuncio_server::fetch::install_crypto;
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{AnonymousA2hClient, PeerDependencies, SealedDevice, TestDevice};
use serde_json::{Value, json};

use crate::client::{Client, call};
use crate::home::{SCRIPT, SCRIPTED, TestAgentFolder};
use crate::process::Server;

#[path = "sealed/call_outcomes.rs"]
mod call_outcomes;
#[path = "sealed/consent.rs"]
mod consent;
#[path = "device.rs"]
mod device;
#[path = "device_commands.rs"]
mod device_commands;
#[path = "device_storage.rs"]
mod device_storage;
#[path = "device_tools.rs"]
mod device_tools;
#[path = "sealed/devices.rs"]
mod devices;
#[path = "sealed/hostile.rs"]
mod hostile;
#[path = "sealed/killed.rs"]
mod killed;
#[path = "sealed/network_tap.rs"]
mod network_tap;
#[path = "sealed/protocols.rs"]
mod protocols;
#[path = "sealed/relay_blindness.rs"]
mod relay_blindness;
#[path = "sealed/sdk.rs"]
mod sdk;
#[path = "sealed/wire.rs"]
mod wire;

const SECRET: &str = "the treasure lies under the third oak";
const PLACE: &str = "/home/ada/where-the-treasure-lies.md";

const SCOPE: &str = "filesystem:read";

const DEVICE_TOOL: &str = r#"
[[scope]]
id = "filesystem:read"
label = "Read local files"
sensitivity = "medium"

[[tool]]
name = "read_file"
description = "Reads a file of the person's."
scope = "filesystem:read"
input = { type = "object", properties = { path = { type = "string" } }, required = ["path"], additionalProperties = false }
timeout_ms = 5000
run = { device = true }
"#;

fn read_file(call: &ToolCall) -> ToolOutcome {
    match call.arguments["path"].as_str() {
        Some(PLACE) => ToolOutcome::Ok { result: json!({"content": SECRET}) },
        other => panic!("{other:?} was asked for"),
    }
}

fn echo_path(call: &ToolCall) -> ToolOutcome {
    ToolOutcome::Ok { result: json!({"content": format!("read {}", call.arguments["path"].as_str().unwrap())}) }
}

fn memory() -> Arc<dyn KeyStore> {
    Arc::new(MemoryKeyStore::new())
}

fn agent_file(more: &str) -> String {
    format!("{SCRIPTED}{DEVICE_TOOL}{more}")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn serve_at(home: &TestAgentFolder, port: u16, agents: &str, settings: &[(&str, &str)]) -> Server {
    let serve = home.nuncio(&["--json", "serve", "--listen", &format!("localhost:{port}")]).arg(agents);
    settings.iter().fold(serve, |serve, (name, value)| serve.env(name, value)).start()
}

pub(crate) struct RelayProcess {
    home: TestAgentFolder,
    server: Option<Server>,
    port: u16,
    settings: &'static [(&'static str, &'static str)],
    owner: TestDevice,
}

impl RelayProcess {
    async fn start(settings: &'static [(&'static str, &'static str)]) -> Self {
        install_crypto();
        let (home, port) = (TestAgentFolder::script(), free_port());
        let server = serve_at(&home, port, SCRIPT, settings);
        let owner = TestDevice::enrol(&AnonymousA2hClient::at(server.url()), &invite(&home, "owner")).await;
        Self { home, server: Some(server), port, settings, owner }
    }

    fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    fn invite(&self, name: &str) -> String {
        invite(&self.home, name)
    }

    /// Creates an agent with the tool `read_file`; returns its id and token.
    async fn make_agent(&self, body: &Value) -> (String, String) {
        let (id, token) = self.owner.make_agent(body).await;
        self.owner.publish(&id, &manifest()).await.data();
        (id, token)
    }

    async fn device(&self, way: &PeerDependencies, name: &str, agent: &str) -> SealedDevice {
        let device = SealedDevice::start_by(way, &self.url(), &self.invite(name), memory(), echo_path).await;
        device.allow(agent, &[SCOPE]).await;
        device
    }

    async fn second_device(&self, name: &str) -> SealedDevice {
        SealedDevice::start(&self.url(), &self.invite(name), memory(), echo_path).await
    }

    /// Kills the relay with `kill -9`; returns its standard error.
    fn kill9(&mut self) -> String {
        self.server.take().unwrap().kill9()
    }

    fn again(&mut self) {
        self.server = Some(serve_at(&self.home, self.port, SCRIPT, self.settings));
    }
}

fn manifest() -> Value {
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0",
        "tools": [{
            "name": "read_file", "description_i18n_key": "agent.cap.read_file.description",
            "input_schema": {
                "type": "object", "properties": {"path": {"type": "string"}},
                "required": ["path"], "additionalProperties": false,
            },
            "permission_scope": SCOPE, "required": false, "timeout_ms": 5000,
        }],
        "permission_scopes": [{
            "id": SCOPE, "sensitivity": "medium",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "description_i18n_key": "agent.scope.filesystem_read.description",
        }],
        "capability_flags": {},
    })
}

pub(crate) struct SealedSetup {
    relay: RelayProcess,
    agent_home: TestAgentFolder,
    agent: Option<Server>,
    agent_port: u16,
    agent_id: String,
    key: String,
}

impl SealedSetup {
    async fn new() -> Self {
        Self::of(RelayProcess::start(&[]).await, None).await
    }

    /// Setup with an existing relay, which the agent reaches at the URL `by` if one is given.
    async fn of(relay: RelayProcess, by: Option<&str>) -> Self {
        Self::with(relay, by, &agent_file("skill = { type = \"task\" }\n")).await
    }

    async fn with(relay: RelayProcess, by: Option<&str>, agent: &str) -> Self {
        let (agent_id, token) = relay.owner.make_agent(&json!({"display_name": "Notes"})).await;
        let agent_home = TestAgentFolder::with_agent(agent);
        fs::write(agent_home.path("relay.token"), &token).unwrap();
        fs::create_dir_all(agent_home.data()).unwrap();
        fs::write(
            agent_home.data().join("nuncio.toml"),
            format!(
                "[[a2h.relay]]\nagent = \"script\"\nurl = {:?}\nagent_id = {agent_id:?}\ntoken_file = {:?}\n",
                by.map_or_else(|| relay.url(), str::to_owned),
                agent_home.path("relay.token").display().to_string()
            ),
        )
        .unwrap();
        let key = agent_home.key(&["--person", "ada"]);
        let mut world = Self { relay, agent_home, agent: None, agent_port: free_port(), agent_id, key };
        world.start_agent();
        // The owner publishes the manifest of the agent's server at the relay.
        let server = AnonymousA2hClient::at(world.agent.as_ref().unwrap().url());
        let response = server.send(Method::GET, "/agents/script", Some(&world.key), None).await;
        world.relay.owner.publish(&world.agent_id, &response.data()["capability_manifest"]).await.data();
        world
    }

    fn start_agent(&mut self) {
        let file = self.agent_home.path("agent.toml").display().to_string();
        self.agent = Some(serve_at(&self.agent_home, self.agent_port, &file, &[]));
    }

    fn kill_agent(&mut self) {
        self.agent.take().unwrap().kill9();
    }

    async fn device(&self, act: impl Fn(&ToolCall) -> ToolOutcome + Send + Sync + 'static) -> SealedDevice {
        let device = SealedDevice::start(&self.relay.url(), &self.relay.invite("ada"), memory(), act).await;
        device.allow(&self.agent_id, &[SCOPE]).await;
        device
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://localhost:{}/aap", self.agent_port), Some(&self.key))
    }

    async fn session(&self) -> (Client, String) {
        let client = self.client();
        let session = client.session("script", &[]).await;
        (client, session)
    }

    fn last_record(&self) -> Value {
        let records = self.agent_home.audit();
        records.into_iter().rfind(|record| record["tool"] == "read_file").unwrap()
    }
}

fn invite(home: &TestAgentFolder, name: &str) -> String {
    home.nuncio(&["--json", "user", "invite", name]).run().json()["code"].as_str().unwrap().to_owned()
}

fn reads(id: &str, path: &str) -> Value {
    json!([[call(id, "read_file", json!({"path": path}))], [{"text": "It says: "}, {"echo": "results"}]])
}

/// The text of an envelope, decoded from base64.
fn decoded(envelope: &Value) -> String {
    String::from_utf8(STANDARD.decode(envelope.as_str().unwrap()).unwrap()).unwrap()
}
