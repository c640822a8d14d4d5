//! Several devices of one person, and an agent whose address changes.

use std::sync::Arc;

use nuncio_testkit::a2h::{AgentTransport, PeerDependencies, SealedAgent, SealedDevice};
use serde_json::json;

use super::{PLACE, RelayProcess, SECRET, SealedSetup, echo_path, memory, read_file, reads};
use crate::process::until;

#[tokio::test(flavor = "multi_thread")]
async fn each_call_runs_on_one_trusted_device_and_an_unverified_one_cannot_open_it() {
    let relay = RelayProcess::start(&[]).await;
    let (id, token) = relay.make_agent(&json!({"display_name": "Notes"})).await;
    let network = PeerDependencies::direct();
    let agent = SealedAgent::start(&network, &relay.url(), (&id, &token), memory(), AgentTransport::Socket).await;
    let laptop = relay.device(&network, "ada", &id).await;
    agent.call("ada", "read_file", json!({"path": "/1"})).await.unwrap();
    assert_eq!(laptop.runs(), 1);

    // The phone was enrolled with an invite, but the laptop has not confirmed it.
    let (store, url, code) = (memory(), relay.url(), relay.invite("ada"));
    let start = || SealedDevice::start(&url, &code, Arc::clone(&store), echo_path);
    let phone = start().await;
    for number in 2..5 {
        let answer = agent.call("ada", "read_file", json!({"path": format!("/{number}")})).await.unwrap();
        assert_eq!(answer["content"], format!("read /{number}"));
    }
    until("the phone was shown what is not for it", async || (phone.refusals().len() >= 3).then_some(())).await;
    assert!(phone.refusals().iter().all(|why| why == "it is not sealed to this device"), "{:?}", phone.refusals());
    assert_eq!((laptop.runs(), phone.runs(), phone.heard.lock().unwrap().len()), (4, 0, 0));

    laptop.endorse(&phone).await;
    // The relay notifies the agent of the trusted phone with a delay.
    let mut calls = 4;
    until("the agent seals to the phone as well", async || {
        calls += 1;
        agent.call("ada", "read_file", json!({"path": format!("/{calls}")})).await.unwrap();
        (!phone.heard.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    for _ in 0..10 {
        calls += 1;
        agent.call("ada", "read_file", json!({"path": format!("/{calls}")})).await.unwrap();
    }
    assert_eq!(laptop.runs() + phone.runs(), calls, "each ran once, on one of the two");
    until("both heard of every call", async || (phone.heard.lock().unwrap().len() >= 11).then_some(())).await;
    println!("{calls} calls: {} on the laptop, {} on the phone", laptop.runs(), phone.runs());

    // The phone stays trusted after a restart, and runs the calls that the laptop does not.
    let ran = phone.runs();
    drop(phone);
    laptop.stop();
    let phone = start().await;
    agent.call("ada", "read_file", json!({"path": "/last"})).await.unwrap();
    assert_eq!(phone.runs(), 1, "{ran} before");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_restarted_at_a_new_address_keeps_its_keys_and_consents() {
    let mut world = SealedSetup::new().await;
    let device = world.device(read_file).await;
    let (client, session) = world.session().await;
    assert!(client.play(&session, reads("c1", PLACE)).await.to_string().contains(SECRET));
    world.kill_agent();
    world.agent_port = super::free_port();
    world.start_agent();
    let (client, session) = world.session().await;
    let answer = client.play(&session, reads("c2", PLACE)).await.to_string();
    assert!(answer.contains(SECRET), "{answer}\n{}", world.agent.as_ref().unwrap().stderr());
    assert_eq!((device.runs(), device.refusals()), (2, Vec::<String>::new()));
}
