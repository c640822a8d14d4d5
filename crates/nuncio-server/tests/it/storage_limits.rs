//! Full disks, and storage quotas of callers.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use nuncio_server::settings::Settings;
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock};
use serde_json::json;

use crate::agents::{DESK, desk};

fn builder() -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(&[]))
}

#[tokio::test]
async fn server_start_on_a_full_disk_waits_until_there_is_space() {
    let (clock, data) = (ManualClock::new(), Arc::new(tempfile::tempdir().unwrap()));
    // The first write to this file fails; the server removes the file and checks again a second later.
    symlink("/dev/full", data.path().join("space-check")).unwrap();
    let (gateway, ()) = tokio::join!(builder().clock(&clock).data(data).start(), clock.pass(Duration::from_secs(1)));
    gateway.aap().session(DESK, &[]).await;
}

#[tokio::test]
async fn storage_quota_limits_each_key_holder_but_not_local_callers() {
    let small = |settings: &mut Settings| settings.limits.bytes_per_caller = 100_000;
    let gateway = builder().settings(small).start().await;
    let turn = json!({"messages": [{"role": "user", "content": "x".repeat(20_000)}]});
    let local = gateway.aap().session(DESK, &[]).await;
    for _ in 0..10 {
        assert_eq!(gateway.aap().post(&format!("/sessions/{local}/turns"), turn.clone()).await.0, 200);
    }
    let (ada, bob) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let session = ada.aap.session(DESK, &[]).await;
    let mut turns = 0;
    let refused = loop {
        match ada.aap.post(&format!("/sessions/{session}/turns"), turn.clone()).await {
            (200, _) => turns += 1,
            refused => break refused,
        }
        assert!(turns < 10, "no quota");
    };
    assert_eq!((refused.0, &refused.1["code"]), (507, &json!("quota_exceeded")), "{}", refused.1);
    assert_eq!(ada.aap.history(&session).await.len(), 2 * turns, "no message was added");
    bob.aap.session(DESK, &[]).await;
    assert_eq!(ada.aap.delete(&format!("/sessions/{session}")).await.0, 204);
    ada.aap.session(DESK, &[]).await;
}
