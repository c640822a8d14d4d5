//! Directory of the agents of this host and of registered agents of other hosts. ANP-08 §5 defines no interface for a
//! directory, so the interface is Nuncio's own.

mod index;
mod publisher;
#[cfg(test)]
mod tests;
mod verification;

use std::sync::Arc;

use nuncio_core::agent::Agent;
use nuncio_core::edition_cache::EditionCache;
use nuncio_core::principal::Principal;
use nuncio_core::string_enum;
use nuncio_core::time::Timestamp;
use nuncio_engine::crawl::{CatalogueQuery, CrawledCatalogue};
use nuncio_engine::directory::{DirectoryListing, ListingId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

pub use index::{AgentRegistrationResult, DirectoryIndex, DirectoryOptions, RegistrationPolicy};
pub use publisher::{RemoteDirectoryRegistrar, RemoteRegistrationStatus};

use crate::client::plain;
use crate::project::HostDocumentSettings;
use crate::wire::{AgentDescription, CollectionItem};

/// Profile of the registration interface in a directory's description.
pub const PROFILE: &str = "nuncio.directory.v1";
/// Path for registration and search of agents.
pub const PATH: &str = "/registry/agents";
/// Path of the directory's own description.
pub const DESCRIPTION: &str = "/registry/ad.json";

const MAX_TAGS: usize = 100;
const MAX_CAPABILITIES: usize = 200;

/// Searchable part of an agent description, as stored in the directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListedAgentSummary {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    did: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    tags: Vec<String>,
    capabilities: Vec<ListedCapability>,
    /// Names of the passed checks; empty for local agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    verified: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ListedCapability {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl ListedAgentSummary {
    /// Extracts the searchable part of a description. Texts are reduced to one line and truncated.
    #[must_use]
    pub fn of(description: &AgentDescription) -> Self {
        let abilities = || description.capabilities.iter().flatten();
        let mut tags: Vec<String> = Vec::new();
        let declared_tags = description.extra.get("tags").and_then(Value::as_array);
        let declared_tags = declared_tags.into_iter().flatten().filter_map(Value::as_str);
        for tag in declared_tags.chain(abilities().flat_map(|it| it.intent_tags.iter().flatten().map(String::as_str))) {
            let tag = plain(tag);
            if tags.len() < MAX_TAGS && !tag.trim().is_empty() && !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        let capabilities = abilities().take(MAX_CAPABILITIES);
        let capability =
            |it: &crate::wire::Capability| ListedCapability { id: plain(&it.id), name: it.name.as_deref().map(plain) };
        Self {
            name: plain(&description.name),
            did: description.did.clone(),
            description: description.description.as_deref().map(plain),
            owner: description.owner.as_ref().and_then(|owner| owner.name.as_deref()).map(plain),
            tags,
            capabilities: capabilities.map(capability).collect(),
            verified: Vec::new(),
        }
    }

    /// Creates the searchable part for an entry whose stored description cannot be read.
    fn unread(entry: &DirectoryListing) -> Self {
        Self { name: plain(entry.url.as_str()), did: Some(entry.did.clone()), ..Self::default() }
    }
}

#[derive(Debug, Clone)]
struct DirectoryRow {
    url: Url,
    listed: ListedAgentSummary,
    /// Stored registration of the agent; `None` for local agents.
    entry: Option<DirectoryListing>,
    /// All searchable text of the agent, in lower case.
    text: String,
}

impl DirectoryRow {
    fn new(url: Url, listed: ListedAgentSummary, entry: Option<DirectoryListing>) -> Self {
        let ListedAgentSummary { name, description, owner, tags, capabilities, did, .. } = &listed;
        let capability_texts =
            capabilities.iter().flat_map(|it| [Some(&it.id), it.name.as_ref()].into_iter().flatten());
        let own = [Some(name), description.as_ref(), owner.as_ref(), did.as_ref()].into_iter().flatten();
        let parts = own.chain(tags).chain(capability_texts).map(|part| part.to_lowercase());
        let text = parts.collect::<Vec<_>>().join("\n");
        Self { url, listed, entry, text }
    }

    /// Converts the row to an ANP-08 item with additional members for search results.
    fn item(&self) -> CollectionItem {
        let mut item = CollectionItem::new(self.listed.name.clone(), self.url.to_string());
        if let Value::Object(listed) = json!(self.listed) {
            item.extra.extend(listed.into_iter().filter(|(name, _)| name != "name" && name != "verified"));
        }
        let mut add = |name: &str, value: Value| drop(item.extra.insert(name.to_owned(), value));
        match &self.entry {
            None => add("standing", json!("own")),
            Some(entry) => {
                add("id", json!(entry.id()));
                add("standing", json!(ListingFreshness::of(entry)));
                add("verified", json!({"at": entry.verified, "what": self.listed.verified}));
            }
        }
        item
    }
}

/// Registered agents by description URL.
type AgentCatalogue = CrawledCatalogue<Arc<DirectoryRow>>;

/// Rows of the local agents, for one edition of the agents and their DIDs.
type LocalAgentRowCache = EditionCache<(u64, Vec<Option<String>>), (), Arc<[Arc<DirectoryRow>]>>;

/// Directory row of a local agent; `None` if the agent is not publicly listed.
fn own_row(host: &HostDocumentSettings, agent: &Agent, did: Option<&str>) -> Option<Arc<DirectoryRow>> {
    if !agent.presence.listed {
        return None;
    }
    let description = host.description(agent, did);
    let url = Url::parse(&host.description_url(&agent.name)).ok()?;
    Some(Arc::new(DirectoryRow::new(url, ListedAgentSummary::of(&description), None)))
}

#[derive(Debug, Clone, PartialEq)]
pub struct DirectorySearchPage {
    /// Matching agents, sorted by URL.
    pub items: Vec<CollectionItem>,
    /// Cursor of the next page; `None` on the last one.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectorySearchQuery(CatalogueQuery<2>);

impl DirectorySearchQuery {
    /// Parses query parameters. Unknown ones are ignored.
    ///
    /// # Errors
    /// Names the invalid parameter and its valid values.
    pub fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut query = CatalogueQuery::read(parameters, ["tag", "capability"])?;
        if query.cursor.as_ref().is_some_and(|cursor| Url::parse(cursor).is_err()) {
            return Err("`cursor` is not a cursor of this server".to_owned());
        }
        let [tags, capabilities] = &mut query.filters;
        tags.iter_mut().for_each(|tag| *tag = tag.trim().to_lowercase());
        capabilities.iter_mut().for_each(|id| *id = id.trim().to_owned());
        Ok(Self(query))
    }

    /// Searches local and registered agents.
    fn find(&self, catalogue: &AgentCatalogue, own: &[Arc<DirectoryRow>]) -> DirectorySearchPage {
        let mut rows = catalogue.all();
        // Local rows replace registered ones of the same URL.
        rows.extend(own.iter().map(|row| (row.url.to_string(), Arc::clone(row))));
        let matches = rows.iter().filter(|(url, row)| self.takes(url, row)).map(|(_, row)| row.item());
        let (items, next_cursor) = self.0.page(matches, |item| item.id.clone());
        DirectorySearchPage { items, next_cursor }
    }

    fn takes(&self, url: &str, row: &DirectoryRow) -> bool {
        let (listed, CatalogueQuery { words, filters: [tags, capabilities], cursor, .. }) = (&row.listed, &self.0);
        cursor.as_ref().is_none_or(|after| url > after.as_str())
            && words.iter().all(|word| row.text.contains(word))
            && tags.iter().all(|tag| listed.tags.iter().any(|has| is_below(&has.to_lowercase(), tag)))
            && capabilities.iter().all(|id| listed.capabilities.iter().any(|has| has.id == *id))
    }
}

/// Returns whether a tag equals `wanted` or is below it: `hotel.booking.create` is below `hotel.booking`.
fn is_below(tag: &str, wanted: &str) -> bool {
    tag.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', '/']))
}

/// A registered agent of another host, as operators and registrants see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    pub id: ListingId,
    pub name: String,
    pub url: Url,
    pub did: String,
    pub standing: ListingFreshness,
    /// Time of the last successful verification.
    pub verified: Timestamp,
    /// Names of the checks that the agent passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The principal that registered the agent; only operators see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    pub problem: Option<String>,
    pub next_check: Timestamp,
    pub since: Timestamp,
    pub failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub tags: Vec<String>,
    capabilities: Vec<ListedCapability>,
}

string_enum! {
    pub enum ListingFreshness {
        Listed = "listed",
        /// The last verification failed.
        Stale = "stale",
    }
}

impl DirectoryEntry {
    #[must_use]
    pub fn new(entry: &DirectoryListing, listed: &ListedAgentSummary, now: Timestamp) -> Self {
        let (entry, listed) = (entry.clone(), listed.clone());
        Self {
            id: entry.id(),
            name: listed.name,
            standing: ListingFreshness::of(&entry),
            url: entry.url,
            did: entry.did,
            verified: entry.verified,
            checks: listed.verified,
            by: Some(entry.by),
            problem: entry.problem,
            next_check: entry.next_check.max(now),
            since: entry.since,
            failures: entry.failures,
            description: listed.description,
            owner: listed.owner,
            tags: listed.tags,
            capabilities: listed.capabilities,
        }
    }
}

impl ListingFreshness {
    const fn of(entry: &DirectoryListing) -> Self {
        if entry.is_stale() { Self::Stale } else { Self::Listed }
    }
}
