//! Accounts of agents that run elsewhere, and their access tokens.

use nuncio_core::Code;
use nuncio_core::account::{AccountOwner, AgentAccount, AgentConnection, AgentTokenInfo, MAX_DISPLAY_NAME};
use nuncio_core::audit::AuditEvent;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, PersonName};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use std::sync::Arc;
use url::Url;

use super::error::{ConsentError, ConsentErrorDetails};
use super::manifests::{ManifestPublicationResult, ManifestService, manifest_value};
use super::{AgentLocks, NotificationService, texts};
use crate::access::{AuthenticationMethod, Caller};
use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::not_found;
use crate::ports::Entropy;
use crate::ports::store::{AgentAccountStore, Change, Conflict, ConsentChange};
use crate::relay::{ConnectionModeChange, WebhookSecret, WebhookService};

const TOKEN_PREFIX: &str = "hsk_";

/// Number of random characters of an agent token after its prefix.
const TOKEN_CHARACTERS: usize = 40;

/// Number of leading characters of an agent token that are stored for display.
const SHOWN_TOKEN_CHARACTERS: usize = 12;

const MAX_PAGE_SIZE: usize = 100;

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdatedAgentAccount {
    pub account: AgentAccount,
    /// Signing secret of a newly configured webhook, returned only here.
    pub webhook_secret: Option<WebhookSecret>,
}

/// Changes to an agent account; `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentAccountPatch {
    pub display_name: Option<String>,
    /// New description; an empty text removes it.
    pub description: Option<String>,
    /// Whether the agent appears in search results.
    pub public: Option<bool>,
    pub connection: Option<AgentConnection>,
    /// New health-check URL; `Some(None)` removes it.
    pub health_check_url: Option<Option<Url>>,
    /// Revision that the account must still have; otherwise the update fails with `manifest_stale`.
    pub expected_revision: Option<u64>,
}

/// Service for accounts of agents: owners, tokens and webhooks.
pub struct AgentAccountService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn AgentAccountStore>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) webhooks: Arc<WebhookService>,
    pub(crate) locks: Arc<AgentLocks>,
}

impl AgentAccountService {
    pub async fn update_agent(
        &self,
        by: &Caller,
        id: &AgentId,
        patch: AgentAccountPatch,
    ) -> Result<UpdatedAgentAccount, ConsentError> {
        let name = |text| texts::one_line("display_name", text, MAX_DISPLAY_NAME);
        let name = patch.display_name.as_deref().map(name).transpose()?;
        let description = patch.description.as_deref().map(|text| texts::description(Some(text))).transpose()?;
        let change = |account: &mut AgentAccount| {
            account.display_name = name.clone().unwrap_or_else(|| account.display_name.clone());
            account.description = description.clone().unwrap_or_else(|| account.description.clone());
            account.public = patch.public.unwrap_or(account.public);
            account.connection = patch.connection.clone().unwrap_or_else(|| account.connection.clone());
            account.health_check_url =
                patch.health_check_url.clone().unwrap_or_else(|| account.health_check_url.clone());
        };
        let _turn = self.locks.enter(id).await;
        loop {
            let account = self.owned(by, id).await?;
            if patch.expected_revision.is_some_and(|expected| expected != account.revision) {
                return Err(stale_account(&account));
            }
            let mut reached = match &patch.connection {
                Some(wanted) => self.webhooks.plan_connection(&account, wanted).await?,
                None => ConnectionModeChange::default(),
            };
            let besides = std::mem::take(&mut reached.changes);
            if let Some(account) = self.commit_account(account, change, besides).await? {
                return Ok(UpdatedAgentAccount { account, webhook_secret: self.webhooks.reconnected(reached) });
            }
        }
    }

    /// Replaces an agent's token; the previous one stops working at once.
    pub async fn rotate_agent_token(&self, by: &Caller, id: &AgentId) -> Result<(AgentAccount, String), ConsentError> {
        let (token, mark) = new_token(&*self.context.entropy, self.context.now());
        let set = |account: &mut AgentAccount| account.token = Some(mark.clone());
        Ok((self.change_account(by, id, Some(AuditEvent::TokenRotated), set).await?, token))
    }

    pub async fn revoke_agent_token(&self, by: &Caller, id: &AgentId) -> Result<AgentAccount, ConsentError> {
        self.change_account(by, id, Some(AuditEvent::TokenRevoked), |account| account.token = None).await
    }

    /// The caller that a valid agent token identifies.
    pub async fn authenticate_agent_token(&self, token: &str) -> Result<Option<Caller>, EngineError> {
        let Some(characters) = token.strip_prefix(TOKEN_PREFIX) else { return Ok(None) };
        if characters.len() != TOKEN_CHARACTERS
            || !characters.bytes().all(|character| character.is_ascii_alphanumeric())
        {
            return Ok(None);
        }
        // The token is looked up by digest, so that timing reveals nothing about existing tokens.
        let account = self.store.account_by_token(&Digest::of_bytes(token.as_bytes())).await?;
        Ok(account.map(|account| Caller {
            authentication: AuthenticationMethod::AgentToken,
            ..Caller::new(Principal::Agent(account.id))
        }))
    }

    pub async fn account(&self, id: &AgentId) -> Result<AgentAccount, ConsentError> {
        Ok(self.store.account(id).await?.ok_or_else(|| not_found::agent_account(id.as_str()))?)
    }

    /// The account with this id, if the caller may see it: everyone sees public ones, authenticated callers all.
    pub async fn visible_account(&self, by: Option<&Caller>, id: &str) -> Result<AgentAccount, ConsentError> {
        let found = match AgentId::parse(id) {
            Ok(id) => self.store.account(&id).await?,
            Err(_) => None,
        };
        match (found, by) {
            (Some(account), _) if account.public || by.is_some() => Ok(account),
            (_, Some(_)) => Err(not_found::agent_account(id).into()),
            // Anonymous callers are not told whether a private agent exists.
            (_, None) => {
                let message = "no public agent has this id; send a token to see agents that are not public";
                Err(ConsentError::new(Code::Unauthorized, message))
            }
        }
    }

    /// Accounts of an owner with an id above `after`, ordered by id; at most `limit`, and never more than 100.
    pub async fn accounts_of(
        &self,
        owner: &AccountOwner,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, EngineError> {
        Ok(self.store.accounts_of(owner, after, limit.min(MAX_PAGE_SIZE)).await?)
    }

    /// Public accounts with an id above `after` that match every word of the query, ordered by id; at most `limit`, and
    /// never more than 100. Only the first eight words count.
    pub async fn search_agents(
        &self,
        query: &str,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, EngineError> {
        Ok(self.store.public_accounts(&texts::query_words(query), after, limit.min(MAX_PAGE_SIZE)).await?)
    }

    pub(super) async fn change_account(
        &self,
        by: &Caller,
        id: &AgentId,
        event: Option<AuditEvent>,
        change: impl Fn(&mut AgentAccount),
    ) -> Result<AgentAccount, ConsentError> {
        let _turn = self.locks.enter(id).await;
        loop {
            let account = self.owned(by, id).await?;
            let besides = event.map(|event| self.context.agent_event(event, by, id));
            if let Some(account) = self.commit_account(account, &change, besides.into_iter().collect()).await? {
                return Ok(account);
            }
        }
    }

    /// Commits an account change together with `besides`; `None` if another request changed the account first.
    async fn commit_account(
        &self,
        mut account: AgentAccount,
        change: impl Fn(&mut AgentAccount),
        besides: Vec<Change>,
    ) -> Result<Option<AgentAccount>, ConsentError> {
        let manifest = manifest_value(&*self.store, &account.id, account.manifest_version).await?;
        change(&mut account);
        account.updated_at = self.context.now();
        account.revision += 1;
        let words = texts::search_words(&account, manifest.as_ref());
        let mut changes = vec![ConsentChange::UpdateAccount { account: account.clone(), words }.into()];
        changes.extend(besides);
        let made = self.mailbox.commit_and_notify(changes).await.made_unless(Conflict::Moved)?;
        Ok(made.then_some(account))
    }

    /// The account, if the caller owns it.
    pub async fn owned(&self, by: &Caller, id: &AgentId) -> Result<AgentAccount, ConsentError> {
        let account = self.account(id).await?;
        if account.owner.is(&by.principal) {
            return Ok(account);
        }
        let message = match &by.principal {
            Principal::Agent(_) => format!("an agent's token cannot change agent {id}; send a token of its owner"),
            _ => format!("agent {id} has another owner; only its owner may do this"),
        };
        Err(ConsentError::new(Code::NotOwner, message))
    }
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

/// Error for a change that is based on an earlier state of the account or its manifest.
#[must_use]
pub fn stale_account(account: &AgentAccount) -> ConsentError {
    let message = format!("agent {} or its manifest was changed in the meantime; read it again", account.id);
    let details = ConsentErrorDetails::Stale { version: account.manifest_version, hash: account.manifest_hash };
    ConsentError::with(Code::ManifestStale, message, details)
}

fn person(by: &Caller) -> Result<&PersonName, ConsentError> {
    match &by.principal {
        Principal::Person(name) => Ok(name),
        Principal::Agent(_) => Err(ConsentError::new(Code::NotOwner, "an agent cannot own agents; people can")),
        _ => Err(ConsentError::new(
            Code::Unauthorized,
            "only a person may do this: send the access token of one of their devices",
        )),
    }
}

/// A new agent token, and the digest and prefix of it that are stored.
fn new_token(entropy: &dyn Entropy, now: Timestamp) -> (String, AgentTokenInfo) {
    const TOKEN_LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut token = TOKEN_PREFIX.to_owned();
    let mut bytes = [0_u8; 64];
    while token.len() < TOKEN_PREFIX.len() + TOKEN_CHARACTERS {
        entropy.fill(&mut bytes);
        // Random bytes from 248 (4 × 62) on are skipped, so that every character is equally likely.
        let fair =
            bytes.iter().filter(|byte| **byte < 248).map(|byte| char::from(TOKEN_LETTERS[usize::from(byte % 62)]));
        let missing = TOKEN_PREFIX.len() + TOKEN_CHARACTERS - token.len();
        token.extend(fair.take(missing));
    }
    let mark = AgentTokenInfo {
        digest: Digest::of_bytes(token.as_bytes()),
        prefix: token[..SHOWN_TOKEN_CHARACTERS].to_owned(),
        created_at: now,
    };
    (token, mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::time::Timestamp;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// Test randomness that yields every byte value in turn.
    #[derive(Debug, Default)]
    struct CountingEntropy(AtomicU8);

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
        }
    }

    #[test]
    fn agent_token_is_hsk_plus_forty_random_characters_and_is_stored_as_digest() {
        let entropy = CountingEntropy(AtomicU8::new(230));
        let (token, mark) = new_token(&entropy, Timestamp::from_millis(0));
        assert_eq!(token.len(), 44);
        assert!(token.strip_prefix("hsk_").unwrap().bytes().all(|character| character.is_ascii_alphanumeric()));
        assert_eq!(mark.digest, Digest::of_bytes(token.as_bytes()));
        assert_eq!(mark.prefix, token[..12]);
        assert_ne!(new_token(&entropy, Timestamp::from_millis(0)).0, token);
    }
}
