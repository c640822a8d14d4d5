//! Verification of a consent ledger, and the permissions it results in.

use std::collections::{BTreeMap, BTreeSet};

use crate::digest::Digest;
use crate::grant::Term;
use crate::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use crate::person::Device;
use crate::signature::CheckSignature;
use crate::time::Timestamp;

use super::{Action, Actor, Entry, Head};

/// Verifies a whole ledger with the keys of the person's devices, including revoked ones. The error names the first
/// invalid entry.
pub fn verify(entries: &[Entry], devices: &[Device], check: &dyn CheckSignature) -> Result<Standing, Refused> {
    let mut verifier = Verifier::new(devices, check);
    entries.iter().try_for_each(|entry| verifier.take(entry))?;
    verifier.standing().ok_or(Refused::Empty)
}

/// The state that a valid ledger results in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub relation: RelationId,
    pub agent: AgentId,
    pub person: PersonName,
    /// The last entry.
    pub head: Head,
    /// Granted scopes with their terms.
    pub granted: BTreeMap<ScopeId, Term>,
    /// The granted scopes that are suspended.
    pub suspended: BTreeSet<ScopeId>,
    /// Version of the manifest that the person last consented to.
    pub manifest_version: u64,
    pub manifest_hash: Option<Digest>,
    /// Time of the last entry.
    pub at: Timestamp,
    pub ended: bool,
}

impl Standing {
    /// The scopes usable at `now`. A scope granted for one call may already be used; the ledger does not record that.
    pub fn effective(&self, now: Timestamp) -> impl Iterator<Item = &ScopeId> {
        let in_time = move |term: &Term| !matches!(term, Term::Until(end) if now >= *end);
        let held = self.granted.iter().filter(move |(_, term)| in_time(term)).map(|(scope, _)| scope);
        held.filter(|scope| !self.suspended.contains(*scope))
    }
}

/// The first invalid entry of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The ledger has no entries.
    #[error("the ledger is empty")]
    Empty,
    #[error("entry {expected} is missing: the next one found is {found}")]
    Gap { expected: u64, found: u64 },
    /// The previous hash does not match: this entry or the one before was changed.
    #[error("entry {0} does not follow from the one before")]
    Detached(u64),
    /// An entry belongs to another relation, agent or person.
    #[error("entry {0} is about another person, agent or relation")]
    Foreign(u64),
    /// An entry is older than the one before.
    #[error("entry {0} is older than the one before")]
    BackInTime(u64),
    /// An entry follows a revocation.
    #[error("entry {0} comes after the end")]
    AfterTheEnd(u64),
    /// An entry breaks a rule of the format; `why` says which.
    #[error("entry {seq} is malformed: {why}")]
    Malformed { seq: u64, why: &'static str },
    /// The server made an entry that only the person may make.
    #[error("entry {0} allows something, but no device of the person signed it")]
    Overreach(u64),
    /// A person's entry has no signature.
    #[error("entry {0} is the person's, but no device signed it")]
    Unsigned(u64),
    /// The device is not the person's, or was not at that time.
    #[error("entry {seq} is signed by device {device}, which was not the person's at that time")]
    UnknownDevice { seq: u64, device: DeviceId },
    /// The signature is invalid: the entry was changed, or another key signed it.
    #[error("entry {0} is not what its device signed")]
    BadSignature(u64),
}

/// Verifies a ledger entry by entry.
pub struct Verifier<'a> {
    devices: &'a [Device],
    check: &'a dyn CheckSignature,
    standing: Option<Standing>,
}

impl<'a> Verifier<'a> {
    #[must_use]
    pub fn new(devices: &'a [Device], check: &'a dyn CheckSignature) -> Self {
        Self { devices, check, standing: None }
    }

    /// The state after the entries so far; `None` before the first.
    #[must_use]
    pub fn standing(self) -> Option<Standing> {
        self.standing
    }

    /// Verifies the next entry.
    pub fn take(&mut self, entry: &Entry) -> Result<(), Refused> {
        let seq = entry.seq;
        let head = self.standing.as_ref().map_or(Head::START, |standing| standing.head);
        if seq != head.seq + 1 {
            return Err(Refused::Gap { expected: head.seq + 1, found: seq });
        }
        if entry.prev_hash != head.hash {
            return Err(Refused::Detached(seq));
        }
        well_formed(entry)?;
        let person = self.made_by(entry)?;
        let Some(standing) = self.standing.as_mut() else {
            let Some(person) = person.filter(|_| entry.action == Action::Grant) else {
                return Err(Refused::Malformed { seq, why: "a ledger begins with the person's grant" });
            };
            self.standing = Some(Standing {
                relation: entry.relation_id.clone(),
                agent: entry.agent_id.clone(),
                person,
                head: Head { seq, hash: entry.hash() },
                granted: granted(entry),
                suspended: BTreeSet::new(),
                manifest_version: entry.manifest_version,
                manifest_hash: entry.manifest_hash,
                at: entry.at,
                ended: false,
            });
            return Ok(());
        };
        let same = standing.relation == entry.relation_id && standing.agent == entry.agent_id;
        if !same || person.is_some_and(|person| person != standing.person) {
            return Err(Refused::Foreign(seq));
        }
        if entry.at < standing.at {
            return Err(Refused::BackInTime(seq));
        }
        if standing.ended {
            return Err(Refused::AfterTheEnd(seq));
        }
        standing.apply(entry)?;
        standing.head = Head { seq, hash: entry.hash() };
        standing.at = entry.at;
        Ok(())
    }

    /// The person whose device signed the entry; `None` for an entry that the server may make.
    fn made_by(&self, entry: &Entry) -> Result<Option<PersonName>, Refused> {
        let seq = entry.seq;
        let person = match &entry.actor {
            Actor::Server if entry.action.allows() => return Err(Refused::Overreach(seq)),
            Actor::Server if entry.device_id.is_some() || entry.signature.is_some() => {
                return Err(Refused::Malformed { seq, why: "the server's entries name no device" });
            }
            Actor::Server => return Ok(None),
            Actor::Person(person) => person,
        };
        let (Some(id), Some(signature)) = (&entry.device_id, &entry.signature) else {
            return Err(Refused::Unsigned(seq));
        };
        let known = |device: &&Device| device.id == *id && device.person == *person && device.is_valid_at(entry.at);
        let Some(device) = self.devices.iter().find(known) else {
            return Err(Refused::UnknownDevice { seq, device: id.clone() });
        };
        if !self.check.holds(&device.key, &entry.message(), signature) {
            return Err(Refused::BadSignature(seq));
        }
        Ok(Some(person.clone()))
    }
}

impl Standing {
    fn apply(&mut self, entry: &Entry) -> Result<(), Refused> {
        let malformed = |why| Refused::Malformed { seq: entry.seq, why };
        let all_granted =
            |granted: &BTreeMap<ScopeId, Term>| entry.scopes.iter().all(|scope| granted.contains_key(scope));
        match entry.action {
            Action::Grant | Action::Reauth => {
                self.granted = granted(entry);
                self.suspended.clear();
                self.manifest_version = entry.manifest_version;
                self.manifest_hash = entry.manifest_hash;
            }
            Action::Revoke => {
                self.granted.clear();
                self.suspended.clear();
                self.ended = true;
            }
            Action::Suspend if all_granted(&self.granted) => self.suspended.extend(entry.scopes.iter().cloned()),
            Action::Prune if all_granted(&self.granted) => {
                self.granted.retain(|scope, _| !entry.scopes.contains(scope));
                self.suspended.retain(|scope| !entry.scopes.contains(scope));
            }
            Action::Restore if entry.scopes.iter().all(|scope| self.suspended.contains(scope)) => {
                self.suspended.retain(|scope| !entry.scopes.contains(scope));
            }
            Action::Suspend | Action::Prune => return Err(malformed("it takes what was not allowed")),
            Action::Restore => return Err(malformed("it gives back what was not suspended")),
        }
        Ok(())
    }
}

fn granted(entry: &Entry) -> BTreeMap<ScopeId, Term> {
    let term = |scope: &ScopeId| entry.terms.get(scope).copied().unwrap_or(Term::UntilRevoked);
    entry.scopes.iter().map(|scope| (scope.clone(), term(scope))).collect()
}

fn well_formed(entry: &Entry) -> Result<(), Refused> {
    let malformed = |why| Refused::Malformed { seq: entry.seq, why };
    if !entry.scopes.is_sorted_by(|one, other| one < other) {
        return Err(malformed("its scopes are not sorted, each once"));
    }
    if entry.terms.keys().any(|scope| !entry.scopes.contains(scope)) {
        return Err(malformed("it says for how long of a scope it does not name"));
    }
    if entry.terms.values().any(|term| *term == Term::UntilRevoked) {
        return Err(malformed("it writes out what goes without saying"));
    }
    if !entry.action.allows() && !entry.terms.is_empty() {
        return Err(malformed("it takes away, and says for how long"));
    }
    Ok(())
}
