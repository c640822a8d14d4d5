//! People and agents over A2H with the real program: invites from the command line, and kills between commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nuncio_core::invite_link::InviteLink;
use nuncio_core::time::Timestamp;
use nuncio_server::SystemClock;
use nuncio_server::fetch::install_crypto;
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{AnonymousA2hClient, TestDevice};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::home::TestAgentFolder;
use crate::process::{Server, until};

fn manifest(number: usize, required: bool) -> Value {
    let names: Vec<String> = if required { vec![format!("arg_{number}")] } else { Vec::new() };
    let properties: Value =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect::<serde_json::Map<_, _>>().into();
    json!({
        "schema_version": "1.0",
        "agent_version": format!("1.0.{number}"),
        "tools": [{
            "name": "read_file", "description_i18n_key": "agent.cap.read_file.description",
            "input_schema": {
                "type": "object", "properties": properties, "required": names, "additionalProperties": false,
            },
            "permission_scope": "filesystem:read",
        }],
        "permission_scopes": [{
            "id": "filesystem:read", "sensitivity": "medium",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "description_i18n_key": "agent.scope.filesystem_read.description",
        }],
        "capability_flags": {},
    })
}

fn now() -> Timestamp {
    nuncio_engine::ports::Clock::now(&SystemClock)
}

fn a2h(server: &Server) -> AnonymousA2hClient {
    install_crypto();
    AnonymousA2hClient::at(server.url())
}

async fn enrol(home: &TestAgentFolder, server: &Server, name: &str) -> TestDevice {
    let invite = home.nuncio(&["--json", "user", "invite", name]).run().json();
    TestDevice::enrol(&a2h(server), invite["code"].as_str().unwrap()).await
}

/// Reconnects a device to its server, which has another port after the restart.
async fn again(device: &mut TestDevice, server: &Server) {
    device.server = a2h(server);
    let keys = device.server.send(Method::GET, "/auth/keys", None, None).await;
    device.audience = keys.data()["audience"].as_str().unwrap().to_owned();
    device.refresh(now()).await;
}

#[tokio::test]
async fn user_commands_invite_people_and_list_and_revoke_devices() {
    let home = TestAgentFolder::script();
    // The invite is created while no server runs, and works after the start.
    let early = home.nuncio(&["user", "invite", "ada"]).run();
    assert_eq!(early.status, Some(0), "{early:?}");
    let code = early.stdout.trim().to_owned();
    assert!(code.starts_with("inv_") && !code.contains(char::is_whitespace), "the code alone: {code:?}");
    let server = home.start();
    let invite = home.nuncio(&["--json", "user", "invite", "ada"]).run().json();
    assert_eq!(invite["server"], json!(server.url()));
    let fingerprint = invite["fingerprint"].as_str().unwrap();
    assert!(early.stderr.contains(&fingerprint[..8]), "the key is the same: {early:?}");
    let link = InviteLink::parse(invite["link"].as_str().unwrap()).unwrap();
    assert_eq!(
        (link.code.as_str(), link.fingerprint.to_string().as_str()),
        (invite["code"].as_str().unwrap(), fingerprint)
    );
    // The link alone is on standard output, its QR code on standard error.
    let output = home.nuncio(&["user", "invite", "bob"]).run();
    assert!(output.stdout.starts_with(&format!("{}/join#inv_", server.url())), "{output:?}");
    assert_eq!(output.stdout.lines().count(), 1, "{output:?}");
    assert!(output.stderr.contains('█') && !output.stderr.contains("inv_"), "{output:?}");

    let ada = TestDevice::enrol(&a2h(&server), &code).await;
    let listed = home.nuncio(&["user", "list"]).run();
    assert!(listed.stdout.contains("ada") && listed.stdout.contains("bob"), "{listed:?}");
    let devices = home.nuncio(&["--json", "user", "devices", "ada"]).run().json();
    assert_eq!(devices["devices"][0]["id"], json!(ada.id));
    assert_eq!(home.nuncio(&["--json", "user", "devices", "zoe"]).run().failure().0, "person_not_found");
    for wrong in
        [&["a b"][..], &["ada", "--expires", "soon"], &["ada", "--expires", "0d"], &["ada", "--expires", "31d"]]
    {
        assert_eq!(home.nuncio(&[&["user", "invite"], wrong].concat()).run().status, Some(2), "{wrong:?}");
    }
    assert_eq!(home.nuncio(&["user", "invite", "eve", "--expires", "12h"]).run().status, Some(0));
    assert_eq!(home.nuncio(&["user", "revoke", "ada"]).run().status, Some(2), "which device");
    let revoked = home.nuncio(&["user", "revoke", "ada", &ada.id]).run();
    assert!(revoked.stdout.contains(&ada.id), "{revoked:?}");
    assert_eq!(ada.get("/users/me").await.status, 401);
    assert_eq!(home.nuncio(&["--json", "user", "revoke", "ada", &ada.id]).run().failure().0, "device_not_found");
    assert_eq!(home.nuncio(&["--json", "user", "revoke", "ada", "--all"]).run().json()["revoked"], json!([]));
    server.stop();
}

#[tokio::test]
async fn user_is_forgotten_only_after_confirmation() {
    let home = TestAgentFolder::script();
    let _server = home.start();
    home.json_command(&["user", "invite", "ada"]).json();
    let before = home.json_command(&["user", "list"]).json();
    let refused = home.nuncio(&["user", "forget", "ada"]).run();
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("cannot be undone") && refused.stderr.contains("--yes"), "{refused:?}");
    if let Some(command) = home.nuncio(&["user", "forget", "ada"]).in_terminal() {
        let mut typed = command.start_interactive();
        until("it asks", async || typed.stdout().contains("Continue? [y/N]").then_some(())).await;
        typed.line("n");
        assert_eq!(typed.wait_for_end().status, Some(1));
    }
    assert_eq!(home.json_command(&["user", "list"]).json(), before);
    home.json_command(&["user", "forget", "ada", "--yes"]).json();
    assert_eq!(home.json_command(&["user", "list"]).json()["users"], json!([]));
}

/// A link of a server without a public https address cannot be used elsewhere, and says so.
#[tokio::test]
async fn invite_of_a_server_on_all_addresses_warns_that_it_works_on_this_machine_only() {
    let home = TestAgentFolder::script();
    let served = home.nuncio(&["serve", "--listen", "0.0.0.0:0", "--open"]).start_interactive();
    until("its greeting", async || served.stdout().contains("nuncio chat").then_some(())).await;
    let stdout = served.stdout();
    let page = stdout.lines().find_map(|line| line.trim().strip_prefix("page")).unwrap().trim().to_owned();
    let invited = home.nuncio(&["user", "invite", "ada"]).run();
    assert!(invited.stdout.starts_with("http://localhost:"), "{invited:?}");
    assert!(
        invited.stderr.contains("works on this machine alone") && invited.stderr.contains("--public-url"),
        "{invited:?}"
    );
    let http = crate::client::builder().build().unwrap();
    let skills = http.get(format!("{page}.well-known/skill-sharing")).send().await.unwrap().text().await.unwrap();
    assert!(
        skills.contains("http://localhost:") && !skills.contains("0.0.0.0") && !served.stderr().contains("0.0.0.0"),
        "{skills}"
    );
    served.interrupt();
    served.wait_for_end();
}

#[tokio::test]
async fn invite_warns_that_other_machines_need_https_only_if_its_link_has_none() {
    let limit = |public_url: &'static str| async move {
        let home = TestAgentFolder::script();
        let server = home.serve().arg("--public-url").arg(public_url).start();
        let invited = home.nuncio(&["user", "invite", "ada"]).run();
        server.stop();
        assert!(invited.stdout.starts_with(public_url), "{invited:?}");
        invited.stderr
    };
    assert!(limit("http://agents.example").await.contains("plain http"));
    let stderr = limit("https://agents.example").await;
    assert!(!stderr.contains("plain http") && !stderr.contains("this machine alone"), "{stderr}");
}

/// Every stored version has one notification for the person and one for the agent; no other version has any.
#[tokio::test(flavor = "multi_thread")]
async fn every_manifest_version_stored_across_kills_is_notified_once() {
    const KILLS: usize = 8;
    let home = TestAgentFolder::script();
    let mut server = home.start();
    let mut owner = enrol(&home, &server, "owner").await;
    let (agent, token) =
        owner.make_agent(&json!({"display_name": "Notes", "capability_manifest": manifest(0, false)})).await;
    let mut ada = enrol(&home, &server, "ada").await;
    let relation = ada.allow(&agent, json!(["filesystem:read"])).await;
    let path = format!("/agents/{agent}");

    let published = Arc::new(AtomicUsize::new(1));
    let (mut acknowledged, mut unsure) = (0, 0);
    for round in 0..KILLS {
        let (enough, tell) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let (server, owner, path) = (owner.server.clone(), owner.token.clone(), path.clone());
                let (published, enough, tell) = (Arc::clone(&published), Arc::clone(&enough), Arc::clone(&tell));
                tokio::spawn(async move {
                    let (mut stored, mut unsure) = (0, 0);
                    loop {
                        // Each version requires another argument, which breaks the consent to the version before.
                        let number = published.fetch_add(1, Ordering::Relaxed);
                        let body = json!({"capability_manifest": manifest(number, true)});
                        match server.try_send(Method::PATCH, &path, Some(&owner), Some(&body), &[]).await {
                            Ok(reply) if reply.status == 200 => stored += 1,
                            Ok(reply) => panic!("{} {}", reply.status, reply.body),
                            Err(_) => {
                                unsure += 1;
                                return (stored, unsure);
                            }
                        }
                        if tell.fetch_add(1, Ordering::Relaxed) == 5 + 3 * round {
                            enough.notify_one();
                        }
                    }
                })
            })
            .collect();
        enough.notified().await;
        server.kill9();
        for writer in writers {
            let (stored, lost) = writer.await.unwrap();
            acknowledged += stored;
            unsure += lost;
        }
        server = home.start();
        again(&mut owner, &server).await;
        again(&mut ada, &server).await;
    }

    // The manifest history has every version without gaps.
    let mut versions = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let page = owner.get(&format!("{path}/manifests?limit=50{cursor}")).await.body;
        for version in page["data"].as_array().unwrap() {
            versions.insert(version["version"].as_u64().unwrap(), version["hash"].clone());
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let last = *versions.keys().last().unwrap();
    assert_eq!(versions.keys().copied().collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>(), "no gaps");
    assert!(
        last as usize > acknowledged && last as usize <= 1 + acknowledged + unsure,
        "{last} versions, {acknowledged} acknowledged, {unsure} unsure"
    );

    // The sockets of the person and of the agent deliver the event of every version.
    let events = |mut socket: nuncio_testkit::a2h::A2hTestSocket, count: u64| async move {
        let mut found = BTreeMap::new();
        let mut seqs = BTreeSet::new();
        for _ in 0..count {
            let event = socket.frame().await;
            seqs.insert(event["seq"].as_u64().unwrap());
            if event["type"] == "h2a.reauth_required" {
                let version = event["new_manifest_version"].as_u64().unwrap();
                assert_eq!(found.insert(version, event["new_manifest_hash"].clone()), None, "notified twice");
            }
        }
        assert_eq!(seqs.into_iter().collect::<Vec<_>>(), (1..=count).collect::<Vec<_>>());
        found
    };
    let (socket, hello) = ada.connect().await;
    let persons = events(socket, hello["last_seq"].as_u64().unwrap()).await;
    let mut socket = ada.server.socket(&format!("agent?agent_id={agent}")).await;
    socket.say(&json!({"type": "auth", "agent_id": agent, "token": token})).await;
    let hello = socket.frame().await;
    let agents = events(socket, hello["last_seq"].as_u64().unwrap()).await;
    versions.remove(&1);
    println!(
        "{KILLS} kills: {} versions ({acknowledged} acknowledged, {unsure} cut off), {} events to the person, {} to the agent",
        versions.len(),
        persons.len(),
        agents.len()
    );
    assert_eq!(persons, versions);
    assert_eq!(agents, versions);
    let pending = ada.get(&format!("/h2a/relations/{}", relation["id"].as_str().unwrap())).await;
    assert_eq!(pending.data()["pending_reauth"]["manifest_version"], last);
    assert_eq!(pending.data()["granted_scopes"], json!([]));
    server.stop();
}
