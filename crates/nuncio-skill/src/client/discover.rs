//! What a host offers (§4).

use std::collections::HashSet;

use nuncio_engine::ports::fetch::Incoming;
use serde_json::json;
use url::Url;

use super::credential::Credential;
use super::error::{ConsumerError, Reason, plain, shown};
use super::exchange::Got;
use super::target::{Named, Target};
use super::{Consumer, Progress};
use crate::wire::{CapabilityType, SkillIndex, SkillIndexEntry, WELL_KNOWN};

/// How many skills of one host are taken in.
const MAX_SKILLS: usize = 100_000;

/// A host's index, all of its pages.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// Where it is.
    pub url: Url,
    /// The index, valid, with every page's skills.
    pub index: SkillIndex,
    /// What is odd about it.
    pub notes: Vec<String>,
}

impl Discovery {
    /// The skill of that id.
    #[must_use]
    pub fn skill(&self, id: &str) -> Option<&SkillIndexEntry> {
        self.index.skills.iter().find(|entry| entry.id == id)
    }
}

impl Consumer {
    /// Reads the index of a target's host. A credential is sent with it, so that the host may show what it
    /// shows to nobody else; it is the named host alone that sees it.
    ///
    /// # Errors
    /// It cannot be had, or is not valid: also when an id is there twice, on whatever page.
    pub async fn discover(
        &self,
        target: &Target,
        only: Option<CapabilityType>,
        credential: &Credential,
    ) -> Result<Discovery, ConsumerError> {
        let named = target.named();
        let mut url = target.host();
        url.set_path(WELL_KNOWN);
        if let Some(only) = only {
            url.query_pairs_mut().append_pair("type", only.as_str());
        }
        let first = self.index_page(&url, &named, credential).await?;
        let mut discovery = Discovery { url: url.clone(), index: first.document, notes: first.warnings };
        let mut seen = HashSet::from([url.clone()]);
        let mut next = next_page(&url, &first.answer);
        while let Some(page) = next {
            if page.origin() != url.origin() {
                let message = format!("{} goes on at {}, which is another host", shown(&url), shown(&page));
                return Err(unusable(message));
            }
            if seen.len() >= self.options.pages || !seen.insert(page.clone()) {
                return Err(unusable(format!("{} has no end: {} pages were read", shown(&url), seen.len())));
            }
            let got = self.index_page(&page, &named, credential).await?;
            discovery.index.skills.extend(got.document.skills);
            if discovery.index.skills.len() > MAX_SKILLS {
                return Err(unusable(format!("{} lists more than {MAX_SKILLS} skills", shown(&url))));
            }
            next = next_page(&page, &got.answer);
        }
        distinct(&url, &discovery.index)?;
        if let Some(only) = only {
            discovery.index.skills.retain(|entry| entry.capability_type == only);
        }
        self.watcher.tell(&Progress::Discovered { url: shown(&url), skills: discovery.index.skills.len() });
        Ok(discovery)
    }

    async fn index_page(
        &self,
        url: &Url,
        named: &Named,
        credential: &Credential,
    ) -> Result<Got<SkillIndex>, ConsumerError> {
        self.document(url, named, credential.for_discovery(named, url)).await
    }
}

/// Ids are unique across all pages; within one, the validator has said so already.
fn distinct(url: &Url, index: &SkillIndex) -> Result<(), ConsumerError> {
    let mut ids = HashSet::with_capacity(index.skills.len());
    match index.skills.iter().find(|entry| !ids.insert(entry.id.as_str())) {
        Some(twice) => {
            let id = plain(&twice.id);
            Err(unusable(format!("{} lists the id {id:?} twice", shown(url))).details(json!({"skill_id": id})))
        }
        None => Ok(()),
    }
}

fn unusable(message: String) -> ConsumerError {
    ConsumerError::new(Reason::InvalidDocument, message).advice("the index is its provider's to put right")
}

/// Where `Link: …; rel="next"` leads.
pub(crate) fn next_page(base: &Url, answer: &Incoming) -> Option<Url> {
    let links = answer.headers.iter().filter(|(name, _)| name == "link").map(|(_, value)| value.as_str());
    links.flat_map(split_links).find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
            let mut words = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel") && words.any(|word| word.eq_ignore_ascii_case("next"))
        });
        if is_next { base.join(target).ok() } else { None }
    })
}

/// The links of a header: divided by commas that are in no address and no quotes.
fn split_links(header: &str) -> Vec<&str> {
    let (mut links, mut start, mut quoted, mut in_address) = (Vec::new(), 0, false, false);
    for (at, c) in header.char_indices() {
        match c {
            '"' if !in_address => quoted = !quoted,
            '<' if !quoted => in_address = true,
            '>' if !quoted => in_address = false,
            ',' if !quoted && !in_address => {
                links.push(&header[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    links.push(&header[start..]);
    links
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn the_next_page_is_found_among_links() {
        let base = Url::parse("https://a.example/.well-known/skill-sharing").unwrap();
        let next = |links: &[&str]| {
            let headers = links.iter().map(|link| ("link".to_owned(), (*link).to_owned())).collect();
            next_page(&base, &Incoming { status: 200, headers, body: Bytes::new() }).map(String::from)
        };
        assert_eq!(next(&["<?cursor=2>; rel=\"next\""]).unwrap(), format!("{base}?cursor=2"));
        assert_eq!(
            next(&["</x>; rel=prev", "</y,z>; title=\"a, b\"; REL=\"last Next\""]).unwrap(),
            "https://a.example/y,z"
        );
        assert_eq!(next(&["</a>; rel=\"first\", <https://b.example/c>; rel=next"]).unwrap(), "https://b.example/c");
        for none in [&[][..], &["</x>; rel=prev"], &["</x>; title=\"rel=next\""], &["garbage"], &["<>"]] {
            assert_eq!(next(none), None, "{none:?}");
        }
    }
}
