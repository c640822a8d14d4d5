//! More calls than the relay accepts in a minute: delayed calls are still readable on the device, however often the
//! session keys changed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nuncio_core::conversation::ContentType;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use serde_json::json;

use super::SealedSetup;
use super::killed::{ReadCounts, counting, one_call};
use crate::client::play;
use crate::process::until;

#[tokio::test(flavor = "multi_thread")]
async fn calls_delayed_by_the_rate_limit_are_still_opened_and_run_by_the_device() {
    /// Number of concurrent apps; the relay accepts sixty calls at once, and then one per second.
    const APPS: usize = 4;
    const CALLS: usize = 17;
    let world = SealedSetup::new().await;
    let ran = ReadCounts::default();
    let device = world.device(counting(&ran)).await;
    let (peer, agent) = (device.peer.clone(), RelayParty::Agent(AgentId::parse(&world.agent_id).unwrap()));
    let stop = Arc::<AtomicBool>::default();
    let enough = Arc::clone(&stop);
    let writes = tokio::spawn(async move {
        let conversation = peer.conversation_with(&agent).await.unwrap();
        let mut written = 0;
        while !enough.load(Ordering::SeqCst) {
            let content = json!({"type": "text", "text": play(&json!([[{"text": "pong"}]]))["content"]});
            peer.outbox().send(&conversation.id, ContentType::Text, content).await.unwrap();
            written += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        written
    });
    let apps = (0..APPS).map(|app| {
        let client = world.client();
        tokio::spawn(async move {
            for call in 0..CALLS {
                let path = format!("/{app}/{call}");
                let answer = one_call(&client, &format!("c_{app}_{call}"), &path).await.unwrap();
                assert!(answer.contains(&format!("read {path}\\\"")), "{answer}");
            }
        })
    });
    for app in apps.collect::<Vec<_>>() {
        app.await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let written: usize = writes.await.unwrap();
    let answers = || device.texts().iter().filter(|text| *text == "pong").count();
    until("everything written is answered", async || (answers() >= written).then_some(())).await;
    assert_eq!(device.refusals(), Vec::<String>::new());
    assert_eq!((ran.lock().unwrap().len(), device.runs()), (APPS * CALLS, APPS * CALLS));
    println!("{} calls, {written} written and answered: none unread", APPS * CALLS);
}
