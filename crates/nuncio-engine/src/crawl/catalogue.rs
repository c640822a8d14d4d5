//! Catalogue of crawled documents and the parameters of a search in it.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Parsed query parameters of a catalogue search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueQuery<const FILTERS: usize> {
    /// Search words of the parameter `q`, in lower case.
    pub words: Vec<String>,
    pub filters: [Vec<String>; FILTERS],
    pub cursor: Option<String>,
    pub limit: usize,
}

const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE: usize = 1000;
/// Maximum length of a parameter in bytes.
const MAX_TEXT: usize = 500;
/// Maximum number of occurrences of a filter.
const MAX_TIMES: usize = 20;

impl<const FILTERS: usize> CatalogueQuery<FILTERS> {
    /// Parses `q`, `limit`, `cursor` and the named filters. Other parameters are ignored.
    ///
    /// # Errors
    /// The message names the invalid parameter and its valid values.
    pub fn read<'a>(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
        names: [&str; FILTERS],
    ) -> Result<Self, String> {
        let mut query = Self {
            words: Vec::new(),
            filters: std::array::from_fn(|_| Vec::new()),
            cursor: None,
            limit: DEFAULT_PAGE_SIZE,
        };
        for (name, value) in parameters {
            let filter = names.iter().position(|known| *known == name);
            if value.len() > MAX_TEXT && (name == "q" || filter.is_some()) {
                return Err(format!("`{name}` must have at most {MAX_TEXT} bytes"));
            }
            match (name, filter) {
                (_, Some(at)) if query.filters[at].len() == MAX_TIMES => {
                    return Err(format!("`{name}` may occur at most {MAX_TIMES} times"));
                }
                (_, Some(at)) => query.filters[at].push(value.to_owned()),
                ("q", _) => query.words = value.to_lowercase().split_whitespace().map(str::to_owned).collect(),
                ("limit", _) => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
                    query.limit = limit.ok_or_else(|| format!("`limit` must be a number from 1 to {MAX_PAGE}"))?;
                }
                ("cursor", _) => query.cursor = Some(value.to_owned()),
                _ => {}
            }
        }
        Ok(query)
    }

    /// The first page of the matches, and the cursor of the next page if there is one.
    pub fn page<T>(&self, matches: impl Iterator<Item = T>, cursor: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
        let mut page: Vec<T> = matches.take(self.limit.saturating_add(1)).collect();
        let has_more = page.len() > self.limit;
        page.truncate(self.limit);
        let next = page.last().filter(|_| has_more).map(cursor);
        (page, next)
    }
}

/// Crawled documents by URL or origin, in memory.
#[derive(Debug)]
pub struct CrawledCatalogue<V>(RwLock<BTreeMap<String, V>>);

impl<V: Clone> CrawledCatalogue<V> {
    pub fn put(&self, key: &str, value: V) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value);
    }

    pub fn remove(&self, key: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<V> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    #[must_use]
    pub fn all(&self) -> BTreeMap<String, V> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<V> Default for CrawledCatalogue<V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}
