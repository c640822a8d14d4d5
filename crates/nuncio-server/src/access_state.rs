//! Whether requests without a credential are served, why, and how the operator changes that.

use nuncio_auth::NetworkExposure;
use serde::{Deserialize, Serialize};

use crate::settings::LoopbackAccess;

/// Who may use the server without a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeylessAccess {
    /// Open to this machine, until the first key is created.
    OpenUntilFirstKey,
    /// Open to this machine, by `[access] loopback = "open"`.
    OpenBySetting,
    /// Open to everyone, by `--open`.
    OpenToAll,
    /// Closed, because a key was created.
    ClosedByKey,
    /// Closed, by `[access] loopback = "keys"`.
    ClosedBySetting,
    /// Closed, because the server can be reached from other machines.
    ClosedByAddress,
    /// No server runs, and no key was ever created.
    StoppedWithoutKeys,
    /// No server runs, and a key was created.
    StoppedWithKeys,
    /// No server runs; the next one is open to this machine by `[access] loopback = "open"`.
    StoppedOpenBySetting,
    /// No server runs; the next one needs keys by `[access] loopback = "keys"`.
    StoppedClosedBySetting,
}

impl KeylessAccess {
    /// The state of a running server. `has_keys` says whether any key was ever created.
    #[must_use]
    pub fn of_server(exposure: NetworkExposure, has_keys: bool) -> Self {
        match exposure {
            NetworkExposure::Loopback if has_keys => Self::ClosedByKey,
            NetworkExposure::Loopback => Self::OpenUntilFirstKey,
            NetworkExposure::OpenLoopback => Self::OpenBySetting,
            NetworkExposure::ClosedLoopback => Self::ClosedBySetting,
            NetworkExposure::Network => Self::ClosedByAddress,
            NetworkExposure::Open => Self::OpenToAll,
        }
    }

    /// The state while no server runs. `loopback` is the setting that the next server will read.
    #[must_use]
    pub fn of_stopped(has_keys: bool, loopback: Option<LoopbackAccess>) -> Self {
        match loopback {
            Some(LoopbackAccess::Open) => Self::StoppedOpenBySetting,
            Some(LoopbackAccess::Keys) => Self::StoppedClosedBySetting,
            None if has_keys => Self::StoppedWithKeys,
            None => Self::StoppedWithoutKeys,
        }
    }

    /// The state in words for the operator, and how to change it.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::OpenUntilFirstKey => {
                "Open to this machine: no key needed. The first key closes the server (`nuncio key create`). To keep it open even then, set loopback = \"open\" below [access] in nuncio.toml and restart."
            }
            Self::OpenBySetting => {
                "Open to this machine: no key needed, even if keys exist (loopback = \"open\" below [access] in nuncio.toml). To require keys, set it to \"keys\" and restart."
            }
            Self::OpenToAll => {
                "Open to everyone who can reach it: no key needed (--open). To require keys, restart without --open."
            }
            Self::ClosedByKey => {
                "Closed: every request needs a key, because keys were created. To open it to this machine, set loopback = \"open\" below [access] in nuncio.toml and restart."
            }
            Self::ClosedBySetting => {
                "Closed: every request needs a key (loopback = \"keys\" below [access] in nuncio.toml). `nuncio key create` makes one. To open it to this machine, set it to \"open\" and restart."
            }
            Self::ClosedByAddress => {
                "Closed: every request needs a key, because the server listens beyond this machine. To serve everyone without a key, restart with --open."
            }
            Self::StoppedWithoutKeys => {
                "No server runs. On a loopback address it will be open to this machine until the first key is created, unless [access] loopback in nuncio.toml says otherwise."
            }
            Self::StoppedWithKeys => {
                "No server runs. It will need a key for every request, unless [access] loopback in nuncio.toml or --open says otherwise."
            }
            Self::StoppedOpenBySetting => {
                "No server runs. On a loopback address it will be open to this machine, even if keys exist (loopback = \"open\" below [access] in nuncio.toml)."
            }
            Self::StoppedClosedBySetting => {
                "No server runs. It will need a key for every request (loopback = \"keys\" below [access] in nuncio.toml), unless it is started with --open."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_state_is_closed_exactly_if_requests_need_a_key() {
        let all = [
            NetworkExposure::Loopback,
            NetworkExposure::OpenLoopback,
            NetworkExposure::ClosedLoopback,
            NetworkExposure::Network,
            NetworkExposure::Open,
        ];
        for (exposure, has_keys) in all.into_iter().flat_map(|exposure| [(exposure, false), (exposure, true)]) {
            let text = KeylessAccess::of_server(exposure, has_keys).describe();
            assert_eq!(text.starts_with("Closed: "), exposure.asks_for_keys(has_keys), "{exposure:?} {has_keys}");
        }
    }
}
