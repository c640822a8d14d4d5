//! How much of everything, and what counts as a change that needs a new yes.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::judge::ChangePolicy;
use nuncio_core::manifest::Presets;

/// What an operator decides about people, agents and consent.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsentRules {
    /// The scopes everyone knows, and floors of sensitivity.
    pub presets: Arc<Presets>,
    /// What counts as a change that needs a new yes.
    pub policy: ChangePolicy,
    /// How long an invite may be used.
    pub invite_lasts: Duration,
    /// How many devices a person may have at once.
    pub devices_per_person: usize,
    /// How many invites of a person may be open at once.
    pub invites_per_person: usize,
    /// How many agents an owner may have.
    pub agents_per_owner: usize,
    /// How many agents a person may deal with at once.
    pub relations_per_person: usize,
    /// How far a device's clock may be off when it asks to be let in.
    pub assertion_window: Duration,
    /// How long an entry may wait to be signed.
    pub signing_window: Duration,
    /// How long what people and agents were told is kept.
    pub mail_kept: Duration,
}

impl Default for ConsentRules {
    fn default() -> Self {
        Self {
            presets: Arc::new(Presets::default()),
            policy: ChangePolicy::default(),
            invite_lasts: Duration::from_secs(7 * 24 * 3600),
            devices_per_person: 16,
            invites_per_person: 8,
            agents_per_owner: 100,
            relations_per_person: 1000,
            assertion_window: Duration::from_secs(120),
            signing_window: Duration::from_secs(600),
            mail_kept: Duration::from_secs(30 * 24 * 3600),
        }
    }
}
