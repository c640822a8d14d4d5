//! Data directories written by an earlier version open and keep their contents.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::client::Client;
use crate::home::TestAgentFolder;
use crate::process::Server;
use crate::skill_client::Consumer;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/data-c83e809");
const AUDIT_RECORDS: u64 = 15;

/// Copy of the fixture, and the ids of its sessions and executions.
pub(crate) struct EarlierVersionData {
    pub(crate) home: TestAgentFolder,
    contents: Value,
}

impl EarlierVersionData {
    pub(crate) fn copied() -> Self {
        let home = TestAgentFolder::hotel();
        copy_folder(&Path::new(FIXTURE).join("agents"), &home.path("agents"));
        copy_folder(&Path::new(FIXTURE).join("laptop"), &home.path("laptop"));
        copy_folder(&Path::new(FIXTURE).join("server"), &home.data());
        // Results of executions are deleted after a day or a week, and the fixture is older.
        let database = Connection::open(home.data().join("nuncio.db")).unwrap();
        let in_2100 = 4_102_444_800_000_i64;
        let updated = database.execute(
            "UPDATE executions SET kept_until = ?1, content = json_set(content, '$.keep_ms', ?1)
             WHERE kept_until IS NOT NULL",
            [in_2100],
        );
        assert_eq!(updated.unwrap(), 3);
        let contents = fs::read_to_string(Path::new(FIXTURE).join("contents.json")).unwrap();
        Self { home, contents: serde_json::from_str(&contents).unwrap() }
    }

    fn start(&self) -> Server {
        self.home.serve().arg("agents").start()
    }

    fn name(&self, of: &str) -> &str {
        self.contents[of].as_str().unwrap()
    }

    pub(crate) async fn assert_readable(&self, server: &Server) {
        let client = server.aap_with_key(self.name("phone_key"));
        assert_eq!(server.aap().get("/sessions").await.0, 401, "the keys still count");
        let booked = client.history(self.name("hotel_session")).await;
        let message = json!({"role": "user", "content": "Find a room from 2026-12-24 to 2026-12-26 for 2 guests"});
        assert_eq!((booked.len(), &booked[0]), (10, &message), "{booked:#?}");
        let paid = client.history(self.name("guarded_session")).await;
        assert!(paid.contains(&json!({"role": "tool", "toolCallId": "c_allow", "content": "paid"})), "{paid:#?}");
        let read = client.history(self.name("device_session")).await;
        assert!(json!(read).to_string().contains("the treasure"), "{read:#?}");
        let events = client.events(self.name("hotel_session")).await;
        assert_eq!(events.last().unwrap().event, "turn_stop", "{events:#?}");
        self.assert_executions(server).await;
    }

    async fn assert_executions(&self, server: &Server) {
        let consumer = Consumer::of(server).with("X-API-Key", self.name("phone_key"));
        let completed = consumer.status(self.name("completed")).await;
        assert_eq!((&completed["status"], &completed["output"]["text"]), (&json!("completed"), &json!("kept")));
        assert_eq!(consumer.status(self.name("failed")).await["error"]["message"], "broken: it broke");
        let by_person = consumer.status(self.name("finished_by_bob")).await;
        assert_eq!(by_person["output"]["handed_to"], "courier", "{by_person}");
        // The task was due four hours after the fixture was written, so it may have timed out.
        let unfinished = consumer.status(self.name("open_execution")).await;
        assert!(["running", "timeout"].contains(&unfinished["status"].as_str().unwrap()), "{unfinished}");
    }

    /// Number of audit records, after the chain was verified.
    fn verified_records(&self) -> u64 {
        let proof = self.home.json_command(&["audit", "verify"]).json();
        assert_eq!(proof["intact"], true, "{proof}");
        proof["records"].as_u64().unwrap()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &copy);
        } else {
            fs::copy(entry.path(), &copy).unwrap();
            // Git does not store that only the owner may read a key file.
            fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
        }
    }
    fs::set_permissions(to, Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_an_earlier_version_is_readable_and_its_audit_chain_verifies() {
    let data = EarlierVersionData::copied();
    let server = data.start();
    data.assert_readable(&server).await;
    let list = |what: &[&str], field: &str| data.home.json_command(what).json()[field].as_array().unwrap().clone();
    let keys = list(&["key", "list"], "keys");
    let revoked: Vec<_> = keys.iter().filter(|key| !key["revoked_at"].is_null()).map(|key| &key["name"]).collect();
    assert_eq!((keys.len(), revoked), (3, vec![&json!("lost")]));
    assert_eq!(list(&["grant", "list"], "grants").len(), 1);
    assert_eq!(list(&["user", "devices", "ada"], "devices").len(), 1);
    assert!(data.verified_records() >= AUDIT_RECORDS);
    server.stop();
    assert!(data.verified_records() >= AUDIT_RECORDS);
    assert_eq!(data.home.json_command(&["store", "check"]).json()["intact"], true);
}

#[test]
fn key_files_of_an_earlier_version_move_into_the_store_and_stay_the_same_keys() {
    let data = EarlierVersionData::copied();
    let server = || data.home.serve().arg("--public-url").arg("http://localhost:47400").arg("agents").start();
    let command = |arguments: &[&str]| data.home.json_command(arguments);
    let files = ["people.key", "webhook.key", "keys"];
    assert!(files.iter().all(|name| data.home.data().join(name).exists()));
    server().stop();
    assert!(files.iter().all(|name| !data.home.data().join(name).exists()));
    let shown = command(&["did", "show"]).json();
    let dids: Vec<_> = shown["dids"].as_array().unwrap().iter().map(|one| one["did"].as_str().unwrap()).collect();
    let agents = [
        "guarded:e1_-M04Cnmu1az4fkU0W4-fzVeywVHdZSE0K-jNz8Rh5UY",
        "hotel-assistant:e1_m3kNUeQZY45sYJaPhiRS6Eb5Gru5_eZCUzfWOWKLtWQ",
        "script:e1_RCvMJmw98EBzxw-xrxr7VZT-ATAQBjfUixmZI_wGWmw",
        "warehouse:e1_u9nwrJeF7mBPLVIgcj2UB1TFbA6i0ZADgaudhgUnLhI",
    ];
    let agents = agents.map(|agent| format!("did:wba:localhost%3A47400:agents:{agent}"));
    assert_eq!(dids, [&["did:wba:localhost%3A47400".to_owned()][..], &agents].concat());
    server().stop();
    assert_eq!(command(&["did", "show"]).json(), shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_an_earlier_version_opens_a_second_time_and_takes_new_turns() {
    let data = EarlierVersionData::copied();
    data.start().stop();
    let server = data.start();
    data.assert_readable(&server).await;
    let client: Client = server.aap_with_key(data.name("phone_key"));
    let answer = json!([{"role": "tool_permission", "toolCallId": "c2", "granted": true}]);
    let resumed = client.turn(data.name("waiting_session"), answer).await;
    assert!(resumed.to_string().contains("value-of-k"), "{resumed}");
    client.say(data.name("hotel_session"), "Thank you").await;
    server.stop();
    assert!(data.verified_records() > AUDIT_RECORDS);
    let server = data.start();
    assert_eq!(server.aap_with_key(data.name("phone_key")).history(data.name("hotel_session")).await.len(), 12);
}

#[test]
fn device_folder_of_an_earlier_version_keeps_its_identity_and_audit_records() {
    let data = EarlierVersionData::copied();
    let device = |what: &[&str]| {
        data.home.nuncio(&[&["--json", "device"], what].concat()).arg("--home").arg(data.home.path("laptop")).run()
    };
    let status = device(&["status"]).json();
    assert_eq!((&status["person"], &status["agents"], &status["audit"]), (&json!("ada"), &json!(1), &json!(1)));
    let file = data.home.path("audit.jsonl");
    assert_eq!(device(&["audit", "--export", file.to_str().unwrap()]).json()["verified"], 1);
    assert!(fs::read_to_string(&file).unwrap().contains("read_file"));
}
