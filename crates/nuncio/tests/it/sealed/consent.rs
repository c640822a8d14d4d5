//! Calls without the person's consent are never sent to their device.

use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use nuncio_server::fetch::install_crypto;
use nuncio_testkit::a2h::SealedDevice;
use serde_json::{Value, json};

use super::{PLACE, SCOPE, SECRET, SealedSetup, agent_file, invite, memory, read_file, reads};
use crate::client::Client;
use crate::home::TestAgentFolder;
use crate::process::{Server, until};

const UNGRANTED: &str = "the scope filesystem:read has not been granted; ada can allow it on their device, on the \
    page of script; `nuncio device open` opens the pages";

struct DeviceToolSetup {
    home: TestAgentFolder,
    _server: Server,
    device: SealedDevice,
    client: Client,
    session: String,
}

impl DeviceToolSetup {
    async fn new() -> Self {
        install_crypto();
        let home = TestAgentFolder::with_agent(&agent_file(""));
        let key = home.key(&["--person", "ada"]);
        let server = home.start();
        let device = SealedDevice::start(server.url(), &invite(&home, "ada"), memory(), read_file).await;
        let client = server.aap_with_key(&key);
        let session = client.session("script", &[]).await;
        Self { home, _server: server, device, client, session }
    }

    async fn read(&self, id: &str) -> String {
        self.client.play(&self.session, reads(id, PLACE)).await.to_string()
    }

    /// Makes a call, which must be refused before anything is sent.
    async fn refused(&self, id: &str) {
        self.refused_because(id, UNGRANTED).await;
    }

    /// Like [`Self::refused`], with the reason that the caller gets.
    async fn refused_because(&self, id: &str, reason: &str) {
        let before = (self.device.runs(), self.carried().await);
        let answer = self.read(id).await;
        assert!(answer.contains(reason) && !answer.contains(SECRET), "{answer}");
        assert_eq!((self.device.runs(), self.carried().await), before, "nothing left");
        let record = self.home.audit().into_iter().rfind(|record| record["tool"] == "read_file").unwrap();
        assert_eq!(record["decision"]["code"], "scope_not_granted", "{record}");
        assert_eq!(record["outcome"]["result"], "not_run", "{record}");
    }

    /// Number of messages that the relay has stored.
    async fn carried(&self) -> u64 {
        let all = self.device.relay.ask("GET", "/conversations", None).await.unwrap();
        all.as_array().unwrap().iter().map(|conversation| conversation["last_seq"].as_u64().unwrap()).sum()
    }

    async fn relation(&self) -> Value {
        self.device.relay.ask("GET", "/h2a/relations", None).await.unwrap()[0].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn device_call_needs_consent_and_one_time_consent_is_used_once() {
    let house = DeviceToolSetup::new().await;
    house.refused("c1").await;
    let once = json!({"agent_id": "script", "granted_scopes": [{"scope": SCOPE, "mode": "once"}]});
    house.device.consent("POST", "/h2a/relations", once).await;
    let answer = house.read("c2").await;
    assert!(answer.contains(SECRET), "{answer}");
    house.refused("c3").await;
    assert_eq!(house.device.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_without_a_person_learns_how_to_link_one() {
    let home = TestAgentFolder::with_agent(&agent_file(""));
    let server = home.start();
    let client = server.aap();
    let session = client.session("script", &[]).await;
    let answer = client.play(&session, reads("c1", PLACE)).await.to_string();
    let expected = "Tool not found: read_file: it runs on a person's device, and no person is linked to this app yet: \
                    `nuncio user invite NAME` invites one, and `nuncio key create --person NAME` makes a key that is \
                    linked to them";
    assert!(answer.contains(expected), "{answer}");
    let record = home.audit().into_iter().rfind(|record| record["tool"] == "read_file").unwrap();
    assert_eq!(record["decision"]["code"], "tool_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_revoked_mid_conversation_stops_calls_until_given_again() {
    let house = DeviceToolSetup::new().await;
    house.device.allow("script", &[SCOPE]).await;
    assert!(house.read("c1").await.contains(SECRET));
    let relation = house.relation().await["id"].as_str().unwrap().to_owned();
    house.device.consent("DELETE", &format!("/h2a/relations/{relation}"), json!({})).await;
    house.refused("c2").await;
    house.device.allow("script", &[SCOPE]).await;
    assert!(house.read("c3").await.contains(SECRET));
    assert_eq!(house.device.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn scope_with_raised_sensitivity_is_suspended_until_new_consent() {
    let house = DeviceToolSetup::new().await;
    house.device.allow("script", &[SCOPE]).await;
    assert!(house.read("c1").await.contains(SECRET));
    house.home.write_agent(&agent_file("").replace("sensitivity = \"medium\"", "sensitivity = \"high\""));
    let pending = until("the scope is suspended", async || {
        let relation = house.relation().await;
        relation
            .to_string()
            .contains("pending_reauth")
            .then_some(relation)
            .filter(|one| !one["pending_reauth"].is_null())
    })
    .await;
    house.refused_because("c2", "ada must confirm it again on their device").await;
    let (id, agent) = (pending["id"].as_str().unwrap(), AgentId::parse("script").unwrap());
    let manifest = house.device.relay.ask("GET", &format!("/agents/{agent}"), None).await.unwrap();
    let again = json!({"granted_scopes": [SCOPE], "manifest_hash": manifest["capability_manifest_hash"]});
    house.device.consent("PATCH", &format!("/h2a/relations/{id}"), again).await;
    assert!(house.read("c3").await.contains(SECRET));
    assert_eq!(house.device.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_an_agent_on_another_server_run_only_while_the_person_consents() {
    let world = SealedSetup::new().await;
    let device = SealedDevice::start(&world.relay.url(), &world.relay.invite("ada"), memory(), read_file).await;
    let (client, session) = world.session().await;
    let answer = client.play(&session, reads("c1", PLACE)).await.to_string();
    assert!(!answer.contains(SECRET) && answer.contains("has no active relation with agent"), "{answer}");
    assert!(answer.contains("the person can allow it on the agent's page of their device"), "{answer}");
    assert_eq!(world.last_record()["outcome"]["code"], "scope_not_granted");
    device.allow(&world.agent_id, &[SCOPE]).await;
    let answer = client.play(&session, reads("c2", PLACE)).await.to_string();
    assert!(answer.contains(SECRET), "{answer}");
    let agent = RelayParty::Agent(AgentId::parse(&world.agent_id).unwrap());
    let relation = device.relay.ask("GET", "/h2a/relations", None).await.unwrap()[0]["id"].clone();
    let path = format!("/h2a/relations/{}", relation.as_str().unwrap());
    device.consent("DELETE", &path, json!({})).await;
    let answer = client.play(&session, reads("c3", PLACE)).await.to_string();
    assert!(!answer.contains(SECRET), "{agent}: {answer}");
    assert_eq!((world.last_record()["outcome"]["code"].clone(), device.runs()), (json!("scope_not_granted"), 1));
}
