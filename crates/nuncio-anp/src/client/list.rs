//! Reads a host's list of agents (ANP-08) over all pages on that host.

use std::collections::HashSet;

use url::Url;

use super::AnpClient;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::target::UserNamedHost;
use crate::validate::{self, AnpDocumentType};
use crate::wire::{CollectionItem, CollectionPage, WELL_KNOWN};

const MAX_AGENTS: usize = 100_000;

#[derive(Debug, Clone)]
pub struct HostAgentList {
    /// URL of the first page of the host's agent list.
    pub url: Url,
    pub agents: Vec<HostAgentListEntry>,
    /// Deviations of the list from the specification, as texts for the user.
    pub notes: Vec<String>,
}

/// One agent in a host's list. Its data is unverified.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HostAgentListEntry {
    pub name: Option<String>,
    /// URL of the agent's description.
    pub url: Url,
}

impl AnpClient {
    /// Reads a host's list of agents.
    ///
    /// # Errors
    /// The list is unavailable or invalid, leads to another host, or has too many pages or agents.
    pub async fn list(&self, host: &Url) -> Result<HostAgentList, ClientError> {
        let named_host = UserNamedHost::by(host);
        let mut url = host.clone();
        url.set_path(WELL_KNOWN);
        let mut listing = HostAgentList { url: url.clone(), agents: Vec::new(), notes: Vec::new() };
        let (mut seen, mut listed) = (HashSet::from([url.clone()]), HashSet::new());
        let mut next = Some(url.clone());
        while let Some(here) = next.take() {
            let page = self.page(&here, &named_host).await?;
            for item in page.items {
                listing.take(&here, &item, &mut listed);
            }
            if listing.agents.len() > MAX_AGENTS {
                return Err(unusable(format!("{} lists more than {MAX_AGENTS} agents", display_url(&url))));
            }
            let Some(text) = page.next else { break };
            let Ok(after) = here.join(&text) else {
                return Err(unusable(format!(
                    "the next page of {} is {:?}, which is not an address",
                    display_url(&here),
                    plain(&text)
                )));
            };
            if after.origin() != url.origin() {
                let message = format!(
                    "the next page of {} is {}, which is on another host",
                    display_url(&here),
                    display_url(&after)
                );
                return Err(unusable(message));
            }
            if seen.len() >= self.options.pages || !seen.insert(after.clone()) {
                return Err(unusable(format!("{} has no end: {} pages were read", display_url(&url), seen.len())));
            }
            next = Some(after);
        }
        Ok(listing)
    }

    async fn page(&self, url: &Url, named_host: &UserNamedHost) -> Result<CollectionPage, ClientError> {
        let value = self.http.document(url, named_host, AnpDocumentType::CollectionPage.max_bytes()).await?;
        let report = validate::check(AnpDocumentType::CollectionPage, &value);
        if !report.valid {
            return Err(ClientError::invalid(url, &report));
        }
        serde_json::from_value(value).map_err(|error| {
            ClientError::new(
                ClientErrorReason::InvalidDocument,
                format!("{} is not a CollectionPage: {error}", display_url(url)),
            )
        })
    }

    /// Description URL of the host's only agent; an error if the host lists several.
    pub(super) async fn only_agent(&self, host: &Url) -> Result<Url, ClientError> {
        let listing = self.list(host).await?;
        match listing.agents.as_slice() {
            [only] => Ok(only.url.clone()),
            [] => Err(ClientError::new(
                ClientErrorReason::WhichAgent,
                format!("{} lists no agents", display_url(&listing.url)),
            )),
            several => {
                const LISTED: usize = 10;
                let more = several.len().saturating_sub(LISTED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let some: Vec<_> = several.iter().take(LISTED).map(|agent| display_url(&agent.url)).collect();
                let message =
                    format!("{} has several agents; name one of them: {}{more}", display_url(host), some.join(", "));
                Err(ClientError::new(ClientErrorReason::WhichAgent, message)
                    .details(serde_json::json!({"agents": several})))
            }
        }
    }
}

impl HostAgentList {
    fn take(&mut self, page: &Url, item: &CollectionItem, listed: &mut HashSet<Url>) {
        let id = plain(&item.id);
        match page.join(&item.id) {
            Ok(url) if !matches!(url.scheme(), "http" | "https") => {
                self.notes.push(format!("{id:?} is not an http: or https: address, and left out"));
            }
            Ok(url) if !listed.insert(url.clone()) => self.notes.push(format!("{id} is listed twice")),
            Ok(url) => {
                if url.origin() != page.origin() {
                    self.notes.push(format!("{id} is on another host"));
                }
                self.agents.push(HostAgentListEntry { name: item.name.as_deref().map(plain), url });
            }
            Err(_) => self.notes.push(format!("{id:?} is not an address, and left out")),
        }
    }
}

fn unusable(message: String) -> ClientError {
    ClientError::new(ClientErrorReason::InvalidDocument, message).advice("only its publisher can correct the list")
}
