//! Admin commands for DIDs: show them, rotate a key, move all of them to another address.

use nuncio_core::ErrorCode;
use nuncio_core::ids::AgentName;

use super::base::{BASE_ENTRY, DidBaseUrl, PublicUrlSource, RecordedDidBaseUrl};
use super::{DidHistory, DidSubject, Dids};
use crate::admin::replies::{DidInfo, DidList, RotatedDids};
use crate::error::OperatorError;
use crate::system::SystemEntropy;

impl Dids {
    /// The DIDs of one agent, or of the service and every agent that was ever served.
    pub(crate) fn show(&self, agent: Option<&AgentName>) -> Result<DidList, OperatorError> {
        let histories = match agent {
            None => self.key_histories(),
            Some(name) => {
                let subject = DidSubject::Agent(name.clone());
                let history = self.key_history(&subject).ok_or_else(|| self.unavailable(&subject))?;
                vec![(subject, history)]
            }
        };
        // The data directory may have keys from a time when the public URL allowed DIDs.
        let dids = match self.why_none() {
            Some(_) => Vec::new(),
            None => histories.iter().map(|(subject, history)| did_info(subject, history)).collect(),
        };
        let public_url = self.inner.base.as_ref().ok().map(|did_base| did_base.base.clone());
        Ok(DidList { public_url, dids, none_because: self.why_none().map(str::to_owned) })
    }

    /// Gives a subject a new key. An agent then has a new DID, which its old document names; the service keeps its DID,
    /// and its tokens become invalid.
    pub async fn rotate(&self, subject: &DidSubject) -> Result<RotatedDids, OperatorError> {
        let _changing = self.inner.changing.lock().await;
        let (Ok(did_base), Some(history)) = (&self.inner.base, self.key_history(subject)) else {
            return Err(self.unavailable(subject).into());
        };
        let next = history.rotate(subject, did_base, &SystemEntropy, self.inner.clock.now());
        self.put(subject, next.clone()).await?;
        Ok(RotatedDids { public_url: None, rotated: vec![did_info(subject, &next)] })
    }

    /// Moves every DID to another public URL, each with a new key. Only while no server runs, since a running one would
    /// continue with the old URL. DIDs that were moved already stay, so an interrupted move can be repeated.
    pub(crate) async fn move_to(&self, base: &str) -> Result<RotatedDids, OperatorError> {
        let _changing = self.inner.changing.lock().await;
        let did_base = DidBaseUrl::at(base).map_err(|why| OperatorError::new(ErrorCode::DidUnavailable, why))?;
        let mut moved = Vec::new();
        for (subject, history) in self.key_histories() {
            let next = match history.base == did_base.base {
                true => history,
                false => {
                    let next = history.rotate(&subject, &did_base, &SystemEntropy, self.inner.clock.now());
                    self.put(&subject, next.clone()).await?;
                    next
                }
            };
            moved.push(did_info(&subject, &next));
        }
        let revision = self.inner.keyring.read(BASE_ENTRY).await?.map_or(0, |entry| entry.revision);
        RecordedDidBaseUrl { base: did_base.base.clone(), chosen: PublicUrlSource::ByOperator }
            .write(&self.inner.keyring, revision)
            .await?;
        Ok(RotatedDids { public_url: Some(did_base.base), rotated: moved })
    }
}

fn did_info(subject: &DidSubject, history: &DidHistory) -> DidInfo {
    let own = &history.current;
    DidInfo {
        agent: match subject {
            DidSubject::Service => None,
            DidSubject::Agent(name) => Some(name.clone()),
        },
        did: own.did().to_string(),
        document: own.did().resolution_url_at(&history.base),
        since: own.since(),
        retired: history.retired.iter().map(|old| old.bound.did().to_string()).collect(),
    }
}
