//! Attacks on computing time, disk space and stored data.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures_util::future::join_all;
use nuncio_core::digest::Digest;
use nuncio_core::person::EnrolmentAssertion;
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_identity::SigningKey;
use serde_json::{Value, json};

use crate::server::scripted_agent;
use crate::{Attack, AttackDurationClass, AttackedBinary, Server, http_client};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "manifest_diffs_do_not_delay_health_checks",
        before: "/healthz waited 52 s",
        pace: AttackDurationClass::Slow,
        run: |target| Box::pin(manifest_diffs_do_not_delay_health_checks(target)),
    },
    Attack {
        name: "stored_bytes_of_one_caller_are_limited",
        before: "any number of bytes is stored",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(stored_bytes_of_one_caller_are_limited(target)),
    },
    Attack {
        name: "damaged_database_page_stops_the_start",
        before: "it starts and serves",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(damaged_database_page_stops_the_start(target)),
    },
    Attack {
        name: "damaged_write_ahead_file_stops_the_start",
        before: "it starts, and acknowledged sessions are gone",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(damaged_write_ahead_file_stops_the_start(target)),
    },
    Attack {
        name: "start_on_a_full_disk_waits_and_says_so",
        before: "it ends with an error",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(start_on_a_full_disk_waits_and_says_so(target)),
    },
    Attack {
        name: "full_disk_fails_the_readiness_probe",
        before: "/readyz 200 while every commit fails",
        pace: AttackDurationClass::Slow,
        run: |target| Box::pin(full_disk_fails_the_readiness_probe(target)),
    },
    Attack {
        name: "executions_fail_only_after_three_starts",
        before: "92 of 271 failed with fewer than three starts",
        pace: AttackDurationClass::Slow,
        run: |target| Box::pin(executions_fail_only_after_three_starts(target)),
    },
];

/// A person's device with an access token.
struct EnrolledPersonDevice {
    base: String,
    token: String,
}

impl EnrolledPersonDevice {
    async fn enrol(server: &Server, person: &str) -> anyhow::Result<Self> {
        let invite = server.run(&["--json", "user", "invite", person])?.json()?;
        let code = invite["code"].as_str().context("no invite")?;
        let key = SigningKey::from_seed(&[9; 32]);
        let public = key.public().to_jwk()["x"].as_str().and_then(|x| PublicKey::parse(x).ok());
        let public = public.context("no public key")?;
        let enrolment =
            EnrolmentAssertion { invite: Digest::of_bytes(code.as_bytes()), key: public, name: "laptop".to_owned() };
        let body = json!({
            "code": code, "device_name": enrolment.name, "public_key": public,
            "signature": Signature::new(key.sign(&enrolment.message())),
        });
        let base = format!("{}/a2h", server.url());
        let answer: Value = http_client().post(format!("{base}/auth/enroll")).json(&body).send().await?.json().await?;
        let token = answer["data"]["access_token"].as_str().with_context(|| format!("not enrolled: {answer}"))?;
        Ok(Self { token: token.to_owned(), base })
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<reqwest::Response> {
        let request = http_client().post(format!("{}{path}", self.base)).timeout(Duration::from_secs(600));
        Ok(request.bearer_auth(&self.token).json(body).send().await?)
    }
}

/// A manifest whose schemas are slow to compare: unions that multiply, in every tool.
fn slow_manifest(last: usize) -> Value {
    let unions: Vec<Value> = (0..40)
        .map(|index| {
            json!({"anyOf": [
                {"type": "integer", "multipleOf": 2 * index + 3},
                {"type": "number", "minimum": index + last},
                {"type": "string", "minLength": index},
            ]})
        })
        .collect();
    let tools: Vec<Value> = (0..20)
        .map(|number| {
            json!({
                "name": format!("tool_{number}"), "permission_scope": "filesystem:read", "required": false,
                "description_i18n_key": format!("agent.cap.tool_{number}.description"), "timeout_ms": 5000,
                "input_schema": {"type": "object", "properties": {"a": {"allOf": unions}}},
            })
        })
        .collect();
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "tools": tools,
        "permission_scopes": [{
            "id": "filesystem:read", "sensitivity": "medium",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "description_i18n_key": "agent.scope.filesystem_read.description",
        }],
        "capability_flags": {"supports_streaming": true},
    })
}

async fn manifest_diffs_do_not_delay_health_checks(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let device = EnrolledPersonDevice::enrol(&server, "mallory").await?;
    let agent = json!({"display_name": "Slow", "public": true, "capability_manifest": slow_manifest(0)});
    let made: Value = device.post("/agents", &agent).await?.json().await?;
    let id = made["data"]["id"].as_str().or(made["data"]["agent"]["id"].as_str());
    let path = format!("/agents/{}/manifest:diff", id.with_context(|| format!("no agent: {made}"))?);
    let new = json!({"capability_manifest": slow_manifest(1)});

    let health = format!("{}/healthz", server.url());
    let client = http_client();
    let diffs = join_all((0..100).map(|_| device.post(&path, &new)));
    let probes = async {
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let began = Instant::now();
            ensure!(client.get(&health).send().await?.status() == 200, "/healthz is not 200");
            longest = longest.max(began.elapsed());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(longest)
    };
    let (answers, longest) = tokio::join!(diffs, probes);
    let longest = longest?;
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for answer in answers {
        let answer = answer?;
        let status = answer.status().as_u16();
        *statuses.entry(status).or_default() += 1;
        ensure!(status == 200 || status == 503, "manifest:diff answered {status}");
        ensure!(status == 200 || answer.headers().contains_key("retry-after"), "503 without Retry-After");
    }
    ensure!(longest < Duration::from_secs(1), "/healthz waited {longest:?}; diffs: {statuses:?}");
    Ok(format!("/healthz at most {} ms; 100 diffs: {statuses:?}", longest.as_millis()))
}

async fn post(server: &Server, key: &str, path: &str, body: &Value) -> anyhow::Result<(u16, Value)> {
    let request = http_client().post(format!("{}{path}", server.url())).bearer_auth(key).json(body);
    let answer = request.send().await?;
    Ok((answer.status().as_u16(), answer.json().await?))
}

async fn stored_bytes_of_one_caller_are_limited(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().settings("[limits]\nbytes_per_caller = 200000\n").start()?;
    let key = server.create_key(&[])?;
    let session = json!({"agent": {"name": "desk"}});
    let turn = json!({"messages": [{"role": "user", "content": "x".repeat(60_000)}]});
    let (_, made) = post(&server, &key, "/aap/sessions", &session).await?;
    let id = made["sessionId"].as_str().with_context(|| format!("no session: {made}"))?.to_owned();
    let path = format!("/aap/sessions/{id}/turns");
    let mut turns = 0;
    let refused = loop {
        let (status, answer) = post(&server, &key, &path, &turn).await?;
        if status != 200 {
            break (status, answer["code"].clone());
        }
        turns += 1;
        ensure!(turns < 10, "{turns} turns of 60 kB were stored");
    };
    ensure!(refused == (507, json!("quota_exceeded")), "AAP answered {refused:?}");
    let invoke = json!({"caller": {"id": "mallory", "type": "service"}, "skill_id": "desk/book", "inputs": {}});
    let (status, answer) = post(&server, &key, "/skills/desk/book/invoke", &invoke).await?;
    let (code, reason) = (&answer["error"]["code"], &answer["error"]["details"]["reason"]);
    ensure!(status == 503 && code == "ENDPOINT_UNREACHABLE" && reason == "quota_exceeded", "{status} {answer}");

    server.stop()?;
    server.start()?;
    let (status, _) = post(&server, &key, "/aap/sessions", &session).await?;
    ensure!(status == 507, "after a restart a session was made: {status}");
    let delete = http_client().delete(format!("{}/aap/sessions/{id}", server.url())).bearer_auth(&key);
    ensure!(delete.send().await?.status() == 204, "the session cannot be deleted");
    let (status, _) = post(&server, &key, "/aap/sessions", &session).await?;
    ensure!(status == 201, "after deleting: {status}");
    Ok(format!("507 after {turns} turns of 60 kB, in Skill Sharing 503, also after a restart"))
}

/// Creates sessions, each with one commit.
async fn fill(server: &Server, sessions: usize) -> anyhow::Result<()> {
    for _ in 0..sessions {
        let body = json!({"agent": {"name": "desk"}});
        let answer = http_client().post(format!("{}/aap/sessions", server.url())).json(&body).send().await?;
        ensure!(answer.status() == 201, "no session: {}", answer.status());
    }
    Ok(())
}

/// Checks that the server refuses to start on damaged data, and that `nuncio store check` reports the damage.
fn refuses_damage(server: &mut Server) -> anyhow::Result<String> {
    let Err(refused) = server.start() else { bail!("it starts and serves") };
    ensure!(format!("{refused:#}").contains("store_damaged"), "it names something else: {refused:#}");
    let check = server.run(&["--json", "store", "check"])?;
    ensure!(check.status == Some(1) && check.json()?["intact"] == false, "store check: {check:?}");
    Ok("it does not start: store_damaged; store check agrees".to_owned())
}

async fn damaged_database_page_stops_the_start(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().start()?;
    fill(&server, 200).await?;
    let check = server.run(&["--json", "store", "check"])?;
    ensure!(check.status == Some(0) && check.json()?["intact"] == true, "while it runs: {check:?}");
    server.stop()?;
    let database = server.data().join("nuncio.db");
    let mut bytes = fs::read(&database)?;
    let middle = bytes.len() / 4096 / 2 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    fs::write(&database, bytes)?;
    refuses_damage(&mut server)
}

async fn damaged_write_ahead_file_stops_the_start(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().start()?;
    fill(&server, 20).await?;
    server.kill();
    let log = server.data().join("nuncio.db-wal");
    let mut bytes = fs::read(&log)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&log, bytes)?;
    refuses_damage(&mut server)
}

async fn start_on_a_full_disk_waits_and_says_so(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().prepare()?;
    // The server's first write fails because of the full device; it removes the file and tries again a second later.
    symlink("/dev/full", server.data().join("space-check"))?;
    server.start()?;
    fill(&server, 1).await?;
    let log = server.stderr();
    ensure!(log.contains("is full"), "it does not say why it waited: {log}");
    Ok("it waits, says that the disk is full, and starts".to_owned())
}

/// A small file system, mounted until it is dropped.
struct MountedSmallFilesystem<'a>(&'a Path);

impl<'a> MountedSmallFilesystem<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(at).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(at))
    }

    /// Fills the small disk until the returned file is removed.
    fn fill(&self) -> anyhow::Result<std::path::PathBuf> {
        let filler = self.0.join("filler");
        let mut file = fs::File::create(&filler)?;
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        Ok(filler)
    }
}

impl Drop for MountedSmallFilesystem<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

async fn ready(server: &Server) -> anyhow::Result<u16> {
    Ok(http_client().get(format!("{}/readyz", server.url())).send().await?.status().as_u16())
}

async fn full_disk_fails_the_readiness_probe(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().prepare()?;
    let data = server.data();
    let Some(disk) = MountedSmallFilesystem::mount(&data) else {
        return Ok("skipped: mounting a small disk needs root".to_owned());
    };
    server.start()?;
    fill(&server, 1).await?;
    ensure!(ready(&server).await? == 200, "not ready on an empty disk");
    let filler = disk.fill()?;
    let body = json!({"agent": {"name": "desk"}, "messages": [{"role": "user", "content": "x".repeat(500_000)}]});
    let mut stored = 0;
    loop {
        let answer = http_client().post(format!("{}/aap/sessions", server.url())).json(&body).send().await?;
        if answer.status() == 503 {
            break;
        }
        stored += 1;
        ensure!(stored < 100, "{stored} sessions were stored on a full disk");
    }
    ensure!(ready(&server).await? == 503, "/readyz is 200 while commits fail");
    fs::remove_file(filler)?;
    let began = Instant::now();
    while ready(&server).await? != 200 {
        ensure!(began.elapsed() < Duration::from_secs(60), "it is not ready again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    fill(&server, 1).await?;
    server.stop()?;
    Ok("503, /readyz 503; ready again with space".to_owned())
}

/// A skill whose program appends a line to a file at each start.
const COUNTING_TOOL: &str = r#"
[[tool]]
name = "count"
description = "Counts its starts."
input = { type = "object" }
run = { command = ["sh", "-c", "echo $NUNCIO_EXECUTION_ID >> \"${NUNCIO_STATE:-.}/starts\"; sleep 0.2; echo done"] }
timeout_ms = 600000
skill = { type = "task" }
"#;

async fn executions_fail_only_after_three_starts(target: AttackedBinary) -> anyhow::Result<String> {
    const KILLS: usize = 30;
    let mut server = target.server().agent(scripted_agent(COUNTING_TOOL)).start()?;
    let mut accepted: Vec<String> = Vec::new();
    for kill in 0..KILLS {
        let invoke = json!({"caller": {"id": "mallory", "type": "service"}, "skill_id": "desk/count", "inputs": {}});
        let url = format!("{}/skills/desk/count/invoke", server.url());
        let sent = join_all((0..10).map(|_| http_client().post(&url).json(&invoke).send())).await;
        for answer in sent.into_iter().flatten() {
            let answer: Value = answer.json().await?;
            accepted.extend(answer["execution_id"].as_str().map(str::to_owned));
        }
        tokio::time::sleep(Duration::from_millis(u64::try_from(kill * 7 % 100)?)).await;
        server.kill();
        server.start()?;
    }
    let (mut failed, mut too_early) = (0, 0);
    for id in &accepted {
        if outcome(&server, id).await? == "failed" {
            failed += 1;
            let starts =
                ["agent", "data/programs/desk"].iter().map(|folder| starts(&server, folder, id)).sum::<usize>();
            too_early += usize::from(starts < 3);
        }
    }
    ensure!(too_early == 0, "{too_early} of {} failed with fewer than three starts", accepted.len());
    Ok(format!("{KILLS} kills: {failed} of {} failed, each after three starts", accepted.len()))
}

/// Waits for the end of an execution and returns its outcome.
async fn outcome(server: &Server, id: &str) -> anyhow::Result<String> {
    let began = Instant::now();
    loop {
        let url = format!("{}/executions/{id}", server.url());
        let state: Value = http_client().get(url).send().await?.json().await?;
        match state["status"].as_str() {
            Some(over @ ("completed" | "failed" | "timeout")) => return Ok(over.to_owned()),
            _ => ensure!(began.elapsed() < Duration::from_secs(60), "it does not end: {state}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn starts(server: &Server, folder: &str, id: &str) -> usize {
    let home = server.data().parent().map(Path::to_owned).unwrap_or_default();
    let lines = fs::read_to_string(home.join(folder).join("starts")).unwrap_or_default();
    lines.lines().filter(|line| *line == id).count()
}
