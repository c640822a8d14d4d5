//! What changed since the person last said yes to an agent: found on this device, from the manifest they saw then.

use nuncio_core::Code;
use nuncio_core::ids::ScopeId;
use nuncio_core::judge::{ChangePolicy, Verdict, manifests};
use nuncio_core::ledger::{Entry, Standing};
use nuncio_core::manifest::{Checked, Manifest};
use nuncio_core::text::plain;
use serde::Serialize;
use serde_json::Value;

use crate::device::Device;
use crate::error::DeviceError;
use crate::standing::Known;

/// What changed since the person last said yes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changed {
    /// The version they said yes to.
    pub since_version: u64,
    /// What is different, and what of it needs a new yes. None when the manifest they saw cannot be had any more:
    /// then nothing is taken for granted.
    pub verdict: Option<Verdict>,
    /// What the agent's owner says about it, without tricks.
    pub note: Option<String>,
    /// What they may go on using meanwhile.
    pub keeps: Vec<ScopeId>,
}

impl Device {
    /// What changed since the person last said yes; nothing when they did not, or nothing changed.
    pub(crate) async fn changed(
        &self,
        known: &Known,
        standing: &Standing,
        now: &Checked,
    ) -> Result<Option<Changed>, DeviceError> {
        let Some(yes) = known.entries.iter().rev().find(|entry: &&Entry| entry.action.allows()) else {
            return Ok(None);
        };
        if yes.manifest_hash == Some(now.hash) {
            return Ok(None);
        }
        let (then, _) = self.published(known, yes.manifest_version).await?;
        // What is shown as the one they saw must be the one they signed for.
        let seen = Manifest::check(then.clone(), self.presets()).ok();
        let seen = seen.is_some_and(|seen| Some(seen.hash) == yes.manifest_hash);
        let policy = ChangePolicy::default();
        let verdict = seen.then(|| manifests(Some(&then), Some(&known.manifest), &[], &policy));
        let (_, note) = self.published(known, known.version).await?;
        let moment = self.now();
        let keeps = standing.granted.keys().filter(|scope| known.allows(standing, scope, moment)).cloned().collect();
        Ok(Some(Changed { since_version: yes.manifest_version, verdict, note, keeps }))
    }

    /// A version of an agent's manifest, and what its owner said about it.
    async fn published(&self, known: &Known, version: u64) -> Result<(Value, Option<String>), DeviceError> {
        let path = format!("/agents/{}/manifests/{version}", known.agent);
        match self.relay().ask("GET", &path, None).await.map_err(DeviceError::from) {
            Ok(mut found) => {
                let note = found["change_note"].as_str().map(plain);
                Ok((found["capability_manifest"].take(), note))
            }
            Err(error) if error.code == Code::NotFound => Ok((Value::Null, None)),
            Err(error) => Err(error),
        }
    }
}
