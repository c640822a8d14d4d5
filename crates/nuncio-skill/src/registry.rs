//! Registry: searches the skills of this host and of the hosts it follows. §4.2 names the registry and leaves its
//! response format open; the format is our own.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_core::agent::CapabilityType;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::wire::SkillIndexEntry;

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedProvider {
    /// A person or an organisation.
    pub name: String,
    /// Provider's page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Skill in the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedSkill {
    entry: SkillIndexEntry,
    provider: ListedProvider,
    tags: Vec<String>,
    /// Searchable text, in lower case.
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
pub struct HostSkills {
    last_seen: Timestamp,
    /// Sorted by id.
    skills: Arc<[ListedSkill]>,
}

impl HostSkills {
    #[must_use]
    pub fn new(mut skills: Vec<ListedSkill>, last_seen: Timestamp) -> Self {
        skills.sort_by(|one, other| one.entry.id.cmp(&other.entry.id));
        Self { last_seen, skills: skills.into() }
    }

    /// Copy with a new `last_seen`.
    #[must_use]
    pub fn seen(&self, last_seen: Timestamp) -> Self {
        Self { last_seen, skills: Arc::clone(&self.skills) }
    }
}

/// Skills of other hosts by origin, in memory. The crawler updates it.
#[derive(Debug, Default)]
pub struct Catalogue(RwLock<BTreeMap<String, HostSkills>>);

impl Catalogue {
    /// Replaces the skills of an origin.
    pub fn put(&self, origin: &str, host_skills: HostSkills) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(origin.to_owned(), host_skills);
    }

    pub fn remove(&self, origin: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(origin);
    }

    /// Returns one page of matching skills of this host (`own`) and all others.
    #[must_use]
    pub fn find(&self, here: &str, own: HostSkills, query: &RegistryQuery) -> RegistrySearchPage {
        let mut shelves = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Followed copies of this host's own skills are ignored; `own` is current.
        shelves.insert(here.to_owned(), own);
        let mut skills = Vec::new();
        for (origin, host_skills) in &shelves {
            if query.after.as_ref().is_some_and(|after| *origin < after.origin) {
                continue;
            }
            for skill in host_skills.skills.iter().filter(|skill| query.takes(origin, skill)) {
                if skills.len() == query.limit {
                    let next_cursor = skills.last().map(RegistryEntry::cursor);
                    return RegistrySearchPage { skills, next_cursor };
                }
                skills.push(RegistryEntry::new(origin, host_skills, skill));
            }
        }
        RegistrySearchPage { skills, next_cursor: None }
    }
}

/// Parsed search request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryQuery {
    kind: Option<CapabilityType>,
    /// Search words, in lower case.
    words: Vec<String>,
    tags: Vec<String>,
    /// Name, origin or host, in lower case.
    provider: Option<String>,
    after: Option<Cursor>,
    limit: usize,
}

/// Position in the sorted result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    origin: String,
    id: String,
}

impl RegistryQuery {
    /// Default page size.
    pub const PAGE: usize = 100;
    /// Maximum page size.
    pub const MAX_PAGE: usize = 1000;
    /// Length limit of the search text.
    pub const MAX_TEXT: usize = 500;
    /// Limit on tags in one request.
    const MAX_TAGS: usize = 20;

    /// Parses query parameters; unknown ones are ignored.
    ///
    /// # Errors
    /// The message names the wrong parameter and its allowed values.
    pub fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut query =
            Self { kind: None, words: Vec::new(), tags: Vec::new(), provider: None, after: None, limit: Self::PAGE };
        for (name, value) in parameters {
            if value.len() > Self::MAX_TEXT && matches!(name, "q" | "tag" | "provider") {
                return Err(format!("`{name}` has at most {} bytes", Self::MAX_TEXT));
            }
            match name {
                "type" => {
                    let kind = CapabilityType::ALL.into_iter().find(|kind| kind.as_str() == value);
                    query.kind = Some(kind.ok_or_else(|| {
                        format!("`type` is one of {}", CapabilityType::ALL.map(CapabilityType::as_str).join(", "))
                    })?);
                }
                "q" => query.words = value.to_lowercase().split_whitespace().map(str::to_owned).collect(),
                "tag" if query.tags.len() == Self::MAX_TAGS => {
                    return Err(format!("`tag` may be there at most {} times", Self::MAX_TAGS));
                }
                "tag" => query.tags.push(value.to_owned()),
                "provider" => query.provider = Some(value.trim().to_lowercase()),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=Self::MAX_PAGE).contains(limit));
                    query.limit = limit.ok_or_else(|| format!("`limit` is a number from 1 to {}", Self::MAX_PAGE))?;
                }
                "cursor" => {
                    let (origin, id) = value.split_once(' ').ok_or("`cursor` is not one this server gave")?;
                    query.after = Some(Cursor { origin: origin.to_owned(), id: id.to_owned() });
                }
                _ => {}
            }
        }
        Ok(query)
    }

    fn takes(&self, origin: &str, skill: &ListedSkill) -> bool {
        let behind = |after: &Cursor| (origin, skill.entry.id.as_str()) > (after.origin.as_str(), after.id.as_str());
        self.after.as_ref().is_none_or(behind)
            && self.kind.is_none_or(|kind| skill.entry.capability_type == kind)
            && self.words.iter().all(|word| skill.text.contains(word))
            && self.tags.iter().all(|tag| skill.tags.contains(tag))
            && self.provider.as_ref().is_none_or(|provider| is_of(origin, skill, provider))
    }
}

/// Whether the provider's name, origin, or host and port equals `provider`.
fn is_of(origin: &str, skill: &ListedSkill, provider: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    skill.provider.name.to_lowercase() == provider || origin == provider.trim_end_matches('/') || host == provider
}

/// Page of search results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegistrySearchPage {
    /// Sorted by origin and id.
    pub skills: Vec<RegistryEntry>,
    /// Start of the next page; `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Search result: the index entry and where it was seen.
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
    fn new(origin: &str, host_skills: &HostSkills, skill: &ListedSkill) -> Self {
        Self {
            entry: skill.entry.clone(),
            provider: skill.provider.clone(),
            origin: origin.to_owned(),
            tags: skill.tags.clone(),
            last_seen: host_skills.last_seen,
        }
    }

    /// Encodes origin and id, separated by a space; an origin contains no space.
    fn cursor(&self) -> String {
        format!("{} {}", self.origin, self.entry.id)
    }
}
