//! `nuncio audit explain` must name each changed record of a call. A call on a person's device leaves records at the
//! server, in the ledger, at the relay and on the device; the attacks change one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{changed_copy, play};
use crate::server::scripted_agent;
use crate::{AttackedBinary, Server, poll};

/// Part of an agent file: a tool that reads a file on the person's device, and its scope.
pub(super) const DEVICE_TOOL: &str = r#"
[[scope]]
id = "filesystem:read"
label = "Read local files"
sensitivity = "medium"

[[tool]]
name = "read_file"
description = "Reads a file of the person's."
scope = "filesystem:read"
input = { type = "object", properties = { path = { type = "string" } }, required = ["path"] }
timeout_ms = 5000
run = { device = true }
"#;

/// `nuncio device run`, killed when dropped.
pub(super) struct DeviceProcess {
    home: PathBuf,
    process: Option<Child>,
}

impl DeviceProcess {
    /// Enrols and runs a device of `person` that lets the agent read the files of a folder.
    pub(super) async fn start(server: &Server, person: &str) -> anyhow::Result<Self> {
        let folder = server.data().with_file_name(format!("device-{person}"));
        let (home, notes, policy) = (folder.join("home"), folder.join("notes"), folder.join("policy.toml"));
        fs::create_dir_all(&notes)?;
        fs::write(notes.join("note.md"), format!("the note of {person}"))?;
        fs::write(&policy, "[[rule]]\nscope = \"filesystem:read\"\nanswer = \"allow\"\n")?;
        let invite = server.run(&["--json", "user", "invite", person])?.json()?;
        let code = invite["code"].as_str().context("no code")?;
        let mut device = Self { home, process: None };
        device.run(server, &["enrol", server.url(), code])?;
        device.run(server, &["allow", "desk", "filesystem:read"])?;
        let mut command = server.command(&["device", "run", "--policy"]);
        command.arg(&policy).arg("--folder").arg(&notes).arg("--home").arg(&device.home);
        device.process = Some(command.spawn()?);
        let socket = device.home.join("run.sock");
        poll("the device runs", async || socket.exists().then_some(())).await?;
        Ok(device)
    }

    /// Runs `nuncio --json device ARGUMENTS`.
    pub(super) fn run(&self, server: &Server, arguments: &[&str]) -> anyhow::Result<Value> {
        let home = self.home.to_str().context("a folder with an odd name")?;
        let ran = server.run_plain(&[&["--json", "device"], arguments, &["--home", home]].concat())?;
        ensure!(ran.status == Some(0), "{arguments:?}: {ran:?}");
        ran.json()
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Errors are ignored, because the process may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Script for the script brain that reads the note on the caller's device.
pub(super) fn read_note(call: &str) -> Value {
    json!([[{"tool": {"id": call, "name": "read_file", "input": {"path": "note.md"}}}], [{"echo": "results"}]])
}

pub(super) async fn changed_record_of_a_call_is_named_by_explain(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().agent(scripted_agent(DEVICE_TOOL)).start()?;
    let key = server.create_key(&["--person", "ada"])?;
    let device = DeviceProcess::start(&server, "ada").await?;
    let turn = play(&server, Some(&key), "desk", &[], read_note("c_note")).await?;
    ensure!(turn.to_string().contains("the note of ada"), "the device did not answer: {turn}");
    let written = poll("the device has written its record", async || {
        let audit = device.run(&server, &["audit"]).ok()?;
        (audit["verified"].as_u64() >= Some(1)).then_some(audit)
    })
    .await?;
    drop(device);
    server.stop()?;
    let file = server.data().with_file_name("device-audit.json");
    fs::write(&file, written.to_string())?;

    let intact = explain(&server, &server.data(), &file)?;
    let evidence = intact["records"][0]["evidence"].as_array().context("no evidence")?;
    let kept_by: Vec<_> = evidence.iter().filter_map(|one| one["kept_by"].as_str()).collect();
    ensure!(kept_by == ["audit", "ledger", "relay", "device"], "{intact}");
    ensure!(evidence.iter().all(|one| one["state"] == "holds") && intact["changed"] == json!([]), "{intact}");

    let seq = intact["records"][0]["seq"].as_u64().context("no number")?;
    for (statement, named) in [
        (
            format!("UPDATE audit_links SET record = replace(record, 'completed', 'not_run') WHERE seq = {seq}"),
            format!("audit record {seq}"),
        ),
        (
            "UPDATE ledger SET entry = replace(entry, 'filesystem:read', 'filesystem:all') WHERE seq = 1".to_owned(),
            "ledger entry 1 of ".to_owned(),
        ),
        ("DELETE FROM ledger WHERE seq = 1".to_owned(), "ledger entry 1 of ".to_owned()),
        ("UPDATE relay_messages SET envelope = CAST(envelope || X'00' AS BLOB)".to_owned(), "relay msg_".to_owned()),
    ] {
        let copy = changed_copy(&server, &statement)?;
        only_named(&explain(&server, copy.path(), &file)?, &named).with_context(|| statement)?;
    }
    for (from, to) in [("\"status\":\"ok\"", "\"status\":\"denied\""), ("\"asked\":false", "\"asked\":true")] {
        let text = written.to_string();
        ensure!(text.contains(from), "{text}");
        fs::write(&file, text.replacen(from, to, 1))?;
        only_named(&explain(&server, &server.data(), &file)?, "device entry 1").context(to)?;
    }
    Ok("each changed record is named, and no other".to_owned())
}

/// A tool that needs both a permission and an operator's approval, and a scope that does not permit it.
const APPROVED_TOOL: &str = r#"
[[scope]]
id = "payment:read"
label = "See payments"
sensitivity = "low"

[[scope]]
id = "payment:write"
label = "Pay"
sensitivity = "high"

[[tool]]
name = "pay"
description = "Pays."
scope = "payment:write"
input = { type = "object" }
run = { answer = "paid" }
human_authorization = true
"#;

pub(super) async fn changed_grant_or_approval_of_a_call_is_named_by_explain(
    target: AttackedBinary,
) -> anyhow::Result<String> {
    let mut server = target.server().agent(scripted_agent(APPROVED_TOOL)).start()?;
    let made = server.run(&["--json", "key", "create", "--scope", "payment:read"])?.json()?;
    let (id, key) = (made["id"].as_str().context("no id")?, made["key"].as_str().context("no key")?);
    let granted = server.run(&["grant", "create", &format!("key:{id}"), "desk", "payment:write"])?;
    ensure!(granted.status == Some(0), "{granted:?}");
    let script = json!([[{"tool": {"id": "c_pay", "name": "pay", "input": {}}}], [{"echo": "results"}]]);
    let approved = async {
        let id = poll("an approval that waits", async || {
            let listed = server.run(&["--json", "approve", "list"]).ok()?.json().ok()?;
            Some(listed["approvals"].get(0)?["id"].as_str()?.to_owned())
        })
        .await?;
        let allowed = server.run(&["approve", "allow", &id])?;
        ensure!(allowed.status == Some(0), "{allowed:?}");
        Ok(())
    };
    let (turn, ()) = tokio::try_join!(play(&server, Some(key), "desk", &["pay"], script), approved)?;
    ensure!(turn.to_string().contains("paid"), "{turn}");
    server.stop()?;

    let explain = |data: &Path| -> anyhow::Result<Value> {
        let data = data.to_str().context("a folder with an odd name")?;
        let ran = server.run_plain(&["--json", "audit", "explain", "c_pay", "--data", data])?;
        let answer = ran.json()?;
        let expected = if answer["changed"] == json!([]) { Some(0) } else { Some(1) };
        ensure!(ran.status == expected, "{ran:?}");
        Ok(answer)
    };
    let intact = explain(&server.data())?;
    let evidence = intact["records"][0]["evidence"].as_array().context("no evidence")?;
    let kept_by: Vec<_> = evidence.iter().filter_map(|one| one["kept_by"].as_str()).collect();
    ensure!(kept_by == ["audit", "grant", "approval"] && intact["changed"] == json!([]), "{intact}");
    for (statement, named) in [
        ("UPDATE grants SET content = replace(content, 'payment:write', 'payment:all')", "grant grant_"),
        ("UPDATE grants SET content = replace(content, 'operator', 'local')", "grant grant_"),
        ("UPDATE approvals SET content = replace(content, '\"by\":\"operator\"', '\"by\":\"local\"')", "approval apr_"),
        ("UPDATE approvals SET content = '{}'", "approval apr_"),
        ("UPDATE approvals SET content = replace(content, 'c_pay', 'c_other')", "approval apr_"),
        ("DELETE FROM approvals", "approval apr_"),
    ] {
        let copy = changed_copy(&server, statement)?;
        only_named(&explain(copy.path())?, named).with_context(|| statement)?;
    }
    Ok("the changed grant or approval is named, and nothing else".to_owned())
}

fn explain(server: &Server, data: &Path, file: &Path) -> anyhow::Result<Value> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a folder with an odd name");
    let (data, file) = (text(data)?, text(file)?);
    let ran = server.run_plain(&[
        "--json",
        "audit",
        "explain",
        "c_note",
        "--with",
        file.as_str(),
        "--data",
        data.as_str(),
    ])?;
    let answer = ran.json()?;
    let expected = if answer["changed"] == json!([]) { Some(0) } else { Some(1) };
    ensure!(ran.status == expected, "{ran:?}");
    Ok(answer)
}

fn only_named(answer: &Value, named: &str) -> anyhow::Result<()> {
    let changed = answer["changed"].as_array().context("no list of what was changed")?;
    let is_it = |one: &Value| one.as_str().is_some_and(|one| one.starts_with(named));
    ensure!(changed.len() == 1 && changed.iter().all(is_it), "expected {named}: {answer}");
    Ok(())
}
