//! Erasure of a person: afterwards their name and messages are searched for in every byte of the data directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use nuncio_core::bundle::SealMode;
use nuncio_core::digest::Digest;
use nuncio_core::person::EnrolmentAssertion;
use nuncio_identity::seal::{MemoryKeyStore, NewSealIdentity, SealIdentity};
use serde_json::{Value, json};

use super::explain::{DEVICE_TOOL, DeviceProcess, read_note};
use super::{changed_copy, intact_records, play, verify};
use crate::did_peer::now;
use crate::server::scripted_agent;
use crate::{AttackedBinary, HostedTestDid, Server, http_client, poll};

const PERSON: &str = "zebulon-quux";
const WORDS: &str = "purple elephants at midnight";

pub(super) async fn forgotten_person_is_in_no_file_and_the_chains_hold(
    target: AttackedBinary,
) -> anyhow::Result<String> {
    let mut server = target.server().agent(scripted_agent(DEVICE_TOOL)).start()?;
    let other = server.create_key(&[])?;
    let key = server.create_key(&["--name", &format!("phone of {PERSON}"), "--person", PERSON])?;
    let device = DeviceProcess::start(&server, PERSON).await?;
    play(&server, Some(&key), "desk", &[], read_note("c_note")).await?;
    play(&server, Some(&key), "desk", &[], json!([[{"text": WORDS}]])).await?;
    play(&server, Some(&other), "desk", &[], json!([[{"text": "the words of others"}]])).await?;
    drop(device);
    ensure!(!files_with(&server.data(), PERSON)?.is_empty(), "the scan finds nothing before either");
    ensure!(!files_with(&server.data(), WORDS)?.is_empty(), "the scan finds nothing before either");

    let forgotten = server.run(&["--json", "user", "forget", PERSON, "--yes"])?;
    ensure!(forgotten.status == Some(0), "{forgotten:?}");
    for text in [PERSON, WORDS] {
        let files = files_with(&server.data(), text)?;
        ensure!(files.is_empty(), "{text:?} is still in {files:?}");
    }
    ensure!(!files_with(&server.data(), "the words of others")?.is_empty(), "somebody else's words are gone too");
    let answer = http_client().get(format!("{}/aap/sessions", server.url())).bearer_auth(&key).send().await?;
    ensure!(answer.status() == 401, "the person's key opens {}", answer.status());
    let again = server.run(&["--json", "user", "forget", PERSON, "--yes"])?;
    ensure!(again.stdout.contains("person_not_found"), "{again:?}");

    server.stop()?;
    intact_records(&server)?;
    let explained = explain(&server)?;
    let states = explained["records"][0]["evidence"].as_array().context("no evidence")?;
    let state = |kept_by: &str| states.iter().find(|one| one["kept_by"] == kept_by).map(|one| one["state"].clone());
    ensure!(state("audit") == Some(json!("holds")) && state("ledger") == Some(json!("holds")), "{explained}");
    for statement in [
        "UPDATE audit_links SET record = replace(record, 'forgotten-', 'forgotten.') WHERE redaction IS NOT NULL",
        "UPDATE audit_links SET record = '{}', redaction = '00' WHERE seq = 2",
        "UPDATE erased_ledger SET entry = replace(entry, 'filesystem:read', 'filesystem:all')",
    ] {
        let copy = changed_copy(&server, statement)?;
        let data = copy.path().to_str().context("a folder with an odd name")?;
        let verified = server.run_plain(&["--json", "audit", "verify", "--data", data])?;
        ensure!(verified.stdout.contains("audit_broken"), "{statement}: {verified:?}");
    }
    ensure!(verify(&server)?.status == Some(0), "the original is broken");
    Ok("no file holds the name or the words; the chains hold".to_owned())
}

/// Tools for a caller with a DID: one answers at once, one creates a task for people.
const TOOLS: &str = r#"
[[scope]]
id = "rooms:read"
label = "See rooms"
sensitivity = "low"

[[tool]]
name = "search"
description = "Finds rooms."
scope = "rooms:read"
input = { type = "object" }
run = { answer = "room 1" }

[[tool]]
name = "pickup"
description = "Has somebody fetch a parcel."
input = { type = "object" }
run = { human = { instructions = "Fetch the parcel." } }
skill = { type = "task", access = "restricted", auth = "api_key" }
"#;

/// Enrols a device with its own key; returns its access token.
async fn enrol(server: &Server, person: &str) -> anyhow::Result<String> {
    let invite = server.run(&["--json", "user", "invite", person])?.json()?;
    let code = invite["code"].as_str().context("no code")?;
    let new = NewSealIdentity { named: None, mode: SealMode::Stateful, now: now() };
    let device = SealIdentity::create(Arc::new(MemoryKeyStore::new()), &new)?;
    let (invite, key) = (Digest::of_bytes(code.as_bytes()), device.signing_key());
    let signed = EnrolmentAssertion { invite, key, name: format!("laptop of {person}") };
    let body = json!({
        "code": code, "device_name": signed.name, "public_key": key, "signature": device.sign(&signed.message()),
    });
    let enrolled = post(server, "/a2h/auth/enroll", "", &body).await?;
    Ok(enrolled["data"]["access_token"].as_str().with_context(|| enrolled.to_string())?.to_owned())
}

async fn post(server: &Server, path: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
    let request = http_client().post(format!("{}{path}", server.url())).json(body);
    let request = if token.is_empty() { request } else { request.bearer_auth(token) };
    let answer = request.send().await?;
    let status = answer.status();
    let answer: Value = answer.json().await?;
    ensure!(status.is_success(), "{path}: {status} {answer}");
    Ok(answer)
}

pub(super) async fn forgotten_member_of_a_group_and_their_did_are_in_no_file(
    target: AttackedBinary,
) -> anyhow::Result<String> {
    let mut server = target.server().agent(scripted_agent(TOOLS)).flag("--dev").start()?;
    let key = server.create_key(&[])?;
    let (theirs, bobs) = (enrol(&server, PERSON).await?, enrol(&server, "bob").await?);
    let run = |arguments: &[&str]| -> anyhow::Result<Value> {
        let done = server.run(&[&["--json"], arguments].concat())?;
        ensure!(done.status == Some(0), "{arguments:?}: {done:?}");
        done.json()
    };

    // The person has an agent, and is in groups created by them and by others, with messages of both.
    let member = |id: &str| json!({"type": "human", "id": id});
    for (starter, other) in [(&theirs, "bob"), (&bobs, PERSON)] {
        let group =
            post(&server, "/a2h/conversations", starter, &json!({"type": "group", "with": [member(other)]})).await?;
        let path = format!("/a2h/conversations/{}/messages", group["data"]["id"].as_str().context("no group")?);
        for (token, text) in [(&theirs, WORDS), (&bobs, "the words of others")] {
            let message = json!({"client_message_id": "m1", "content_type": "text", "envelope": {"text": text}});
            post(&server, &path, token, &message).await?;
        }
    }
    let manifest = json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {}, "tools": [], "permission_scopes": [],
    });
    post(&server, "/a2h/agents", &theirs, &json!({"display_name": "Helper", "capability_manifest": manifest})).await?;

    // A DID that is linked to the person has a grant, calls a tool, and has a conversation.
    let peer = HostedTestDid::start_as(PERSON)?;
    run(&["grant", "create", peer.did(), "desk", "rooms:read"])?;
    run(&["did", "link", peer.did(), "--person", PERSON])?;
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "search", "params": {}}).to_string();
    let called = peer.send("POST", &format!("{}/agents/desk/rpc", server.url()), &rpc).await?.text().await?;
    ensure!(called.contains("room 1"), "{called}");
    let sessions = format!("{}/aap/sessions", server.url());
    let made: Value = peer.send("POST", &sessions, r#"{"agent":{"name":"desk"}}"#).await?.json().await?;
    ensure!(made["sessionId"].is_string(), "{made}");

    // The person finishes a task that another caller created.
    let request = json!({"skill_id": "desk/pickup", "inputs": {}, "caller": {"id": "app", "type": "service"}});
    let skill = post(&server, "/skills/desk/pickup/invoke", &key, &request).await?;
    let task = poll("a task", async || {
        let listed = server.run(&["--json", "task", "list"]).ok()?.json().ok()?;
        Some(listed["tasks"].get(0)?["id"].as_str()?.to_owned())
    })
    .await
    .with_context(|| skill.to_string())?;
    run(&["task", "take", &task, "--as", PERSON])?;
    let invited = run(&["user", "invite", PERSON])?;
    ensure!(invited["code"].is_string(), "{invited}");

    run(&["user", "forget", PERSON, "--yes"])?;
    for text in [PERSON, peer.did(), WORDS] {
        let files = files_with(&server.data(), text)?;
        ensure!(files.is_empty(), "{text:?} is still in {files:?}: {}", rows_with(&server.data(), text)?);
    }
    ensure!(!files_with(&server.data(), "the words of others")?.is_empty(), "somebody else's words are gone too");
    let groups: Value = http_client()
        .get(format!("{}/a2h/conversations", server.url()))
        .bearer_auth(&bobs)
        .send()
        .await?
        .json()
        .await?;
    ensure!(groups["data"].as_array().is_some_and(|groups| groups.len() == 2), "bob lost a group: {groups}");
    server.stop()?;
    for text in [PERSON, peer.did(), WORDS] {
        let files = files_with(&server.data(), text)?;
        ensure!(files.is_empty(), "after the stop {text:?} is in {files:?}");
    }
    intact_records(&server)?;
    let checked = server.run(&["store", "check"])?;
    ensure!(checked.status == Some(0), "{checked:?}");
    server.start()?;
    Ok("no file holds the name, the DID or the words; the chains hold".to_owned())
}

/// Database rows that contain `text`, for the failure message.
fn rows_with(data: &Path, text: &str) -> anyhow::Result<String> {
    let database = rusqlite::Connection::open(data.join("nuncio.db"))?;
    let mut tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    let tables = tables.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::new();
    for table in tables {
        let mut columns = database.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = columns.query_map([&table], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
        for column in columns {
            let sql = format!("SELECT CAST({column} AS TEXT) FROM {table} WHERE instr({column}, ?1) > 0");
            let mut rows = database.prepare(&sql)?;
            let rows = rows.query_map([text], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
            found.extend(rows.iter().map(|row| format!("{table}.{column}: {row}")));
        }
    }
    Ok(found.join("\n"))
}

fn explain(server: &Server) -> anyhow::Result<Value> {
    let ran = server.run(&["--json", "audit", "explain", "c_note"])?;
    ensure!(ran.status == Some(0), "{ran:?}");
    ran.json()
}

fn files_with(folder: &Path, text: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let kind = entry?;
        if kind.is_dir() {
            found.extend(files_with(&path, text)?);
        } else if kind.is_file() && fs::read(&path)?.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path);
        }
    }
    Ok(found)
}
