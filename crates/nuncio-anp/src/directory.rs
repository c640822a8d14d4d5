//! The directory: agents of this host and agents of others that were registered here, and how they are found
//! among each other (ANP-08 §5 names passive discovery and leaves the interface open; it is ours).

mod herald;
mod judge;
mod keeper;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use nuncio_core::agent::Agent;
use nuncio_core::time::Timestamp;
use nuncio_engine::directory::{Entry, EntryId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

pub use herald::{Herald, Told};
pub use keeper::{Accept, Keeper, KeeperOptions, Registered};

use crate::client::plain;
use crate::project::Host;
use crate::wire::{AgentDescription, CollectionItem};

/// The profile of the interface at which agents register, in the description of a directory.
pub const PROFILE: &str = "nuncio.directory.v1";
/// Where agents are registered and searched.
pub const PATH: &str = "/registry/agents";
/// Where the directory describes itself.
pub const DESCRIPTION: &str = "/registry/ad.json";

/// How many tags of one agent are kept.
const MAX_TAGS: usize = 100;
/// How many capabilities.
const MAX_CAPABILITIES: usize = 200;

/// What is kept of a description, and searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedAgent {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    did: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    tags: Vec<String>,
    capabilities: Vec<ListedCapability>,
    /// What was verified, by its words; nothing of what is our own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    verified: Vec<String>,
}

/// Something an agent can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ListedCapability {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl ListedAgent {
    /// What is listed of a description. Texts of strangers become one line, within limits.
    #[must_use]
    pub fn of(description: &AgentDescription) -> Self {
        let abilities = || description.capabilities.iter().flatten();
        let mut tags: Vec<String> = Vec::new();
        let said = description.extra.get("tags").and_then(Value::as_array);
        let said = said.into_iter().flatten().filter_map(Value::as_str);
        for tag in said.chain(abilities().flat_map(|it| it.intent_tags.iter().flatten().map(String::as_str))) {
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

    /// One of which nothing but the address is known now.
    fn unread(entry: &Entry) -> Self {
        Self {
            name: plain(entry.url.as_str()),
            did: Some(entry.did.clone()),
            description: None,
            owner: None,
            tags: Vec::new(),
            capabilities: Vec::new(),
            verified: Vec::new(),
        }
    }

    /// The same, with what was verified of it.
    fn with_verified(mut self, verified: Vec<String>) -> Self {
        self.verified = verified;
        self
    }
}

/// An agent as it is found.
#[derive(Debug, Clone)]
struct Row {
    url: Url,
    listed: ListedAgent,
    /// None of our own.
    entry: Option<Entry>,
    /// All that is searched, in lower case.
    text: String,
}

impl Row {
    fn new(url: Url, listed: ListedAgent, entry: Option<Entry>) -> Self {
        let ListedAgent { name, description, owner, tags, capabilities, did, .. } = &listed;
        let named = capabilities.iter().flat_map(|it| [Some(&it.id), it.name.as_ref()].into_iter().flatten());
        let own = [Some(name), description.as_ref(), owner.as_ref(), did.as_ref()].into_iter().flatten();
        let parts = own.chain(tags).chain(named).map(|part| part.to_lowercase());
        let text = parts.collect::<Vec<_>>().join("\n");
        Self { url, listed, entry, text }
    }

    /// As ANP-08 lists agents, with what a searcher wants to know beside it.
    fn item(&self) -> CollectionItem {
        let mut item = CollectionItem::new(self.listed.name.clone(), self.url.to_string());
        let ListedAgent { did, description, owner, tags, capabilities, verified, .. } = &self.listed;
        let mut say = |name: &str, value: Value| {
            item.extra.insert(name.to_owned(), value);
        };
        if let Some(did) = did {
            say("did", json!(did));
        }
        if let Some(description) = description {
            say("description", json!(description));
        }
        if let Some(owner) = owner {
            say("owner", json!(owner));
        }
        say("tags", json!(tags));
        say("capabilities", json!(capabilities));
        match &self.entry {
            None => say("standing", json!("own")),
            Some(entry) => {
                say("id", json!(entry.id()));
                say("standing", json!(if entry.is_stale() { "stale" } else { "listed" }));
                say("verified", json!({"at": entry.verified, "what": verified}));
            }
        }
        item
    }
}

/// What is registered here, by the addresses of the descriptions.
#[derive(Debug, Default)]
struct Catalogue(RwLock<BTreeMap<String, Arc<Row>>>);

impl Catalogue {
    fn put(&self, entry: Entry, listed: ListedAgent) {
        let (key, row) = (entry.url.to_string(), Row::new(entry.url.clone(), listed, Some(entry)));
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::new(row));
    }

    /// The same description, looked at again.
    fn update(&self, entry: Entry) {
        let mut rows = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.get_mut(entry.url.as_str()) {
            *row = Arc::new(Row { entry: Some(entry), ..Row::clone(row) });
        }
    }

    fn remove(&self, url: &Url) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(url.as_str());
    }

    fn entries(&self) -> Vec<Entry> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().filter_map(|row| row.entry.clone()).collect()
    }

    fn all(&self) -> Vec<(Entry, ListedAgent)> {
        let rows = self.0.read().unwrap_or_else(PoisonError::into_inner);
        rows.values().filter_map(|row| Some((row.entry.clone()?, row.listed.clone()))).collect()
    }

    fn by_url(&self, url: &Url) -> Option<Entry> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(url.as_str()).and_then(|row| row.entry.clone())
    }

    fn by_id(&self, id: &EntryId) -> Option<Entry> {
        self.entries().into_iter().find(|entry| entry.id() == *id)
    }

    /// The agents that are wanted: of this host, and of all others.
    fn find(&self, own: &[Arc<Row>], wanted: &Wanted) -> Found {
        let mut rows = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        // What is here is known better than anyone could have read it.
        rows.extend(own.iter().map(|row| (row.url.to_string(), Arc::clone(row))));
        let mut items = Vec::new();
        let mut last = None;
        for (url, row) in rows.iter().filter(|(url, row)| wanted.takes(url, row)) {
            if items.len() == wanted.limit {
                return Found { items, next_cursor: last };
            }
            items.push(row.item());
            last = Some(url.clone());
        }
        Found { items, next_cursor: None }
    }
}

/// What our own agents say, made once for each change of them or of who they are.
#[derive(Debug, Default)]
struct OwnRows(RwLock<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    made_for: (u64, Vec<Option<String>>),
    rows: Arc<[Arc<Row>]>,
}

impl OwnRows {
    fn of(&self, edition: u64, host: &Host, agents: &[Arc<Agent>], dids: Vec<Option<String>>) -> Arc<[Arc<Row>]> {
        let made_for = (edition, dids);
        {
            let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = kept.as_ref().filter(|kept| kept.made_for == made_for) {
                return Arc::clone(&kept.rows);
            }
        }
        let with_dids = agents.iter().zip(&made_for.1);
        let rows: Arc<[_]> = with_dids.filter_map(|(agent, did)| own_row(host, agent, did.as_deref())).collect();
        let kept = Kept { made_for, rows: Arc::clone(&rows) };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        rows
    }
}

/// One of our own agents; nothing of those that are not for everyone.
fn own_row(host: &Host, agent: &Agent, did: Option<&str>) -> Option<Arc<Row>> {
    if !agent.presence.listed {
        return None;
    }
    let description = host.description(agent, did);
    let url = Url::parse(&host.description_url(&agent.name)).ok()?;
    Some(Arc::new(Row::new(url, ListedAgent::of(&description), None)))
}

/// One page of what was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The agents, by address.
    pub items: Vec<CollectionItem>,
    /// Behind which place the next page begins; none on the last.
    pub next_cursor: Option<String>,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// In lower case.
    words: Vec<String>,
    /// In lower case.
    tags: Vec<String>,
    capabilities: Vec<String>,
    after: Option<String>,
    limit: usize,
}

impl Wanted {
    /// How many agents a page has unless it is said.
    pub const PAGE: usize = 100;
    /// How many it has at most.
    pub const MAX_PAGE: usize = 1000;
    /// How long a parameter may be.
    pub const MAX_TEXT: usize = 500;
    /// How often one may be there.
    const MAX_TIMES: usize = 20;

    /// Reads the parameters of a query. What nobody knows is ignored.
    ///
    /// # Errors
    /// Which parameter is wrong, and what it may be.
    pub fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut wanted =
            Self { words: Vec::new(), tags: Vec::new(), capabilities: Vec::new(), after: None, limit: Self::PAGE };
        for (name, value) in parameters {
            if value.len() > Self::MAX_TEXT && matches!(name, "q" | "tag" | "capability") {
                return Err(format!("`{name}` has at most {} bytes", Self::MAX_TEXT));
            }
            let mut add = |list: fn(&mut Self) -> &mut Vec<String>, text: String| {
                let list = list(&mut wanted);
                if list.len() == Self::MAX_TIMES {
                    return Err(format!("`{name}` may be there at most {} times", Self::MAX_TIMES));
                }
                list.push(text);
                Ok(())
            };
            match name {
                "tag" => add(|wanted| &mut wanted.tags, value.trim().to_lowercase())?,
                "capability" => add(|wanted| &mut wanted.capabilities, value.trim().to_owned())?,
                "q" => wanted.words = value.to_lowercase().split_whitespace().map(str::to_owned).collect(),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=Self::MAX_PAGE).contains(limit));
                    wanted.limit = limit.ok_or_else(|| format!("`limit` is a number from 1 to {}", Self::MAX_PAGE))?;
                }
                "cursor" => match Url::parse(value) {
                    Ok(_) => wanted.after = Some(value.to_owned()),
                    Err(_) => return Err("`cursor` is not one this server gave".to_owned()),
                },
                _ => {}
            }
        }
        Ok(wanted)
    }

    fn takes(&self, url: &str, row: &Row) -> bool {
        let listed = &row.listed;
        self.after.as_ref().is_none_or(|after| url > after.as_str())
            && self.words.iter().all(|word| row.text.contains(word))
            && self.tags.iter().all(|tag| listed.tags.iter().any(|has| is_below(&has.to_lowercase(), tag)))
            && self.capabilities.iter().all(|id| listed.capabilities.iter().any(|has| has.id == *id))
    }
}

/// Whether a tag is the wanted one or below it: `hotel.booking.create` is below `hotel.booking`.
fn is_below(tag: &str, wanted: &str) -> bool {
    tag.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', '/']))
}

/// An entry for people: everything, and who registered it.
#[must_use]
pub fn shown(entry: &Entry, listed: Option<&ListedAgent>, now: Timestamp) -> Value {
    let mut shown = Map::from_iter([
        ("id".to_owned(), json!(entry.id())),
        ("standing".to_owned(), json!(if entry.is_stale() { "stale" } else { "listed" })),
        ("next_check".to_owned(), json!(entry.next_check.max(now))),
    ]);
    for part in [json!(entry), json!(listed)] {
        let Value::Object(part) = part else { continue };
        for (name, value) in part {
            // What was verified of the description goes by another name than when.
            let name = if name == "verified" && value.is_array() { "checks".to_owned() } else { name };
            shown.entry(name).or_insert(value);
        }
    }
    Value::Object(shown)
}
