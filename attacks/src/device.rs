//! Attacks on a person's device, its pages and its stored data.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use nuncio_core::bundle::SealMode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::person::EnrolmentAssertion;
use nuncio_identity::seal::{MemoryKeyStore, NewSealIdentity, SealIdentity};
use serde_json::{Value, json};

use crate::did_peer::now;
use crate::server::scripted_agent;
use crate::{Attack, AttackDurationClass, AttackedBinary, Server, http_client};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "agent_cannot_register_keys_under_the_id_of_a_device",
        before: "the agent's keys were taken (200), the device's own refused (422)",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(agent_cannot_register_keys_under_the_id_of_a_device(target)),
    },
    Attack {
        name: "low_write_scope_does_not_run_unasked_on_a_device",
        before: "it ran, and nobody was asked",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(low_write_scope_does_not_run_unasked_on_a_device(target)),
    },
    Attack {
        name: "cookie_of_the_device_pages_is_not_sent_to_other_ports",
        before: "sent to every web server on 127.0.0.1 (Path=/)",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(cookie_of_the_device_pages_is_not_sent_to_other_ports(target)),
    },
    Attack {
        name: "link_preview_does_not_use_up_a_one_time_link",
        before: "a GET opened a session, and the link was used up",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(link_preview_does_not_use_up_a_one_time_link(target)),
    },
    Attack {
        name: "stored_data_of_a_device_is_not_readable_on_disk",
        before: "tool results, arguments and talk were plain JSON in keys.db and its write-ahead file",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(stored_data_of_a_device_is_not_readable_on_disk(target)),
    },
];

/// Two tools on the person's device: one reads files, one changes data and claims to be harmless.
const TOOLS: &str = r#"
[[scope]]
id = "filesystem:read"
label = "Read local files"
sensitivity = "medium"

[[scope]]
id = "notes:write"
label = "Write notes"
sensitivity = "low"

[[tool]]
name = "read_file"
description = "Reads a file."
scope = "filesystem:read"
timeout_ms = 5000
input = { type = "object", properties = { path = { type = "string" } } }
run = { device = true }

[[tool]]
name = "write_note"
description = "Writes a note."
scope = "notes:write"
timeout_ms = 5000
input = { type = "object", properties = { text = { type = "string" } } }
run = { device = true }
"#;

/// Device tool file of `write_note`.
const WRITE_NOTE: &str = "name = \"write_note\"\nscope = \"notes:write\"\n\
                          command = [\"./write.sh\"]\ndescription = \"Writes a note\"\n";

/// A server, and an enrolled device of the person `ada`.
struct ServerWithDevice {
    server: Server,
    key: String,
    running: Option<Child>,
}

impl ServerWithDevice {
    /// Enrols the device, which does not run yet.
    fn new(target: &AttackedBinary) -> anyhow::Result<Self> {
        let server = target.server().agent(scripted_agent(TOOLS)).start()?;
        let key = server.create_key(&["--person", "ada"])?;
        let scene = Self { server, key, running: None };
        let code = scene.invite()?;
        let url = scene.server.url().to_owned();
        scene.device(&["enrol", &url, &code])?;
        Ok(scene)
    }

    fn invite(&self) -> anyhow::Result<String> {
        let invite = self.server.run(&["--json", "user", "invite", "ada"])?.json()?;
        Ok(invite["code"].as_str().context("no code")?.to_owned())
    }

    fn folder(&self) -> PathBuf {
        self.server.home().join("laptop")
    }

    /// Runs `nuncio device ARGUMENTS`.
    fn device(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let folder = self.folder().display().to_string();
        let done = self.server.run_plain(&[&["--json", "device"], arguments, &["--home", &folder]].concat())?;
        ensure!(done.status == Some(0), "nuncio device {arguments:?}: {done:?}");
        done.json()
    }

    /// Starts `nuncio device run`; returns its first output.
    fn start(&mut self, arguments: &[&str]) -> anyhow::Result<Value> {
        let folder = self.folder().display().to_string();
        let arguments = [&["--json", "device", "run", "--home", &folder], arguments].concat();
        let mut child = self.server.command(&arguments).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        self.running = Some(child);
        serde_json::from_str(&line).with_context(|| format!("it did not start: {line}"))
    }

    /// Kills the device with `kill -9`.
    fn kill(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Lets the agent call a tool, and returns the whole turn as text.
    async fn call(&self, tool: &str, arguments: Value) -> anyhow::Result<String> {
        let http = http_client();
        let post = |path: &str, body: Value| {
            http.post(format!("{}/aap{path}", self.server.url())).bearer_auth(&self.key).json(&body).send()
        };
        let session: Value = post("/sessions", json!({"agent": {"name": "desk"}})).await?.json().await?;
        let session = session["sessionId"].as_str().with_context(|| session.to_string())?.to_owned();
        let call = json!({"tool": {"id": "c1", "name": tool, "input": arguments}});
        let script = json!([[call], [{"text": "It says: "}, {"echo": "results"}]]);
        let message = json!({"role": "user", "content": json!({"script": script}).to_string()});
        let turn = post(&format!("/sessions/{session}/turns"), json!({"messages": [message]})).await?;
        Ok(turn.text().await?)
    }
}

impl Drop for ServerWithDevice {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn agent_cannot_register_keys_under_the_id_of_a_device(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let invite = server.run(&["--json", "user", "invite", "ada"])?.json()?;
    let code = invite["code"].as_str().context("no code")?;
    let http = http_client();
    let post = async |path: &str, token: &str, body: &Value| -> anyhow::Result<(u16, Value)> {
        let request = http.post(format!("{}/a2h{path}", server.url())).json(body);
        let request = if token.is_empty() { request } else { request.bearer_auth(token) };
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    };
    let new = NewSealIdentity { named: None, mode: SealMode::Stateful, now: now() };
    // A device is enrolled and has not published its keys yet.
    let mut device = SealIdentity::create(Arc::new(MemoryKeyStore::new()), &new)?;
    let enrolment = EnrolmentAssertion {
        invite: Digest::of_bytes(code.as_bytes()),
        key: device.signing_key(),
        name: "laptop".to_owned(),
    };
    let body = json!({
        "code": code, "device_name": "laptop",
        "public_key": device.signing_key(), "signature": device.sign(&enrolment.message()),
    });
    let (status, enrolled) = post("/auth/enroll", "", &body).await?;
    ensure!(status / 100 == 2, "enrolment: {status} {enrolled}");
    let token = enrolled["data"]["access_token"].as_str().context("no token")?;
    let id = DeviceId::parse(enrolled["data"]["device"]["id"].as_str().context("no id")?)?;

    let manifest = json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {}, "tools": [], "permission_scopes": [],
    });
    let agent = json!({"display_name": "Eve", "capability_manifest": manifest});
    let (status, made) = post("/agents", token, &agent).await?;
    ensure!(status == 201, "agent: {status} {made}");
    let agent = AgentId::parse(made["data"]["id"].as_str().context("no id")?)?;
    let agent_token = made["data"]["token"].as_str().context("no token")?;
    let owner = Some((RelayParty::Agent(agent.clone()), id.clone()));
    let eve = SealIdentity::create(Arc::new(MemoryKeyStore::new()), &NewSealIdentity { named: owner, ..new })?;
    let register = format!("/agents/{agent}/keys/register");
    let (status, answer) = post(&register, agent_token, &json!({"bundle": eve.bundle(), "one_time_keys": []})).await?;
    ensure!(status != 200, "the agent's keys were taken: {answer}");

    device.set_owner_device(RelayParty::Person(PersonName::parse("ada")?), id.clone(), now())?;
    let publish = format!("/users/me/devices/{id}/keys");
    let (own, answer) = post(&publish, token, &json!({"bundle": device.bundle(), "one_time_keys": []})).await?;
    ensure!(own == 200, "the device's own keys were refused: {own} {answer}");
    Ok(format!("{status} for the agent, {own} for the device"))
}

async fn low_write_scope_does_not_run_unasked_on_a_device(target: AttackedBinary) -> anyhow::Result<String> {
    let mut scene = ServerWithDevice::new(&target)?;
    let tools = scene.folder().join("tools");
    std::fs::create_dir(&tools)?;
    std::fs::write(tools.join("write_note.toml"), WRITE_NOTE)?;
    std::fs::write(tools.join("write.sh"), "#!/bin/sh\necho written\n")?;
    std::fs::set_permissions(tools.join("write.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    scene.device(&["allow", "desk", "notes:write"])?;
    // Every question is answered no, so a tool that runs anyway ran without asking.
    scene.start(&["--no-pages"])?;
    let turn = scene.call("write_note", json!({"text": "x"})).await?;
    ensure!(!turn.contains("written"), "it ran: {turn}");
    let status = scene.device(&["audit"])?["entries"][0]["status"].clone();
    ensure!(status == "denied", "{status} {turn}");
    Ok("asked, and denied".to_owned())
}

/// Opens the device pages; returns the link, and the cookie with its attributes.
async fn open_pages(scene: &mut ServerWithDevice) -> anyhow::Result<(String, String)> {
    let greeting = scene.start(&["--port", "0"])?;
    let link = greeting["pages"].as_str().context("no pages")?.to_owned();
    let (open, token) = link.split_once("?token=").context("no token")?;
    let form = http_client().post(open).header("sec-fetch-site", "same-origin");
    let form = form.header("content-type", "application/x-www-form-urlencoded").body(format!("token={token}"));
    let mut opened = form.send().await?;
    if !opened.status().is_redirection() {
        opened = http_client().get(&link).send().await?;
    }
    let cookie = opened.headers().get("set-cookie").context("no cookie")?.to_str()?.to_owned();
    Ok((link, cookie))
}

async fn cookie_of_the_device_pages_is_not_sent_to_other_ports(target: AttackedBinary) -> anyhow::Result<String> {
    let mut scene = ServerWithDevice::new(&target)?;
    let (link, cookie) = open_pages(&mut scene).await?;
    let path = cookie.split("; ").find_map(|part| part.strip_prefix("Path=")).context("no path")?.to_owned();
    // Browsers send a cookie to each port of its host, for paths below its own (RFC 6265, section 5.4).
    ensure!(path.len() > 20, "every web server on 127.0.0.1 is sent the cookie: {cookie}");
    ensure!(link.contains(&path), "the cookie is not for the pages: {cookie}");
    let (address, _) = link.split_once(&path).context("no address")?;
    let pair = cookie.split(';').next().unwrap_or_default();
    for path in ["/", "/calls", "/agents"] {
        let answer = http_client().get(format!("{address}{path}")).header("cookie", pair).send().await?;
        ensure!(answer.status() == 404, "{path}: {}", answer.status());
    }
    // The secret path of the pages is the same after a restart.
    scene.kill();
    let again = scene.start(&["--port", "0"])?;
    ensure!(again["pages"].as_str().is_some_and(|link| link.contains(&path)), "the path changed: {again}");
    Ok("Path is random, 404 outside it".to_owned())
}

async fn link_preview_does_not_use_up_a_one_time_link(target: AttackedBinary) -> anyhow::Result<String> {
    let mut scene = ServerWithDevice::new(&target)?;
    let greeting = scene.start(&["--port", "0"])?;
    let link = greeting["pages"].as_str().context("no pages")?;
    let http = http_client();
    for request in [http.head(link), http.get(link), http.get(link)] {
        let answer = request.send().await?;
        ensure!(!answer.headers().contains_key("set-cookie"), "a preview opened a session");
        ensure!(answer.status() == 200, "{}", answer.status());
    }
    let (open, token) = link.split_once("?token=").context("no token")?;
    let mut answers = Vec::new();
    for site in ["cross-site", "same-origin", "same-origin"] {
        let form = http.post(open).header("content-type", "application/x-www-form-urlencoded");
        let sent = form.header("sec-fetch-site", site).body(format!("token={token}")).send().await?;
        answers.push(sent.status().as_u16());
    }
    ensure!(answers == [403, 303, 403], "{answers:?}");
    Ok("used up by a POST from its page alone".to_owned())
}

/// A file directly in the folder that contains these bytes; `None` if there is none.
fn found_in(folder: &Path, bytes: &[u8]) -> anyhow::Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && std::fs::read(&path)?.windows(bytes.len()).any(|window| window == bytes) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

async fn stored_data_of_a_device_is_not_readable_on_disk(target: AttackedBinary) -> anyhow::Result<String> {
    const RESULT: &str = "the treasure lies under the third oak";
    const ARGUMENT: &str = "treasure-map-17.md";
    let mut scene = ServerWithDevice::new(&target)?;
    let notes = scene.server.home().join("notes");
    std::fs::create_dir(&notes)?;
    std::fs::write(notes.join(ARGUMENT), RESULT)?;
    let policy = scene.server.home().join("policy.toml");
    std::fs::write(&policy, "[[rule]]\nscope = \"filesystem:read\"\nanswer = \"allow\"\n")?;
    scene.device(&["allow", "desk", "filesystem:read"])?;
    let (notes, policy) = (notes.display().to_string(), policy.display().to_string());
    let greeting = scene.start(&["--no-pages", "--folder", &notes, "--policy", &policy])?;
    let turn = scene.call("read_file", json!({"path": ARGUMENT})).await?;
    ensure!(turn.contains(RESULT), "the call failed: {turn}");
    // A killed process leaves its write-ahead file behind, as on a stolen disk.
    scene.kill();
    for what in [RESULT, ARGUMENT, "call_id", "manifest", "\"person\":\"ada\""] {
        if let Some(file) = found_in(&scene.folder(), what.as_bytes())? {
            anyhow::bail!("{what:?} is readable in {}", file.display());
        }
    }
    let source = greeting["sealed_by"]["source"].as_str().context("it does not say what seals the data")?;
    // Without the storage key the device does not open, and the error gives the reason.
    let key = greeting["sealed_by"]["path"].as_str().context("no key file")?.to_owned();
    std::fs::rename(&key, format!("{key}.away"))?;
    let folder = scene.folder().display().to_string();
    let refused = scene.server.run_plain(&["--json", "device", "status", "--home", &folder])?;
    ensure!(refused.status == Some(1) && format!("{refused:?}").contains("storage_locked"), "{refused:?}");
    std::fs::rename(format!("{key}.away"), &key)?;
    scene.device(&["status"])?;
    Ok(format!("sealed with a key from a {source}; without it storage_locked"))
}
