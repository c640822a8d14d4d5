//! Admin commands for DIDs: show them, rotate a key, move all of them to another address.

use std::sync::PoisonError;

use nuncio_core::Code;
use nuncio_core::ids::AgentName;
use serde_json::{Value, json};

use super::base::{AddressSource, DidBase, RecordedBase};
use super::{DidSubject, Dids, KeyHistory};
use crate::error::StartError;
use crate::system::SystemEntropy;

impl Dids {
    /// The DIDs of one agent, or of the service and every agent that was ever served.
    pub(crate) fn show(&self, agent: Option<&AgentName>) -> Result<Value, StartError> {
        let lines = match agent {
            None => self.key_histories(),
            Some(name) => {
                let subject = DidSubject::Agent(name.clone());
                let line = self.key_history(&subject).ok_or_else(|| self.unavailable(&subject))?;
                vec![(subject, line)]
            }
        };
        // Keys can lie there from a time when the address allowed DIDs.
        let dids: Vec<Value> = match self.why_none() {
            Some(_) => Vec::new(),
            None => lines.iter().map(|(subject, line)| shown(subject, line)).collect(),
        };
        let base = self.inner.home.as_ref().ok().map(|home| home.base.as_str());
        Ok(json!({"public_url": base, "dids": dids, "none_because": self.why_none()}))
    }

    /// Gives a subject a new key. An agent then has a new DID, which its old document names; the service keeps its DID,
    /// and its tokens become invalid.
    pub fn rotate(&self, subject: &DidSubject) -> Result<Value, StartError> {
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (Ok(home), Some(line)) = (&self.inner.home, self.key_history(subject)) else {
            return Err(self.unavailable(subject).into());
        };
        let next = line.rotate(subject, home, &SystemEntropy, self.inner.clock.now());
        self.put(subject, next.clone())?;
        Ok(json!({"rotated": [shown(subject, &next)]}))
    }

    /// Moves every DID to another address, each with a new key. Only while no server runs: one that does would
    /// go on under the old address. What was moved already stays, so a move that broke off can be made again.
    pub(crate) fn move_to(&self, base: &str) -> Result<Value, StartError> {
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let home = DidBase::at(base).map_err(|why| StartError::new(Code::DidUnavailable, why))?;
        let mut moved = Vec::new();
        for (subject, line) in self.key_histories() {
            let next = match line.base == home.base {
                true => line,
                false => line.rotate(&subject, &home, &SystemEntropy, self.inner.clock.now()),
            };
            self.put(&subject, next.clone())?;
            moved.push(shown(&subject, &next));
        }
        RecordedBase { base: home.base.clone(), chosen: AddressSource::ByOperator }.write(&self.inner.files)?;
        Ok(json!({"public_url": home.base, "rotated": moved}))
    }
}

fn shown(subject: &DidSubject, line: &KeyHistory) -> Value {
    let own = &line.current;
    let retired: Vec<_> = line.retired.iter().map(|old| old.bound.did().as_str()).collect();
    let agent = match subject {
        DidSubject::Service => None,
        DidSubject::Agent(name) => Some(name),
    };
    json!({
        "agent": agent,
        "did": own.did(),
        "document": own.did().resolution_url_at(&line.base),
        "since": own.since(),
        "retired": retired,
    })
}
