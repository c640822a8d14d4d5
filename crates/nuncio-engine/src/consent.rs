//! People, their devices, the agents they deal with, and what they allow them.
//!
//! An agent publishes what it can do to people: its manifest. A person says yes to parts of it, and a
//! device of theirs signs that. When the manifest changes, the judge holds the new one against the very
//! version each person said yes to; what changed is suspended in the same commit, and they are told.

mod accounts;
mod declared;
mod enrolment;
mod error;
mod impact;
mod locks;
mod mail;
mod mailrooms;
mod manifests;
mod relations;
mod rules;
mod signing;
mod words;

pub use accounts::{AgentChanged, AgentPatch, NewAgent, NewAgentMade};
pub use enrolment::{NewDevice, NewInvite};
pub use error::{ConsentError, Details};
pub(crate) use locks::AgentLocks;
pub(crate) use mailrooms::Mailrooms;
pub use manifests::Publication;
pub use relations::{Ledger, NewConsent, NewRelation};
pub use rules::ConsentRules;
pub use signing::Ed25519;
