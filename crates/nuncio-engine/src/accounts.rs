//! Accounts of agents that run elsewhere, and their access tokens.

use nuncio_core::ErrorCode;
use nuncio_core::account::{AccountOwner, AgentAccount, AgentConnection, AgentTokenInfo, MAX_DISPLAY_NAME};
use nuncio_core::audit::AuditEvent;
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use url::Url;

use crate::access::{AuthenticationMethod, Caller};
use crate::consent_error::{ConsentError, ConsentErrorDetails};
use crate::context::{CommitResultExt as _, EngineContext};
use crate::error::EngineError;
use crate::not_found;
use crate::ports::Entropy;
use crate::ports::store::{AgentAccountStore, Change, Conflict, ConsentChange, StoreError};

mod locks;
mod notification_waiters;
mod notifications;
pub(crate) mod texts;
mod webhooks;

pub(crate) use locks::AgentLocks;
pub(crate) use notification_waiters::NotificationWaiters;
pub use notifications::NotificationService;
pub(crate) use webhooks::{ConnectionModeChange, WebhookIndex, webhook_secret_context};
pub use webhooks::{
    DeliveryNextStep, WaitingDelivery, WebhookCall, WebhookResponse, WebhookSecret, WebhookService, WebhookStatusView,
};

const TOKEN_PREFIX: &str = "hsk_";

/// Number of random characters of an agent token after its prefix.
const TOKEN_CHARACTERS: usize = 40;

/// Number of leading characters of an agent token that are stored for display.
const SHOWN_TOKEN_CHARACTERS: usize = 12;

const MAX_PAGE_SIZE: usize = 100;

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
                Err(ConsentError::new(ErrorCode::Unauthorized, message))
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

    pub(crate) async fn change_account(
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
        Err(ConsentError::new(ErrorCode::NotOwner, message))
    }
}

/// Error for a change that is based on an earlier state of the account or its manifest.
#[must_use]
pub fn stale_account(account: &AgentAccount) -> ConsentError {
    let message = format!("agent {} or its manifest was changed in the meantime; read it again", account.id);
    let details = ConsentErrorDetails::Stale { version: account.manifest_version, hash: account.manifest_hash };
    ConsentError::with(ErrorCode::ManifestStale, message, details)
}

/// A version of a manifest as JSON; `None` if it was cleared.
pub(crate) async fn manifest_value(
    store: &dyn AgentAccountStore,
    agent: &AgentId,
    version: u64,
) -> Result<Option<Value>, StoreError> {
    let version = store.manifest(agent, version).await?;
    Ok(version.and_then(|version| serde_json::from_str(&version.manifest?).ok()))
}

/// A new agent token, and the digest and prefix of it that are stored.
pub(crate) fn new_token(entropy: &dyn Entropy, now: Timestamp) -> (String, AgentTokenInfo) {
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
