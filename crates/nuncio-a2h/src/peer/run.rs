//! The life of an agent or device at its relay: keys first, then what was left behind, then whatever is told.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Peer;
use super::error::SendError;
use crate::client::{Delivered, RelayError};

/// The longest pause between two tries to reach the relay.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How often keys are looked after.
const KEYS: Duration = Duration::from_secs(600);

/// How events come.
#[derive(Debug, Clone, Copy)]
enum Told {
    ByTheRelay,
    ByHooks,
}

/// What stays while the relay comes and goes.
struct Life {
    told: Told,
    pause: Duration,
    /// Whether what a process before this one left is being dealt with.
    resumed: bool,
}

impl Peer {
    /// Serves until told to stop. Whatever fails is tried again, after 1, 2, 4, 8, 16 and then every 30 seconds.
    pub async fn run(self, stop: CancellationToken) {
        self.serve(Told::ByTheRelay, stop).await;
    }

    /// The same for an agent that is called: its keys are looked after, what was left behind is sent, and whatever
    /// it is told comes by [`Hooks::take`](super::Hooks::take).
    pub async fn run_hooked(self, stop: CancellationToken) {
        self.serve(Told::ByHooks, stop).await;
    }

    async fn serve(&self, told: Told, stop: CancellationToken) {
        let mut life = Life { told, pause: Duration::from_secs(1), resumed: false };
        loop {
            let lived = tokio::select! {
                lived = self.live(&mut life) => lived,
                () = stop.cancelled() => return,
            };
            self.streams_ended();
            self.stop_hearing().await;
            let pause = life.pause;
            if let Err(error) = lived {
                tracing::warn!(me = %self.me(), %error, "the relay is tried again in {pause:?}");
            }
            tokio::select! {
                () = self.inner.clock.sleep_until(self.now().after(pause)) => {}
                () = stop.cancelled() => return,
            }
            life.pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn live(&self, life: &mut Life) -> Result<(), SendError> {
        self.publish_keys().await?;
        self.inner.back.notify_waiters();
        // Once: what this process took itself it is dealing with, however often the connection breaks.
        if !life.resumed {
            self.handle_leftovers()?;
            life.resumed = true;
        }
        self.inner.leftovers.get_or_try_init(|| self.send_leftovers()).await?;
        let mut keys_due = self.now().after(KEYS);
        let mut after = None;
        let mut told = Box::pin(self.told(life.told, after));
        loop {
            // Waited for on, whatever else is done meanwhile: streams go by the same connection.
            let events = tokio::select! {
                events = &mut told => events?,
                () = self.inner.clock.sleep_until(keys_due) => {
                    self.publish_keys().await?;
                    keys_due = self.now().after(KEYS);
                    continue;
                }
            };
            life.pause = Duration::from_secs(1);
            let mut last = None;
            for event in events {
                let seq = event.seq;
                self.receive(event).await?;
                // What is told in passing has no number.
                last = if seq == 0 { last } else { Some(seq) };
            }
            if let Some(last) = last {
                self.inner.relay.acknowledge(last).await?;
                after = Some(last);
            }
            told = Box::pin(self.told(life.told, after));
        }
    }

    async fn told(&self, by: Told, after: Option<u64>) -> Result<Vec<Delivered>, RelayError> {
        match by {
            Told::ByTheRelay => self.inner.relay.events(after).await,
            Told::ByHooks => std::future::pending().await,
        }
    }

    /// Brings the keys to the relay, and one-time keys for those who begin a session.
    ///
    /// # Errors
    /// The relay cannot be reached or does not take them.
    pub async fn publish_keys(&self) -> Result<(), SendError> {
        let bundle = self.with_party(|party| party.bundle().cloned()).await?;
        let bundle = bundle.ok_or_else(|| SendError::Fault("these keys have no name yet".to_owned()))?;
        let have = match self.inner.relay.register_keys(Some(bundle), Vec::new()).await {
            // What is there is newer: these keys were copied, or their clock went back.
            Err(RelayError::Refused { code: nuncio_core::Code::BundleRefused, message }) => {
                return Err(SendError::Fault(message));
            }
            other => other?,
        };
        let now = self.now();
        let keys = self.with_party(move |party| party.one_time_keys(have, now)).await??;
        if !keys.is_empty() {
            self.inner.relay.register_keys(None, keys).await?;
        }
        Ok(())
    }
}
