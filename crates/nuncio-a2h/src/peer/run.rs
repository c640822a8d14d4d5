//! Main loop of an agent or device: publish keys, finish the messages of the previous process, then handle events.

use std::time::Duration;

use nuncio_core::backoff::{Backoff, FailureCount};
use tokio_util::sync::CancellationToken;

use super::Peer;
use super::error::SendError;
use crate::client::{RelayError, RelayEvent};

/// Delays between attempts to reach the relay.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30));

/// Interval of publishing keys.
const KEYS: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
enum EventSource {
    Relay,
    Webhook,
}

/// State across reconnections.
struct RunState {
    told: EventSource,
    failures: FailureCount,
    /// Whether the messages of the previous process are being handled.
    resumed: bool,
}

impl Peer {
    /// Runs until `stop`. Failures are retried after 1, 2, 4, 8, 16 and then every 30 seconds.
    pub async fn run(self, stop: CancellationToken) {
        self.serve(EventSource::Relay, stop).await;
    }

    /// Runs without polling for events, for an agent with a webhook: its events come through
    /// [`WebhookReceiver::take`](super::WebhookReceiver::take).
    pub async fn run_with_webhook(self, stop: CancellationToken) {
        self.serve(EventSource::Webhook, stop).await;
    }

    async fn serve(&self, told: EventSource, stop: CancellationToken) {
        let mut life = RunState { told, failures: BACKOFF.start(), resumed: false };
        loop {
            let lived = tokio::select! {
                lived = self.live(&mut life) => lived,
                () = stop.cancelled() => return,
            };
            self.streams_ended();
            self.abort_incoming_streams().await;
            let pause = life.failures.next_delay();
            if let Err(error) = lived {
                tracing::warn!(me = %self.me(), %error, "lost the relay; trying again in {pause:?}");
            }
            tokio::select! {
                () = self.inner.clock.sleep_until(self.now().after(pause)) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn live(&self, life: &mut RunState) -> Result<(), SendError> {
        self.publish_keys().await?;
        self.inner.back.notify_waiters();
        // Once per process: messages that this process received are already being handled when a connection breaks.
        if !life.resumed {
            self.handle_leftovers()?;
            life.resumed = true;
        }
        self.inner.leftovers.get_or_try_init(|| self.send_leftovers()).await?;
        let mut keys_due = self.now().after(KEYS);
        let mut after = None;
        let mut told = Box::pin(self.told(life.told, after));
        loop {
            // The same future is awaited across other work, because streams use the same connection.
            let events = tokio::select! {
                events = &mut told => events?,
                () = self.inner.clock.sleep_until(keys_due) => {
                    self.publish_keys().await?;
                    keys_due = self.now().after(KEYS);
                    continue;
                }
            };
            life.failures = BACKOFF.start();
            let mut last = None;
            for event in events {
                let seq = event.seq;
                self.receive(event).await?;
                // Transient events have no number.
                last = if seq == 0 { last } else { Some(seq) };
            }
            if let Some(last) = last {
                self.inner.relay.acknowledge(last).await?;
                after = Some(last);
            }
            told = Box::pin(self.told(life.told, after));
        }
    }

    async fn told(&self, by: EventSource, after: Option<u64>) -> Result<Vec<RelayEvent>, RelayError> {
        match by {
            EventSource::Relay => self.inner.relay.events(after).await,
            EventSource::Webhook => std::future::pending().await,
        }
    }

    /// Publishes the keys, and one-time keys for new sessions.
    pub async fn publish_keys(&self) -> Result<(), SendError> {
        let bundle = self.with_party(|party| party.bundle().cloned()).await?;
        let bundle = bundle.ok_or_else(|| SendError::Fault("these keys have no name yet".to_owned()))?;
        let have = match self.inner.relay.register_keys(Some(bundle), Vec::new()).await {
            // The relay has a newer bundle: these keys were copied, or the clock was set back.
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
