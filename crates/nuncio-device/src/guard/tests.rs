use std::collections::{BTreeMap, BTreeSet};

use nuncio_core::audit::ChainHead;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{CallId, RelationId, ToolName};
use nuncio_core::manifest::Manifest;
use nuncio_testkit::a2h::manifest;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_000_000_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn scope(text: &str) -> ScopeId {
    ScopeId::parse(text).unwrap()
}

/// Facts of a call that is permitted; each test changes some of them.
struct PermittedCallFixture {
    kind: ConversationType,
    call: ToolCall,
    sealed_at: i64,
    now: i64,
    known: KnownAgent,
    manifest: Option<Value>,
    standing: Option<LedgerState>,
    floors: SensitivityFloors,
}

impl PermittedCallFixture {
    fn new() -> Self {
        let agent = AgentId::parse("agt_1").unwrap();
        let granted = ["filesystem:read", "notification:send", "location:read"];
        let standing = LedgerState {
            relation: RelationId::parse("rel_1").unwrap(),
            agent: agent.clone(),
            person: PersonName::parse("ada").unwrap(),
            head: ChainHead { seq: 3, hash: Digest::of_bytes(b"3") },
            granted: granted.iter().map(|id| (scope(id), GrantTerm::UntilRevoked)).collect(),
            suspended: BTreeSet::new(),
            manifest_version: 1,
            manifest_hash: None,
            at: at(0),
            ended: false,
        };
        Self {
            kind: ConversationType::H2a,
            call: call("read_file", "filesystem:read", json!({"path": "a.md"})),
            sealed_at: NOW,
            now: NOW,
            known: KnownAgent::new(agent, at(0)),
            manifest: Some(manifest()),
            standing: Some(standing),
            floors: SensitivityFloors::new(),
        }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut scene = Self::new();
        change(&mut scene);
        scene
    }

    fn admit(&self) -> Result<CheckedCall, ToolOutcome> {
        let presets = ScopePresets::default();
        let checked = self.manifest.clone().map(|manifest| Manifest::check(manifest, &presets).unwrap());
        let about = AgentFacts {
            known: &self.known,
            manifest: checked.as_ref(),
            standing: self.standing.as_ref(),
            presets: &presets,
            floors: &self.floors,
        };
        let person = PersonName::parse("ada").unwrap();
        admit(self.case(&person), &about)
    }

    fn case<'a>(&'a self, person: &'a PersonName) -> IncomingCallFacts<'a> {
        let (sealed_at, now) = (at(self.sealed_at), at(self.now));
        IncomingCallFacts { person, agent: &self.known.agent, kind: self.kind, call: &self.call, sealed_at, now }
    }

    fn decide_call(&self, word: PriorDecision) -> PolicyDecision {
        let person = PersonName::parse("ada").unwrap();
        decide_call(self.case(&person), &self.admit().unwrap(), word)
    }

    fn stake(&self) -> Sensitivity {
        self.admit().unwrap().stake
    }

    /// Denial reason or error code with which the call is refused.
    fn refusal(&self) -> String {
        match self.admit().unwrap_err() {
            ToolOutcome::Denied { reason } => json!(reason),
            ToolOutcome::Error { error_code, .. } => json!(error_code),
            ToolOutcome::Ok { .. } => panic!("it ran"),
        }
        .as_str()
        .unwrap()
        .to_owned()
    }
}

fn call(tool: &str, permission: &str, arguments: Value) -> ToolCall {
    ToolCall {
        call_id: CallId::parse("call_1").unwrap(),
        tool_name: ToolName::parse(tool).unwrap(),
        arguments,
        permission_scope: scope(permission),
        timeout_ms: 5000,
        source: None,
    }
}

#[test]
fn permitted_call_gets_shorter_of_requested_and_declared_timeout() {
    let admitted = PermittedCallFixture::new().admit().unwrap();
    assert_eq!((admitted.tool.name.as_str(), admitted.ledger.seq), ("read_file", 3));
    assert_eq!((admitted.stake, admitted.time), (Sensitivity::Medium, Duration::from_secs(5)));
    for (asked, given) in [(1000, 1), (60_000, 5)] {
        let time = PermittedCallFixture::with(|scene| scene.call.timeout_ms = asked).admit().unwrap().time;
        assert_eq!(time, Duration::from_secs(given));
    }
}

#[test]
fn each_forbidden_condition_is_refused_with_its_reason_or_error_code() {
    type FixtureChange = fn(&mut PermittedCallFixture);
    let rows: [(&str, &str, FixtureChange); 13] = [
        ("a group", "tool_not_supported_in_group", |scene| scene.kind = ConversationType::Group),
        ("a tool nobody declared", "tool_not_declared", |scene| {
            scene.call = call("write_file", "filesystem:read", json!({}));
        }),
        ("an agent without a manifest", "tool_not_declared", |scene| scene.manifest = None),
        ("a scope the person did not allow", "scope_not_granted", |scene| {
            scene.standing.as_mut().unwrap().granted.remove(&scope("filesystem:read"));
        }),
        ("no ledger that holds", "scope_not_granted", |scene| scene.standing = None),
        ("a suspended scope", "scope_not_granted", |scene| {
            scene.standing.as_mut().unwrap().suspended.insert(scope("filesystem:read"));
        }),
        ("a scope whose time is over", "scope_not_granted", |scene| {
            scene.standing.as_mut().unwrap().granted.insert(scope("filesystem:read"), GrantTerm::Until(at(NOW)));
        }),
        ("a scope for once that was used", "scope_not_granted", |scene| {
            scene.standing.as_mut().unwrap().granted.insert(scope("filesystem:read"), GrantTerm::Once);
            let used = BTreeMap::from([(scope("filesystem:read"), 0)]);
            scene.known.used.insert(RelationId::parse("rel_1").unwrap(), used);
        }),
        // The call names a granted, less sensitive scope than the tool's own.
        ("another scope than the tool's", "scope_not_granted", |scene| {
            scene.call = call("where", "notification:send", json!({}));
        }),
        ("an argument of another type", "TOOL_INVALID_ARGUMENTS", |scene| {
            scene.call.arguments = json!({"path": 1});
        }),
        ("an argument too many", "TOOL_INVALID_ARGUMENTS", |scene| {
            scene.call.arguments = json!({"path": "a", "mode": "w"});
        }),
        ("arguments that are no object", "TOOL_INVALID_ARGUMENTS", |scene| scene.call.arguments = json!([])),
        ("a call that is too late", "TOOL_UNAVAILABLE", |scene| scene.now = NOW + 35_001),
    ];
    for (what, expected, change) in rows {
        assert_eq!(PermittedCallFixture::with(change).refusal(), expected, "{what}");
    }
}

#[test]
fn call_with_several_faults_is_refused_for_the_first_in_protocol_order() {
    // The call has every fault; correcting one shows the next.
    let mut scene = PermittedCallFixture::with(|scene| {
        scene.kind = ConversationType::Group;
        scene.call = call("write_file", "location:read", json!([]));
        scene.standing = None;
    });
    assert_eq!(scene.refusal(), "tool_not_supported_in_group");
    scene.kind = ConversationType::H2a;
    assert_eq!(scene.refusal(), "tool_not_declared");
    scene.call.tool_name = ToolName::parse("read_file").unwrap();
    assert_eq!(scene.refusal(), "scope_not_granted");
    scene.standing = PermittedCallFixture::new().standing;
    assert_eq!(scene.refusal(), "scope_not_granted");
    scene.call.permission_scope = scope("filesystem:read");
    assert_eq!(scene.refusal(), "TOOL_INVALID_ARGUMENTS");
    scene.call.arguments = json!({});
    scene.admit().unwrap();
}

#[test]
fn call_is_refused_thirty_seconds_after_its_timeout_or_if_from_the_future() {
    PermittedCallFixture::with(|scene| scene.now = NOW + 35_000).admit().unwrap();
    // A timeout of zero still has the tolerance of thirty seconds.
    PermittedCallFixture::with(|scene| (scene.call.timeout_ms, scene.now) = (0, NOW + 30_000)).admit().unwrap();
    let late = PermittedCallFixture::with(|scene| (scene.call.timeout_ms, scene.now) = (0, NOW + 30_001));
    assert_eq!(late.refusal(), "TOOL_UNAVAILABLE");
    // A huge timeout does not overflow and is limited by the manifest.
    PermittedCallFixture::with(|scene| scene.call.timeout_ms = u64::MAX).admit().unwrap();
    let patient = PermittedCallFixture::with(|scene| (scene.call.timeout_ms, scene.now) = (u64::MAX, NOW + 35_001));
    assert_eq!(patient.refusal(), "TOOL_UNAVAILABLE");
    // A call sealed in the future is refused, because it would never expire.
    PermittedCallFixture::with(|scene| scene.sealed_at = NOW + 30_000).admit().unwrap();
    assert_eq!(PermittedCallFixture::with(|scene| scene.sealed_at = NOW + 30_001).refusal(), "TOOL_UNAVAILABLE");
}

#[test]
fn sensitivity_is_the_highest_of_manifest_consent_setting_floor_and_preset() {
    use Sensitivity::{High, Low, Medium};
    let files = || scope("filesystem:read");
    assert_eq!(PermittedCallFixture::new().stake(), Medium, "as it is declared");
    let declared = PermittedCallFixture::with(|scene| {
        scene.manifest.as_mut().unwrap()["permission_scopes"][0]["sensitivity"] = json!("high");
    });
    assert_eq!(declared.stake(), High, "as it is declared now");
    let accepted = PermittedCallFixture::with(|scene| scene.known.accepted = BTreeMap::from([(files(), High)]));
    assert_eq!(accepted.stake(), High, "as accepted");
    let stricter = PermittedCallFixture::with(|scene| scene.known.stricter = BTreeMap::from([(files(), High)]));
    assert_eq!(stricter.stake(), High, "as wanted");
    assert_eq!(
        PermittedCallFixture::with(|scene| scene.floors = SensitivityFloors::from([(files(), High)])).stake(),
        High,
        "an administrator's"
    );
    // Lower values do not reduce the declared sensitivity.
    let lower = PermittedCallFixture::with(|scene| {
        scene.known.accepted.insert(files(), Low);
        scene.known.stricter.insert(files(), Low);
        scene.floors = SensitivityFloors::from([(files(), Low)]);
    });
    assert_eq!(lower.stake(), Medium);
    // Fifth source: the preset of a well-known scope.
    let known = KnownAgent::new(AgentId::parse("agt_1").unwrap(), at(0));
    let preset = ScopePresets::default().floor("location:read");
    assert_eq!(known.stake(&scope("location:read"), Low, [preset, None]), High);
}

#[test]
fn low_sensitivity_never_asks_medium_asks_unless_recent_yes_high_always_asks() {
    let scene = |tool: &str, permission: &str| {
        PermittedCallFixture::with(|scene| scene.call = call(tool, permission, json!({})))
    };
    let (low, medium, high) =
        (scene("tell", "notification:send"), scene("read_file", "filesystem:read"), scene("where", "location:read"));
    let asks = |scene: &PermittedCallFixture, word| matches!(scene.decide_call(word), PolicyDecision::Ask(_));
    let words = [PriorDecision::Unasked, PriorDecision::RecentYes, PriorDecision::Yes];
    assert_eq!(words.map(|word| asks(&low, word)), [false, false, false]);
    assert_eq!(words.map(|word| asks(&medium, word)), [true, false, false]);
    assert_eq!(words.map(|word| asks(&high, word)), [true, true, false]);
    for scene in [&low, &medium, &high] {
        assert_eq!(scene.decide_call(PriorDecision::Yes), PolicyDecision::Allow);
    }
}

#[test]
fn new_agent_record_has_no_manifest_and_no_grants() {
    let nobody = KnownAgent::new(AgentId::parse("agt_1").unwrap(), at(0));
    assert!(nobody.standing(&PersonName::parse("ada").unwrap()).is_none());
    assert!(nobody.manifest(&ScopePresets::default()).is_none());
    assert_eq!(nobody.accepted, BTreeMap::new());
}

#[test]
fn write_scope_declared_as_low_sensitivity_counts_as_medium_and_prompts() {
    let mut declared = manifest();
    declared["permission_scopes"][1] = json!({
        "id": "notes:write", "sensitivity": "low",
        "label_i18n_key": "x.label", "description_i18n_key": "x.description",
        "label_fallback": {"en": "Write notes"}, "description_fallback": {"en": "Writes notes."},
    });
    declared["tools"][1]["permission_scope"] = json!("notes:write");
    let scene = PermittedCallFixture::with(|scene| {
        scene.manifest = Some(declared);
        scene.call = call("tell", "notes:write", json!({}));
        scene.standing.as_mut().unwrap().granted.insert(scope("notes:write"), GrantTerm::UntilRevoked);
    });
    assert_eq!(scene.stake(), Sensitivity::Medium);
    assert!(
        matches!(scene.decide_call(PriorDecision::Unasked), PolicyDecision::Ask(_)),
        "{:?}",
        scene.decide_call(PriorDecision::Unasked)
    );
}
