//! `nuncio device`, the real program: enrolled, granted permissions, run headless, killed in the middle of calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nuncio_server::fetch::install_crypto;
use serde_json::{Value, json};

use super::{SCOPE, SECRET, agent_file, free_port, invite, reads, serve_at};
use crate::client::{Client, last_text};
use crate::home::{TestAgentFolder, mode};
use crate::process::{NuncioCommand, ProcessOutput, Server, until};

const POLICY: &str = "[[rule]]\nscope = \"filesystem:read\"\nanswer = \"allow\"\n";

/// A server with an agent, and an enrolled laptop of the person `ada`.
pub(super) struct LaptopSetup {
    pub(super) home: TestAgentFolder,
    pub(super) server: Server,
    port: u16,
    pub(super) client: Client,
}

impl LaptopSetup {
    pub(super) fn new() -> Self {
        Self::with("")
    }

    pub(super) fn with(more: &str) -> Self {
        Self::with_agent(&agent_file(more))
    }

    pub(super) fn with_agent(file: &str) -> Self {
        install_crypto();
        let (home, port) = (TestAgentFolder::with_agent(file), free_port());
        let key = home.key(&["--person", "ada"]);
        let server = serve_at(&home, port, &home.path("agent.toml").display().to_string(), &[]);
        let client = server.aap_with_key(&key);
        let laptop = Self { home, server, port, client };
        let enrolled = laptop.device(&["enrol", laptop.server.url(), &invite(&laptop.home, "ada")]).json();
        assert_eq!(enrolled["person"], "ada", "{enrolled}");
        fs::write(laptop.home.path("policy.toml"), POLICY).unwrap();
        fs::create_dir(laptop.home.path("notes")).unwrap();
        fs::write(laptop.home.path("notes/treasure.md"), SECRET).unwrap();
        laptop
    }

    /// Restarts the agent's server after deleting the agent's keys.
    pub(super) fn lose_the_agents_keys(self) -> Self {
        let Self { home, server, port, client } = self;
        server.stop();
        fs::remove_dir_all(home.data().join("seals")).unwrap();
        let server = serve_at(&home, port, &home.path("agent.toml").display().to_string(), &[]);
        Self { home, server, port, client }
    }

    pub(super) fn home_folder(&self) -> PathBuf {
        self.home.path("laptop")
    }

    /// Runs `nuncio device ARGUMENTS` to its end.
    pub(super) fn device(&self, arguments: &[&str]) -> ProcessOutput {
        self.device_at("laptop", arguments)
    }

    pub(super) fn device_at(&self, place: &str, arguments: &[&str]) -> ProcessOutput {
        self.command_at(place, arguments).run()
    }

    pub(super) fn command_at(&self, place: &str, arguments: &[&str]) -> NuncioCommand {
        let call = self.home.nuncio(&[&["--json", "device"], arguments].concat());
        call.arg("--home").arg(self.home.path(place))
    }

    /// Starts `nuncio device run`.
    pub(super) fn run(&self) -> Server {
        self.run_at("laptop")
    }

    /// The command `nuncio device run`, not started yet.
    pub(super) fn to_run(&self) -> NuncioCommand {
        self.to_run_at("laptop")
    }

    pub(super) fn run_at(&self, place: &str) -> Server {
        self.to_run_at(place).start()
    }

    fn to_run_at(&self, place: &str) -> NuncioCommand {
        let call = self.home.nuncio(&["--json", "device", "run"]).arg("--policy").arg(self.home.path("policy.toml"));
        call.arg("--folder").arg(self.home.path("notes")).arg("--home").arg(self.home.path(place))
    }

    pub(super) async fn read(&self, session: &str, id: &str, path: &str) -> String {
        self.client.play(session, reads(id, path)).await.to_string()
    }
}

/// The example is what `nuncio init --device` writes.
#[tokio::test(flavor = "multi_thread")]
async fn device_example_reads_a_file_on_the_device_of_the_person_who_allowed_it() {
    let laptop = LaptopSetup::with_agent(include_str!("../../../../examples/device/agent.toml"));
    laptop.device(&["allow", "device", SCOPE]).json();
    let running = laptop.run();
    let session = laptop.client.session("device", &[]).await;
    let answer = laptop.client.say(&session, "Please read treasure.md").await;
    assert_eq!(last_text(answer["messages"].as_array().unwrap()), SECRET);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn read_call_to_a_device_without_a_shared_folder_says_how_to_share_one() {
    let laptop = LaptopSetup::with_agent(include_str!("../../../../examples/device/agent.toml"));
    laptop.device(&["allow", "device", SCOPE]).json();
    let policy = laptop.home.path("policy.toml");
    let command = laptop.home.nuncio(&["--json", "device", "run"]).arg("--policy").arg(policy);
    let running = command.arg("--home").arg(laptop.home_folder()).start();
    let session = laptop.client.session("device", &[]).await;
    let answer = laptop.client.say(&session, "Please read treasure.md").await;
    let text = last_text(answer["messages"].as_array().unwrap());
    assert!(text.contains("shares no folder yet") && text.contains("nuncio device run --folder DIR"), "{text}");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_reads_files_only_in_the_allowed_folder_and_only_until_revoked() {
    let laptop = LaptopSetup::new();
    assert_eq!((mode(&laptop.home_folder()), mode(&laptop.home_folder().join("keys.db"))), (0o700, 0o600));
    let again = laptop.device(&["enrol", laptop.server.url(), "another"]).failure();
    assert_eq!(again.0, "data_dir_in_use", "{again:?}");
    // `nuncio device allow` without scopes shows the requested scopes and grants none.
    let shown = laptop.device(&["allow", "script"]).json();
    assert_eq!(
        (&shown["ask"]["scopes"][0]["id"], &shown["ask"]["scopes"][0]["granted"]),
        (&json!(SCOPE), &json!(false))
    );
    assert_eq!(laptop.device(&["allow", "script", "location:read"]).status, Some(2), "it does not ask for that");
    let allowed = laptop.device(&["allow", "script", SCOPE, "--for", "12h"]).json();
    assert_eq!(allowed, json!({"agent": "script", "allowed": [SCOPE]}));
    let agents = laptop.device(&["agents"]).json();
    assert_eq!((&agents["agents"][0]["agent"], &agents["agents"][0]["allowed"]), (&json!("script"), &json!([SCOPE])));

    let running = laptop.run();
    let status = laptop.device(&["status"]).json();
    assert_eq!((&status["person"], &status["agents"]), (&json!("ada"), &json!(1)));
    let session = laptop.client.session("script", &[]).await;
    let answer = laptop.read(&session, "c_1", "treasure.md").await;
    assert!(answer.contains(SECRET), "{answer}");
    for (id, path) in [("c_2", "../policy.toml"), ("c_3", "/etc/passwd")] {
        let answer = laptop.read(&session, id, path).await;
        assert!(answer.contains("no such file") && !answer.contains("root:"), "{answer}");
    }
    running.stop();

    let file = laptop.home.path("audit.jsonl");
    let exported = laptop.device(&["audit", "--export", file.to_str().unwrap()]).json();
    assert_eq!(exported["verified"], 3, "{exported}");
    let lines: Vec<Value> =
        fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<_> =
        lines.iter().map(|line| (line["status"].as_str().unwrap(), line["asked"].as_bool().unwrap())).collect();
    assert_eq!(outcomes, [("ok", false), ("error", false), ("error", false)], "a policy file is nobody who is asked");
    assert!(!fs::read_to_string(&file).unwrap().contains("treasure.md"), "arguments are kept as a digest alone");
    assert_eq!(laptop.device(&["status"]).json()["audit"], 3);
    let number = laptop.device(&["verify", "script"]).json();
    assert_eq!(number["safety_number"].as_str().unwrap().split_whitespace().count(), 12, "{number}");

    // After the revocation every call is refused, although the policy file allows it.
    laptop.device(&["revoke", "script"]).json();
    let running = laptop.run();
    let answer = laptop.read(&session, "c_4", "treasure.md").await;
    assert!(answer.contains("not been granted") && !answer.contains(SECRET), "{answer}");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatedly_killed_device_runs_no_call_twice() {
    const KILLS: usize = 8;
    let laptop = Arc::new(LaptopSetup::new());
    laptop.device(&["allow", "script", SCOPE]).json();
    // A tool that records each run.
    let ran = laptop.home.path("ran");
    fs::write(&ran, "").unwrap();
    fs::create_dir(laptop.home_folder().join("tools")).unwrap();
    let line = format!("cat >> '{0}'; echo >> '{0}'; echo '{{\"content\":\"done\"}}'", ran.display());
    let write = ran.to_str().unwrap();
    let tool =
        format!("name = \"read_file\"\nscope = {SCOPE:?}\ncommand = [\"sh\", \"-c\", {line:?}]\nwrite = [{write:?}]\n");
    fs::write(laptop.home_folder().join("tools/read_file.toml"), tool).unwrap();
    let runs = || fs::read_to_string(&ran).unwrap().lines().count();

    let mut running = laptop.run();
    let stop = Arc::<AtomicBool>::default();
    let calls = {
        let (laptop, stop) = (Arc::clone(&laptop), Arc::clone(&stop));
        tokio::spawn(async move {
            let session = laptop.client.session("script", &[]).await;
            let mut done = Vec::new();
            for number in 0.. {
                let path = format!("n{number}");
                let answer = laptop.read(&session, &format!("c_{number}"), &path).await;
                if answer.contains("done") {
                    done.push(path);
                }
                if stop.load(Ordering::SeqCst) {
                    break;
                }
            }
            done
        })
    };
    for kill in 0..KILLS {
        let before = runs();
        until("something runs", async || (runs() > before + kill % 2).then_some(())).await;
        running.kill9();
        running = laptop.run();
    }
    stop.store(true, Ordering::SeqCst);
    let done = calls.await.unwrap();
    running.stop();

    let mut counted = BTreeMap::<String, usize>::new();
    for line in fs::read_to_string(&ran).unwrap().lines() {
        let arguments: Value = serde_json::from_str(line).unwrap();
        *counted.entry(arguments["path"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(counted.len() >= KILLS, "{counted:?}");
    assert!(counted.values().all(|count| *count == 1), "ran twice: {counted:?}");
    assert!(done.iter().all(|path| counted.contains_key(path)), "answered and never ran: {done:?}");
    // The audit log has one entry for each call.
    let audit = laptop.device(&["audit"]).json();
    let entries = audit["entries"].as_array().unwrap();
    let calls: std::collections::BTreeSet<_> = entries.iter().map(|entry| entry["call_id"].as_str().unwrap()).collect();
    assert_eq!(calls.len(), entries.len(), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_prompt_shows_the_call_and_a_typed_yes_runs_it() {
    let laptop = Arc::new(LaptopSetup::new());
    laptop.device(&["allow", "script", SCOPE]).json();
    let run = laptop.home.nuncio(&["device", "run", "--tty"]).arg("--folder").arg(laptop.home.path("notes"));
    let mut running = run.arg("--home").arg(laptop.home_folder()).start_interactive();
    let call = {
        let laptop = Arc::clone(&laptop);
        tokio::spawn(async move {
            let session = laptop.client.session("script", &[]).await;
            laptop.read(&session, "c_1", "treasure.md").await
        })
    };
    // A line typed right after the prompt appears is ignored, so `y` is typed until the call is answered.
    until("the call is answered", async || {
        running.line("y");
        call.is_finished().then_some(())
    })
    .await;
    let answer = call.await.unwrap();
    assert!(answer.contains(SECRET), "{answer}");
    running.interrupt();
    let shown = running.wait_for_end().stderr;
    for words in
        ["wants to run read_file", "filesystem:read (medium sensitivity)", "\"path\": \"treasure.md\"", "[y/d/N"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert_eq!(shown.matches("[y/d/N").count(), 1, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}
