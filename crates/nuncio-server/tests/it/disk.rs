//! Full disks.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock};

use crate::agents::{DESK, desk};

fn builder() -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(&[]))
}

#[tokio::test]
async fn start_on_a_full_disk_waits_for_space() {
    let (clock, data) = (ManualClock::new(), Arc::new(tempfile::tempdir().unwrap()));
    // What is written to this file first does not fit; the server removes it and looks again a second later.
    symlink("/dev/full", data.path().join("space-check")).unwrap();
    let (gateway, ()) = tokio::join!(builder().clock(&clock).data(data).start(), clock.pass(Duration::from_secs(1)));
    gateway.aap().session(DESK, &[]).await;
}
