//! A listing of an agent of another host.

use std::fmt;

use nuncio_core::digest::Digest;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

/// Id of a listing, derived from the URL of the description, so that registering the same URL again updates the same
/// listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ListingId(String);

impl ListingId {
    const PREFIX: &str = "reg_";
    const ID_DIGITS: usize = 24;

    #[must_use]
    pub fn of(description: &Url) -> Self {
        let digest = Digest::of_bytes(description.as_str().as_bytes()).to_string();
        Self(format!("{}{}", Self::PREFIX, &digest[..Self::ID_DIGITS]))
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix(Self::PREFIX).filter(|rest| rest.len() == Self::ID_DIGITS);
        match digits.is_some_and(|rest| rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))) {
            true => Ok(Self(text.to_owned())),
            false => Err("the id of an entry is reg_ and 24 hexadecimal digits".to_owned()),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ListingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ListingId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// A listed agent of another host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryListing {
    pub url: Url,
    /// DID of the agent, proved by its verified description.
    pub did: String,
    /// Principal that registered the agent.
    pub by: Principal,
    pub since: Timestamp,
    /// Time of the last successful verification of the listing.
    pub verified: Timestamp,
    pub next_check: Timestamp,
    /// Consecutive failed checks; above zero the listing is stale.
    pub failures: u32,
    /// Reason of the last failed verification; `None` after a successful one.
    pub problem: Option<String>,
}

impl DirectoryListing {
    #[must_use]
    pub fn id(&self) -> ListingId {
        ListingId::of(&self.url)
    }

    /// Whether the last verification of the listing failed.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.failures > 0
    }

    /// Host of the agent description, without port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Whether this caller may remove the listing: its registrant, the agent itself, and operators.
    #[must_use]
    pub fn may_be_removed_by(&self, caller: &Principal) -> bool {
        match caller {
            Principal::Operator | Principal::Local => true,
            // An anonymous registrant cannot be recognised.
            Principal::Anonymous => false,
            Principal::Did(did) => self.by == *caller || self.did == *did,
            _ => self.by == *caller,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(url: &str, by: Principal) -> DirectoryListing {
        let now = Timestamp::from_millis(0);
        let did = "did:wba:a.example:agents:x".to_owned();
        let url = Url::parse(url).unwrap();
        DirectoryListing { url, did, by, since: now, verified: now, next_check: now, failures: 0, problem: None }
    }

    #[test]
    fn listing_id_is_derived_from_url_and_parses_back() {
        let one = entry("https://a.example/agents/x/ad.json", Principal::Local).id();
        assert_eq!(one, entry("https://A.example:443/agents/x/ad.json", Principal::Anonymous).id());
        assert_ne!(one, entry("https://a.example/agents/y/ad.json", Principal::Local).id());
        assert_eq!(ListingId::parse(one.as_str()), Ok(one));
        for bad in ["", "reg_", "reg_0123456789abcdef0123456g", "REG_0123456789abcdef01234567", "reg_../x"] {
            assert!(ListingId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_registrant_listed_agent_and_operator_may_remove_a_listing() {
        let did = |text: &str| Principal::parse(text).unwrap();
        let by_did = entry("https://a.example/ad.json", did("did:wba:a.example"));
        for (caller, may) in [
            ("operator", true),
            ("local", true),
            ("did:wba:a.example", true),
            ("did:wba:a.example:agents:x", true),
            ("did:wba:a.example:agents:y", false),
            ("did:wba:b.example", false),
            ("key:key_1", false),
            ("anonymous", false),
        ] {
            assert_eq!(by_did.may_be_removed_by(&did(caller)), may, "{caller}");
        }
        let by_nobody = entry("https://a.example/ad.json", Principal::Anonymous);
        assert!(!by_nobody.may_be_removed_by(&Principal::Anonymous));
        assert!(entry("https://a.example/ad.json", did("key:key_1")).may_be_removed_by(&did("key:key_1")));
    }
}
