//! Fetches the skill index of a host (§4).

use std::collections::HashSet;

use nuncio_engine::ports::fetch::FetchResponse;
use serde_json::json;
use url::Url;

use super::credential::SkillInvocationCredential;
use super::error::{ConsumerErrorReason, SkillConsumerError, display_url, plain};
use super::target::SkillTarget;
use super::{InvocationProgress, SkillConsumer};
use crate::wire::{CapabilityType, SkillIndex, SkillIndexEntry, WELL_KNOWN};

/// Limit on skills accepted from one host.
const MAX_SKILLS: usize = 100_000;

/// Skill index of a host, all pages merged.
#[derive(Debug, Clone)]
pub struct DiscoveredIndex {
    pub url: Url,
    /// Validated index with the skills of every page.
    pub index: SkillIndex,
    pub notes: Vec<String>,
}

impl DiscoveredIndex {
    #[must_use]
    pub fn skill(&self, id: &str) -> Option<&SkillIndexEntry> {
        self.index.skills.iter().find(|entry| entry.id == id)
    }
}

impl SkillConsumer {
    /// Fetches all index pages of a target's host. The credential is sent only to the named scheme, host and port,
    /// where authenticated callers may see more skills.
    ///
    /// # Errors
    ///
    /// Fails also when two entries have the same id, even on different pages.
    pub async fn discover(
        &self,
        target: &SkillTarget,
        only: Option<CapabilityType>,
        credential: &SkillInvocationCredential,
    ) -> Result<DiscoveredIndex, SkillConsumerError> {
        let named_host = target.named_host();
        let mut url = target.host();
        url.set_path(WELL_KNOWN);
        if let Some(only) = only {
            url.query_pairs_mut().append_pair("type", only.as_str());
        }
        let fetch_page = async |page: &Url| {
            self.document::<SkillIndex>(page, &named_host, credential.for_discovery(&named_host, page)).await
        };
        let first = fetch_page(&url).await?;
        let mut discovery = DiscoveredIndex { url: url.clone(), index: first.document, notes: first.warnings };
        let mut seen = HashSet::from([url.clone()]);
        let mut next = next_page(&url, &first.answer);
        while let Some(page) = next {
            if page.origin() != url.origin() {
                let message = format!(
                    "the next page of {} is {}, which is on another host",
                    display_url(&url),
                    display_url(&page)
                );
                return Err(unusable(message));
            }
            if seen.len() >= self.options.pages || !seen.insert(page.clone()) {
                return Err(unusable(format!("{} has no end: {} pages were read", display_url(&url), seen.len())));
            }
            let got = fetch_page(&page).await?;
            discovery.index.skills.extend(got.document.skills);
            if discovery.index.skills.len() > MAX_SKILLS {
                return Err(unusable(format!("{} lists more than {MAX_SKILLS} skills", display_url(&url))));
            }
            next = next_page(&page, &got.answer);
        }
        check_unique_ids(&url, &discovery.index)?;
        if let Some(only) = only {
            discovery.index.skills.retain(|entry| entry.capability_type == only);
        }
        self.progress
            .report(&InvocationProgress::Discovered { url: display_url(&url), skills: discovery.index.skills.len() });
        Ok(discovery)
    }
}

/// Checks that ids are unique across pages; the validator checks uniqueness within one page.
fn check_unique_ids(url: &Url, index: &SkillIndex) -> Result<(), SkillConsumerError> {
    let mut ids = HashSet::with_capacity(index.skills.len());
    match index.skills.iter().find(|entry| !ids.insert(entry.id.as_str())) {
        Some(twice) => {
            let id = plain(&twice.id);
            Err(unusable(format!("{} lists the id {id:?} twice", display_url(url))).details(json!({"skill_id": id})))
        }
        None => Ok(()),
    }
}

fn unusable(message: String) -> SkillConsumerError {
    SkillConsumerError::new(ConsumerErrorReason::InvalidDocument, message)
        .advice("only its provider can correct the index")
}

/// Resolves the `rel="next"` target of the `Link` header.
pub(crate) fn next_page(base: &Url, answer: &FetchResponse) -> Option<Url> {
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

/// Splits a `Link` header at commas outside of `<…>` and quotes.
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
    fn next_page_is_the_rel_next_target_of_any_link_header() {
        let base = Url::parse("https://a.example/.well-known/skill-sharing").unwrap();
        let next = |links: &[&str]| {
            let headers = links.iter().map(|link| ("link".to_owned(), (*link).to_owned())).collect();
            next_page(&base, &FetchResponse { status: 200, headers, body: Bytes::new() }).map(String::from)
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
