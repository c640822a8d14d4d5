//! Creation of an agent account together with its first manifest.

use nuncio_core::ErrorCode;
use nuncio_core::account::{AccountOwner, AgentAccount, AgentConnection, MAX_DISPLAY_NAME};
use nuncio_core::audit::AuditEvent;
use nuncio_core::ids::{AgentId, PersonName};
use nuncio_core::principal::Principal;
use url::Url;

use super::manifests::{ManifestPublicationResult, ManifestService};
use crate::access::Caller;
use crate::accounts::{WebhookSecret, new_token, texts};
use crate::consent_error::ConsentError;
use crate::ports::store::{Change, ConsentChange};

#[derive(Debug, Clone, PartialEq)]
pub struct NewAgentAccount {
    pub display_name: String,
    pub description: Option<String>,
    /// Whether the agent appears in search results.
    pub public: bool,
    pub connection: AgentConnection,
    pub health_check_url: Option<Url>,
    /// Manifest of the new agent, as received.
    pub manifest: Option<Vec<u8>>,
    /// Note that the owner shows to people about this manifest.
    pub change_note: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreatedAgentAccount {
    pub account: AgentAccount,
    /// Access token of the new agent, returned only at its creation.
    pub token: String,
    /// Signing secret of the webhook, returned only here.
    pub webhook_secret: Option<WebhookSecret>,
    pub publication: Option<ManifestPublicationResult>,
}

impl ManifestService {
    /// Creates an agent owned by the caller and publishes its manifest. An invalid manifest creates nothing.
    pub async fn create_agent(&self, by: &Caller, new: NewAgentAccount) -> Result<CreatedAgentAccount, ConsentError> {
        let owner = AccountOwner::Person(person(by)?.clone());
        let most = self.context.limits.consent.agents_per_owner;
        if self.store.accounts_of(&owner, None, most).await?.len() >= most {
            return Err(ConsentError::limit("agents of this owner", most));
        }
        let checked = self.read_manifest(new.manifest.as_deref()).await?;
        let now = self.context.now();
        let (token, mark) = new_token(&*self.context.entropy, now);
        let account = AgentAccount {
            id: AgentId::parse(&self.context.random_name("agt_"))?,
            owner,
            display_name: texts::one_line("display_name", &new.display_name, MAX_DISPLAY_NAME)?,
            description: texts::description(new.description.as_deref())?,
            public: new.public,
            connection: new.connection,
            health_check_url: new.health_check_url,
            token: Some(mark),
            created_at: now,
            updated_at: now,
            manifest_version: 0,
            manifest_hash: None,
            revision: 0,
        };
        let mut changes = self.creation(&account, by);
        let publication = match &checked {
            Some(checked) => {
                let planned = self.plan(by, &account, Some(checked), new.change_note.as_deref()).await?;
                changes.extend(planned.changes);
                Some(planned.publication)
            }
            None => None,
        };
        let mut reached = self.accounts.webhooks.plan_first_connection(&account.id, &account.connection);
        changes.append(&mut reached.changes);
        self.context.commit(changes).await?;
        let webhook_secret = self.accounts.webhooks.reconnected(reached);
        let account = publication.as_ref().map_or(account, |publication| publication.account.clone());
        Ok(CreatedAgentAccount { account, token, webhook_secret, publication })
    }

    /// Changes that create an account and its audit record.
    pub(super) fn creation(&self, account: &AgentAccount, by: &Caller) -> Vec<Change> {
        let words = texts::search_words(account, None);
        vec![
            ConsentChange::CreateAccount { words, account: account.clone() }.into(),
            self.context.agent_event(AuditEvent::AgentCreated, by, &account.id),
        ]
    }
}

fn person(by: &Caller) -> Result<&PersonName, ConsentError> {
    match &by.principal {
        Principal::Person(name) => Ok(name),
        Principal::Agent(_) => Err(ConsentError::new(ErrorCode::NotOwner, "an agent cannot own agents; people can")),
        _ => Err(ConsentError::new(
            ErrorCode::Unauthorized,
            "only a person may do this: send the access token of one of their devices",
        )),
    }
}
