//! The agents of a host (ANP-08): pages, followed as long as they stay on the host and come to an end.

use std::collections::HashSet;

use url::Url;

use super::AnpClient;
use super::error::{ClientError, Reason, plain, shown};
use super::target::Named;
use crate::validate::{self, Kind};
use crate::wire::{CollectionItem, CollectionPage, WELL_KNOWN};

/// How many agents of one host are taken in.
const MAX_AGENTS: usize = 100_000;

/// The agents of a host, all pages.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Where the list begins.
    pub url: Url,
    /// The agents.
    pub agents: Vec<Listed>,
    /// What is odd about it.
    pub notes: Vec<String>,
}

/// One agent of a host, by the host's word.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    /// What people call it.
    pub name: Option<String>,
    /// Where its description is.
    pub url: Url,
}

impl AnpClient {
    /// Reads the list of a host.
    ///
    /// # Errors
    /// It cannot be had, is not valid, leads to another host or has no end.
    pub async fn list(&self, host: &Url) -> Result<Listing, ClientError> {
        let named = Named::by(host);
        let mut url = host.clone();
        url.set_path(WELL_KNOWN);
        let mut listing = Listing { url: url.clone(), agents: Vec::new(), notes: Vec::new() };
        let (mut seen, mut known) = (HashSet::from([url.clone()]), HashSet::new());
        let mut next = Some(url.clone());
        while let Some(here) = next.take() {
            let page = self.page(&here, &named).await?;
            for item in page.items {
                listing.take(&here, &item, &mut known);
            }
            if listing.agents.len() > MAX_AGENTS {
                return Err(unusable(format!("{} lists more than {MAX_AGENTS} agents", shown(&url))));
            }
            let Some(text) = page.next else { break };
            let Ok(after) = here.join(&text) else {
                return Err(unusable(format!("{} goes on at {:?}, which is no address", shown(&here), plain(&text))));
            };
            if after.origin() != url.origin() {
                let message = format!("{} goes on at {}, which is another host", shown(&here), shown(&after));
                return Err(unusable(message));
            }
            if seen.len() >= self.options.pages || !seen.insert(after.clone()) {
                return Err(unusable(format!("{} has no end: {} pages were read", shown(&url), seen.len())));
            }
            next = Some(after);
        }
        Ok(listing)
    }

    async fn page(&self, url: &Url, named: &Named) -> Result<CollectionPage, ClientError> {
        let value = self.document(url, named, Kind::CollectionPage.max_bytes()).await?;
        let report = validate::check(Kind::CollectionPage, &value);
        if !report.valid {
            return Err(ClientError::invalid(url, &report));
        }
        serde_json::from_value(value).map_err(|error| {
            ClientError::new(Reason::InvalidDocument, format!("{} is no CollectionPage: {error}", shown(url)))
        })
    }

    /// The address of the one agent that is meant: of a host with a single agent, that one.
    pub(super) async fn only_agent(&self, host: &Url) -> Result<Url, ClientError> {
        let listing = self.list(host).await?;
        match listing.agents.as_slice() {
            [only] => Ok(only.url.clone()),
            [] => Err(ClientError::new(Reason::WhichAgent, format!("{} lists no agents", shown(&listing.url)))),
            several => {
                const LISTED: usize = 10;
                let more = several.len().saturating_sub(LISTED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let some: Vec<_> = several.iter().take(LISTED).map(|agent| shown(&agent.url)).collect();
                let message =
                    format!("{} has several agents; name one of them: {}{more}", shown(host), some.join(", "));
                Err(ClientError::new(Reason::WhichAgent, message).details(serde_json::json!({"agents": several})))
            }
        }
    }
}

impl Listing {
    fn take(&mut self, page: &Url, item: &CollectionItem, known: &mut HashSet<Url>) {
        let place = plain(&item.id);
        match page.join(&item.id) {
            Ok(url) if !matches!(url.scheme(), "http" | "https") => {
                self.notes.push(format!("{place:?} is not an http: or https: address, and left out"));
            }
            Ok(url) if !known.insert(url.clone()) => self.notes.push(format!("{place} is listed twice")),
            Ok(url) => {
                if url.origin() != page.origin() {
                    self.notes.push(format!("{place} is on another host"));
                }
                self.agents.push(Listed { name: item.name.as_deref().map(plain), url });
            }
            Err(_) => self.notes.push(format!("{place:?} is no address, and left out")),
        }
    }
}

fn unusable(message: String) -> ClientError {
    ClientError::new(Reason::InvalidDocument, message).advice("the list is its publisher's to put right")
}
