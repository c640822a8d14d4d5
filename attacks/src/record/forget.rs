//! A person is forgotten: their name and words are searched for in every byte of the data directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::explain::{AGENT, Device, read_note};
use super::{changed_copy, intact_records, play, verify};
use crate::{Server, Target, http_client};

const PERSON: &str = "zebulon-quux";
const WORDS: &str = "purple elephants at midnight";

pub(super) async fn forgotten_person_is_in_no_file_and_the_chains_hold(target: Target) -> anyhow::Result<String> {
    let mut server = target.server().agent(AGENT).start()?;
    let other = server.create_key(&[])?;
    let key = server.create_key(&["--name", &format!("phone of {PERSON}"), "--person", PERSON])?;
    let device = Device::start(&server, PERSON).await?;
    play(&server, Some(&key), "desk", &[], read_note("c_note")).await?;
    play(&server, Some(&key), "desk", &[], json!([[{"text": WORDS}]])).await?;
    play(&server, Some(&other), "desk", &[], json!([[{"text": "the words of others"}]])).await?;
    drop(device);
    ensure!(!files_with(&server.data(), PERSON)?.is_empty(), "the scan finds nothing before either");
    ensure!(!files_with(&server.data(), WORDS)?.is_empty(), "the scan finds nothing before either");

    let forgotten = server.run(&["--json", "user", "forget", PERSON])?;
    ensure!(forgotten.status == Some(0), "{forgotten:?}");
    for text in [PERSON, WORDS] {
        let files = files_with(&server.data(), text)?;
        ensure!(files.is_empty(), "{text:?} is still in {files:?}");
    }
    ensure!(!files_with(&server.data(), "the words of others")?.is_empty(), "somebody else's words are gone too");
    let answer = http_client().get(format!("{}/aap/sessions", server.url())).bearer_auth(&key).send().await?;
    ensure!(answer.status() == 401, "the person's key opens {}", answer.status());
    let again = server.run(&["--json", "user", "forget", PERSON])?;
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

fn explain(server: &Server) -> anyhow::Result<Value> {
    let ran = server.run(&["--json", "audit", "explain", "c_note"])?;
    ensure!(ran.status == Some(0), "{ran:?}");
    ran.json()
}

/// The files below a folder that hold a text.
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
