//! Agents declared in a file on this server. Their manifest is derived from the file and belongs to the operator.

use nuncio_core::account::{AccountOwner, AgentAccount, AgentConnection};
use nuncio_core::agent::Agent;
use nuncio_core::ids::AgentId;
use nuncio_core::manifest::Manifest;
use nuncio_core::principal::Principal;
use serde_json::Value;

use super::manifests::{ManifestPublicationResult, ManifestService};
use crate::access::Caller;
use crate::consent_error::ConsentError;
use crate::context::CommitResultExt as _;
use crate::ports::store::Conflict;

impl ManifestService {
    /// Publishes the manifest derived from an agent file. `manifest` is `None` if the agent has nothing for people's
    /// devices; an earlier manifest is then cleared. An agent that never had a manifest gets no account, and the result
    /// is `None`.
    pub async fn announce(
        &self,
        agent: &Agent,
        manifest: Option<Value>,
    ) -> Result<Option<ManifestPublicationResult>, ConsentError> {
        let by = Caller::new(Principal::Operator);
        let id = AgentId::from(agent.name.clone());
        let checked = manifest.map(|value| Manifest::check(value, &self.context.limits.consent.presets)).transpose()?;
        match self.store.account(&id).await? {
            None if checked.is_none() => return Ok(None),
            None => self.open_account(agent, &id, &by).await?,
            Some(account) => self.follow_declaration(agent, &account, &by).await?,
        }
        self.publish_checked(&by, &id, checked, None, None).await.map(Some)
    }

    async fn open_account(&self, agent: &Agent, id: &AgentId, by: &Caller) -> Result<(), ConsentError> {
        let now = self.context.now();
        let account = AgentAccount {
            id: id.clone(),
            owner: AccountOwner::Operator,
            display_name: display_name(agent),
            description: description(agent),
            public: agent.presence.listed,
            connection: AgentConnection::Websocket,
            health_check_url: None,
            token: None,
            created_at: now,
            updated_at: now,
            manifest_version: 0,
            manifest_hash: None,
            revision: 0,
        };
        // The account may have been created concurrently.
        self.context.commit(self.creation(&account, by)).await.made_unless(Conflict::Exists)?;
        Ok(())
    }

    /// Updates display name, description and visibility of the account from the agent file.
    async fn follow_declaration(&self, agent: &Agent, account: &AgentAccount, by: &Caller) -> Result<(), ConsentError> {
        let set = |account: &mut AgentAccount| {
            account.display_name = display_name(agent);
            account.description = description(agent);
            account.public = agent.presence.listed;
        };
        let mut next = account.clone();
        set(&mut next);
        if next != *account {
            self.accounts.change_account(by, &account.id, None, set).await?;
        }
        Ok(())
    }
}

fn display_name(agent: &Agent) -> String {
    agent.title_in("en").to_owned()
}

fn description(agent: &Agent) -> Option<String> {
    agent.description.as_ref().map(|text| text.in_english().to_owned())
}
