//! Attacks on the audit record: changed, removed and torn records, and the erasure of a person.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::server::copy_folder;
use crate::{Attack, AttackDurationClass, AttackedBinary, CommandOutput, Server, http_client, poll};

mod explain;
mod forget;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "records_deleted_after_a_kill_are_noticed",
        before: "intact: no checkpoint after 44 restarts, and 1,795 deleted records went unnoticed",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(records_deleted_after_a_kill_are_noticed(target)),
    },
    Attack {
        name: "torn_checkpoint_line_does_not_break_verify",
        before: "audit_broken, for good",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(torn_checkpoint_line_does_not_break_verify(target)),
    },
    Attack {
        name: "checkpoint_is_written_after_a_thousand_records",
        before: "none within a minute, whatever the number of records",
        pace: AttackDurationClass::Slow,
        run: |target| Box::pin(checkpoint_is_written_after_a_thousand_records(target)),
    },
    Attack {
        name: "records_are_removed_by_prune_alone",
        before: "no way to remove old records that leaves the rest provable",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(records_are_removed_by_prune_alone(target)),
    },
    Attack {
        name: "changed_record_of_a_call_is_named_by_explain",
        before: "no command compares the records of server, ledger and device",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(explain::changed_record_of_a_call_is_named_by_explain(target)),
    },
    Attack {
        name: "changed_grant_or_approval_of_a_call_is_named_by_explain",
        before: "no command compares the records of server, ledger and device",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(explain::changed_grant_or_approval_of_a_call_is_named_by_explain(target)),
    },
    Attack {
        name: "forgotten_member_of_a_group_and_their_did_are_in_no_file",
        before: "no command erases a person",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(forget::forgotten_member_of_a_group_and_their_did_are_in_no_file(target)),
    },
    Attack {
        name: "forgotten_person_is_in_no_file_and_the_chains_hold",
        before: "no command erases a person",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(forget::forgotten_person_is_in_no_file_and_the_chains_hold(target)),
    },
];

async fn records_deleted_after_a_kill_are_noticed(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().start()?;
    call_search(&server, None, 3).await?;
    server.kill();
    server.start()?;
    server.kill();
    let intact = verify(&server)?.json()?;
    ensure!(intact["checkpoints"].as_u64() >= Some(1), "no checkpoint after a kill and a start: {intact}");
    change(&server.data(), "DELETE FROM audit_links WHERE seq >= 2")?;
    let verified = verify(&server)?;
    ensure!(verified.status == Some(1) && verified.stdout.contains("audit_broken"), "{verified:?}");
    server.start()?;
    let noticed = async || server.stderr().contains("records are missing at the end").then_some(());
    poll("the server reports the missing records when it starts", noticed).await?;
    Ok("audit_broken, and the next start reports it".to_owned())
}

async fn torn_checkpoint_line_does_not_break_verify(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().start()?;
    call_search(&server, None, 1).await?;
    server.stop()?;
    let file = server.data().join("audit-checkpoints.jsonl");
    let whole = fs::read_to_string(&file)?;
    let torn = whole.lines().last().context("no checkpoint")?;
    fs::write(&file, format!("{whole}{}", &torn[..torn.len() / 2]))?;
    server.start()?;
    call_search(&server, None, 1).await?;
    server.stop()?;
    let intact = verify(&server)?.json()?;
    ensure!(intact["intact"] == true && intact["checkpoints"].as_u64() >= Some(2), "{intact}");
    // An earlier version appended the next checkpoint to the torn line.
    let whole = fs::read_to_string(&file)?;
    let last = whole.lines().last().context("no checkpoint")?;
    fs::write(&file, format!("{}{last}\n", &torn[..torn.len() / 2]))?;
    let intact = verify(&server)?.json()?;
    ensure!(intact["intact"] == true && intact["checkpoints"] == 1, "{intact}");
    Ok(format!("intact, {} checkpoints", intact["checkpoints"]))
}

async fn checkpoint_is_written_after_a_thousand_records(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let before = checkpoints(&server);
    for _ in 0..11 {
        call_search(&server, None, 100).await?;
    }
    poll("a checkpoint of more than 1000 records", async || {
        checkpoints(&server).iter().skip(before.len()).any(|seq| *seq >= 1000).then_some(())
    })
    .await?;
    Ok("written".to_owned())
}

async fn records_are_removed_by_prune_alone(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().start()?;
    call_search(&server, None, 5).await?;
    let none = server.run(&["--json", "audit", "prune", "--before", "2020-01-01"])?.json()?;
    ensure!(none["pruned"] == 0, "{none}");
    // Pruning deletes the calls of the first turn, which ended before the given time, and none of the later turn.
    call_search(&server, None, 1).await?;
    let listed = server.run(&["--json", "audit", "list", "--after", "0"])?.json()?;
    let times: Vec<_> = listed["records"]
        .as_array()
        .context("no records")?
        .iter()
        .filter_map(|link| link["record"]["ended_at"].as_str().or(link["record"]["at"].as_str()))
        .collect();
    let last = *times.last().context("no time")?;
    let older = times.iter().take_while(|time| **time < last).count() as u64;
    let older_pruned = server.run(&["--json", "audit", "prune", "--before", last])?.json()?;
    ensure!(older_pruned["pruned"] == older && older > 0, "{older} of {times:?}: {older_pruned}");
    let proof = verify(&server)?.json()?;
    ensure!(proof["intact"] == true && proof["pruned"] == older, "{proof}");
    call_search(&server, None, 5).await?;
    server.kill();
    server.start()?;
    server.kill();
    // An ordinary checkpoint does not justify records that are missing at the beginning of the chain.
    let copy = changed_copy(&server, "DELETE FROM audit_links WHERE seq <= (SELECT min(seq) + 2 FROM audit_links)")?;
    let copied = copy.path().to_str().context("a folder with an odd name")?;
    let verified = server.run_plain(&["--json", "audit", "verify", "--data", copied])?;
    ensure!(verified.stdout.contains("audit_broken"), "{verified:?}");
    let file = copy.path().join("audit-checkpoints.jsonl");
    fs::write(&file, fs::read_to_string(&file)?.replace("\"signature\"", "\"pruned\":true,\"signature\""))?;
    let verified = server.run_plain(&["--json", "audit", "verify", "--data", copied])?;
    ensure!(verified.stdout.contains("audit_broken"), "{verified:?}");

    // The prune command is recorded before it runs; its own record is older than the given time too, so it is deleted.
    let before = intact_records(&server)? + 1;
    let pruned = server.run(&["--json", "audit", "prune", "--before", "2100-01-01"])?.json()?;
    ensure!(pruned["pruned"] == before, "{pruned}");
    let proof = verify(&server)?.json()?;
    ensure!(proof["intact"] == true && proof["pruned"] == before + older, "{proof}");
    let listed = server.run(&["--json", "audit", "list"])?;
    ensure!(listed.stdout.contains("audit_pruned"), "the pruning is not recorded: {listed:?}");
    server.start()?;
    call_search(&server, None, 1).await?;
    server.stop()?;
    intact_records(&server)?;
    change(&server.data(), "DELETE FROM audit_links WHERE seq = (SELECT min(seq) FROM audit_links)")?;
    let verified = verify(&server)?;
    ensure!(verified.stdout.contains("audit_broken"), "{verified:?}");
    Ok("pruned and intact; removed otherwise: audit_broken".to_owned())
}

fn intact_records(server: &Server) -> anyhow::Result<u64> {
    let proof = verify(server)?.json()?;
    ensure!(proof["intact"] == true, "{proof}");
    proof["records"].as_u64().context("no number of records")
}

/// The number of the last audit record covered by each checkpoint.
fn checkpoints(server: &Server) -> Vec<u64> {
    let text = fs::read_to_string(server.data().join("audit-checkpoints.jsonl")).unwrap_or_default();
    let seq = |line: &str| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64();
    text.lines().filter_map(seq).collect()
}

fn verify(server: &Server) -> anyhow::Result<CommandOutput> {
    server.run(&["--json", "audit", "verify"])
}

/// Changes the database of a data directory by SQL, without the server.
fn change(data: &Path, statement: &str) -> anyhow::Result<()> {
    let changed = Connection::open(data.join("nuncio.db"))?.execute(statement, [])?;
    ensure!(changed > 0, "nothing was changed by: {statement}");
    Ok(())
}

/// Runs a turn over AAP that calls `search` this many times.
async fn call_search(server: &Server, key: Option<&str>, times: usize) -> anyhow::Result<()> {
    let calls: Vec<_> =
        (0..times).map(|n| json!({"tool": {"id": format!("c{n}"), "name": "search", "input": {}}})).collect();
    play(server, key, "desk", &["search"], json!([calls, [{"text": "done"}]])).await.map(drop)
}

/// Runs a script of the brain `script` in a new session, and returns the turn.
async fn play(server: &Server, key: Option<&str>, agent: &str, tools: &[&str], script: Value) -> anyhow::Result<Value> {
    let tools: Vec<_> = tools.iter().map(|name| json!({"name": name, "trust": true})).collect();
    let post = async |path: String, body: Value| {
        let mut request = http_client().post(format!("{}/aap{path}", server.url())).json(&body);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        ensure!(status.is_success(), "{status}: {body}");
        Ok(body)
    };
    let session = post("/sessions".to_owned(), json!({"agent": {"name": agent, "tools": tools}})).await?;
    let id = session["sessionId"].as_str().context("no session")?;
    let message = json!({"role": "user", "content": json!({"script": script}).to_string()});
    post(format!("/sessions/{id}/turns"), json!({"messages": [message]})).await
}

/// A copy of a stopped server's data directory, changed by an SQL statement.
fn changed_copy(server: &Server, statement: &str) -> anyhow::Result<tempfile::TempDir> {
    let copy = tempfile::tempdir()?;
    copy_folder(&server.data(), copy.path())?;
    change(copy.path(), statement)?;
    Ok(copy)
}
