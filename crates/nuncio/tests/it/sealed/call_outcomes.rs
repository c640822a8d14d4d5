//! Every outcome of A2H §3.3 between three processes: a relay, an agent on another server, and `nuncio device run` with
//! a person at its terminal. Calls that a correct agent never sends come from an incorrect one.

use std::fs;
use std::path::PathBuf;

use nuncio_core::ids::{ConversationId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_testkit::a2h::{AgentTransport, PeerDependencies, SealedAgent};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{RelayProcess, SealedSetup, memory};
use crate::client::{Client, call};
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::process::{ProcessOutput, RunningProgram, until};

#[path = "call_outcomes/each_outcome.rs"]
mod each_outcome;
#[path = "call_outcomes/faults.rs"]
mod faults;

const LOW: &str = "notification:send";
const MEDIUM: &str = "filesystem:read";
const HIGH: &str = "location:read";
const NOTHING: &str = "calendar:read";

/// Name, scope and sensitivity of the tools: one of each sensitivity, and one that no device has.
const TOOLS: [(&str, &str, &str); 4] =
    [("tell", LOW, "low"), ("read_file", MEDIUM, "medium"), ("where", HIGH, "high"), ("agenda", NOTHING, "low")];

/// Agent file with `TOOLS`, which are published as skills too.
fn agent() -> String {
    TOOLS.iter().fold(SCRIPTED.to_owned(), |file, (name, scope, sensitivity)| {
        format!(
            r#"{file}
[[scope]]
id = "{scope}"
label = "Something of {sensitivity} stake"
description = "What {name} needs."
sensitivity = "{sensitivity}"

[[tool]]
name = "{name}"
description = "Does it."
scope = "{scope}"
input = {{ type = "object", properties = {{ path = {{ type = "string" }} }}, required = ["path"], additionalProperties = false }}
timeout_ms = 5000
run = {{ device = true }}
skill = {{ type = "task" }}
"#
        )
    })
}

type AuditLine = (String, Option<String>, bool);

fn line(status: &str, reason: Option<&str>, asked: bool) -> AuditLine {
    (status.to_owned(), reason.map(str::to_owned), asked)
}

/// A machine of the person `ada`, enrolled at a relay. Its tools record every run.
struct PersonMachine {
    home: TestAgentFolder,
    id: String,
}

impl PersonMachine {
    fn new(relay: &RelayProcess) -> Self {
        let home = TestAgentFolder::hotel();
        let mut machine = Self { home, id: String::new() };
        let enrolled = machine.device(&["enrol", &relay.url(), &relay.invite("ada")]).json();
        machine.id = enrolled["device"].as_str().unwrap().to_owned();
        fs::write(machine.trace(), "").unwrap();
        let folder = machine.home_folder().join("tools");
        fs::create_dir(&folder).unwrap();
        for (name, scope, _) in TOOLS.iter().filter(|(_, scope, _)| *scope != NOTHING) {
            let line = format!(
                "line=$(cat); echo \"{name} $line\" >> '{}'; case $line in *broken*) exit 3;; esac; echo '{{\"done\":true}}'",
                machine.trace().display()
            );
            let tool = format!(
                "name = {name:?}\nscope = {scope:?}\ncommand = [\"sh\", \"-c\", {line:?}]\nwrite = [{:?}]\n",
                machine.trace().display().to_string()
            );
            fs::write(folder.join(format!("{name}.toml")), tool).unwrap();
        }
        machine
    }

    fn home_folder(&self) -> PathBuf {
        self.home.path("device")
    }

    fn trace(&self) -> PathBuf {
        self.home.path("ran")
    }

    fn ran(&self) -> Vec<String> {
        fs::read_to_string(self.trace()).unwrap().lines().map(str::to_owned).collect()
    }

    /// Runs `nuncio device ARGUMENTS` to its end.
    fn device(&self, arguments: &[&str]) -> ProcessOutput {
        self.home.nuncio(&[&["--json", "device"], arguments].concat()).arg("--home").arg(self.home_folder()).run()
    }

    fn allow(&self, agent: &str, scopes: &[&str]) {
        let allowed = self.device(&[&["allow", agent], scopes].concat()).json();
        assert_eq!(allowed["allowed"].as_array().unwrap().len(), scopes.len(), "{allowed}");
    }

    fn start_with_terminal(&self) -> DeviceTerminal {
        let run = self.home.nuncio(&["device", "run", "--tty"]).arg("--home").arg(self.home_folder());
        DeviceTerminal(run.start_interactive())
    }

    fn log(&self) -> Vec<AuditLine> {
        let audit = self.device(&["audit"]).json();
        let entries = audit["entries"].as_array().unwrap();
        assert_eq!(audit["verified"], entries.len(), "{audit}");
        let fields = |entry: &Value| {
            line(entry["status"].as_str().unwrap(), entry["reason"].as_str(), entry["asked"].as_bool().unwrap())
        };
        entries.iter().map(fields).collect()
    }
}

/// A running device with a person at its terminal.
struct DeviceTerminal(RunningProgram);

impl DeviceTerminal {
    fn questions(&self) -> usize {
        self.0.stderr().matches("/N, ").count()
    }

    /// Waits until the terminal has shown `count` prompts.
    async fn wait_for_prompts(&self, count: usize) {
        until("the person is asked", async || (self.questions() >= count).then_some(())).await;
        assert_eq!(self.questions(), count, "{}", self.0.stderr());
    }

    async fn answer<T>(&mut self, word: &str, call: &JoinHandle<T>) {
        until("the call is answered", async || {
            self.0.line(word);
            call.is_finished().then_some(())
        })
        .await;
    }

    fn kill9(self) -> String {
        self.0.kill9()
    }

    /// Ends the device with Ctrl-C; returns everything that it printed.
    fn stop(self) -> String {
        self.0.interrupt();
        let ran = self.0.wait_for_end();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        ran.stderr
    }
}

/// A relay, an agent on another server, and a laptop of the person `ada`.
struct SealedCallSetup {
    world: SealedSetup,
    laptop: PersonMachine,
}

impl SealedCallSetup {
    /// Setup in which the person has granted the agent these scopes.
    async fn new(scopes: &[&str]) -> Self {
        let world = SealedSetup::with(RelayProcess::start(&[]).await, None, &agent()).await;
        let laptop = PersonMachine::new(&world.relay);
        laptop.allow(&world.agent_id, scopes);
        Self { world, laptop }
    }

    async fn call(&self, id: &str, tool: &str, path: &str) -> JoinHandle<String> {
        self.call_in(self.world.session().await, id, tool, path)
    }

    /// Like [`Self::call`], in an existing conversation.
    fn call_in(&self, (client, session): (Client, String), id: &str, tool: &str, path: &str) -> JoinHandle<String> {
        let script = json!([[call(id, tool, json!({"path": path}))], [{"text": "It says: "}, {"echo": "results"}]]);
        tokio::spawn(async move { client.play(&session, script).await.to_string() })
    }

    /// Outcome of the last call of a tool in the agent's audit records: `completed`, or the error code.
    fn tool_result(&self, tool: &str) -> String {
        let record = self.world.agent_home.audit().into_iter().rfind(|record| record["tool"] == tool).unwrap();
        let outcome = &record["outcome"];
        outcome["code"].as_str().or(outcome["result"].as_str()).unwrap().to_owned()
    }
}

/// A relay, an agent that ignores the protocol's rules, and a laptop of the person `ada`.
struct HostileAgentSetup {
    relay: RelayProcess,
    agent: SealedAgent,
    token: String,
    laptop: PersonMachine,
}

impl HostileAgentSetup {
    async fn new(scopes: &[&str]) -> Self {
        let relay = RelayProcess::start(&[]).await;
        let (id, token) = relay.make_agent(&json!({"display_name": "Notes"})).await;
        relay.owner.publish(&id, &manifest()).await.data();
        let agent = SealedAgent::start(
            &PeerDependencies::direct(),
            &relay.url(),
            (&id, &token),
            memory(),
            AgentTransport::Socket,
        )
        .await;
        let laptop = PersonMachine::new(&relay);
        laptop.allow(&id, scopes);
        Self { relay, agent, token, laptop }
    }

    async fn conversation(&self) -> ConversationId {
        let ada = RelayParty::Person(PersonName::parse("ada").unwrap());
        self.agent.peer.conversation_with(&ada).await.unwrap().id.clone()
    }
}

fn manifest() -> Value {
    let tools = TOOLS.map(|(name, scope, _)| {
        json!({
            "name": name, "description_i18n_key": "x", "permission_scope": scope, "timeout_ms": 5000,
            "input_schema": {
                "type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false,
            },
        })
    });
    let scopes = TOOLS.map(|(_, scope, sensitivity)| {
        let stem = scope.replace(':', "_");
        json!({
            "id": scope, "sensitivity": sensitivity,
            "label_i18n_key": format!("agent.scope.{stem}.label"), "label_fallback": {"en": "Something"},
            "description_i18n_key": format!("agent.scope.{stem}.description"),
            "description_fallback": {"en": "Something."},
        })
    });
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {},
        "tools": tools, "permission_scopes": scopes,
    })
}
