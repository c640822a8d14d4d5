//! Manifest changes: affected people, and only they, must consent again.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditEvent;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::ScopeId;
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::relation::Relation;
use nuncio_engine::consent::ConsentSettings;
use nuncio_judge::ChangeJudgingPolicy;
use serde_json::{Value, json};

use super::world::{
    CLIPBOARD, EnrolledPhone, FILES, NOTIFY, TestEngine, broken_version, first_version, manifest, object, renumbered,
};

const ALWAYS: GrantTerm = GrantTerm::UntilRevoked;

/// Scopes that wait for a new consent.
fn pending(relation: &Relation) -> Vec<&str> {
    relation.pending.iter().flat_map(|pending| &pending.scopes).map(ScopeId::as_str).collect()
}

/// Version and scopes of each change that the person was notified of.
async fn told(world: &TestEngine, phone: &EnrolledPhone) -> Vec<(u64, Vec<String>)> {
    let mail = world.engine.mailbox().mail(&RelayParty::Person(phone.person()), 0, 100).await.unwrap();
    let told = mail.into_iter().filter_map(|mail| match mail.notification {
        Notification::ReauthRequired { version, scopes, .. } => {
            Some((version, scopes.iter().map(ToString::to_string).collect()))
        }
        _ => None,
    });
    told.collect()
}

fn files() -> Vec<String> {
    vec!["filesystem:read".to_owned()]
}

#[tokio::test]
async fn breaking_manifest_change_suspends_its_scopes_and_notifies_affected_people() {
    let world = TestEngine::new().await;
    let (owner, bob, eve) = (world.person("ada").await, world.person("bob").await, world.person("eve").await);
    let id = world.agent(&owner, &first_version()).await;
    let bobs = bob.allow(&world, &id, &["filesystem:read", "clipboard:read"]).await;
    let eves = eve.allow(&world, &id, &["clipboard:read"]).await;
    let published = world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    assert_eq!((published.version, published.affected), (2, 1));

    assert_eq!(world.effective(&bob, &bobs).await, ["clipboard:read"]);
    let now = world.relation(&bob, &bobs).await;
    assert_eq!(pending(&now), ["filesystem:read"]);
    assert_eq!((now.accepted.version, now.pending.unwrap().hash), (1, published.hash));
    assert_eq!(told(&world, &bob).await, [(2, files())]);

    assert_eq!(world.effective(&eve, &eves).await, ["clipboard:read"]);
    assert_eq!(world.relation(&eve, &eves).await, eves, "the person never granted the scope");
    assert_eq!(told(&world, &eve).await, []);

    let observed = world.engine.mailbox().mail(&RelayParty::Agent(id.clone()), 0, 100).await.unwrap().pop().unwrap();
    let expected = Notification::ReauthRequired {
        agent: id,
        relation: None,
        version: 2,
        hash: published.hash.unwrap(),
        scopes: vec![ScopeId::parse("filesystem:read").unwrap()],
    };
    assert_eq!(observed.notification, expected);
    let suspended: Vec<_> =
        world.records().await.into_iter().filter(|record| record.event == AuditEvent::ConsentSuspended).collect();
    assert_eq!((suspended.len(), suspended[0].relation.as_ref()), (1, Some(&bobs.id)));
    world.engine.consent().verify_ledger(&bobs.id).await.unwrap();
}

#[tokio::test]
async fn compatible_manifest_change_requires_no_new_consent() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    let published = world.publish(&owner, &id, &renumbered(&first_version(), 1)).await;
    assert_eq!((published.version, published.affected, published.verdict.breaking), (2, 0, false));
    assert_eq!(world.relation(&bob, &relation).await, relation);
    assert_eq!(told(&world, &bob).await, []);
}

#[tokio::test]
async fn operator_policy_decides_if_widened_schema_needs_new_consent() {
    for (reauth_on_widening, affected) in [(false, 0), (true, 1)] {
        let policy = ChangeJudgingPolicy { reauth_on_widening, ..ChangeJudgingPolicy::default() };
        let world = TestEngine::with(ConsentSettings { policy, ..ConsentSettings::default() }).await;
        let (owner, bob) = (world.person("ada").await, world.person("bob").await);
        let id = world.agent(&owner, &broken_version(&["path", "limit"])).await;
        let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
        // Fewer arguments are required: every valid call stays valid, and more calls are valid.
        let published = world.publish(&owner, &id, &first_version()).await;
        assert_eq!((published.verdict.breaking, published.affected), (reauth_on_widening, affected));
        assert_eq!(world.effective(&bob, &relation).await.len(), 1 - affected);
    }
}

#[tokio::test]
async fn new_version_is_compared_with_the_version_each_person_accepted() {
    let world = TestEngine::new().await;
    let (owner, bob, eve) = (world.person("ada").await, world.person("bob").await, world.person("eve").await);
    let id = world.agent(&owner, &first_version()).await;
    let bobs = bob.allow(&world, &id, &["filesystem:read"]).await;
    world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    let eves = eve.allow(&world, &id, &["filesystem:read"]).await;
    assert_eq!(eves.accepted.version, 2);
    // Compatible with the previous version, but not with the one Bob accepted.
    let third = world.publish(&owner, &id, &renumbered(&broken_version(&["path", "limit"]), 3)).await;
    assert!(!third.verdict.breaking);
    assert_eq!(pending(&world.relation(&bob, &bobs).await), ["filesystem:read"]);
    assert_eq!(world.relation(&bob, &bobs).await.pending.unwrap().version, 3);
    assert_eq!(world.effective(&eve, &eves).await, files());
    assert_eq!(told(&world, &bob).await, [(2, files()), (3, files())]);
    assert_eq!(told(&world, &eve).await, []);
}

#[tokio::test]
async fn republishing_the_accepted_manifest_restores_suspended_scopes() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    assert_eq!(world.effective(&bob, &relation).await, [""; 0]);
    let restored = world.publish(&owner, &id, &renumbered(&first_version(), 3)).await;
    assert_eq!((restored.version, restored.affected), (3, 0));
    assert_eq!(world.effective(&bob, &relation).await, files());
    let now = world.relation(&bob, &relation).await;
    assert_eq!((now.pending, now.accepted.version), (None, 1));
    let last = world.engine.mailbox().mail(&RelayParty::Person(bob.person()), 0, 100).await.unwrap().pop().unwrap();
    assert!(matches!(last.notification, Notification::Restored { version: 3, .. }), "{last:?}");
    assert!(world.records().await.iter().any(|record| record.event == AuditEvent::ConsentRestored));
    assert_eq!(world.engine.consent().verify_ledger(&relation.id).await.unwrap().head.seq, 3);
}

#[tokio::test]
async fn tool_removed_and_added_again_with_a_changed_schema_is_breaking() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    let without = manifest(&[("read_clipboard", "clipboard:read", object(&[]))], &[FILES, CLIPBOARD]);
    assert!(!world.publish(&owner, &id, &without).await.verdict.breaking);
    assert_eq!(world.effective(&bob, &relation).await, files());
    let back = world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    assert!(back.verdict.breaking, "two compatible steps together are a breaking change");
    assert_eq!(pending(&world.relation(&bob, &relation).await), ["filesystem:read"]);
    // The tool returns as Bob accepted it, so no new consent is needed.
    world.publish(&owner, &id, &without).await;
    world.publish(&owner, &id, &renumbered(&first_version(), 5)).await;
    assert_eq!(world.effective(&bob, &relation).await, files());
}

#[tokio::test]
async fn breaking_change_of_a_tool_added_later_suspends_earlier_consent() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let with = |required: &[&str]| {
        manifest(
            &[("read_file", "filesystem:read", object(&["path"])), ("list", "filesystem:read", object(required))],
            &[FILES],
        )
    };
    let id = world.agent(&owner, &manifest(&[("read_file", "filesystem:read", object(&["path"]))], &[FILES])).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    assert!(!world.publish(&owner, &id, &with(&[])).await.verdict.breaking);
    assert!(world.publish(&owner, &id, &with(&["path"])).await.verdict.breaking);
    assert_eq!(pending(&world.relation(&bob, &relation).await), ["filesystem:read"]);
}

#[tokio::test]
async fn removed_scope_loses_its_grant_and_needs_new_consent_when_added_again() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read", "clipboard:read"]).await;
    let only_files = manifest(&[("read_file", "filesystem:read", object(&["path"]))], &[FILES]);
    world.publish(&owner, &id, &only_files).await;
    assert_eq!(world.effective(&bob, &relation).await, files());
    assert!(world.records().await.iter().any(|record| record.event == AuditEvent::ConsentPruned));
    let back = world.publish(&owner, &id, &renumbered(&first_version(), 3)).await;
    assert_eq!((back.verdict.breaking, back.affected), (true, 1));
    assert_eq!(world.effective(&bob, &relation).await, files(), "an old grant does not become valid again");
    assert_eq!(pending(&world.relation(&bob, &relation).await), ["clipboard:read"]);
    let now =
        bob.try_change(&world, &relation, &[("filesystem:read", ALWAYS), ("clipboard:read", ALWAYS)]).await.unwrap();
    assert_eq!((now.pending.clone(), now.accepted.version), (None, 3));
    assert_eq!(world.engine.consent().verify_ledger(&relation.id).await.unwrap().granted.len(), 2);
}

#[tokio::test]
async fn clearing_the_manifest_removes_all_grants() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    let cleared = world.engine.manifests().publish_manifest(&owner.caller(), &id, None, None, None).await.unwrap();
    assert_eq!((cleared.version, cleared.hash, cleared.changed), (2, None, true));
    assert_eq!(world.effective(&bob, &relation).await, [""; 0]);
    let account = world.engine.accounts().account(&id).await.unwrap();
    assert_eq!(world.engine.manifests().current_manifest(&account).await.unwrap(), None);
    let again = world.engine.manifests().publish_manifest(&owner.caller(), &id, None, None, None).await.unwrap();
    assert_eq!((again.version, again.changed), (2, false));
    let back = world.publish(&owner, &id, &first_version()).await;
    assert_eq!((back.version, back.verdict.breaking, back.affected), (3, true, 1));
    assert_eq!(world.effective(&bob, &relation).await, [""; 0]);
    assert_eq!(pending(&world.relation(&bob, &relation).await), ["clipboard:read", "filesystem:read"]);
}

#[tokio::test]
async fn person_is_asked_once_about_a_new_scope_and_may_decline() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &[]).await;
    let mut wider = first_version();
    let notify = manifest(&[("notify", "notification:send", object(&[]))], &[NOTIFY]);
    for list in ["tools", "permission_scopes"] {
        wider[list].as_array_mut().unwrap().push(notify[list][0].clone());
    }
    assert_eq!(world.publish(&owner, &id, &wider).await.affected, 1);
    assert_eq!(pending(&world.relation(&bob, &relation).await), ["notification:send"]);
    // Bob declines the new scope.
    let no = bob.try_change(&world, &relation, &[]).await.unwrap();
    assert_eq!((no.pending.clone(), no.accepted.version, no.grants.len()), (None, 2, 0));
    assert_eq!(
        world.publish(&owner, &id, &renumbered(&wider, 9)).await.affected,
        0,
        "the person has already decided on this change"
    );
}

#[tokio::test]
async fn person_who_missed_three_breaking_versions_is_asked_only_about_the_latest() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read", "clipboard:read"]).await;
    let seen = world.engine.mailbox().mail_head(&RelayParty::Person(bob.person())).await.unwrap();
    let both = |required: &[&str]| {
        let tools = [
            ("read_file", "filesystem:read", object(required)),
            ("read_clipboard", "clipboard:read", object(&["limit"])),
        ];
        manifest(&tools, &[FILES, CLIPBOARD])
    };
    world.clock.advance(Duration::from_secs(60));
    world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    world.clock.advance(Duration::from_secs(60));
    world.publish(&owner, &id, &broken_version(&["path", "limit", "encoding"])).await;
    world.clock.advance(Duration::from_secs(60));
    let last = world.publish(&owner, &id, &both(&["path"])).await;

    // Bob returns after a restart of the server.
    let world = world.restarted().await;
    let now = world.relation(&bob, &relation).await;
    assert_eq!(pending(&now), ["clipboard:read"], "only the last version counts, not the versions between");
    let waiting = now.pending.clone().unwrap();
    assert_eq!((waiting.version, waiting.hash, now.accepted.version), (4, last.hash, 1));
    assert_eq!(world.effective(&bob, &relation).await, files());
    let mail = world.engine.mailbox().mail(&RelayParty::Person(bob.person()), seen, 100).await.unwrap();
    assert_eq!(mail.iter().map(|mail| mail.seq).collect::<Vec<_>>(), (seen + 1..=seen + 3).collect::<Vec<_>>());
    let clipboard = vec!["clipboard:read".to_owned()];
    assert_eq!(told(&world, &bob).await, [(2, files()), (3, files()), (4, clipboard)]);
    let again = bob.try_change(&world, &now, &[("filesystem:read", ALWAYS), ("clipboard:read", ALWAYS)]).await.unwrap();
    assert_eq!((again.pending, again.accepted.version), (None, 4));
    let standing = world.engine.consent().verify_ledger(&relation.id).await.unwrap();
    assert_eq!(standing.effective(nuncio_engine::ports::Clock::now(&world.clock)).count(), 2);
}

#[tokio::test]
async fn lowered_sensitivity_applies_only_after_new_consent() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let at = |sensitivity: &str| manifest(&[("plan", "calendar:read", object(&[]))], &[("calendar:read", sensitivity)]);
    let id = world.agent(&owner, &at("high")).await;
    let relation = bob.allow(&world, &id, &["calendar:read"]).await;
    let lowered = world.publish(&owner, &id, &at("low")).await;
    assert_eq!((lowered.verdict.breaking, lowered.affected), (false, 0));
    let scope = ScopeId::parse("calendar:read").unwrap();
    let level = |relation: &Relation| relation.sensitivity(&scope, nuncio_core::agent::Sensitivity::Low);
    assert_eq!(level(&world.relation(&bob, &relation).await), nuncio_core::agent::Sensitivity::High);
    let again = bob.try_change(&world, &relation, &[("calendar:read", ALWAYS)]).await.unwrap();
    assert_eq!(level(&again), nuncio_core::agent::Sensitivity::Low);
    assert!(world.publish(&owner, &id, &at("medium")).await.verdict.breaking);
    assert_eq!(pending(&world.relation(&bob, &relation).await), ["calendar:read"]);
}

#[tokio::test]
async fn manifest_is_refused_when_tool_names_of_all_versions_exceed_the_limit() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let many = |generation: usize| -> Value {
        let names: Vec<_> = (0..500).map(|number| format!("t{generation}_{number}")).collect();
        let small = json!({"type": "object", "additionalProperties": false});
        let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "filesystem:read", small.clone())).collect();
        let mut manifest = manifest(&tools, &[FILES]);
        for tool in manifest["tools"].as_array_mut().unwrap() {
            tool.as_object_mut().unwrap().shift_remove("description_fallback");
        }
        manifest
    };
    let id = world.agent(&owner, &many(0)).await;
    for generation in 1..8 {
        world.publish(&owner, &id, &many(generation)).await;
    }
    let bytes = many(8).to_string().into_bytes();
    let error =
        world.engine.manifests().publish_manifest(&owner.caller(), &id, Some(&bytes), None, None).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::LimitReached);
    assert_eq!(world.engine.accounts().account(&id).await.unwrap().manifest_version, 8);
}
