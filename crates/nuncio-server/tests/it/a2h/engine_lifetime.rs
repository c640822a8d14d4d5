//! The engine is dropped with the server, although it and the agents with device tools refer to each other.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use nuncio_server::SystemClock;
use nuncio_testkit::{Gateway, eventually};

const DEVICE_AGENT: &str = r#"
[agent]
name = "helper"
version = "1.0.0"
[brain]
kind = "script"

[[scope]]
id = "filesystem:read"
label = "Read local files"
description = "Open files and read them."
sensitivity = "medium"

[[tool]]
name = "read_file"
description = "Reads a file."
scope = "filesystem:read"
input = { type = "object" }
run = { device = true }
"#;

/// A clock that the engine owns, so that it is dropped with the engine.
#[derive(Debug, Clone)]
struct DropTrackedClock {
    _alive: Arc<()>,
}

impl Clock for DropTrackedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        SystemClock.sleep_until(moment)
    }
}

fn observed() -> (DropTrackedClock, Weak<()>) {
    let alive = Arc::new(());
    let engine = Arc::downgrade(&alive);
    (DropTrackedClock { _alive: alive }, engine)
}

async fn dropped(engine: &Weak<()>) {
    eventually("the engine is dropped", async || (engine.strong_count() == 0).then_some(())).await;
}

#[tokio::test]
async fn engine_is_dropped_after_the_server_stopped() {
    let (clock, engine) = observed();
    let builder = Gateway::builder().clock(&clock).agent("helper", DEVICE_AGENT);
    drop(clock);
    let gateway = builder.start().await;
    assert!(engine.strong_count() > 0);
    gateway.stop().await;
    dropped(&engine).await;
}
