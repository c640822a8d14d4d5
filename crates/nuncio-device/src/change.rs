//! Compares an agent's current manifest with the one that the person last consented to.

use nuncio_a2h::client::RelayClientError;
use nuncio_a2h::wire::agent::ManifestView;
use nuncio_core::ErrorCode;
use nuncio_core::ids::ScopeId;
use nuncio_core::ledger::{LedgerEntry, LedgerState};
use nuncio_core::manifest::{CheckedManifest, Manifest};
use nuncio_core::text::plain;
use nuncio_judge::{ChangeJudgingPolicy, ManifestChangeVerdict, manifests};
use serde::Serialize;
use serde_json::Value;

use crate::consent::AgentConsentService;
use crate::error::DeviceError;
use crate::known_agents::KnownAgent;

/// Difference between an agent's current manifest and the one of the person's last consent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangesSinceConsent {
    /// Manifest version that the person last consented to.
    pub since_version: u64,
    /// The differences, and which of them need new consent. `None` if the earlier manifest is no longer available.
    pub verdict: Option<ManifestChangeVerdict>,
    /// Change note of the agent's owner, sanitised for display.
    pub note: Option<String>,
    /// Granted scopes that stay usable until the person consents again.
    pub keeps: Vec<ScopeId>,
}

impl AgentConsentService {
    /// Manifest difference since the person's last consent; `None` without a consent or without a difference.
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
        // The relay's earlier manifest counts only if it has the hash that the person signed.
        let checked = Manifest::check(earlier.clone(), self.context.presets()).ok();
        let is_signed_manifest = checked.is_some_and(|checked| Some(checked.hash) == consent.manifest_hash);
        let policy = ChangeJudgingPolicy::default();
        let verdict = is_signed_manifest.then(|| manifests(Some(&earlier), Some(&known.manifest), &[], &policy));
        let (_, note) = self.published(known, known.version).await?;
        let moment = self.context.now();
        let keeps = standing.granted.keys().filter(|scope| known.allows(standing, scope, moment)).cloned().collect();
        Ok(Some(ChangesSinceConsent { since_version: consent.manifest_version, verdict, note, keeps }))
    }

    /// A published version of an agent's manifest, with its change note; null if the relay does not have it.
    async fn published(&self, known: &KnownAgent, version: u64) -> Result<(Value, Option<String>), DeviceError> {
        let path = format!("/agents/{}/manifests/{version}", known.agent);
        match self.context.relay.get::<ManifestView>(&path).await {
            Ok(found) => Ok((found.capability_manifest.unwrap_or_default(), found.change_note.as_deref().map(plain))),
            Err(RelayClientError::Refused { code: ErrorCode::NotFound, .. }) => Ok((Value::Null, None)),
            Err(error) => Err(error.into()),
        }
    }
}
