//! One skill's descriptor, from wherever it was named.

use serde_json::json;
use url::Url;

use super::credential::Credential;
use super::error::{ConsumerError, Reason, plain, shown};
use super::target::{Named, Target, authority};
use super::{Consumer, Progress};
use crate::wire::{SkillDescriptor, SkillIndexEntry};

/// How many skills are listed to someone who must choose.
const LISTED: usize = 20;

/// A valid descriptor of the skill that was asked for, in a version we can read.
#[derive(Debug, Clone)]
pub struct Described {
    /// The descriptor.
    pub descriptor: SkillDescriptor,
    /// Where it is.
    pub url: Url,
    /// Where it is invoked.
    pub endpoint: Url,
    /// What is odd about it: disagreements with the index, other hosts, what cannot be meant.
    pub notes: Vec<String>,
    pub(super) named: Named,
}

impl Consumer {
    /// Finds and reads a skill's descriptor. It is asked for without the credential first; only what the
    /// named host does not show to anyone is asked for again with it.
    ///
    /// # Errors
    /// It cannot be had, is not valid, follows a newer protocol, or is of another skill.
    pub async fn describe(&self, target: &Target, credential: &Credential) -> Result<Described, ConsumerError> {
        let named = target.named();
        match target {
            Target::Descriptor(url) => self.descriptor(url, &named, credential, None).await,
            Target::Skill { id, .. } => {
                let entry = self.find(target, id, credential).await?;
                let url = Url::parse(&entry.descriptor_url).map_err(|error| {
                    let message = format!("the descriptor of {:?} is nowhere: {error}", plain(id));
                    ConsumerError::new(Reason::InvalidDocument, message)
                })?;
                self.descriptor(&url, &named, credential, Some(&entry)).await
            }
            Target::Host(url) => Err(self.which(target, url, credential).await),
        }
    }

    async fn find(&self, target: &Target, id: &str, credential: &Credential) -> Result<SkillIndexEntry, ConsumerError> {
        let open = self.discover(target, None, &Credential::None).await;
        let found = match open {
            Ok(discovery) => discovery.skill(id).cloned(),
            Err(error) if hides(&error) && credential.opens_discovery() => None,
            Err(error) => return Err(error),
        };
        if let Some(entry) = found {
            return Ok(entry);
        }
        if credential.opens_discovery()
            && let Some(entry) = self.discover(target, None, credential).await?.skill(id)
        {
            return Ok(entry.clone());
        }
        let (id, host) = (plain(id), authority(&target.host()));
        let error = ConsumerError::new(Reason::NotListed, format!("{host} lists no skill {id:?}"));
        Err(error.details(json!({"skill_id": id})).advice(format!("`nuncio discover {host}` lists what it has")))
    }

    async fn descriptor(
        &self,
        url: &Url,
        named: &Named,
        credential: &Credential,
        entry: Option<&SkillIndexEntry>,
    ) -> Result<Described, ConsumerError> {
        let open = self.document::<SkillDescriptor>(url, named, Vec::new()).await;
        let got = match open {
            Err(error) if hides(&error) && !credential.for_discovery(named, url).is_empty() => {
                self.document(url, named, credential.for_discovery(named, url)).await?
            }
            other => other?,
        };
        let descriptor: SkillDescriptor = got.document;
        let endpoint = Url::parse(&descriptor.endpoint.url).map_err(|error| {
            ConsumerError::new(Reason::InvalidDocument, format!("the endpoint of {} is no URL: {error}", shown(url)))
        })?;
        let mut notes = got.warnings;
        if let Some(entry) = entry {
            if entry.id != descriptor.id {
                let (asked, found) = (plain(&entry.id), plain(&descriptor.id));
                let message = format!("{} describes {found:?}, but the index says {asked:?}", shown(url));
                let details = json!({"index_id": asked, "descriptor_id": found});
                let error = ConsumerError::new(Reason::OtherSkill, message).details(details);
                return Err(error.advice("index and descriptor must agree on the id; nothing was invoked"));
            }
            notes.extend(disagreements(entry, &descriptor));
        }
        if !named.is_host_of(url) {
            notes.push(format!("the descriptor is on another host: {}", authority(url)));
        }
        if !named.is_host_of(&endpoint) {
            notes.push(format!("the skill is invoked on another host: {}", authority(&endpoint)));
        }
        self.watcher.tell(&Progress::Described {
            url: shown(url),
            skill_id: plain(&descriptor.id),
            version: descriptor.version.to_string(),
            endpoint: shown(&endpoint),
        });
        notes.iter().for_each(|note| self.watcher.note(note));
        Ok(Described { descriptor, url: url.clone(), endpoint, notes, named: named.clone() })
    }

    /// The error for someone who named a host alone: what there is.
    async fn which(&self, target: &Target, host: &Url, credential: &Credential) -> ConsumerError {
        let open = if credential.opens_discovery() { credential } else { &Credential::None };
        let discovery = match self.discover(target, None, open).await {
            Ok(discovery) => discovery,
            Err(error) => return error,
        };
        let host = authority(host);
        let all: Vec<_> = discovery.index.skills.iter().map(|entry| format!("{}@{host}", plain(&entry.id))).collect();
        let more = if all.len() > LISTED { format!(" and {} more", all.len() - LISTED) } else { String::new() };
        let listed = all.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = match all.len() {
            0 => format!("{host} offers no skills"),
            _ => format!("{host} is a host; name one of its skills: {listed}{more}"),
        };
        ConsumerError::new(Reason::WhichSkill, message).details(json!({"skills": all}))
    }
}

/// Whether something may be there for those who may see it.
fn hides(error: &ConsumerError) -> bool {
    error.reason == Reason::Answered && matches!(error.status, Some(401 | 403 | 404))
}

fn disagreements(entry: &SkillIndexEntry, descriptor: &SkillDescriptor) -> Vec<String> {
    let pairs = [
        ("version", entry.version.to_string(), descriptor.version.to_string()),
        ("access", entry.access.as_str().to_owned(), descriptor.access.as_str().to_owned()),
        ("capability_type", entry.capability_type.as_str().to_owned(), descriptor.capability_type.as_str().to_owned()),
    ];
    let differs = |(what, index, own): (&str, String, String)| {
        (index != own).then(|| format!("the index says {what} {index}, the descriptor {own}; the descriptor counts"))
    };
    pairs.into_iter().filter_map(differs).collect()
}
