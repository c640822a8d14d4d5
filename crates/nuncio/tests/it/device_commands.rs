//! Device commands: executed by the running device over its socket, or by the command itself if no device runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use nuncio_core::digest::Digest;
use nuncio_core::invite_link::InviteLink;
use serde_json::{Value, json};

use super::device::LaptopSetup;
use super::{SCOPE, SECRET};
use crate::home::{TestAgentFolder, mode};
use crate::process::until;

const PHRASE: &str = "correct horse battery";

impl LaptopSetup {
    fn phrase(&self, name: &str, phrase: &str) -> String {
        let file = self.home.path(name);
        fs::write(&file, format!("{phrase}\n")).unwrap();
        file.display().to_string()
    }

    fn shown(&self, place: &str, device: &str) -> Value {
        let answer = self.device_at(place, &["devices"]).json();
        let devices = answer["devices"].as_array().unwrap();
        devices.iter().find(|shown| shown["id"] == device).unwrap_or_else(|| panic!("{answer}")).clone()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

/// Sends a line to the device's socket and returns the reply.
fn raw(laptop: &LaptopSetup, line: &[u8]) -> String {
    let mut stream = UnixStream::connect(laptop.home_folder().join("run.sock")).unwrap();
    // The device may close the connection before all is sent.
    let _ = stream.write_all(line);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn device_commands_are_executed_by_the_running_device_and_take_effect_at_once() {
    let laptop = LaptopSetup::new();
    let alone = laptop.device(&["status"]).json();
    let status = || laptop.home.nuncio(&["device", "status", "--home"]).arg(laptop.home_folder()).run();
    let hint = format!(
        "not running: no call is answered; start it with `nuncio device run --home {}`",
        laptop.home_folder().display()
    );
    assert!(status().stderr.contains(&hint), "{:?}", status());
    let running = laptop.run();
    assert!(!status().stderr.contains("not running"), "{:?}", status());
    let socket = laptop.home_folder().join("run.sock");
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(laptop.device(&["status"]).json(), alone, "the same, whoever says it");
    assert_eq!(laptop.device(&["agents"]).json(), json!({"agents": []}));
    let none = laptop.home.nuncio(&["device", "agents", "--home"]).arg(laptop.home_folder()).run();
    assert!(none.stdout.contains("AGENT is its name or id on the server"), "{none:?}");
    let shown = laptop.device(&["allow", "script"]).json();
    assert_eq!(shown["ask"]["scopes"][0]["granted"], json!(false));
    assert_eq!(laptop.device(&["allow", "script", "location:read"]).status, Some(2), "it does not ask for that");
    let allowed = laptop.device(&["allow", "script", SCOPE]).json();
    assert_eq!(allowed, json!({"agent": "script", "allowed": [SCOPE]}));
    // The permission takes effect at once in the running device.
    let session = laptop.client.session("script", &[]).await;
    let answer = laptop.read(&session, "c_1", "treasure.md").await;
    assert!(answer.contains(SECRET), "{answer}");
    let number = laptop.device(&["verify", "script"]).json();
    assert_eq!(text(&number["safety_number"]).split_whitespace().count(), 12, "{number}");
    // The agent's owner sees the same number.
    let owner = laptop.home.json_command(&["agent", "safety-number", "script", "ada"]).json();
    assert_eq!(owner["safety_number"], number["safety_number"]);
    for (agent, person, code) in [("nobody", "ada", "unknown_agent"), ("script", "zoe", "person_not_found")] {
        let refused = laptop.home.json_command(&["agent", "safety-number", agent, person]).failure();
        assert_eq!(refused.0, code, "{refused:?}");
    }
    assert_eq!(laptop.device(&["accept", "script", "--yes"]).failure().0, "bad_request", "nothing changed");
    until("it is written down", async || (laptop.device(&["audit"]).json()["verified"] == 1).then_some(())).await;
    let file = laptop.home.path("audit.jsonl");
    laptop.device(&["audit", "--export", file.to_str().unwrap()]).json();
    assert_eq!((fs::read_to_string(&file).unwrap().lines().count(), mode(&file)), (1, 0o600));
    let pages = laptop.device(&["open"]).json();
    assert!(text(&pages["url"]).starts_with("http://127.0.0.1:"), "{pages}");

    // A command that needs the device folder for itself is refused while the device runs.
    for arguments in [&["enrol", laptop.server.url(), "inv_x"][..], &["run"]] {
        let busy = laptop.device(arguments).failure();
        assert_eq!(busy.0, "data_dir_in_use", "{arguments:?} {busy:?}");
    }
    // Invalid input on the socket gets an error or is dropped.
    assert!(raw(&laptop, b"{\"do\":\"dance\"}\n").contains("not a command"));
    assert_eq!(raw(&laptop, b""), "");
    assert!(raw(&laptop, &vec![b'x'; 1 << 20]).len() < 1000);

    laptop.device(&["revoke", "script"]).json();
    let answer = laptop.read(&session, "c_2", "treasure.md").await;
    assert!(!answer.contains(SECRET), "{answer}");
    running.stop();
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn second_device_is_added_trusted_and_removed_while_the_first_runs() {
    let laptop = LaptopSetup::new();
    laptop.device(&["allow", "script", SCOPE]).json();
    let running = laptop.run();
    let invite = laptop.device(&["invite"]).json();
    let fingerprint = text(&invite["fingerprint"]);
    let arguments = ["enrol", text(&invite["url"]), text(&invite["code"]), "--fingerprint", fingerprint];
    let phone = laptop.device_at("phone", &arguments).json();
    let (id, own) = (text(&phone["device"]), laptop.device(&["status"]).json());
    let waiting = laptop.shown("laptop", id);
    assert_eq!((&waiting["standing"], &waiting["number"]), (&json!("waiting"), &phone["number"]));
    assert_eq!(laptop.shown("phone", text(&own["device"]))["standing"], "trusted");
    // Both devices print the same comparison number, within eighty columns.
    for (place, shown) in [("laptop", true), ("phone", true), ("laptop", false)] {
        let command = if shown { "devices" } else { "invite" };
        let ran = laptop.home.nuncio(&["device", command, "--home"]).arg(laptop.home.path(place)).run();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert_eq!(ran.stderr.contains(text(&phone["number"])), shown, "{ran:?}");
        assert!(ran.stderr.lines().all(|line| line.chars().count() <= 80), "{ran:?}");
    }
    // In a terminal, only an explicit yes confirms a device.
    let command = laptop.home.nuncio(&["device", "trust", id, "--home"]).arg(laptop.home_folder());
    if let Some(command) = command.in_terminal() {
        let mut typed = command.start_interactive();
        until("it asks", async || typed.stdout().contains("Is it the same?").then_some(())).await;
        typed.line("no");
        let ran = typed.wait_for_end();
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert_eq!(laptop.shown("laptop", id)["standing"], "waiting");
    }
    // Without a terminal, nobody compared the number, so a flag must say so.
    let refused = laptop.device(&["trust", id]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.stdout.contains("--yes"), "{refused:?}");
    assert_eq!(laptop.shown("laptop", id)["standing"], "waiting");
    assert_eq!(laptop.device(&["trust", id, "--yes"]).json(), json!({"trusted": id}));
    assert_eq!(laptop.shown("laptop", id)["standing"], "trusted");

    // A permission granted on the laptop counts on the phone.
    running.stop();
    let running = laptop.run_at("phone");
    let session = laptop.client.session("script", &[]).await;
    let answer = laptop.read(&session, "c_1", "treasure.md").await;
    assert!(answer.contains(SECRET), "{answer}");
    running.stop();

    let running = laptop.run();
    assert_eq!(laptop.device(&["remove", id]).json(), json!({"removed": id}));
    assert_eq!(laptop.shown("laptop", id)["standing"], "removed");
    assert_eq!(laptop.device_at("phone", &["devices"]).failure().0, "device_refused");
    let oneself = laptop.device(&["remove", text(&own["device"])]).failure();
    assert!(oneself.1.contains("another device"), "{oneself:?}");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_restores_a_device_and_never_prints_the_passphrase() {
    let laptop = LaptopSetup::new();
    laptop.device(&["allow", "script", SCOPE]).json();
    let (right, wrong) = (laptop.phrase("right", PHRASE), laptop.phrase("wrong", "another long phrase"));
    let (short, file) = (laptop.phrase("short", "short"), laptop.home.path("backup.json").display().to_string());
    let running = laptop.run();
    assert_eq!(laptop.device(&["backup", "--passphrase-file", &short]).failure().0, "bad_request");
    let saved = laptop.device(&["backup", "--file", &file, "--passphrase-file", &right]).json();
    assert_eq!((text(&saved["file"]), mode(file.as_ref())), (file.as_str(), 0o600));
    assert_eq!(laptop.device(&["recover", "--passphrase-file", &right]).failure().0, "bad_request", "it is here");
    running.stop();

    let arguments = ["restore", file.as_str(), "--passphrase-file"];
    let refused = laptop.device_at("new", &[&arguments[..], &[&wrong]].concat()).failure();
    assert_eq!(refused.0, "backup_unreadable", "{refused:?}");
    let used = laptop.device(&[&arguments[..], &[&right]].concat()).failure();
    assert_eq!(used.0, "data_dir_in_use", "{used:?}");
    assert_eq!(laptop.device_at("new", &["restore", &right]).status, Some(2), "that is no backup");
    let restored = laptop.device_at("new", &[&arguments[..], &[&right]].concat()).json();
    assert_eq!((&restored["device"], &restored["person"]), (&saved["device"], &json!("ada")));
    let running = laptop.run_at("new");
    let session = laptop.client.session("script", &[]).await;
    let answer = laptop.read(&session, "c_1", "treasure.md").await;
    assert!(answer.contains(SECRET), "{answer}");
    running.stop();

    // The backup stored at the server confirms a new device too. The passphrase comes through a pipe.
    let code = super::invite(&laptop.home, "ada");
    laptop.device_at("phone", &["enrol", laptop.server.url(), &code]).json();
    let running = laptop.run_at("phone");
    let mut typed = laptop.command_at("phone", &["recover"]).start_interactive();
    typed.line(PHRASE);
    let recovered = typed.wait_for_end().json();
    assert_eq!(recovered, json!({"recovered": saved["device"]}));
    let answer = laptop.read(&session, "c_2", "treasure.md").await;
    assert!(answer.contains(SECRET), "{answer}");
    running.stop();

    // A typed passphrase is not echoed.
    let command = laptop.home.nuncio(&["device", "backup", "--home"]).arg(laptop.home.path("phone"));
    let Some(command) = command.in_terminal() else { return };
    let mut typed = command.start_interactive();
    for prompt in ["Passphrase:", "Once more:"] {
        until(prompt, async || typed.stdout().contains(prompt).then_some(())).await;
        typed.line(PHRASE);
    }
    until("it is done", async || typed.stdout().contains("are kept at").then_some(())).await;
    let ran = typed.wait_for_end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(!ran.stdout.contains(PHRASE), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_device_commands_never_fail_because_the_device_folder_is_in_use() {
    let laptop = LaptopSetup::new();
    let at_once = |what: &str| {
        std::thread::scope(|scope| {
            let allow = || laptop.device(&["allow", "script", SCOPE]);
            let begin = |_| [scope.spawn(|| laptop.device(&["status"])), scope.spawn(allow)];
            let begun: Vec<_> = (0..3).flat_map(begin).collect();
            let calls: Vec<_> = begun.into_iter().map(|call| call.join().unwrap()).collect();
            // Of two concurrent grants one may fail because of a conflict, but none because the home is in use.
            for ran in &calls {
                assert!(!ran.stdout.contains("data_dir_in_use"), "{what}: {ran:?}");
            }
            assert!(calls.iter().filter(|ran| ran.status == Some(0)).count() >= 4, "{what}: {calls:?}");
        });
    };
    at_once("while no device runs");
    let running = laptop.run();
    at_once("beside one that runs");
    let agents = laptop.device(&["agents"]).json();
    assert_eq!(agents["agents"][0]["allowed"], json!([SCOPE]));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_left_by_a_killed_device_is_ignored_and_an_unresponsive_one_is_reported() {
    let laptop = LaptopSetup::new();
    let socket = laptop.home_folder().join("run.sock");
    // A killed process leaves its socket file behind.
    laptop.run().kill9();
    assert!(socket.exists());
    assert_eq!(laptop.device(&["status"]).json()["person"], "ada");
    let running = laptop.run();
    assert_eq!(laptop.device(&["status"]).json()["person"], "ada");
    running.stop();
    // A process that accepts connections and never replies.
    let listener = UnixListener::bind(&socket).unwrap();
    let silent = laptop.device(&["status"]).failure();
    assert_eq!(silent.0, "data_dir_in_use", "{silent:?}");
    assert!(silent.1.contains("does not answer"), "{silent:?}");
    drop(listener);
    assert_eq!(laptop.device(&["status"]).json()["person"], "ada");

    // The path of this home is longer than a socket address allows.
    let deep = format!("{}/laptop", "deep".repeat(40));
    let code = super::invite(&laptop.home, "ada");
    laptop.device_at(&deep, &["enrol", laptop.server.url(), &code]).json();
    let running = laptop.run_at(&deep);
    assert!(laptop.home.path(&deep).join("run.sock").exists());
    assert_eq!(laptop.device_at(&deep, &["status"]).json()["person"], "ada");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_an_agent_with_changed_keys_fail_until_the_keys_are_accepted() {
    let laptop = LaptopSetup::new();
    laptop.device(&["allow", "script", SCOPE]).json();
    let running = laptop.run();
    let session = laptop.client.session("script", &[]).await;
    assert!(laptop.read(&session, "c_1", "treasure.md").await.contains(SECRET));
    let before = laptop.device(&["verify", "script"]).json();
    running.stop();

    let laptop = laptop.lose_the_agents_keys();
    let running = laptop.run();
    let session = laptop.client.session("script", &[]).await;
    let answer = laptop.read(&session, "c_2", "treasure.md").await;
    assert!(!answer.contains(SECRET), "{answer}");
    // Without a terminal, new keys are accepted only with `--yes`.
    assert_eq!(laptop.device(&["accept", "script"]).status, Some(2));
    let accepted = laptop.device(&["accept", "script", "--yes"]).json();
    assert_eq!(accepted["was"], before["safety_number"]);
    assert_ne!(accepted["safety_number"], before["safety_number"]);
    assert_eq!(laptop.device(&["verify", "script"]).json()["safety_number"], accepted["safety_number"]);
    let owner = laptop.home.json_command(&["agent", "safety-number", "script", "ada"]).json();
    assert_eq!(owner["safety_number"], accepted["safety_number"], "the owner sees the new number");
    assert_eq!(laptop.device(&["accept", "script", "--yes"]).failure().0, "bad_request", "once is enough");
    let answer = laptop.read(&session, "c_3", "treasure.md").await;
    assert!(answer.contains(SECRET), "{answer}");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn invite_link_enrols_pins_and_runs_a_device_and_a_damaged_link_changes_nothing() {
    let laptop = LaptopSetup::new();
    let invite = laptop.home.json_command(&["user", "invite", "bob"]).json();
    let link = text(&invite["link"]);
    let (cut, own) = (&link[..link.len() - 4], laptop.server.url());
    for wrong in [cut, own, "https://agents.example/join#inv_1.short"] {
        let refused = laptop.home.nuncio(&["device", "join", wrong, "--home"]).arg(laptop.home.path("tablet")).run();
        assert_eq!(refused.status, Some(2), "{refused:?}");
        assert!(
            refused.stderr.contains("this is not an invite link") && !refused.stderr.contains("inv_"),
            "{refused:?}"
        );
    }
    // A link with the key of another server is refused before anything of the device is used.
    let other = laptop.home.json_command(&["user", "invite", "eve"]).json();
    let forged = InviteLink {
        fingerprint: Digest::of_bytes(b"another key"),
        ..InviteLink::parse(text(&other["link"])).unwrap()
    };
    let refused = laptop.device_at("tablet", &["join", &forged.to_string(), "--no-run"]).failure();
    assert_eq!(refused.0, "peer_untrusted", "{refused:?}");

    let command = laptop.home.nuncio(&["--json", "device", "join", link, "--port", "0", "--home"]);
    let running = command.arg(laptop.home.path("tablet")).start();
    assert_eq!(running.greeting["person"], "bob");
    assert!(text(&running.greeting["pages"]).starts_with("http://127.0.0.1:"), "{:?}", running.greeting);
    running.stop();
    let status = laptop.device_at("tablet", &["status"]).json();
    assert_eq!((&status["person"], &status["server"]), (&json!("bob"), &json!("connected")));
    // The command that is suggested for the next start has the options of this one.
    let third = laptop.home.json_command(&["user", "invite", "zoe"]).json();
    let (place, notes) = (laptop.home.path("third"), laptop.home.path("notes"));
    let command = laptop.home.nuncio(&["device", "join", text(&third["link"]), "--port", "0", "--no-open", "--home"]);
    let joined = command.arg(&place).arg("--folder").arg(&notes).start_interactive();
    let again = format!("nuncio device run --home {} --folder {} --port 0`", place.display(), notes.display());
    until("the suggestion", async || joined.stderr().contains(&again).then_some(())).await;
    joined.interrupt();
    joined.wait_for_end();
    // The link lets in one device.
    let again = laptop.device_at("second", &["join", link, "--no-run"]).failure();
    assert_eq!(again.0, "invite_invalid", "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn device_run_accepts_no_open() {
    let laptop = LaptopSetup::new();
    laptop.to_run().arg("--no-open").start().stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn device_record_with_one_entry_is_counted_in_the_singular() {
    let laptop = LaptopSetup::new();
    let running = laptop.run();
    laptop.device(&["allow", "script", SCOPE]).json();
    let session = laptop.client.session("script", &[]).await;
    laptop.read(&session, "c_1", "treasure.md").await;
    let audit = laptop.home.nuncio(&["device", "audit", "--home"]).arg(laptop.home_folder()).run();
    assert!(audit.stderr.contains("1 entry, verified."), "{audit:?}");
    running.stop();
}

#[test]
fn device_commands_in_a_folder_without_a_device_create_nothing() {
    let home = TestAgentFolder::hotel();
    for command in [&["status"][..], &["agents"], &["audit"], &["devices"], &["open"]] {
        let command = home.nuncio(&[&["--json", "device"], command].concat());
        let (code, message) = command.arg("--home").arg(home.path("none")).run().failure();
        assert_eq!(code, "data_dir_unusable");
        assert!(message.contains("there is no device in") && message.contains("join LINK --home "), "{message}");
        let files: Vec<_> = fs::read_dir(home.path(".")).unwrap().collect();
        assert!(files.is_empty(), "{files:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_revoked_device_states_the_removal_and_how_to_join_again() {
    let laptop = LaptopSetup::new();
    let running = laptop.run();
    assert_eq!(laptop.device(&["status"]).json()["server"], "connected");
    laptop.home.json_command(&["user", "revoke", "ada", "--all"]).json();
    until("the device knows", async || (laptop.device(&["status"]).json()["server"] == "removed").then_some(())).await;
    running.stop();
    let shown = laptop.home.nuncio(&["device", "status", "--home"]).arg(laptop.home_folder()).run();
    assert!(shown.stderr.contains("removed from your account") && shown.stderr.contains("device join"), "{shown:?}");
    let chinese = |arguments: &[&str]| {
        let command = laptop.home.nuncio(&[&["device"], arguments].concat()).arg("--home").arg(laptop.home_folder());
        command.env("LC_ALL", "zh_CN.UTF-8").run()
    };
    let shown = chinese(&["status"]);
    assert!(shown.stdout.contains("用户      ada\n") && shown.stdout.contains("连接      已移除\n"), "{shown:?}");
    assert!(shown.stderr.contains("这台设备已从你的账户中移除"), "{shown:?}");
    assert!(chinese(&["agents"]).stdout.contains("还没有智能体。用 `nuncio device allow AGENT --home "));
}
