//! Compares an agent's current manifest with the one the person last consented to, computed on this device.

use nuncio_a2h::client::RelayError;
use nuncio_a2h::wire::agent::ManifestView;
use nuncio_core::Code;
use nuncio_core::ids::ScopeId;
use nuncio_core::ledger::{LedgerEntry, LedgerState};
use nuncio_core::manifest::{CheckedManifest, Manifest};
use nuncio_core::text::plain;
use nuncio_judge::{ChangePolicy, ChangeVerdict, manifests};
use serde::Serialize;
use serde_json::Value;

use crate::consent::AgentConsentService;
use crate::error::DeviceError;
use crate::known_agents::KnownAgent;

/// Difference since the person's last consent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangesSinceConsent {
    /// Manifest version of the last consent.
    pub since_version: u64,
    /// Differences and which of them need new consent. `None` when the earlier manifest is no longer available; then
    /// every scope needs new consent.
    pub verdict: Option<ChangeVerdict>,
    /// Change note of the agent's owner, sanitised for display.
    pub note: Option<String>,
    /// Scopes that stay usable meanwhile.
    pub keeps: Vec<ScopeId>,
}

impl AgentConsentService {
    /// Difference since the person's last consent; `None` without a consent or without a difference.
    pub(crate) async fn changed(
        &self,
        known: &KnownAgent,
        standing: &LedgerState,
        now: &CheckedManifest,
    ) -> Result<Option<ChangesSinceConsent>, DeviceError> {
        let Some(consent) = known.entries.iter().rev().find(|entry: &&LedgerEntry| entry.action.allows()) else {
            return Ok(None);
        };
        if consent.manifest_hash == Some(now.hash) {
            return Ok(None);
        }
        let (earlier, _) = self.published(known, consent.manifest_version).await?;
        // The earlier manifest must match the hash that the person signed.
        let checked = Manifest::check(earlier.clone(), self.context.presets()).ok();
        let is_signed_manifest = checked.is_some_and(|checked| Some(checked.hash) == consent.manifest_hash);
        let policy = ChangePolicy::default();
        let verdict = is_signed_manifest.then(|| manifests(Some(&earlier), Some(&known.manifest), &[], &policy));
        let (_, note) = self.published(known, known.version).await?;
        let moment = self.context.now();
        let keeps = standing.granted.keys().filter(|scope| known.allows(standing, scope, moment)).cloned().collect();
        Ok(Some(ChangesSinceConsent { since_version: consent.manifest_version, verdict, note, keeps }))
    }

    /// A published manifest version and its change note.
    async fn published(&self, known: &KnownAgent, version: u64) -> Result<(Value, Option<String>), DeviceError> {
        let path = format!("/agents/{}/manifests/{version}", known.agent);
        match self.context.relay.get::<ManifestView>(&path).await {
            Ok(found) => Ok((found.capability_manifest.unwrap_or_default(), found.change_note.as_deref().map(plain))),
            Err(RelayError::Refused { code: Code::NotFound, .. }) => Ok((Value::Null, None)),
            Err(error) => Err(error.into()),
        }
    }
}
