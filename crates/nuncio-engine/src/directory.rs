//! Agents of other hosts that are listed here because somebody asked for it. What their descriptions say is
//! their protocol's to understand; here it is a text that is kept with its address.

use std::fmt;

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::Engine;
use crate::error::EngineError;
use crate::ports::store::{Change, Conflict, StoreError};

/// The id of an entry. It follows from the address of the description, so that whoever registers it again
/// means the same entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct EntryId(String);

impl EntryId {
    const PREFIX: &str = "reg_";
    const DIGITS: usize = 24;

    /// The id of the entry for a description.
    #[must_use]
    pub fn of(description: &Url) -> Self {
        let digest = Digest::of_bytes(description.as_str().as_bytes()).to_string();
        Self(format!("{}{}", Self::PREFIX, &digest[..Self::DIGITS]))
    }

    /// Reads an id.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix(Self::PREFIX).filter(|rest| rest.len() == Self::DIGITS);
        match digits.is_some_and(|rest| rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))) {
            true => Ok(Self(text.to_owned())),
            false => Err("the id of an entry is reg_ and 24 hexadecimal digits".to_owned()),
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<EntryId> for String {
    fn from(id: EntryId) -> Self {
        id.0
    }
}

impl TryFrom<String> for EntryId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// An agent of another host that is listed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where its description is.
    pub url: Url,
    /// Who it was found to be.
    pub did: String,
    /// Who asked for it to be listed.
    pub by: Principal,
    /// Since when it is.
    pub since: Timestamp,
    /// When its description was last found to hold.
    pub verified: Timestamp,
    /// When it is looked at again.
    pub next_check: Timestamp,
    /// How many looks in a row came to nothing; with any it is stale.
    pub failures: u32,
    /// What was wrong at the last one.
    pub problem: Option<String>,
}

impl Entry {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> EntryId {
        EntryId::of(&self.url)
    }

    /// Whether nothing was heard of it at the last look.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.failures > 0
    }

    /// The host its description is on, whatever the port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Whether this caller may have it listed no more: whoever registered it, the agent itself, and those who
    /// run this server.
    #[must_use]
    pub fn may_be_removed_by(&self, caller: &Principal) -> bool {
        match caller {
            Principal::Operator | Principal::Local => true,
            // Nobody in particular registered what anyone may register.
            Principal::Anonymous => false,
            Principal::Did(did) => self.by == *caller || self.did == *did,
            _ => self.by == *caller,
        }
    }
}

/// How many agents are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryLimits {
    /// In all.
    pub entries: usize,
    /// Of one host.
    pub per_host: usize,
}

impl DirectoryLimits {
    /// Whether one more of that host has room among those there are.
    ///
    /// # Errors
    /// It has not.
    pub fn room<'a>(&self, host: &str, there: impl Iterator<Item = &'a Entry>) -> Result<(), EngineError> {
        let full = |message: String| Err(EngineError::new(Code::DirectoryFull, message));
        let (mut all, mut of_host) = (0, 0);
        for entry in there {
            all += 1;
            of_host += usize::from(entry.host() == host);
        }
        if of_host >= self.per_host {
            return full(format!("this directory lists {of_host} agents of {host}, and no more of one host"));
        }
        if all >= self.entries {
            return full(format!("this directory lists {all} agents, and has no room for more"));
        }
        Ok(())
    }
}

impl Engine {
    /// Every entry with what was kept of its description, by id.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn directory(&self) -> Result<Vec<(Entry, String)>, EngineError> {
        Ok(self.store().directory().await?)
    }

    /// Lists an agent from now on, or as it is now.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn put_entry(&self, entry: Entry, description: String) -> Result<(), EngineError> {
        Ok(self.store().commit(vec![Change::PutEntry { entry, description }]).await?)
    }

    /// Keeps what a look came to. Nothing is kept of an entry that is listed no more; the answer says whether it
    /// is.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn keep_check(&self, entry: Entry) -> Result<bool, EngineError> {
        match self.store().commit(vec![Change::UpdateEntry(entry)]).await {
            Err(StoreError::Conflict(Conflict::Missing)) => Ok(false),
            other => Ok(other.map(|()| true)?),
        }
    }

    /// Lists an agent no more.
    ///
    /// # Errors
    /// It is not listed, or the store cannot be written.
    pub async fn remove_entry(&self, id: &EntryId) -> Result<(), EngineError> {
        match self.store().commit(vec![Change::RemoveEntry(id.clone())]).await {
            Err(StoreError::Conflict(Conflict::Missing)) => Err(not_registered(id.as_str())),
            other => Ok(other?),
        }
    }
}

/// There is no such entry.
#[must_use]
pub fn not_registered(what: &str) -> EngineError {
    let what: String = what.chars().take(200).collect();
    EngineError::new(
        Code::NotRegistered,
        format!("{what} is not in this directory; GET /registry/agents lists what is"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(url: &str, by: Principal) -> Entry {
        let now = Timestamp::from_millis(0);
        let did = "did:wba:a.example:agents:x".to_owned();
        let url = Url::parse(url).unwrap();
        Entry { url, did, by, since: now, verified: now, next_check: now, failures: 0, problem: None }
    }

    #[test]
    fn an_id_follows_from_the_address_and_is_read_back() {
        let one = entry("https://a.example/agents/x/ad.json", Principal::Local).id();
        assert_eq!(one, entry("https://A.example:443/agents/x/ad.json", Principal::Anonymous).id());
        assert_ne!(one, entry("https://a.example/agents/y/ad.json", Principal::Local).id());
        assert_eq!(EntryId::parse(one.as_str()), Ok(one));
        for bad in ["", "reg_", "reg_0123456789abcdef0123456g", "REG_0123456789abcdef01234567", "reg_../x"] {
            assert!(EntryId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_its_registrant_its_agent_and_operators_remove_an_entry() {
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

    #[test]
    fn there_is_room_for_so_many_in_all_and_of_one_host() {
        let limits = DirectoryLimits { entries: 3, per_host: 2 };
        let urls = ["https://a.example/1", "https://a.example:8443/2", "https://b.example/3"];
        let entries = urls.map(|url| entry(url, Principal::Local));
        let code = |host: &str, count: usize| limits.room(host, entries[..count].iter()).err().map(|error| error.code);
        assert_eq!(code("a.example", 1), None);
        assert_eq!(code("a.example", 2), Some(Code::DirectoryFull));
        assert_eq!(code("b.example", 2), None);
        assert_eq!(code("c.example", 3), Some(Code::DirectoryFull));
    }
}
