//! What people allow the agents that they use.
//!
//! An agent publishes a manifest of what it can do to people. A person consents to parts of it and one of their devices
//! signs that. When the manifest changes, the judge compares it with the version each person accepted; changed scopes
//! are suspended in the same commit and the people are notified.

mod create_agent;
mod declared;
mod impact;
mod manifests;
mod relations;

pub use crate::consent_error::{ConsentError, ConsentErrorDetails};
pub use crate::limits::ConsentSettings;
pub use create_agent::{CreatedAgentAccount, NewAgentAccount};
pub use manifests::{ManifestPublicationResult, ManifestService};
pub use relations::{ConsentService, LedgerSlice, NewConsent, NewRelation};
