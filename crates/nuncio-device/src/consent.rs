//! The person's consent: access requests of agents, granting and revoking. A ledger entry drafted by the server is
//! compared with the person's decision before this device signs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nuncio_a2h::client::RelayClientError;
use nuncio_a2h::wire::Page;
use nuncio_a2h::wire::agent::AgentAccountView;
use nuncio_a2h::wire::relation::{
    ConsentRequest, GrantMode, LedgerDevice, LedgerPage, RelationStatus, RelationView, RevokeRelationRequest,
    ScopeGrantRequest, ScopeWithTerm,
};
use nuncio_core::ErrorCode;
use nuncio_core::agent::Sensitivity;
use nuncio_core::bundle::KeyBundle;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, RelationId, ScopeId};
use nuncio_core::ledger::{LedgerAction, LedgerActor, LedgerEntry, LedgerState};
use nuncio_core::manifest::{CheckedManifest, Manifest};
use nuncio_core::person::Device as KeyedDevice;
use serde::Serialize;
use serde_json::Value;

use crate::change::ChangesSinceConsent;
use crate::consent_windows;
use crate::context::DeviceContext;
use crate::device_events::DeviceEvent;
use crate::devices::OwnDeviceService;
use crate::did_verification::verify_agent;
use crate::error::DeviceError;
use crate::former_devices::{self, FormerDevice};
use crate::known_agents::{self, KnownAgent};
use crate::localized_text::ScopeTexts;
use crate::prompt::AgentVerification;
use crate::tools::LocalToolAccess;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccessRequest {
    pub agent: AgentId,
    /// Display name chosen by the agent, sanitised.
    pub name: String,
    /// The agent's description of itself, sanitised.
    pub description: Option<String>,
    /// Hash of the manifest that makes the request; consent is given for this manifest only.
    pub manifest_hash: Digest,
    pub manifest_version: u64,
    pub verified: AgentVerification,
    /// Requested scopes, most sensitive first.
    pub scopes: Vec<RequestedScope>,
    /// Manifest difference since the last consent; `None` without a consent or without a difference.
    pub changed: Option<ChangesSinceConsent>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestedScope {
    pub id: ScopeId,
    #[serde(flatten)]
    pub texts: ScopeTexts,
    pub sensitivity: Sensitivity,
    /// Minimum sensitivity, which the person's own setting cannot lower.
    pub at_least: Sensitivity,
    pub tools: Vec<String>,
    /// Whether a tool that the agent declares as required needs the scope.
    pub required: bool,
    /// Whether the person currently grants the scope.
    pub granted: bool,
    pub term: Option<GrantTerm>,
    /// Whether an earlier grant of the scope is suspended until new consent.
    pub suspended: bool,
    /// Whether this device has a tool for every call under the scope.
    pub available: bool,
    /// Limits of this device's tools under the scope.
    pub limits: Vec<LocalToolAccess>,
    /// Longest time of one call, in seconds.
    pub seconds: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentSearchHit {
    pub id: AgentId,
    /// Display name chosen by the agent, sanitised.
    pub name: String,
    /// Description written by the agent, sanitised.
    pub description: Option<String>,
}

pub type GrantedScopes = BTreeMap<ScopeId, GrantTerm>;

/// Access requests of agents, and the person's grants to them.
pub struct AgentConsentService {
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) own_devices: Arc<OwnDeviceService>,
}

impl AgentConsentService {
    /// Loads an agent's access request from the relay; fails if there is no such agent or no valid manifest.
    pub async fn access_request(&self, agent: &AgentId) -> Result<AccessRequest, DeviceError> {
        let known = self.refresh(agent).await?;
        let checked = known.manifest(self.context.presets()).ok_or_else(|| {
            DeviceError::new(ErrorCode::ManifestInvalid, format!("agent {agent} has no manifest, or an invalid one"))
        })?;
        let standing = known.standing(&self.context.identity.person);
        let changed = match &standing {
            Some(standing) => self.changed(&known, standing, &checked).await?,
            None => None,
        };
        Ok(AccessRequest {
            agent: agent.clone(),
            manifest_hash: checked.hash,
            manifest_version: known.version,
            verified: verify_agent(&self.context, agent, None).await,
            scopes: self.requested_scopes(&known, &checked, standing.as_ref()),
            changed,
            name: known.name,
            description: known.description,
        })
    }

    fn requested_scopes(
        &self,
        known: &KnownAgent,
        checked: &CheckedManifest,
        standing: Option<&LedgerState>,
    ) -> Vec<RequestedScope> {
        let now = self.context.now();
        let mut scopes: Vec<_> = checked
            .manifest
            .scopes
            .iter()
            .map(|scope| {
                let tools: Vec<_> = checked.manifest.tools.iter().filter(|tool| tool.scope == scope.id).collect();
                let floors = [
                    self.context.presets().device_floor(&scope.id),
                    self.context.config.floors.get(&scope.id).copied(),
                ];
                let local = tools.iter().map(|tool| self.context.config.tools.find(&tool.name, &tool.scope));
                let local: Vec<_> = local.collect();
                let granted = standing.is_some_and(|standing| known.allows(standing, &scope.id, now));
                let term = standing.and_then(|standing| standing.granted.get(&scope.id).copied());
                RequestedScope {
                    texts: ScopeTexts::of(self.context.presets(), scope),
                    sensitivity: known.stake(&scope.id, scope.sensitivity, floors),
                    at_least: known.stake_at_least(&scope.id, scope.sensitivity, floors),
                    required: tools.iter().any(|tool| tool.required),
                    tools: tools.iter().map(|tool| tool.name.to_string()).collect(),
                    granted,
                    term: term.filter(|_| granted),
                    suspended: standing.is_some_and(|standing| standing.suspended.contains(&scope.id)),
                    available: local.iter().all(Option::is_some),
                    limits: local.iter().flatten().filter_map(|tool| tool.limits()).collect(),
                    seconds: tools.iter().map(|tool| tool.timeout.as_secs()).max().unwrap_or_default(),
                    id: scope.id.clone(),
                }
            })
            .collect();
        scopes.sort_by(|a, b| b.sensitivity.cmp(&a.sensitivity).then_with(|| a.id.cmp(&b.id)));
        scopes
    }

    /// Searches the relay's public agents; returns at most 20.
    pub async fn search(&self, query: &str) -> Result<Vec<AgentSearchHit>, DeviceError> {
        let encoded: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let found: Page<AgentAccountView> = self.context.relay.page(&format!("/agents?limit=20&q={encoded}")).await?;
        let agent = |view: AgentAccountView| AgentSearchHit {
            id: view.id,
            name: nuncio_core::text::name(&view.display_name),
            description: view.description.as_deref().map(nuncio_core::text::plain),
        };
        Ok(found.data.into_iter().map(agent).collect())
    }

    /// Grants exactly the scopes in `given`, for the manifest of the request `ask`.
    ///
    /// # Errors
    /// The manifest changed meanwhile, the server drafted a ledger entry with other grants, or it cannot be reached.
    pub async fn allow(&self, ask: &AccessRequest, given: &GrantedScopes) -> Result<KnownAgent, DeviceError> {
        let relation = self.relation_with(&ask.agent).await?;
        let (method, path) = match &relation {
            Some(relation) => ("PATCH", format!("/h2a/relations/{}", relation.id)),
            None => ("POST", "/h2a/relations".to_owned()),
        };
        let mut body = ConsentRequest {
            agent_id: relation.is_none().then(|| ask.agent.clone()),
            granted_scopes: given.iter().map(|(scope, term)| grant_request(scope, *term)).collect(),
            manifest_hash: Some(ask.manifest_hash),
            entry: None,
        };
        let entry = self.drafted(method, &path, &body).await?;
        self.check_draft(&entry, ask, given, relation.as_ref())?;
        body.entry = Some(self.signed(entry));
        self.context.relay.send::<RelationView>(method, &path, &body).await?;
        let fresh = self.refresh(&ask.agent).await?;
        let _lock = self.context.state_lock();
        let mut known = known_agents::load(&self.context.records, &ask.agent)?.unwrap_or(fresh);
        known.taken_back = false;
        for scope in ask.scopes.iter().filter(|scope| given.contains_key(&scope.id)) {
            known.accepted.insert(scope.id.clone(), scope.sensitivity);
        }
        let mut changes = consent_windows::close(&self.context.records, &ask.agent)?;
        changes.push(known_agents::put(&known));
        self.context.records.save(changes)?;
        Ok(known)
    }

    /// Revokes all grants of an agent. The revocation counts on this device at once, even if an error follows.
    ///
    /// # Errors
    /// No relation exists, the server drafted a ledger entry that does not revoke it, or it cannot be reached.
    pub async fn revoke(&self, agent: &AgentId) -> Result<(), DeviceError> {
        // The revocation takes effect on this device at once, even if the server cannot be reached.
        self.revoke_locally(agent)?;
        let unknown =
            || DeviceError::new(ErrorCode::RelationNotFound, format!("you have no relation with agent {agent}"));
        let relation = self.relation_with(agent).await?.ok_or_else(unknown)?;
        let path = format!("/h2a/relations/{}", relation.id);
        let entry = self.drafted("DELETE", &path, &RevokeRelationRequest::default()).await?;
        let fits = entry.action == LedgerAction::Revoke
            && entry.relation_id == relation.id
            && entry.agent_id == *agent
            && follows(&entry, &relation);
        if !fits {
            return Err(draft_error("it does not end this relation"));
        }
        // From now on a ledger without the revocation entry is rejected as rolled back.
        self.update_agent(agent, |known| known.record_seen(&entry.relation_id, entry.seq))?;
        let body = RevokeRelationRequest { entry: Some(self.signed(entry)) };
        self.context.relay.send::<RelationView>("DELETE", &path, &body).await?;
        self.refresh(agent).await?;
        // The relay has recorded the revocation, so the local mark is no longer needed.
        self.update_agent(agent, |known| known.taken_back = false)
    }

    /// Stops this device from running calls of the agent, even while the relay cannot be reached.
    fn revoke_locally(&self, agent: &AgentId) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        let mut changes = consent_windows::close(&self.context.records, agent)?;
        if let Some(mut known) = known_agents::load(&self.context.records, agent)? {
            known.taken_back = true;
            changes.push(known_agents::put(&known));
        }
        Ok(self.context.records.save(changes)?)
    }

    /// Changes the stored record of an agent; creates the record if there is none.
    fn update_agent(&self, agent: &AgentId, change: impl FnOnce(&mut KnownAgent)) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        let known = known_agents::load(&self.context.records, agent)?;
        let mut known = known.unwrap_or_else(|| KnownAgent::new(agent.clone(), self.context.now()));
        change(&mut known);
        Ok(self.context.records.save(vec![known_agents::put(&known)])?)
    }

    /// Sends a consent request without signature, to get the ledger entry that the server wants signed.
    async fn drafted(
        &self,
        method: &'static str,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<LedgerEntry, DeviceError> {
        match self.context.relay.send::<RelationView>(method, path, body).await {
            Err(RelayClientError::Unsigned(entry)) => {
                serde_json::from_value(entry).map_err(|why| draft_error(&format!("it cannot be parsed: {why}")))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(draft_error("the server accepted a consent without a signature")),
        }
    }

    fn signed(&self, entry: LedgerEntry) -> LedgerEntry {
        LedgerEntry { signature: Some((self.context.sign)(&entry.message())), ..entry }
    }

    /// Compares the server's draft of a ledger entry with the person's decision, field by field.
    fn check_draft(
        &self,
        entry: &LedgerEntry,
        ask: &AccessRequest,
        given: &GrantedScopes,
        relation: Option<&RelationView>,
    ) -> Result<(), DeviceError> {
        let scopes: BTreeSet<_> = given.keys().collect();
        let terms: BTreeMap<_, _> = given.iter().filter(|(_, term)| **term != GrantTerm::UntilRevoked).collect();
        let identity = &self.context.identity;
        let checks = [
            ("the person", entry.actor == LedgerActor::Person(identity.person.clone())),
            ("the device", entry.device_id.as_ref() == Some(&identity.device)),
            ("the agent", entry.agent_id == ask.agent),
            ("the relation", relation.is_none_or(|relation| relation.id == entry.relation_id)),
            ("the action", entry.action.allows()),
            (
                "the scopes",
                entry.scopes.iter().collect::<BTreeSet<_>>() == scopes && entry.scopes.len() == scopes.len(),
            ),
            ("the duration", entry.terms.iter().collect::<BTreeMap<_, _>>() == terms),
            ("the manifest", entry.manifest_hash == Some(ask.manifest_hash)),
            ("the version", entry.manifest_version == ask.manifest_version),
            ("the position in the ledger", relation.is_none_or(|relation| follows(entry, relation))),
        ];
        match checks.into_iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((what, _)) => Err(draft_error(&format!("{what} differs"))),
        }
    }

    async fn relation_with(&self, agent: &AgentId) -> Result<Option<RelationView>, DeviceError> {
        Ok(self.relations().await?.into_iter().find(|relation| relation.agent_id == *agent))
    }

    /// The person's relations that are not revoked.
    async fn relations(&self) -> Result<Vec<RelationView>, DeviceError> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page: Page<RelationView> = self.context.relay.page(&format!("/h2a/relations?limit=50{cursor}")).await?;
            all.extend(page.data.into_iter().filter(|relation| relation.status != RelationStatus::Revoked));
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(all),
            }
        }
    }

    /// Reloads an agent from the relay and stores it: its manifest, and the consent ledger between agent and person.
    pub async fn refresh(&self, agent: &AgentId) -> Result<KnownAgent, DeviceError> {
        let view: AgentAccountView = self.context.relay.get(&format!("/agents/{agent}")).await?;
        let ledger = match self.relation_with(agent).await? {
            Some(relation) => Some(self.ledger(&relation.id).await?),
            None => None,
        };
        let own = self.own_devices.trusted().await?;
        let _lock = self.context.state_lock();
        let former = former_devices::all(&self.context.records)?;
        let before = known_agents::load(&self.context.records, agent)?;
        let mut known = before.clone().unwrap_or_else(|| KnownAgent::new(agent.clone(), self.context.now()));
        known.name = nuncio_core::text::name(&view.display_name);
        known.description = view.description.as_deref().map(nuncio_core::text::plain);
        known.manifest = view.capability_manifest.unwrap_or_default();
        known.version = view.capability_manifest_version;
        known.at = self.context.now();
        // A manifest that does not have its announced hash is discarded.
        let hash = Manifest::check(known.manifest.clone(), self.context.presets()).ok().map(|checked| checked.hash);
        if !known.manifest.is_null() && hash != view.capability_manifest_hash {
            known.manifest = Value::Null;
        }
        let (entries, listed) = ledger.unwrap_or_default();
        // The relay could list any key as the person's, so only keys that this device trusts or trusted count.
        let vouched = |device: &KeyedDevice| {
            let same = |own: &KeyBundle| own.keys.device_id == device.id && own.keys.signing_key == device.key;
            let before = |known: &KeyedDevice| known.id == device.id && known.key == device.key;
            let once = |former: &FormerDevice| former.is(device);
            own.iter().any(same) || known.devices.iter().any(before) || former.iter().any(once)
        };
        let mut devices: Vec<_> = listed.into_iter().filter(vouched).collect();
        for device in &mut devices {
            former.iter().for_each(|former| former.limit(device));
        }
        (known.entries, known.devices) = (entries, devices);
        if let Some(standing) = known.standing(&self.context.identity.person) {
            let relation = known.entries.first().map(|first| first.relation_id.clone());
            relation.iter().for_each(|relation| known.record_seen(relation, standing.head.seq));
        }
        let mut changes = vec![known_agents::put(&known)];
        let same = |before: &KnownAgent| before.entries.last() == known.entries.last();
        if before.as_ref().is_some_and(|before| !same(before)) {
            changes.extend(consent_windows::close(&self.context.records, agent)?);
        }
        self.context.records.save(changes)?;
        if before.is_none_or(|before| !same(&before) || before.manifest != known.manifest) {
            self.context.notify(DeviceEvent::Agent { agent: agent.clone() });
        }
        Ok(known)
    }

    /// Reloads every agent with which the person has a relation according to the relay.
    pub(crate) async fn refresh_all(&self) -> Result<(), DeviceError> {
        for relation in self.relations().await? {
            // A failure for one agent does not stop the refresh of the others.
            if let Err(error) = self.refresh(&relation.agent_id).await {
                tracing::warn!(agent = %relation.agent_id, %error, "cannot refresh an agent after restore or recovery");
            }
        }
        Ok(())
    }

    async fn ledger(&self, relation: &RelationId) -> Result<(Vec<LedgerEntry>, Vec<KeyedDevice>), DeviceError> {
        let mut entries = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/h2a/relations/{relation}/ledger?limit=50{cursor}");
            let page: LedgerPage = self.context.relay.page(&path).await?;
            entries.extend(page.data);
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok((entries, page.devices.into_iter().map(keyed_device).collect())),
            }
        }
    }

    /// Raises the sensitivity of a scope for one agent, so that the person is asked more often; `None` undoes that.
    pub fn set_stricter(
        &self,
        agent: &AgentId,
        scope: &ScopeId,
        level: Option<Sensitivity>,
    ) -> Result<(), DeviceError> {
        let unknown =
            || DeviceError::new(ErrorCode::UnknownAgent, format!("this device has no record of agent {agent}"));
        let _lock = self.context.state_lock();
        let mut known = known_agents::load(&self.context.records, agent)?.ok_or_else(unknown)?;
        match level {
            Some(level) => known.stricter.insert(scope.clone(), level),
            None => known.stricter.remove(scope),
        };
        Ok(self.context.records.save(vec![known_agents::put(&known)])?)
    }

    /// Every agent with a record on this device, including revoked ones.
    pub fn agents(&self) -> Result<Vec<KnownAgent>, DeviceError> {
        Ok(known_agents::all(&self.context.records)?)
    }
}

/// Whether a ledger entry comes directly after the last entry of the relation's ledger.
fn follows(entry: &LedgerEntry, relation: &RelationView) -> bool {
    let head = relation.ledger_head;
    (entry.seq, entry.prev_hash) == (head.seq + 1, head.hash)
}

fn grant_request(scope: &ScopeId, term: GrantTerm) -> ScopeGrantRequest {
    let (scope, (mode, until)) = (scope.clone(), GrantMode::of(term));
    match mode {
        GrantMode::UntilRevoked => ScopeGrantRequest::Plain(scope),
        GrantMode::Once | GrantMode::Until => ScopeGrantRequest::For(ScopeWithTerm { scope, mode, until }),
    }
}

fn keyed_device(device: LedgerDevice) -> KeyedDevice {
    KeyedDevice {
        id: device.id,
        person: device.user_id,
        name: String::new(),
        key: device.public_key,
        enrolled_at: device.enrolled_at,
        revoked_at: device.revoked_at,
    }
}

fn draft_error(why: &str) -> DeviceError {
    DeviceError::new(
        ErrorCode::ConsentForged,
        format!("the ledger entry that the server drafted differs from your decision: {why}"),
    )
}
