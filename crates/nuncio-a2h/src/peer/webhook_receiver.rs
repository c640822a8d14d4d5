//! Webhook receiver of an agent: verifies the signature of a webhook call and passes its event to the peer.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::opaque_debug;
use nuncio_core::time::Timestamp;
use ring::hmac;
use serde_json::Value;

use super::{Peer, SendError};
use crate::client::{RelayEvent, RelayEventKind, hooked_event, hooked_message};

/// Tolerated difference between the relay's clock and this clock; older webhook calls are refused as replays.
const REPLAY_WINDOW: Duration = Duration::from_secs(5 * 60);

/// Number of remembered `webhook-id` values, to refuse repeated calls.
const MAX_REMEMBERED_DELIVERIES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceivedWebhookError {
    /// A header, the secret or the `type` is missing or malformed.
    #[error("the webhook call has no valid {0}")]
    Missing(&'static str),
    /// The timestamp of the webhook call is too old, or in the future.
    #[error("the time of the webhook call is more than five minutes off")]
    Late,
    #[error("the webhook call is not signed with this agent's secret")]
    Forged,
    #[error("the webhook call was received before")]
    Repeated,
    #[error("the webhook call cannot be read: {0}")]
    Malformed(String),
    /// The webhook call is verified, but handling it failed; the sender should retry.
    #[error(transparent)]
    Failed(#[from] SendError),
}

/// Verifies webhook calls with the agent's webhook secret.
pub struct WebhookReceiver {
    key: hmac::Key,
    seen: BoundedCache<String, ()>,
}

opaque_debug!(WebhookReceiver);

impl WebhookReceiver {
    /// Creates a receiver for a webhook secret: `whsec_` followed by base64.
    pub fn new(secret: &str) -> Result<Self, ReceivedWebhookError> {
        let bytes = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        let bytes =
            bytes.filter(|bytes| bytes.len() >= 32).ok_or(ReceivedWebhookError::Missing("a secret of 32 bytes"))?;
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes), seen: BoundedCache::new(MAX_REMEMBERED_DELIVERIES) })
    }

    /// Verifies a webhook call and passes its event to the peer. The HTTP response should be 204 if the call was
    /// handled or repeated, 401 if it is forged or late, 503 if handling failed.
    pub async fn take(
        &self,
        peer: &Peer,
        header: impl Fn(&str) -> Option<String>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), ReceivedWebhookError> {
        let id = header("webhook-id").ok_or(ReceivedWebhookError::Missing("webhook-id"))?;
        self.check(&id, &header, body, now)?;
        if self.seen.get(&id, now).is_some() {
            return Err(ReceivedWebhookError::Repeated);
        }
        let body: Value =
            serde_json::from_slice(body).map_err(|why| ReceivedWebhookError::Malformed(why.to_string()))?;
        let what = match body["type"].as_str() {
            Some("message.new" | "artifact_response") => {
                hooked_message(&body).map(|posted| RelayEventKind::Message(Box::new(posted)))
            }
            Some(_) => hooked_event(&body),
            None => return Err(ReceivedWebhookError::Missing("type")),
        };
        let what = what.map_err(|why| ReceivedWebhookError::Malformed(why.to_string()))?;
        peer.receive(RelayEvent { seq: 0, what }).await?;
        self.seen.put(id, (), now.after(REPLAY_WINDOW * 2));
        Ok(())
    }

    fn check(
        &self,
        id: &str,
        header: &impl Fn(&str) -> Option<String>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), ReceivedWebhookError> {
        let seconds = header("webhook-timestamp").ok_or(ReceivedWebhookError::Missing("webhook-timestamp"))?;
        let at: i64 = seconds.parse().map_err(|_| ReceivedWebhookError::Missing("webhook-timestamp"))?;
        let at = Timestamp::from_millis(at.saturating_mul(1000));
        if at.until(now).max(now.until(at)) > REPLAY_WINDOW {
            return Err(ReceivedWebhookError::Late);
        }
        let signatures = header("webhook-signature").ok_or(ReceivedWebhookError::Missing("webhook-signature"))?;
        let message = [format!("{id}.{seconds}.").as_bytes(), body].concat();
        let holds = |signature: &str| {
            let tag = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
            tag.is_some_and(|tag| hmac::verify(&self.key, &message, &tag).is_ok())
        };
        match signatures.split(' ').any(holds) {
            true => Ok(()),
            false => Err(ReceivedWebhookError::Forged),
        }
    }
}
