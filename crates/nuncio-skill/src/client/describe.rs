//! Fetches the descriptor of one skill.

use serde_json::json;
use url::Url;

use super::credential::SkillInvocationCredential;
use super::error::{ConsumerErrorReason, SkillConsumerError, display_url, plain};
use super::target::{SkillTarget, UserNamedHost, authority};
use super::{InvocationProgress, SkillConsumer};
use crate::wire::{SkillDescriptor, SkillIndexEntry};

/// Number of skills listed in the error when the user named only a host.
const MAX_LISTED_SKILLS: usize = 20;

/// Validated descriptor of the requested skill, in a supported protocol version.
#[derive(Debug, Clone)]
pub struct ResolvedSkill {
    pub descriptor: SkillDescriptor,
    /// URL from which the descriptor was fetched.
    pub url: Url,
    /// URL at which the skill is invoked.
    pub endpoint: Url,
    /// Warnings: differences from the index entry, other hosts involved, probable mistakes.
    pub notes: Vec<String>,
    pub(super) named_host: UserNamedHost,
}

impl SkillConsumer {
    /// Finds and fetches a skill's descriptor. The first request carries no credential; if the named host hides the
    /// document, the request is repeated with the credential.
    pub async fn describe(
        &self,
        target: &SkillTarget,
        credential: &SkillInvocationCredential,
    ) -> Result<ResolvedSkill, SkillConsumerError> {
        let named_host = target.named_host();
        match target {
            SkillTarget::Descriptor(url) => self.descriptor(url, &named_host, credential, None).await,
            SkillTarget::Skill { id, .. } => {
                let entry = self.find(target, id, credential).await?;
                let url = Url::parse(&entry.descriptor_url).map_err(|error| {
                    let message = format!("the URL of the descriptor of {:?} is not valid: {error}", plain(id));
                    SkillConsumerError::new(ConsumerErrorReason::InvalidDocument, message)
                })?;
                self.descriptor(&url, &named_host, credential, Some(&entry)).await
            }
            SkillTarget::Host(url) => Err(self.unnamed_skill(target, url, credential).await),
        }
    }

    async fn find(
        &self,
        target: &SkillTarget,
        id: &str,
        credential: &SkillInvocationCredential,
    ) -> Result<SkillIndexEntry, SkillConsumerError> {
        let open = self.discover(target, None, &SkillInvocationCredential::None).await;
        let found = match open {
            Ok(discovery) => discovery.skill(id).cloned(),
            Err(error) if may_be_hidden(&error) && credential.opens_discovery() => None,
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
        let error = SkillConsumerError::new(ConsumerErrorReason::NotListed, format!("{host} lists no skill {id:?}"));
        let mut advice = format!("`nuncio discover {host}` lists what it has");
        if !credential.opens_discovery() {
            advice.push_str("; private skills are listed only with a key (--key or NUNCIO_KEY)");
        }
        Err(error.details(json!({"skill_id": id})).advice(advice))
    }

    async fn descriptor(
        &self,
        url: &Url,
        named_host: &UserNamedHost,
        credential: &SkillInvocationCredential,
        entry: Option<&SkillIndexEntry>,
    ) -> Result<ResolvedSkill, SkillConsumerError> {
        let open = self.document::<SkillDescriptor>(url, named_host, Vec::new()).await;
        let got = match open {
            Err(error) if may_be_hidden(&error) && !credential.for_discovery(named_host, url).is_empty() => {
                self.document(url, named_host, credential.for_discovery(named_host, url)).await?
            }
            other => other?,
        };
        let descriptor: SkillDescriptor = got.document;
        let endpoint = Url::parse(&descriptor.endpoint.url).map_err(|error| {
            SkillConsumerError::new(
                ConsumerErrorReason::InvalidDocument,
                format!("the endpoint of {} is not a URL: {error}", display_url(url)),
            )
        })?;
        let mut notes = got.warnings;
        if let Some(entry) = entry {
            if entry.id != descriptor.id {
                let (listed_id, found) = (plain(&entry.id), plain(&descriptor.id));
                let message = format!("{} describes {found:?}, but the index says {listed_id:?}", display_url(url));
                let details = json!({"index_id": listed_id, "descriptor_id": found});
                let error = SkillConsumerError::new(ConsumerErrorReason::OtherSkill, message).details(details);
                return Err(error.advice("index and descriptor must agree on the id; nothing was invoked"));
            }
            notes.extend(disagreements(entry, &descriptor));
        }
        if !named_host.is_host_of(url) {
            notes.push(format!("the descriptor is on another host: {}", authority(url)));
        }
        if !named_host.is_host_of(&endpoint) {
            notes.push(format!("the skill is invoked on another host: {}", authority(&endpoint)));
        }
        self.progress.report(&InvocationProgress::Described {
            url: display_url(url),
            skill_id: plain(&descriptor.id),
            version: descriptor.version.to_string(),
            endpoint: display_url(&endpoint),
        });
        notes.iter().for_each(|note| self.progress.note(note));
        Ok(ResolvedSkill { descriptor, url: url.clone(), endpoint, notes, named_host: named_host.clone() })
    }

    /// Builds the error for a target without a skill id, which lists the host's skills.
    async fn unnamed_skill(
        &self,
        target: &SkillTarget,
        host: &Url,
        credential: &SkillInvocationCredential,
    ) -> SkillConsumerError {
        let open = if credential.opens_discovery() { credential } else { &SkillInvocationCredential::None };
        let discovery = match self.discover(target, None, open).await {
            Ok(discovery) => discovery,
            Err(error) => return error,
        };
        let host = authority(host);
        let all: Vec<_> = discovery.index.skills.iter().map(|entry| format!("{}@{host}", plain(&entry.id))).collect();
        let more = if all.len() > MAX_LISTED_SKILLS {
            format!(" and {} more", all.len() - MAX_LISTED_SKILLS)
        } else {
            String::new()
        };
        let listed = all.iter().take(MAX_LISTED_SKILLS).map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = match all.len() {
            0 => format!("{host} offers no skills"),
            _ => format!("{host} is a host; name one of its skills: {listed}{more}"),
        };
        SkillConsumerError::new(ConsumerErrorReason::WhichSkill, message).details(json!({"skills": all}))
    }
}

/// Whether the error could mean that the document is shown only to authenticated callers.
fn may_be_hidden(error: &SkillConsumerError) -> bool {
    error.reason == ConsumerErrorReason::Answered && matches!(error.status, Some(401 | 403 | 404))
}

fn disagreements(entry: &SkillIndexEntry, descriptor: &SkillDescriptor) -> Vec<String> {
    let pairs = [
        ("version", entry.version.to_string(), descriptor.version.to_string()),
        ("access", entry.access.as_str().to_owned(), descriptor.access.as_str().to_owned()),
        ("capability_type", entry.capability_type.as_str().to_owned(), descriptor.capability_type.as_str().to_owned()),
    ];
    let differs = |(what, index, own): (&str, String, String)| {
        (index != own).then(|| format!("the index has {what} {index}, the descriptor {own}; the descriptor is used"))
    };
    pairs.into_iter().filter_map(differs).collect()
}
