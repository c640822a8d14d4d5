//! Webhook signing secrets.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::ports::Entropy;

const PREFIX: &str = "whsec_";

/// A webhook signing secret shared with an agent. It is shown once, then stored encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; 32]);

impl WebhookSecret {
    pub(super) fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        bytes.try_into().ok().map(Self)
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Text form of the secret: `whsec_` and base64.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_secret_round_trips_and_is_hidden_in_debug_output() {
        let secret = WebhookSecret([7; 32]);
        assert_eq!(secret.text(), "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
        assert_eq!(WebhookSecret::read(&secret.text()), Some(secret.clone()));
        assert_eq!(format!("{secret:?}"), "WebhookSecret");
        for wrong in ["", "whsec_", "whsec_BwcH", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="] {
            assert_eq!(WebhookSecret::read(wrong), None, "{wrong}");
        }
    }
}
