//! Operator settings for people, agents and consent.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::manifest::ScopePresets;
use nuncio_judge::ChangeJudgingPolicy;

#[derive(Debug, Clone, PartialEq)]
pub struct ConsentSettings {
    /// Well-known scopes with their minimum sensitivities.
    pub presets: Arc<ScopePresets>,
    /// Which manifest changes require a new consent.
    pub policy: ChangeJudgingPolicy,
    pub invite_lasts: Duration,
    /// Maximum number of devices per person.
    pub devices_per_person: usize,
    /// Maximum number of open invites per person.
    pub invites_per_person: usize,
    /// Maximum number of agent accounts per owner.
    pub agents_per_owner: usize,
    /// Maximum number of active relations per person.
    pub relations_per_person: usize,
    /// Maximum difference between the clocks of device and server at login.
    pub assertion_window: Duration,
    /// Time within which a drafted ledger entry must be signed.
    pub signing_window: Duration,
    /// Time for which notifications are kept.
    pub mail_kept: Duration,
}

impl Default for ConsentSettings {
    fn default() -> Self {
        Self {
            presets: Arc::new(ScopePresets::default()),
            policy: ChangeJudgingPolicy::default(),
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
