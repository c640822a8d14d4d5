//! Test fixture: an engine with a real store, a manual clock, and people with devices.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use nuncio_bus::LocalBus;
use nuncio_core::account::AgentConnection;
use nuncio_core::agent::Agent;
use nuncio_core::audit::AuditEventRecord;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, PersonName, ScopeId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::person::{Device, EnrolmentAssertion};
use nuncio_core::principal::Principal;
use nuncio_core::relation::{Relation, ScopeToGrant};
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::StopReason;
use nuncio_engine::consent::{
    ConsentError, ConsentErrorDetails, ConsentSettings, ManifestPublicationResult, NewAgentAccount, NewConsent,
    NewRelation,
};
use nuncio_engine::people::DeviceEnrolmentRequest;
use nuncio_engine::ports::brain::{Brain, BrainError, BrainFactory, BrainStepInput, BrainStepStop, BrainWriter};
use nuncio_engine::ports::meter::NoopMeter;
use nuncio_engine::ports::runner::{AuthorizedToolCall, Runner, ToolOutput, ToolRunError};
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_engine::{AuthenticationMethod, Caller, Engine, EngineLimits, EnginePorts};
use nuncio_store::SqliteStore;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

pub(crate) struct TestEngine {
    pub(crate) engine: Engine,
    pub(crate) clock: AdjustableClock,
    pub(crate) store: Arc<SqliteStore>,
    bus: Arc<LocalBus>,
    folder: Option<TempDir>,
}

impl TestEngine {
    pub(crate) async fn new() -> Self {
        Self::with(ConsentSettings::default()).await
    }

    pub(crate) async fn with(rules: ConsentSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = AdjustableClock::new();
        let store = Arc::new(SqliteStore::open(&folder.path().join("nuncio.db")).unwrap());
        let bus = Arc::default();
        let engine = engine(&store, &bus, &clock, rules).await;
        Self { engine, clock, store, bus, folder: Some(folder) }
    }

    /// Opens a store at a fixed path.
    pub(crate) async fn at(file: &Path) -> Self {
        let (clock, store) = (AdjustableClock::new(), Arc::new(SqliteStore::open(file).unwrap()));
        let bus = Arc::default();
        let engine = engine(&store, &bus, &clock, ConsentSettings::default()).await;
        Self { engine, clock, store, bus, folder: None }
    }

    /// Restarts the engine on the same store.
    pub(crate) async fn restarted(mut self) -> Self {
        let folder = self.folder.take();
        let clock = self.clock.clone();
        self.engine.shut_down(Duration::ZERO).await;
        drop(self);
        let file = folder.as_ref().unwrap().path().join("nuncio.db");
        let store = Arc::new(SqliteStore::open(&file).unwrap());
        let bus = Arc::default();
        let engine = engine(&store, &bus, &clock, ConsentSettings::default()).await;
        Self { engine, clock, store, bus, folder }
    }

    /// A second engine on the same store and bus.
    pub(crate) async fn beside(&self) -> Engine {
        engine(&self.store, &self.bus, &self.clock, ConsentSettings::default()).await
    }

    /// A second engine on the same store and bus, with another runner.
    pub(crate) async fn with_runner(&self, runner: Arc<dyn Runner>) -> Engine {
        engine_with(&self.store, &self.bus, &self.clock, ConsentSettings::default(), runner).await
    }

    pub(crate) fn database(&self) -> std::path::PathBuf {
        self.folder.as_ref().unwrap().path().join("nuncio.db")
    }

    pub(crate) async fn person(&self, name: &str) -> EnrolledPhone {
        self.device(name, name.bytes().fold(1, u8::wrapping_add)).await
    }

    pub(crate) async fn device(&self, name: &str, seed: u8) -> EnrolledPhone {
        let person = PersonName::parse(name).unwrap();
        let operator = Caller::new(Principal::Operator);
        let invite = self.engine.people().invite_person(person, &operator).await.unwrap();
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let device = self.engine.people().enrol_device(enrolment(&pair, &invite.code)).await.unwrap();
        EnrolledPhone { device, pair }
    }

    pub(crate) async fn agent(&self, owner: &EnrolledPhone, manifest: &Value) -> AgentId {
        self.agent_with_token(owner, manifest).await.0
    }

    pub(crate) async fn agent_with_token(&self, owner: &EnrolledPhone, manifest: &Value) -> (AgentId, String) {
        let new = NewAgentAccount { manifest: Some(manifest.to_string().into_bytes()), ..new_agent() };
        let made = self.engine.manifests().create_agent(&owner.caller(), new).await.unwrap();
        (made.account.id, made.token)
    }

    pub(crate) async fn publish(
        &self,
        owner: &EnrolledPhone,
        agent: &AgentId,
        manifest: &Value,
    ) -> ManifestPublicationResult {
        let bytes = manifest.to_string().into_bytes();
        self.engine.manifests().publish_manifest(&owner.caller(), agent, Some(&bytes), None, None).await.unwrap()
    }

    pub(crate) async fn relation(&self, phone: &EnrolledPhone, relation: &Relation) -> Relation {
        self.engine.consent().relation(&phone.caller(), &relation.id).await.unwrap()
    }

    /// Scopes of the relation that are effective now.
    pub(crate) async fn effective(&self, phone: &EnrolledPhone, relation: &Relation) -> Vec<String> {
        let relation = self.relation(phone, relation).await;
        relation.effective(self.clock.now()).map(|grant| grant.scope.to_string()).collect()
    }

    /// All audit records except those of calls.
    pub(crate) async fn records(&self) -> Vec<AuditEventRecord> {
        let links = self.engine.records().audit_links(0, 1000).await.unwrap();
        links.iter().filter_map(|stored| serde_json::from_str(&stored.link.record).ok()).collect()
    }
}

pub(crate) fn new_agent() -> NewAgentAccount {
    NewAgentAccount {
        display_name: "Helper".to_owned(),
        description: None,
        public: true,
        connection: AgentConnection::Websocket,
        health_check_url: None,
        manifest: None,
        change_note: None,
    }
}

pub(crate) fn enrolment(pair: &Ed25519KeyPair, code: &str) -> DeviceEnrolmentRequest {
    let key = PublicKey::new(pair.public_key().as_ref().try_into().unwrap()).unwrap();
    let enrolment = EnrolmentAssertion { invite: Digest::of_bytes(code.as_bytes()), key, name: "laptop".to_owned() };
    let signature = sign(pair, &enrolment.message());
    DeviceEnrolmentRequest { code: code.to_owned(), name: enrolment.name, key, signature }
}

pub(crate) fn sign(pair: &Ed25519KeyPair, message: &[u8]) -> Signature {
    Signature::new(pair.sign(message).as_ref().try_into().unwrap())
}

async fn engine(
    store: &Arc<SqliteStore>,
    bus: &Arc<LocalBus>,
    clock: &AdjustableClock,
    consent: ConsentSettings,
) -> Engine {
    engine_with(store, bus, clock, consent, Arc::new(SilentBackend)).await
}

async fn engine_with(
    store: &Arc<SqliteStore>,
    bus: &Arc<LocalBus>,
    clock: &AdjustableClock,
    consent: ConsentSettings,
    runner: Arc<dyn Runner>,
) -> Engine {
    let ports = EnginePorts {
        store: Arc::clone(store) as _,
        bus: Arc::clone(bus) as _,
        brains: Arc::new(SilentBackend),
        runner,
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(RandomEntropy),
        cipher: SecretCipher::new(&[7; 32]),
        meter: Arc::new(NoopMeter),
    };
    let engine = Engine::new(ports, EngineLimits { consent, ..EngineLimits::default() }, Vec::new());
    engine.access().load().await.unwrap();
    engine
}

pub(crate) struct EnrolledPhone {
    pub(crate) device: Device,
    pub(crate) pair: Ed25519KeyPair,
}

impl EnrolledPhone {
    pub(crate) fn person(&self) -> PersonName {
        self.device.person.clone()
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller {
            person: Some(self.person()),
            authentication: AuthenticationMethod::Device(self.device.id.clone()),
            ..Caller::new(Principal::Person(self.person()))
        }
    }

    pub(crate) fn signed(&self, entry: LedgerEntry) -> LedgerEntry {
        LedgerEntry { signature: Some(sign(&self.pair, &entry.message())), ..entry }
    }

    /// Signs the ledger entry that the error contains.
    pub(crate) fn sign_what(&self, error: &ConsentError) -> LedgerEntry {
        let ConsentErrorDetails::Sign(entry) = &error.details else { panic!("{error:?}") };
        self.signed(LedgerEntry::clone(entry))
    }

    pub(crate) async fn allow(&self, world: &TestEngine, agent: &AgentId, scopes: &[&str]) -> Relation {
        self.allow_for(world, agent, &scopes.iter().map(|scope| (*scope, GrantTerm::UntilRevoked)).collect::<Vec<_>>())
            .await
    }

    pub(crate) async fn allow_for(
        &self,
        world: &TestEngine,
        agent: &AgentId,
        scopes: &[(&str, GrantTerm)],
    ) -> Relation {
        self.try_allow(world, agent, scopes).await.unwrap()
    }

    /// Requests a relation, signs the returned ledger entry, and repeats the request.
    pub(crate) async fn try_allow(
        &self,
        world: &TestEngine,
        agent: &AgentId,
        scopes: &[(&str, GrantTerm)],
    ) -> Result<Relation, ConsentError> {
        let consent = NewConsent { wishes: wishes(scopes), ..NewConsent::default() };
        let new = NewRelation { agent: agent.clone(), consent };
        let signed = match world.engine.consent().establish_relation(&self.caller(), new.clone()).await {
            Err(error) if matches!(error.details, ConsentErrorDetails::Sign(_)) => self.sign_what(&error),
            other => return other,
        };
        let consent = NewConsent { signed: Some(signed), ..new.consent };
        world.engine.consent().establish_relation(&self.caller(), NewRelation { consent, ..new }).await
    }

    pub(crate) async fn try_change(
        &self,
        world: &TestEngine,
        relation: &Relation,
        scopes: &[(&str, GrantTerm)],
    ) -> Result<Relation, ConsentError> {
        let consent = NewConsent { wishes: wishes(scopes), ..NewConsent::default() };
        let signed = match world.engine.consent().change_relation(&self.caller(), &relation.id, consent.clone()).await {
            Err(error) if matches!(error.details, ConsentErrorDetails::Sign(_)) => self.sign_what(&error),
            other => return other,
        };
        let consent = NewConsent { signed: Some(signed), ..consent };
        world.engine.consent().change_relation(&self.caller(), &relation.id, consent).await
    }
}

pub(crate) fn wishes(scopes: &[(&str, GrantTerm)]) -> Vec<ScopeToGrant> {
    scopes.iter().map(|(scope, term)| ScopeToGrant { scope: ScopeId::parse(scope).unwrap(), term: *term }).collect()
}

pub(crate) fn manifest(tools: &[(&str, &str, Value)], scopes: &[(&str, &str)]) -> Value {
    let tools: Vec<_> = tools
        .iter()
        .map(|(name, scope, schema)| {
            json!({
                "name": name,
                "description_i18n_key": format!("agent.cap.{name}.description"),
                "description_fallback": format!("It is called {name}."),
                "input_schema": schema,
                "permission_scope": scope,
                "required": false,
                "timeout_ms": 5000,
            })
        })
        .collect();
    let scopes: Vec<_> = scopes
        .iter()
        .map(|(id, sensitivity)| {
            let key = id.replace(':', "_");
            json!({
                "id": id,
                "label_i18n_key": format!("agent.scope.{key}.label"),
                "description_i18n_key": format!("agent.scope.{key}.description"),
                "label_fallback": "A label",
                "description_fallback": "A description.",
                "sensitivity": sensitivity,
            })
        })
        .collect();
    json!({
        "schema_version": "1.0",
        "agent_version": "1.0.0",
        "tools": tools,
        "permission_scopes": scopes,
        "capability_flags": {"supports_streaming": true},
    })
}

/// An object schema with three text properties, of which those in `required` are required.
pub(crate) fn object(required: &[&str]) -> Value {
    let properties: serde_json::Map<_, _> =
        ["path", "encoding", "limit"].iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

pub(crate) const FILES: (&str, &str) = ("filesystem:read", "medium");
pub(crate) const CLIPBOARD: (&str, &str) = ("clipboard:read", "medium");
pub(crate) const NOTIFY: (&str, &str) = ("notification:send", "low");

/// Manifest that reads files and the clipboard.
pub(crate) fn first_version() -> Value {
    let tools =
        [("read_file", "filesystem:read", object(&["path"])), ("read_clipboard", "clipboard:read", object(&[]))];
    manifest(&tools, &[FILES, CLIPBOARD])
}

/// Manifest with a breaking change: reading a file requires the arguments `required`.
pub(crate) fn broken_version(required: &[&str]) -> Value {
    let tools = [("read_file", "filesystem:read", object(required)), ("read_clipboard", "clipboard:read", object(&[]))];
    manifest(&tools, &[FILES, CLIPBOARD])
}

/// The manifest with another `agent_version`, which is a compatible change.
pub(crate) fn renumbered(manifest: &Value, number: usize) -> Value {
    let mut manifest = manifest.clone();
    manifest["agent_version"] = json!(format!("1.0.{number}"));
    manifest
}

/// A clock that tests advance.
#[derive(Debug, Clone)]
pub(crate) struct AdjustableClock(Arc<watch::Sender<Timestamp>>);

impl AdjustableClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Timestamp::from_millis(1_794_740_400_000))))
    }

    pub(crate) fn advance(&self, span: Duration) {
        self.0.send_modify(|now| *now = now.after(span));
    }
}

impl Clock for AdjustableClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            if now.wait_for(|now| *now >= moment).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[derive(Debug)]
pub(crate) struct RandomEntropy;

impl Entropy for RandomEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        SystemRandom::new().fill(bytes).unwrap();
    }
}

/// Stub of a brain that says nothing and of a runner that returns the same result for every tool.
#[derive(Debug)]
pub(crate) struct SilentBackend;

#[async_trait]
impl Brain for SilentBackend {
    async fn think(&self, _prompt: BrainStepInput, _voice: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        Ok(BrainStepStop::ended(StopReason::EndTurn))
    }
}

impl BrainFactory for SilentBackend {
    fn brain(&self, _agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String> {
        Ok(Arc::new(Self))
    }
}

#[async_trait]
impl Runner for SilentBackend {
    async fn run(&self, _call: AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        Ok(ToolOutput::json(json!({"ran": true})))
    }

    async fn resolve(&self, agent: Agent) -> Result<Agent, String> {
        Ok(agent)
    }

    async fn release(&self, _agent: &Agent) {}
}
