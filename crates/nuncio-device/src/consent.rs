//! Consent of the person: what an agent requests, and granting or revoking it. A ledger entry drafted by the server is
//! compared with the person's decision before it is signed.

use std::collections::{BTreeMap, BTreeSet};

use nuncio_a2h::client::RelayError;
use nuncio_a2h::wire::Page;
use nuncio_a2h::wire::agent::AgentView;
use nuncio_a2h::wire::relation::{
    ConsentRequest, LedgerDevice, LedgerPage, Mode, RelationView, RevokeRequest, ScopeWish, Status, TermedScope,
};
use nuncio_core::Code;
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

use crate::change::ManifestChanges;
use crate::consent_windows;
use crate::device::Device;
use crate::device_events::DeviceEvent;
use crate::error::DeviceError;
use crate::former_devices::{self, FormerDevice};
use crate::known_agents::{self, KnownAgent};
use crate::localized_text::ScopeTexts;
use crate::prompt::AgentVerification;

/// What an agent requests of the person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccessRequest {
    pub agent: AgentId,
    /// Display name chosen by the agent, sanitised.
    pub name: String,
    /// Consent given on this request is valid for the manifest with this hash only.
    pub manifest_hash: Digest,
    pub manifest_version: u64,
    pub verified: AgentVerification,
    /// Most sensitive first.
    pub scopes: Vec<RequestedScope>,
    /// Difference since the last consent; `None` without a consent or without a difference.
    pub changed: Option<ManifestChanges>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestedScope {
    pub id: ScopeId,
    #[serde(flatten)]
    pub words: ScopeTexts,
    pub sensitivity: Sensitivity,
    /// Minimum that the person's own setting cannot lower.
    pub at_least: Sensitivity,
    pub tools: Vec<String>,
    /// Whether a required tool needs it.
    pub required: bool,
    /// Whether the person currently allows it.
    pub granted: bool,
    pub term: Option<GrantTerm>,
    /// Whether an earlier grant is suspended until new consent.
    pub suspended: bool,
}

/// Agent found by a search at the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentSearchHit {
    pub id: AgentId,
    /// Display name chosen by the agent, sanitised.
    pub name: String,
    /// Description by the agent, sanitised.
    pub description: Option<String>,
}

/// Scopes that the person grants, each with its term.
pub type GrantedScopes = BTreeMap<ScopeId, GrantTerm>;

impl Device {
    /// Loads what an agent requests, from the relay.
    ///
    /// # Errors
    /// The agent does not exist, or its manifest is missing or invalid.
    pub async fn access_request(&self, agent: &AgentId) -> Result<AccessRequest, DeviceError> {
        let known = self.refresh(agent).await?;
        let checked = known.manifest(self.presets()).ok_or_else(|| {
            DeviceError::new(Code::ManifestInvalid, format!("agent {agent} asks for nothing, or in a way nobody reads"))
        })?;
        let standing = known.standing(&self.identity().person);
        let changed = match &standing {
            Some(standing) => self.changed(&known, standing, &checked).await?,
            None => None,
        };
        let verified = self.verified(agent, None).await;
        Ok(AccessRequest { changed, ..self.build_request(&known, &checked, standing.as_ref(), verified) })
    }

    fn build_request(
        &self,
        known: &KnownAgent,
        checked: &CheckedManifest,
        standing: Option<&LedgerState>,
        verified: AgentVerification,
    ) -> AccessRequest {
        let now = self.now();
        let mut scopes: Vec<_> = checked
            .manifest
            .scopes
            .iter()
            .map(|scope| {
                let tools: Vec<_> = checked.manifest.tools.iter().filter(|tool| tool.scope == scope.id).collect();
                let floors = [self.presets().device_floor(&scope.id), self.floors().of(&scope.id)];
                let granted = standing.is_some_and(|standing| known.allows(standing, &scope.id, now));
                let term = standing.and_then(|standing| standing.granted.get(&scope.id).copied());
                RequestedScope {
                    words: ScopeTexts::of(self.presets(), scope),
                    sensitivity: known.stake(&scope.id, scope.sensitivity, floors),
                    at_least: known.stake_at_least(&scope.id, scope.sensitivity, floors),
                    required: tools.iter().any(|tool| tool.required),
                    tools: tools.iter().map(|tool| tool.name.to_string()).collect(),
                    granted,
                    term: term.filter(|_| granted),
                    suspended: standing.is_some_and(|standing| standing.suspended.contains(&scope.id)),
                    id: scope.id.clone(),
                }
            })
            .collect();
        scopes.sort_by(|one, other| other.sensitivity.cmp(&one.sensitivity).then_with(|| one.id.cmp(&other.id)));
        AccessRequest {
            agent: known.agent.clone(),
            name: known.name.clone(),
            manifest_hash: checked.hash,
            manifest_version: known.version,
            verified,
            scopes,
            changed: None,
        }
    }

    /// Searches the relay's agent directory.
    pub async fn search(&self, words: &str) -> Result<Vec<AgentSearchHit>, DeviceError> {
        let query: String = url::form_urlencoded::byte_serialize(words.as_bytes()).collect();
        let found: Page<AgentView> = self.relay().page(&format!("/agents?limit=20&q={query}")).await?;
        let plain = nuncio_core::text::plain;
        let agent = |view: AgentView| AgentSearchHit {
            id: view.id,
            name: nuncio_core::text::name(&view.display_name),
            description: view.description.as_deref().map(plain),
        };
        Ok(found.data.into_iter().map(agent).collect())
    }

    /// Grants exactly `given`, based on the manifest shown in `ask`.
    ///
    /// # Errors
    /// The manifest changed meanwhile, the server drafted something else than was granted, or it cannot be reached.
    pub async fn allow(&self, ask: &AccessRequest, given: &GrantedScopes) -> Result<KnownAgent, DeviceError> {
        let relation = self.relation_with(&ask.agent).await?;
        let (method, path) = match &relation {
            Some(relation) => ("PATCH", format!("/h2a/relations/{}", relation.id)),
            None => ("POST", "/h2a/relations".to_owned()),
        };
        let mut body = ConsentRequest {
            agent_id: relation.is_none().then(|| ask.agent.clone()),
            granted_scopes: given.iter().map(|(scope, term)| wish(scope, *term)).collect(),
            manifest_hash: Some(ask.manifest_hash),
            entry: None,
        };
        let said = ConsentDecision { given, ask, relation: relation.as_ref().map(|relation| &relation.id) };
        let entry = self.drafted(method, &path, &body).await?;
        self.check_draft(&entry, &said, relation.as_ref().map(|relation| relation.ledger_head))?;
        body.entry = Some(self.signed(entry));
        self.relay().send::<RelationView>(method, &path, &body).await?;
        let fresh = self.refresh(&ask.agent).await?;
        let _lock = self.state_lock();
        let mut known = known_agents::load(self.records(), &ask.agent)?.unwrap_or(fresh);
        known.taken_back = false;
        for scope in ask.scopes.iter().filter(|scope| given.contains_key(&scope.id)) {
            known.accepted.insert(scope.id.clone(), scope.sensitivity);
        }
        let mut changes = consent_windows::close(self.records(), &ask.agent)?;
        changes.push(known_agents::put(&known));
        self.records().save(changes)?;
        Ok(known)
    }

    /// Revokes everything from an agent.
    ///
    /// # Errors
    /// No relation exists, the server drafted something else, or it cannot be reached.
    pub async fn revoke(&self, agent: &AgentId) -> Result<(), DeviceError> {
        // Takes effect on this device at once, even if the server cannot be reached.
        self.revoke_locally(agent)?;
        let unknown = || DeviceError::new(Code::RelationNotFound, format!("you deal with no agent {agent}"));
        let relation = self.relation_with(agent).await?.ok_or_else(unknown)?;
        let path = format!("/h2a/relations/{}", relation.id);
        let entry = self.drafted("DELETE", &path, &RevokeRequest::default()).await?;
        let head = relation.ledger_head;
        let fits = entry.action == LedgerAction::Revoke
            && entry.relation_id == relation.id
            && entry.agent_id == *agent
            && (entry.seq, entry.prev_hash) == (head.seq + 1, head.hash);
        if !fits {
            return Err(other("it is not the end of this relation"));
        }
        // From now on a ledger without this entry is rejected as outdated.
        self.record_revocation(agent, &entry)?;
        let body = RevokeRequest { entry: Some(self.signed(entry)) };
        self.relay().send::<RelationView>("DELETE", &path, &body).await?;
        self.refresh(agent).await?;
        self.clear_local_revocation(agent)
    }

    /// Stops this device from running calls of the agent, even while the relay cannot be reached.
    fn revoke_locally(&self, agent: &AgentId) -> Result<(), DeviceError> {
        let _lock = self.state_lock();
        let mut changes = consent_windows::close(self.records(), agent)?;
        if let Some(mut known) = known_agents::load(self.records(), agent)? {
            known.taken_back = true;
            changes.push(known_agents::put(&known));
        }
        Ok(self.records().save(changes)?)
    }

    /// Clears the local mark once the relay has recorded the revocation.
    fn clear_local_revocation(&self, agent: &AgentId) -> Result<(), DeviceError> {
        let _lock = self.state_lock();
        let Some(mut known) = known_agents::load(self.records(), agent)? else { return Ok(()) };
        known.taken_back = false;
        Ok(self.records().save(vec![known_agents::put(&known)])?)
    }

    fn record_revocation(&self, agent: &AgentId, entry: &LedgerEntry) -> Result<(), DeviceError> {
        let _lock = self.state_lock();
        let known = known_agents::load(self.records(), agent)?;
        let mut known = known.unwrap_or_else(|| KnownAgent::new(agent.clone(), self.now()));
        known.record_seen(&entry.relation_id, entry.seq);
        Ok(self.records().save(vec![known_agents::put(&known)])?)
    }

    /// Requests the ledger entry that the server wants signed.
    async fn drafted(
        &self,
        method: &'static str,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<LedgerEntry, DeviceError> {
        match self.relay().send::<RelationView>(method, path, body).await {
            Err(RelayError::Unsigned(entry)) => {
                serde_json::from_value(entry).map_err(|why| other(&format!("it cannot be read: {why}")))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(other("it took a consent that nobody signed")),
        }
    }

    fn signed(&self, entry: LedgerEntry) -> LedgerEntry {
        LedgerEntry { signature: Some((self.signer())(&entry.message())), ..entry }
    }

    /// Compares a draft with the person's decision, field by field.
    fn check_draft(
        &self,
        entry: &LedgerEntry,
        said: &ConsentDecision<'_>,
        head: Option<nuncio_core::ledger::ChainHead>,
    ) -> Result<(), DeviceError> {
        let scopes: BTreeSet<_> = said.given.keys().collect();
        let terms: BTreeMap<_, _> = said.given.iter().filter(|(_, term)| **term != GrantTerm::UntilRevoked).collect();
        let identity = self.identity();
        let checks = [
            ("the person", entry.actor == LedgerActor::Person(identity.person.clone())),
            ("the device", entry.device_id.as_ref() == Some(&identity.device)),
            ("the agent", entry.agent_id == said.ask.agent),
            ("the relation", said.relation.is_none_or(|id| *id == entry.relation_id)),
            ("what it does", entry.action.allows()),
            (
                "the scopes",
                entry.scopes.iter().collect::<BTreeSet<_>>() == scopes && entry.scopes.len() == scopes.len(),
            ),
            ("for how long", entry.terms.iter().collect::<BTreeMap<_, _>>() == terms),
            ("the manifest", entry.manifest_hash == Some(said.ask.manifest_hash)),
            ("the version", entry.manifest_version == said.ask.manifest_version),
            ("its place", head.is_none_or(|head| entry.seq == head.seq + 1 && entry.prev_hash == head.hash)),
        ];
        match checks.into_iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((what, _)) => Err(other(&format!("{what} is not what you said"))),
        }
    }

    pub(crate) async fn relation_with(&self, agent: &AgentId) -> Result<Option<RelationView>, DeviceError> {
        Ok(self.relations().await?.into_iter().find(|relation| relation.agent_id == *agent))
    }

    /// The person's relations that are not revoked.
    pub(crate) async fn relations(&self) -> Result<Vec<RelationView>, DeviceError> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page: Page<RelationView> = self.relay().page(&format!("/h2a/relations?limit=50{cursor}")).await?;
            all.extend(page.data.into_iter().filter(|relation| relation.status != Status::Revoked));
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(all),
            }
        }
    }

    /// Looks at an agent anew: its manifest, and the ledger between it and the person.
    pub async fn refresh(&self, agent: &AgentId) -> Result<KnownAgent, DeviceError> {
        let view: AgentView = self.relay().get(&format!("/agents/{agent}")).await?;
        let ledger = match self.relation_with(agent).await? {
            Some(relation) => Some(self.ledger(&relation.id).await?),
            None => None,
        };
        let own = self.own_devices().await?;
        let _lock = self.state_lock();
        let former = former_devices::all(self.records())?;
        let before = known_agents::load(self.records(), agent)?;
        let mut known = before.clone().unwrap_or_else(|| KnownAgent::new(agent.clone(), self.now()));
        known.name = nuncio_core::text::name(&view.display_name);
        known.manifest = view.capability_manifest.unwrap_or_default();
        known.version = view.capability_manifest_version;
        known.at = self.now();
        // A manifest that does not match its announced hash is discarded.
        let hash = Manifest::check(known.manifest.clone(), self.presets()).ok().map(|checked| checked.hash);
        if !known.manifest.is_null() && hash != view.capability_manifest_hash {
            known.manifest = Value::Null;
        }
        let (entries, shown) = ledger.unwrap_or_default();
        // The relay may list any key as the person's: only keys that this device, or one it trusts, vouched for count.
        let vouched = |device: &KeyedDevice| {
            let same = |own: &KeyBundle| own.keys.device_id == device.id && own.keys.signing_key == device.key;
            let before = |known: &KeyedDevice| known.id == device.id && known.key == device.key;
            let once = |former: &FormerDevice| former.is(device);
            own.iter().any(same) || known.devices.iter().any(before) || former.iter().any(once)
        };
        let mut devices: Vec<_> = shown.into_iter().filter(vouched).collect();
        for device in &mut devices {
            former.iter().for_each(|former| former.limit(device));
        }
        (known.entries, known.devices) = (entries, devices);
        if let Some(standing) = known.standing(&self.identity().person) {
            let relation = known.entries.first().map(|first| first.relation_id.clone());
            relation.iter().for_each(|relation| known.record_seen(relation, standing.head.seq));
        }
        let mut changes = vec![known_agents::put(&known)];
        let same = |before: &KnownAgent| before.entries.last() == known.entries.last();
        if before.as_ref().is_some_and(|before| !same(before)) {
            changes.extend(consent_windows::close(self.records(), agent)?);
        }
        self.records().save(changes)?;
        if before.is_none_or(|before| !same(&before) || before.manifest != known.manifest) {
            self.notify(DeviceEvent::Agent { agent: agent.clone() });
        }
        Ok(known)
    }

    async fn ledger(&self, relation: &RelationId) -> Result<(Vec<LedgerEntry>, Vec<KeyedDevice>), DeviceError> {
        let mut entries = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/h2a/relations/{relation}/ledger?limit=50{cursor}");
            let page: LedgerPage = self.relay().page(&path).await?;
            entries.extend(page.data);
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok((entries, page.devices.into_iter().map(keyed).collect())),
            }
        }
    }

    /// Raises the sensitivity of a scope for one agent, so that the person is asked more often; `None` resets it.
    pub fn set_stricter(
        &self,
        agent: &AgentId,
        scope: &ScopeId,
        level: Option<Sensitivity>,
    ) -> Result<(), DeviceError> {
        let unknown = || DeviceError::new(Code::UnknownAgent, format!("nothing is known of agent {agent} here"));
        let _lock = self.state_lock();
        let mut known = known_agents::load(self.records(), agent)?.ok_or_else(unknown)?;
        match level {
            Some(level) => known.stricter.insert(scope.clone(), level),
            None => known.stricter.remove(scope),
        };
        Ok(self.records().save(vec![known_agents::put(&known)])?)
    }

    /// Every agent with a record on this device, including revoked ones.
    pub fn agents(&self) -> Result<Vec<KnownAgent>, DeviceError> {
        Ok(known_agents::all(self.records())?)
    }
}

struct ConsentDecision<'a> {
    given: &'a GrantedScopes,
    ask: &'a AccessRequest,
    relation: Option<&'a RelationId>,
}

fn wish(scope: &ScopeId, term: GrantTerm) -> ScopeWish {
    let scope = scope.clone();
    match term {
        GrantTerm::UntilRevoked => ScopeWish::Plain(scope),
        GrantTerm::Once => ScopeWish::For(TermedScope { scope, mode: Mode::Once, until: None }),
        GrantTerm::Until(end) => ScopeWish::For(TermedScope { scope, mode: Mode::Until, until: Some(end) }),
    }
}

fn keyed(device: LedgerDevice) -> KeyedDevice {
    KeyedDevice {
        id: device.id,
        person: device.user_id,
        name: String::new(),
        key: device.public_key,
        enrolled_at: device.enrolled_at,
        revoked_at: device.revoked_at,
    }
}

fn other(why: &str) -> DeviceError {
    DeviceError::new(Code::ConsentForged, format!("the server wants something else signed than you said: {why}"))
}
