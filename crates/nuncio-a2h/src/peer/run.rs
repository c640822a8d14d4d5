//! Main loop of an agent or device: publish keys, finish the messages of the previous process, then handle events.

use std::time::Duration;

use nuncio_core::backoff::{Backoff, FailureCount};
use tokio_util::sync::CancellationToken;

use super::Peer;
use super::error::SendError;
use crate::client::{RelayClientError, RelayEvent};

/// Delays between attempts to reach the relay.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30));

const KEY_PUBLISH_INTERVAL: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
enum PeerEventSource {
    Relay,
    Webhook,
}

/// State of the main loop that is kept across reconnections.
struct PeerLoopState {
    source: PeerEventSource,
    failures: FailureCount,
    /// Whether the messages that the previous process left were passed to the handler.
    resumed: bool,
}

impl Peer {
    /// Runs the peer until `stop`. Failures are retried after 1, 2, 4, 8, 16 and then every 30 seconds.
    pub async fn run(self, stop: CancellationToken) {
        self.serve(PeerEventSource::Relay, stop).await;
    }

    /// Runs the peer of an agent with a webhook, without reading events from the relay: they come through
    /// [`WebhookReceiver::take`](super::WebhookReceiver::take).
    pub async fn run_with_webhook(self, stop: CancellationToken) {
        self.serve(PeerEventSource::Webhook, stop).await;
    }

    async fn serve(&self, source: PeerEventSource, stop: CancellationToken) {
        let mut state = PeerLoopState { source, failures: BACKOFF.start(), resumed: false };
        loop {
            let ended = tokio::select! {
                ended = self.run_until_error(&mut state) => ended,
                () = stop.cancelled() => return,
            };
            self.state.streams.cancel_all();
            self.abort_incoming_streams().await;
            let pause = state.failures.next_delay();
            if let Err(error) = ended {
                self.state.handler.on_connection(self, Some(&error)).await;
                tracing::warn!(me = %self.me(), %error, "lost the connection to the relay; trying again in {pause:?}");
            }
            tokio::select! {
                () = self.state.context.clock.sleep_until(self.state.context.now().after(pause)) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn run_until_error(&self, state: &mut PeerLoopState) -> Result<(), SendError> {
        self.state.keys.publish_keys().await?;
        self.state.handler.on_connection(self, None).await;
        self.state.outbox.back.notify_waiters();
        // Done once per process: after a reconnection the stored messages are those that this process already handles.
        if !state.resumed {
            self.handle_leftovers()?;
            state.resumed = true;
        }
        self.state.outbox.leftovers.get_or_try_init(|| self.state.outbox.send_leftovers()).await?;
        let mut keys_due = self.state.context.now().after(KEY_PUBLISH_INTERVAL);
        let mut after = None;
        let mut next = Box::pin(self.next_events(state.source, after));
        loop {
            // The future is kept while keys are published, because dropping it would close the connection.
            let events = tokio::select! {
                events = &mut next => events?,
                () = self.state.context.clock.sleep_until(keys_due) => {
                    self.state.keys.publish_keys().await?;
                    keys_due = self.state.context.now().after(KEY_PUBLISH_INTERVAL);
                    continue;
                }
            };
            state.failures = BACKOFF.start();
            let mut last = None;
            for event in events {
                let seq = event.seq;
                self.receive(event).await?;
                // Events that are not stored have no number to acknowledge.
                last = if seq == 0 { last } else { Some(seq) };
            }
            if let Some(last) = last {
                self.state.context.relay.acknowledge(last).await?;
                after = Some(last);
            }
            next = Box::pin(self.next_events(state.source, after));
        }
    }

    async fn next_events(
        &self,
        source: PeerEventSource,
        after: Option<u64>,
    ) -> Result<Vec<RelayEvent>, RelayClientError> {
        match source {
            PeerEventSource::Relay => self.state.context.relay.events(after).await,
            PeerEventSource::Webhook => std::future::pending().await,
        }
    }
}
