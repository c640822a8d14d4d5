//! Registry that searches the skills of this host and of followed hosts. §4.2 leaves the response format open, so
//! the format is Nuncio's own.

use std::sync::Arc;

use nuncio_core::agent::CapabilityType;
use nuncio_core::time::Timestamp;
use nuncio_engine::crawl::{CatalogueQuery, CrawledCatalogue};
use serde::{Deserialize, Serialize};

use crate::wire::SkillIndexEntry;

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedProvider {
    /// Name of the person or organisation that provides the skill.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListedSkill {
    entry: SkillIndexEntry,
    provider: ListedProvider,
    tags: Vec<String>,
    /// All searchable texts of the skill, in lower case.
    text: String,
}

impl ListedSkill {
    /// Creates a listed skill; fields of the entry that the protocol does not define are dropped.
    #[must_use]
    pub fn new(mut entry: SkillIndexEntry, provider: ListedProvider, tags: Vec<String>) -> Self {
        entry.extra.clear();
        let parts = [&entry.id, &entry.name, &entry.description].into_iter().chain(&tags);
        let text = parts.map(|part| part.to_lowercase()).collect::<Vec<_>>().join("\n");
        Self { entry, provider, tags, text }
    }
}

#[derive(Debug, Clone)]
pub struct HostSkillListing {
    last_seen: Timestamp,
    /// Skills of the host, sorted by id.
    skills: Arc<[ListedSkill]>,
}

impl HostSkillListing {
    #[must_use]
    pub fn new(mut skills: Vec<ListedSkill>, last_seen: Timestamp) -> Self {
        skills.sort_by(|one, other| one.entry.id.cmp(&other.entry.id));
        Self { last_seen, skills: skills.into() }
    }

    /// Returns the same skills with a new `last_seen`.
    #[must_use]
    pub fn seen(&self, last_seen: Timestamp) -> Self {
        Self { last_seen, skills: Arc::clone(&self.skills) }
    }
}

/// Skills of other hosts by origin.
pub type SkillCatalogue = CrawledCatalogue<HostSkillListing>;

/// Parsed query of a registry search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryQuery {
    query: CatalogueQuery<3>,
    kind: Option<CapabilityType>,
    /// Name, origin or host of the wanted provider, in lower case.
    provider: Option<String>,
    /// Origin and id of the last skill of the previous page.
    after: Option<(String, String)>,
}

impl RegistryQuery {
    /// Parses query parameters; unknown ones are ignored.
    ///
    /// # Errors
    /// The message names the wrong parameter and its allowed values.
    pub fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let query = CatalogueQuery::read(parameters, ["type", "tag", "provider"])?;
        let [kinds, _, providers] = &query.filters;
        let mut kind = None;
        for name in kinds {
            kind = CapabilityType::ALL.into_iter().find(|kind| kind.as_str() == *name);
            if kind.is_none() {
                let names = CapabilityType::ALL.map(CapabilityType::as_str).join(", ");
                return Err(format!("`type` is one of {names}"));
            }
        }
        let after = match query.cursor.as_deref().map(|cursor| cursor.split_once(' ')) {
            Some(None) => return Err("`cursor` is not a cursor of this server".to_owned()),
            position => position.flatten().map(|(origin, id)| (origin.to_owned(), id.to_owned())),
        };
        let provider = providers.last().map(|name| name.trim().to_lowercase());
        Ok(Self { query, kind, provider, after })
    }

    /// Returns one page of matching skills of this host (`own`) and all others.
    #[must_use]
    pub fn find(&self, catalogue: &SkillCatalogue, here: &str, own: HostSkillListing) -> RegistrySearchPage {
        let mut hosts = catalogue.all();
        // If this host follows itself, `own` replaces the crawled copies of its skills.
        hosts.insert(here.to_owned(), own);
        let matches = hosts.iter().flat_map(|(origin, host_skills)| {
            let skills = host_skills.skills.iter().filter(move |skill| self.takes(origin, skill));
            skills.map(move |skill| RegistryEntry::new(origin, host_skills, skill))
        });
        let (skills, next_cursor) = self.query.page(matches, RegistryEntry::cursor);
        RegistrySearchPage { skills, next_cursor }
    }

    fn takes(&self, origin: &str, skill: &ListedSkill) -> bool {
        let is_after = |(last, id): &(String, String)| (origin, skill.entry.id.as_str()) > (last.as_str(), id.as_str());
        self.after.as_ref().is_none_or(is_after)
            && self.kind.is_none_or(|kind| skill.entry.capability_type == kind)
            && self.query.words.iter().all(|word| skill.text.contains(word))
            && self.query.filters[1].iter().all(|tag| skill.tags.contains(tag))
            && self.provider.as_ref().is_none_or(|provider| is_of(origin, skill, provider))
    }
}

/// Whether the provider's name, origin, or host and port equals `provider`.
fn is_of(origin: &str, skill: &ListedSkill, provider: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    skill.provider.name.to_lowercase() == provider || origin == provider.trim_end_matches('/') || host == provider
}

/// Page of results of a registry search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegistrySearchPage {
    /// Matching skills, sorted by origin and id.
    pub skills: Vec<RegistryEntry>,
    /// Start of the next page; `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Result of a registry search: the skill's index entry and the host that lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegistryEntry {
    #[serde(flatten)]
    entry: SkillIndexEntry,
    provider: ListedProvider,
    /// Origin of the host whose index lists the skill.
    origin: String,
    tags: Vec<String>,
    last_seen: Timestamp,
}

impl RegistryEntry {
    fn new(origin: &str, host_skills: &HostSkillListing, skill: &ListedSkill) -> Self {
        Self {
            entry: skill.entry.clone(),
            provider: skill.provider.clone(),
            origin: origin.to_owned(),
            tags: skill.tags.clone(),
            last_seen: host_skills.last_seen,
        }
    }

    /// Encodes origin and id of the skill, separated by a space, because an origin contains no space.
    fn cursor(&self) -> String {
        format!("{} {}", self.origin, self.entry.id)
    }
}
