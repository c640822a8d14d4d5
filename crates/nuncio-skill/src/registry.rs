//! The registry: skills of this host and of the hosts it follows, and how they are found among each other
//! (§4.2 names it and leaves its answers open; they are ours).

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_core::agent::CapabilityType;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::wire::SkillIndexEntry;

#[cfg(test)]
mod tests;

/// Who provides a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedProvider {
    /// A person or an organisation.
    pub name: String,
    /// Their page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A skill that can be found.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedSkill {
    entry: SkillIndexEntry,
    provider: ListedProvider,
    tags: Vec<String>,
    /// All that is searched, in lower case.
    text: String,
}

impl ListedSkill {
    /// A skill with its provider and its tags. What its entry says beyond the protocol is left out.
    #[must_use]
    pub fn new(mut entry: SkillIndexEntry, provider: ListedProvider, tags: Vec<String>) -> Self {
        entry.extra.clear();
        let parts = [&entry.id, &entry.name, &entry.description].into_iter().chain(&tags);
        let text = parts.map(|part| part.to_lowercase()).collect::<Vec<_>>().join("\n");
        Self { entry, provider, tags, text }
    }
}

/// The skills of one host.
#[derive(Debug, Clone)]
pub struct Shelf {
    last_seen: Timestamp,
    /// By id.
    skills: Arc<[ListedSkill]>,
}

impl Shelf {
    /// These skills, last seen then.
    #[must_use]
    pub fn new(mut skills: Vec<ListedSkill>, last_seen: Timestamp) -> Self {
        skills.sort_by(|one, other| one.entry.id.cmp(&other.entry.id));
        Self { last_seen, skills: skills.into() }
    }

    /// The same skills, seen again.
    #[must_use]
    pub fn seen(&self, last_seen: Timestamp) -> Self {
        Self { last_seen, skills: Arc::clone(&self.skills) }
    }
}

/// What is known of other hosts, by their origins. It is in memory, and written by whoever visits them.
#[derive(Debug, Default)]
pub struct Catalogue(RwLock<BTreeMap<String, Shelf>>);

impl Catalogue {
    /// An origin's skills are these from now on.
    pub fn put(&self, origin: &str, shelf: Shelf) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(origin.to_owned(), shelf);
    }

    /// Nothing is known of an origin any more.
    pub fn remove(&self, origin: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(origin);
    }

    /// The page of skills that are wanted: of this host, and of all others.
    #[must_use]
    pub fn find(&self, here: &str, own: Shelf, wanted: &Wanted) -> Found {
        let mut shelves = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        // What is here is known better than anyone could have read it.
        shelves.insert(here.to_owned(), own);
        let mut skills = Vec::new();
        for (origin, shelf) in &shelves {
            if wanted.after.as_ref().is_some_and(|after| *origin < after.origin) {
                continue;
            }
            for skill in shelf.skills.iter().filter(|skill| wanted.takes(origin, skill)) {
                if skills.len() == wanted.limit {
                    let next_cursor = skills.last().map(FoundSkill::cursor);
                    return Found { skills, next_cursor };
                }
                skills.push(FoundSkill::new(origin, shelf, skill));
            }
        }
        Found { skills, next_cursor: None }
    }
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    kind: Option<CapabilityType>,
    /// In lower case.
    words: Vec<String>,
    tags: Vec<String>,
    /// In lower case.
    provider: Option<String>,
    after: Option<Cursor>,
    limit: usize,
}

/// A place in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    origin: String,
    id: String,
}

impl Wanted {
    /// How many skills a page has unless it is said.
    pub const PAGE: usize = 100;
    /// How many it has at most.
    pub const MAX_PAGE: usize = 1000;
    /// How long the words looked for may be together.
    pub const MAX_TEXT: usize = 500;
    /// How many tags may be asked for.
    const MAX_TAGS: usize = 20;

    /// Reads the parameters of a query. What nobody knows is ignored.
    ///
    /// # Errors
    /// Which parameter is wrong, and what it may be.
    pub fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut wanted =
            Self { kind: None, words: Vec::new(), tags: Vec::new(), provider: None, after: None, limit: Self::PAGE };
        for (name, value) in parameters {
            if value.len() > Self::MAX_TEXT && matches!(name, "q" | "tag" | "provider") {
                return Err(format!("`{name}` has at most {} bytes", Self::MAX_TEXT));
            }
            match name {
                "type" => {
                    let kind = CapabilityType::ALL.into_iter().find(|kind| kind.as_str() == value);
                    wanted.kind = Some(kind.ok_or_else(|| {
                        format!("`type` is one of {}", CapabilityType::ALL.map(CapabilityType::as_str).join(", "))
                    })?);
                }
                "q" => wanted.words = value.to_lowercase().split_whitespace().map(str::to_owned).collect(),
                "tag" if wanted.tags.len() == Self::MAX_TAGS => {
                    return Err(format!("`tag` may be there at most {} times", Self::MAX_TAGS));
                }
                "tag" => wanted.tags.push(value.to_owned()),
                "provider" => wanted.provider = Some(value.trim().to_lowercase()),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=Self::MAX_PAGE).contains(limit));
                    wanted.limit = limit.ok_or_else(|| format!("`limit` is a number from 1 to {}", Self::MAX_PAGE))?;
                }
                "cursor" => {
                    let (origin, id) = value.split_once(' ').ok_or("`cursor` is not one this server gave")?;
                    wanted.after = Some(Cursor { origin: origin.to_owned(), id: id.to_owned() });
                }
                _ => {}
            }
        }
        Ok(wanted)
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

/// Whether a provider is the one of that name, origin, or host and port.
fn is_of(origin: &str, skill: &ListedSkill, provider: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    skill.provider.name.to_lowercase() == provider || origin == provider.trim_end_matches('/') || host == provider
}

/// One page of what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// The skills, by origin and id.
    pub skills: Vec<FoundSkill>,
    /// Where the next page begins; none on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A skill that was found: its entry, and where it was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundSkill {
    #[serde(flatten)]
    entry: SkillIndexEntry,
    provider: ListedProvider,
    /// The host whose index it is in.
    origin: String,
    tags: Vec<String>,
    /// When it was last seen there.
    last_seen: Timestamp,
}

impl FoundSkill {
    fn new(origin: &str, shelf: &Shelf, skill: &ListedSkill) -> Self {
        Self {
            entry: skill.entry.clone(),
            provider: skill.provider.clone(),
            origin: origin.to_owned(),
            tags: skill.tags.clone(),
            last_seen: shelf.last_seen,
        }
    }

    /// An origin holds no space, so what is behind the first one is the id.
    fn cursor(&self) -> String {
        format!("{} {}", self.origin, self.entry.id)
    }
}
