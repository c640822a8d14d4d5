//! People, their devices, the agents they use and what they allow them.
//!
//! An agent publishes a manifest of what it can do to people. A person consents to parts of it and one of their devices
//! signs that. When the manifest changes, the judge compares it with the version each person accepted; changed scopes
//! are suspended in the same commit and the people are notified.

mod accounts;
mod declared;
mod enrolment;
mod error;
mod impact;
mod locks;
mod mail;
mod mail_waiters;
mod manifests;
mod relations;
mod rules;
mod signing;
mod texts;

pub use accounts::{
    AgentAccountPatch, AgentAccountService, CreatedAgentAccount, NewAgentAccount, UpdatedAgentAccount, stale_account,
};
pub use enrolment::{CreatedDeviceInvite, DeviceEnrolmentRequest, PersonService};
pub use error::{ConsentError, ConsentErrorDetails};
pub(crate) use locks::AgentLocks;
pub use mail::NotificationService;
pub(crate) use mail_waiters::NotificationWaiters;
pub use manifests::{ManifestPublicationResult, ManifestService};
pub use relations::{ConsentService, LedgerSlice, NewConsent, NewRelation};
pub use rules::ConsentSettings;
pub use signing::Ed25519Verifier;
