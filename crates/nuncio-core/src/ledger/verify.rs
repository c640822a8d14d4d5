//! Verification of a consent ledger, and the permissions it results in.

use std::collections::{BTreeMap, BTreeSet};

use crate::digest::Digest;
use crate::grant::GrantTerm;
use crate::ids::{AgentId, DeviceId, PersonName, RelationId, ScopeId};
use crate::person::Device;
use crate::signature::SignatureChecker;
use crate::time::Timestamp;

use super::{ChainHead, LedgerAction, LedgerActor, LedgerEntry};

/// Verifies a whole ledger with the keys of the person's devices, including revoked devices. The error names the first
/// invalid entry.
pub fn verify(
    entries: &[LedgerEntry],
    devices: &[Device],
    check: &dyn SignatureChecker,
) -> Result<LedgerState, LedgerFault> {
    let mut verifier = LedgerVerifier::new(devices, check);
    entries.iter().try_for_each(|entry| verifier.take(entry))?;
    verifier.into_state().ok_or(LedgerFault::Empty)
}

/// The state that a valid ledger results in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerState {
    pub relation: RelationId,
    pub agent: AgentId,
    pub person: PersonName,
    /// Position and hash of the last ledger entry.
    pub head: ChainHead,
    pub granted: BTreeMap<ScopeId, GrantTerm>,
    /// The granted scopes that are suspended.
    pub suspended: BTreeSet<ScopeId>,
    /// Version of the manifest that the person last consented to.
    pub manifest_version: u64,
    pub manifest_hash: Option<Digest>,
    /// Time of the last ledger entry.
    pub at: Timestamp,
    pub ended: bool,
}

impl LedgerState {
    /// The scopes usable at `now`. A one-time grant may already be used, because the ledger does not record its use.
    pub fn effective(&self, now: Timestamp) -> impl Iterator<Item = &ScopeId> {
        let in_time = move |term: &GrantTerm| !matches!(term, GrantTerm::Until(end) if now >= *end);
        let granted = self.granted.iter().filter(move |(_, term)| in_time(term)).map(|(scope, _)| scope);
        granted.filter(|scope| !self.suspended.contains(*scope))
    }
}

/// The first invalid entry of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFault {
    /// The ledger has no entries.
    #[error("the ledger is empty")]
    Empty,
    #[error("entry {expected} is missing: the next one found is {found}")]
    Gap { expected: u64, found: u64 },
    /// The previous hash of an entry does not match: this entry or the one before was changed.
    #[error("entry {0} does not follow from the one before")]
    Detached(u64),
    /// An entry belongs to another relation, agent or person.
    #[error("entry {0} is about another person, agent or relation")]
    Foreign(u64),
    /// A ledger entry has an earlier time than the entry before it.
    #[error("entry {0} is older than the one before")]
    BackInTime(u64),
    /// An entry follows the revocation that ended the ledger.
    #[error("entry {0} comes after the end")]
    AfterTheEnd(u64),
    /// An entry breaks a rule of the format; `why` says which.
    #[error("entry {seq} is malformed: {why}")]
    Malformed { seq: u64, why: &'static str },
    /// The server made an entry that only the person may make.
    #[error("entry {0} allows something, but no device of the person signed it")]
    Overreach(u64),
    /// A person's entry has no signature.
    #[error("entry {0} was made by the person, but no device signed it")]
    Unsigned(u64),
    /// The signing device does not belong to the person, or did not at the time of the ledger entry.
    #[error("entry {seq} is signed by device {device}, which was not the person's at that time")]
    UnknownDevice { seq: u64, device: DeviceId },
    /// The signature of an entry is invalid: the entry was changed, or another key signed it.
    #[error("entry {0} does not match the signature of its device")]
    BadSignature(u64),
}

/// Verifies a ledger entry by entry.
pub struct LedgerVerifier<'a> {
    devices: &'a [Device],
    check: &'a dyn SignatureChecker,
    state: Option<LedgerState>,
}

impl<'a> LedgerVerifier<'a> {
    #[must_use]
    pub fn new(devices: &'a [Device], check: &'a dyn SignatureChecker) -> Self {
        Self { devices, check, state: None }
    }

    /// The state after the ledger entries so far; `None` before the first.
    #[must_use]
    pub fn into_state(self) -> Option<LedgerState> {
        self.state
    }

    pub fn take(&mut self, entry: &LedgerEntry) -> Result<(), LedgerFault> {
        let seq = entry.seq;
        let head = self.state.as_ref().map_or(ChainHead::START, |state| state.head);
        if seq != head.seq + 1 {
            return Err(LedgerFault::Gap { expected: head.seq + 1, found: seq });
        }
        if entry.prev_hash != head.hash {
            return Err(LedgerFault::Detached(seq));
        }
        well_formed(entry)?;
        let person = self.made_by(entry)?;
        let Some(state) = self.state.as_mut() else {
            let Some(person) = person.filter(|_| entry.action == LedgerAction::Grant) else {
                return Err(LedgerFault::Malformed { seq, why: "a ledger begins with the person's grant" });
            };
            self.state = Some(LedgerState {
                relation: entry.relation_id.clone(),
                agent: entry.agent_id.clone(),
                person,
                head: ChainHead { seq, hash: entry.hash() },
                granted: granted(entry),
                suspended: BTreeSet::new(),
                manifest_version: entry.manifest_version,
                manifest_hash: entry.manifest_hash,
                at: entry.at,
                ended: false,
            });
            return Ok(());
        };
        let same = state.relation == entry.relation_id && state.agent == entry.agent_id;
        if !same || person.is_some_and(|person| person != state.person) {
            return Err(LedgerFault::Foreign(seq));
        }
        if entry.at < state.at {
            return Err(LedgerFault::BackInTime(seq));
        }
        if state.ended {
            return Err(LedgerFault::AfterTheEnd(seq));
        }
        state.apply(entry)?;
        state.head = ChainHead { seq, hash: entry.hash() };
        state.at = entry.at;
        Ok(())
    }

    /// The person whose device signed the ledger entry; `None` for an entry that the server may make.
    fn made_by(&self, entry: &LedgerEntry) -> Result<Option<PersonName>, LedgerFault> {
        let seq = entry.seq;
        let person = match &entry.actor {
            LedgerActor::Server if entry.action.allows() => return Err(LedgerFault::Overreach(seq)),
            LedgerActor::Server if entry.device_id.is_some() || entry.signature.is_some() => {
                return Err(LedgerFault::Malformed { seq, why: "an entry of the server must not name a device" });
            }
            LedgerActor::Server => return Ok(None),
            LedgerActor::Person(person) => person,
        };
        let (Some(id), Some(signature)) = (&entry.device_id, &entry.signature) else {
            return Err(LedgerFault::Unsigned(seq));
        };
        let is_signer = |device: &&Device| device.id == *id && device.person == *person && device.is_valid_at(entry.at);
        let Some(device) = self.devices.iter().find(is_signer) else {
            return Err(LedgerFault::UnknownDevice { seq, device: id.clone() });
        };
        if !self.check.holds(&device.key, &entry.message(), signature) {
            return Err(LedgerFault::BadSignature(seq));
        }
        Ok(Some(person.clone()))
    }
}

impl LedgerState {
    fn apply(&mut self, entry: &LedgerEntry) -> Result<(), LedgerFault> {
        let malformed = |why| LedgerFault::Malformed { seq: entry.seq, why };
        let all_granted =
            |granted: &BTreeMap<ScopeId, GrantTerm>| entry.scopes.iter().all(|scope| granted.contains_key(scope));
        match entry.action {
            LedgerAction::Grant | LedgerAction::Reauth => {
                self.granted = granted(entry);
                self.suspended.clear();
                self.manifest_version = entry.manifest_version;
                self.manifest_hash = entry.manifest_hash;
            }
            LedgerAction::Revoke => {
                self.granted.clear();
                self.suspended.clear();
                self.ended = true;
            }
            LedgerAction::Suspend if all_granted(&self.granted) => self.suspended.extend(entry.scopes.iter().cloned()),
            LedgerAction::Prune if all_granted(&self.granted) => {
                self.granted.retain(|scope, _| !entry.scopes.contains(scope));
                self.suspended.retain(|scope| !entry.scopes.contains(scope));
            }
            LedgerAction::Restore if entry.scopes.iter().all(|scope| self.suspended.contains(scope)) => {
                self.suspended.retain(|scope| !entry.scopes.contains(scope));
            }
            LedgerAction::Suspend | LedgerAction::Prune => {
                return Err(malformed("it suspends or removes a scope that was not granted"));
            }
            LedgerAction::Restore => return Err(malformed("it restores a scope that was not suspended")),
        }
        Ok(())
    }
}

fn granted(entry: &LedgerEntry) -> BTreeMap<ScopeId, GrantTerm> {
    let term = |scope: &ScopeId| entry.terms.get(scope).copied().unwrap_or(GrantTerm::UntilRevoked);
    entry.scopes.iter().map(|scope| (scope.clone(), term(scope))).collect()
}

fn well_formed(entry: &LedgerEntry) -> Result<(), LedgerFault> {
    let malformed = |why| LedgerFault::Malformed { seq: entry.seq, why };
    if !entry.scopes.is_sorted_by(|one, other| one < other) {
        return Err(malformed("its scopes are not sorted and unique"));
    }
    if entry.terms.keys().any(|scope| !entry.scopes.contains(scope)) {
        return Err(malformed("it has a term for a scope that it does not list"));
    }
    if entry.terms.values().any(|term| *term == GrantTerm::UntilRevoked) {
        return Err(malformed("it lists a term that is the default"));
    }
    if !entry.action.allows() && !entry.terms.is_empty() {
        return Err(malformed("it removes permissions, but has terms"));
    }
    Ok(())
}
