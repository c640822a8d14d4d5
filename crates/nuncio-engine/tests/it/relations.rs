//! Signed consent of people.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditEvent;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, GrantId, RelationId, ScopeId};
use nuncio_core::ledger::{LedgerAction, LedgerEntry, verify};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::principal::Principal;
use nuncio_core::relation::ScopeGrant;
use nuncio_engine::Caller;
use nuncio_engine::Ed25519Verifier;
use nuncio_engine::consent::{ConsentError, ConsentErrorDetails, ConsentSettings, NewConsent, NewRelation};
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::{ConsentChange, Store as _};
use serde_json::json;

use super::world::{EnrolledPhone, TestEngine, broken_version, first_version, wishes};

const ALWAYS: GrantTerm = GrantTerm::UntilRevoked;

async fn establish(
    world: &TestEngine,
    phone: &EnrolledPhone,
    agent: &AgentId,
    scopes: &[(&str, GrantTerm)],
    signed: Option<LedgerEntry>,
) -> Result<nuncio_core::relation::Relation, ConsentError> {
    let consent = NewConsent { wishes: wishes(scopes), seen: None, signed };
    world.engine.consent().establish_relation(&phone.caller(), NewRelation { agent: agent.clone(), consent }).await
}

#[tokio::test]
async fn unsigned_consent_request_is_answered_with_the_ledger_entry_to_sign() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let scopes = [("filesystem:read", ALWAYS), ("clipboard:read", GrantTerm::Once)];
    let error = establish(&world, &bob, &id, &scopes, None).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ConsentUnsigned);
    let ConsentErrorDetails::Sign(entry) = &error.details else { panic!("{error:?}") };
    let account = world.engine.accounts().account(&id).await.unwrap();
    assert_eq!((entry.seq, entry.prev_hash, entry.action), (1, Digest::ZERO, LedgerAction::Grant));
    assert_eq!((entry.manifest_version, entry.manifest_hash), (1, account.manifest_hash));
    assert_eq!(entry.scopes.iter().map(ScopeId::as_str).collect::<Vec<_>>(), ["clipboard:read", "filesystem:read"]);
    assert_eq!((entry.device_id.as_ref(), entry.agent_id.clone()), (Some(&bob.device.id), id.clone()));
    assert_eq!(error.params()["entry"]["terms"], json!({"clipboard:read": "once"}));
    // The device signs the entry exactly as the error contains it in JSON.
    let shown: LedgerEntry = serde_json::from_value(error.params()["entry"].clone()).unwrap();
    let relation = establish(&world, &bob, &id, &scopes, Some(bob.signed(shown))).await.unwrap();
    assert_eq!(relation.id, entry.relation_id);
    assert_eq!(world.relation(&bob, &relation).await, relation);
    assert_eq!(
        world.engine.consent().relations(&bob.person(), None, 10).await.unwrap(),
        std::slice::from_ref(&relation)
    );

    let mail = world.engine.mailbox().mail(&RelayParty::Agent(id.clone()), 0, 10).await.unwrap();
    assert!(
        matches!(&mail[0].notification, Notification::RelationEstablished { person, .. } if *person == bob.person())
    );
    let given = world.records().await.pop().unwrap();
    assert_eq!(
        (given.event, given.by, given.device),
        (AuditEvent::ConsentGiven, Principal::Person(bob.person()), Some(bob.device.id.clone()))
    );
}

#[tokio::test]
async fn ledger_entry_must_match_the_request_and_be_signed_by_the_calling_device() {
    let world = TestEngine::new().await;
    let (owner, bob, eve) = (world.person("ada").await, world.person("bob").await, world.person("eve").await);
    let id = world.agent(&owner, &first_version()).await;
    let scopes = [("filesystem:read", ALWAYS)];
    let error = establish(&world, &bob, &id, &scopes, None).await.unwrap_err();
    let ConsentErrorDetails::Sign(entry) = &error.details else { panic!("{error:?}") };
    let good = LedgerEntry::clone(entry);
    let forged = [
        ("another key", eve.signed(good.clone()), ErrorCode::ConsentForged),
        (
            "a signature of something else",
            LedgerEntry { signature: eve.signed(good.clone()).signature, ..good.clone() },
            ErrorCode::ConsentForged,
        ),
        (
            "more than was asked",
            bob.signed(LedgerEntry {
                scopes: vec![ScopeId::parse("clipboard:read").unwrap(), good.scopes[0].clone()],
                ..good.clone()
            }),
            ErrorCode::ConsentUnsigned,
        ),
        (
            "another agent",
            bob.signed(LedgerEntry { agent_id: AgentId::parse("agt_x").unwrap(), ..good.clone() }),
            ErrorCode::ConsentUnsigned,
        ),
        (
            "another version",
            bob.signed(LedgerEntry { manifest_version: 7, ..good.clone() }),
            ErrorCode::ConsentUnsigned,
        ),
        (
            "another manifest",
            bob.signed(LedgerEntry { manifest_hash: Some(Digest::ZERO), ..good.clone() }),
            ErrorCode::ManifestStale,
        ),
        ("no manifest", bob.signed(LedgerEntry { manifest_hash: None, ..good.clone() }), ErrorCode::ManifestStale),
        (
            "another device",
            bob.signed(LedgerEntry { device_id: Some(eve.device.id.clone()), ..good.clone() }),
            ErrorCode::ConsentUnsigned,
        ),
        ("another sequence number", bob.signed(LedgerEntry { seq: 2, ..good.clone() }), ErrorCode::ConsentUnsigned),
        (
            "a time in the future",
            bob.signed(LedgerEntry { at: good.at.after(Duration::from_secs(601)), ..good.clone() }),
            ErrorCode::ConsentUnsigned,
        ),
        (
            "a grant id that the server did not assign",
            bob.signed(LedgerEntry { relation_id: RelationId::parse("mine").unwrap(), ..good.clone() }),
            ErrorCode::ConsentUnsigned,
        ),
        ("no signature", good.clone(), ErrorCode::ConsentUnsigned),
    ];
    for (what, signed, code) in forged {
        assert_eq!(establish(&world, &bob, &id, &scopes, Some(signed)).await.unwrap_err().code, code, "{what}");
    }
    // Another person cannot use the signed entry.
    let stolen = establish(&world, &eve, &id, &scopes, Some(bob.signed(good.clone()))).await.unwrap_err();
    assert_eq!(stolen.code, ErrorCode::ConsentUnsigned);
    assert_eq!(world.engine.consent().relations(&bob.person(), None, 10).await.unwrap(), []);
    // The time in which the entry must be signed has passed.
    world.clock.advance(Duration::from_secs(601));
    let late = establish(&world, &bob, &id, &scopes, Some(bob.signed(good))).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::ConsentUnsigned);
    establish(&world, &bob, &id, &scopes, Some(bob.sign_what(&late))).await.unwrap();
}

#[tokio::test]
async fn only_a_person_on_their_own_device_can_consent() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let (id, token) = world.agent_with_token(&owner, &first_version()).await;
    let agent = world.engine.accounts().authenticate_agent_token(&token).await.unwrap().unwrap();
    let new = NewRelation { agent: id.clone(), consent: NewConsent::default() };
    let nobody = Caller::new(Principal::Person(bob.person()));
    for by in [agent, nobody, Caller::new(Principal::Local), Caller::new(Principal::Operator)] {
        let error = world.engine.consent().establish_relation(&by, new.clone()).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Unauthorized, "{:?}", by.principal);
    }
    // A device of another person, and a revoked device.
    let eves = Caller { principal: Principal::Person(bob.person()), ..owner.caller() };
    assert_eq!(
        world.engine.consent().establish_relation(&eves, new.clone()).await.unwrap_err().code,
        ErrorCode::DeviceRefused
    );
    world.engine.people().revoke_device(&bob.person(), &bob.device.id, &bob.caller()).await.unwrap();
    assert_eq!(
        world.engine.consent().establish_relation(&bob.caller(), new).await.unwrap_err().code,
        ErrorCode::DeviceRefused
    );
}

#[tokio::test]
async fn consent_to_outdated_manifest_or_unknown_scope_or_agent_is_refused() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let unknown = bob.try_allow(&world, &id, &[("location:read", ALWAYS)]).await.unwrap_err();
    assert_eq!((unknown.code, unknown.params()), (ErrorCode::ScopeUnknown, json!({"scopes": ["location:read"]})));
    let past = GrantTerm::Until(world.clock.now());
    let over = bob.try_allow(&world, &id, &[("clipboard:read", past)]).await.unwrap_err();
    assert_eq!(over.code, ErrorCode::BadRequest);
    let nobody = AgentId::parse("agt_x").unwrap();
    assert_eq!(bob.try_allow(&world, &nobody, &[]).await.unwrap_err().code, ErrorCode::UnknownAgent);

    let seen = world.engine.accounts().account(&id).await.unwrap().manifest_hash;
    let consent = |seen| NewConsent { wishes: wishes(&[("filesystem:read", ALWAYS)]), seen, signed: None };
    let establish = async |seen| {
        let new = NewRelation { agent: id.clone(), consent: consent(seen) };
        world.engine.consent().establish_relation(&bob.caller(), new).await.unwrap_err()
    };
    let to_sign = establish(seen).await;
    assert_eq!(to_sign.code, ErrorCode::ConsentUnsigned);
    // The manifest changes while Bob reads the consent dialog.
    let second = world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    let stale = establish(seen).await;
    assert_eq!(stale.code, ErrorCode::ManifestStale);
    assert_eq!(stale.params(), json!({"manifest_version": 2, "manifest_hash": second.hash}));
    let signed = NewConsent { signed: Some(bob.sign_what(&to_sign)), ..consent(None) };
    let late = world
        .engine
        .consent()
        .establish_relation(&bob.caller(), NewRelation { agent: id.clone(), consent: signed })
        .await;
    assert_eq!(late.unwrap_err().code, ErrorCode::ManifestStale);
    assert_eq!(establish(second.hash).await.code, ErrorCode::ConsentUnsigned);
}

#[tokio::test]
async fn consent_without_required_scope_is_refused() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let mut manifest = first_version();
    manifest["tools"][0]["required"] = json!(true);
    let id = world.agent(&owner, &manifest).await;
    let missing = bob.try_allow(&world, &id, &[("clipboard:read", ALWAYS)]).await.unwrap_err();
    assert_eq!((missing.code, missing.params()), (ErrorCode::ScopeRequired, json!({"scopes": ["filesystem:read"]})));
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    assert_eq!(bob.try_change(&world, &relation, &[]).await.unwrap_err().code, ErrorCode::ScopeRequired);
}

#[tokio::test]
async fn second_relation_with_an_agent_and_relations_over_the_limit_are_refused() {
    let world = TestEngine::with(ConsentSettings { relations_per_person: 1, ..ConsentSettings::default() }).await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let (one, two) = (world.agent(&owner, &first_version()).await, world.agent(&owner, &first_version()).await);
    let relation = bob.allow(&world, &one, &[]).await;
    let again = bob.try_allow(&world, &one, &[]).await.unwrap_err();
    assert_eq!((again.code, again.params()), (ErrorCode::RelationExists, json!({"relation_id": relation.id})));
    assert_eq!(bob.try_allow(&world, &two, &[]).await.unwrap_err().code, ErrorCode::LimitReached);
    let unsigned = world.engine.consent().revoke_relation(&bob.caller(), &relation.id, None).await.unwrap_err();
    assert_eq!(unsigned.code, ErrorCode::ConsentUnsigned);
    let over = world
        .engine
        .consent()
        .revoke_relation(&bob.caller(), &relation.id, Some(&bob.sign_what(&unsigned)))
        .await
        .unwrap();
    assert!(!over.is_active());
    let standing = world.engine.consent().verify_ledger(&relation.id).await.unwrap();
    assert!(standing.ended);
    let gone = bob.try_change(&world, &relation, &[]).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::RelationNotFound);
    let anew = bob.allow(&world, &one, &["clipboard:read"]).await;
    assert_ne!(anew.id, relation.id);
    assert!(world.records().await.iter().any(|record| record.event == AuditEvent::ConsentRevoked));
}

#[tokio::test]
async fn only_the_person_and_agent_of_a_relation_can_read_it() {
    let world = TestEngine::new().await;
    let (owner, bob, eve) = (world.person("ada").await, world.person("bob").await, world.person("eve").await);
    let (id, token) = world.agent_with_token(&owner, &first_version()).await;
    let (_, other) = world.agent_with_token(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["clipboard:read"]).await;
    let agent = world.engine.accounts().authenticate_agent_token(&token).await.unwrap().unwrap();
    let stranger = world.engine.accounts().authenticate_agent_token(&other).await.unwrap().unwrap();
    for by in [eve.caller(), owner.caller(), stranger, Caller::new(Principal::Local), Caller::new(Principal::Anonymous)]
    {
        assert_eq!(
            world.engine.consent().relation(&by, &relation.id).await.unwrap_err().code,
            ErrorCode::RelationNotFound
        );
        assert_eq!(
            world.engine.consent().ledger(&by, &relation.id, 0, 10).await.unwrap_err().code,
            ErrorCode::RelationNotFound
        );
    }
    assert_eq!(eve.try_change(&world, &relation, &[]).await.unwrap_err().code, ErrorCode::RelationNotFound);
    let revoke = world.engine.consent().revoke_relation(&eve.caller(), &relation.id, None).await;
    assert_eq!(revoke.unwrap_err().code, ErrorCode::RelationNotFound);
    // The person and the agent can each verify the ledger.
    for by in [bob.caller(), agent] {
        let ledger = world.engine.consent().ledger(&by, &relation.id, 0, 10).await.unwrap();
        let standing = verify(&ledger.entries, &ledger.devices, &Ed25519Verifier).unwrap();
        assert_eq!((standing.head, standing.person), (relation.ledger, bob.person()));
    }
}

#[tokio::test]
async fn one_time_consent_ends_with_its_use_and_timed_consent_at_its_expiry() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let hour = GrantTerm::Until(world.clock.now().after(Duration::from_secs(3600)));
    let relation = bob.allow_for(&world, &id, &[("filesystem:read", hour), ("clipboard:read", GrantTerm::Once)]).await;
    let clipboard = ScopeId::parse("clipboard:read").unwrap();
    assert_eq!(world.effective(&bob, &relation).await, ["clipboard:read", "filesystem:read"]);
    assert!(world.engine.consent().use_consent(&relation.id, &clipboard).await.unwrap());
    assert!(!world.engine.consent().use_consent(&relation.id, &clipboard).await.unwrap(), "it was used");
    assert!(
        !world.engine.consent().use_consent(&relation.id, &ScopeId::parse("filesystem:read").unwrap()).await.unwrap()
    );
    assert_eq!(world.effective(&bob, &relation).await, ["filesystem:read"]);
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(world.effective(&bob, &relation).await, [""; 0]);
    world.engine.consent().verify_ledger(&relation.id).await.unwrap();
    let again = bob.try_change(&world, &relation, &[("clipboard:read", GrantTerm::Once)]).await.unwrap();
    assert_eq!(again.ledger.seq, 2);
    assert!(world.engine.consent().use_consent(&relation.id, &clipboard).await.unwrap());
}

#[tokio::test]
async fn ledger_entries_of_a_revoked_device_stay_valid_and_it_signs_no_new_ones() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let (first, second) = (world.device("bob", 1).await, world.device("bob", 2).await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = first.allow(&world, &id, &["clipboard:read"]).await;
    world.clock.advance(Duration::from_secs(1));
    world.engine.people().revoke_device(&first.person(), &first.device.id, &second.caller()).await.unwrap();
    world.engine.consent().verify_ledger(&relation.id).await.unwrap();
    assert_eq!(first.try_change(&world, &relation, &[]).await.unwrap_err().code, ErrorCode::DeviceRefused);
    second.try_change(&world, &relation, &[]).await.unwrap();
    assert_eq!(world.engine.consent().verify_ledger(&relation.id).await.unwrap().head.seq, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_during_publications_is_refused_or_suspended_by_later_breaking_ones() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let id = world.agent(&owner, &first_version()).await;
    let mut people = Vec::new();
    for number in 0..12_u8 {
        people.push(world.device(&format!("p{number}"), number + 1).await);
    }
    let world = std::sync::Arc::new(world);
    let tasks: Vec<_> = people
        .into_iter()
        .map(|phone| {
            let (world, id) = (std::sync::Arc::clone(&world), id.clone());
            tokio::spawn(async move {
                let outcome = phone.try_allow(&world, &id, &[("filesystem:read", ALWAYS)]).await;
                (phone, outcome)
            })
        })
        .collect();
    for number in 0..4 {
        let required = [&["path"][..], &["path", "limit"]][number % 2];
        world.publish(&owner, &id, &super::world::renumbered(&broken_version(required), number + 1)).await;
    }
    let account = world.engine.accounts().account(&id).await.unwrap();
    assert_eq!(account.manifest_version, 5);
    for task in tasks {
        let (phone, outcome) = task.await.unwrap();
        match outcome {
            Err(error) => {
                assert!(matches!(error.code, ErrorCode::ManifestStale | ErrorCode::ConsentUnsigned), "{error:?}");
            }
            Ok(relation) => {
                // The last version requires the same arguments as version 3, and more than the others.
                let now = world.relation(&phone, &relation).await;
                assert_eq!(now.pending.is_some(), ![3, 5].contains(&now.accepted.version), "{now:?}");
                world.engine.consent().verify_ledger(&now.id).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn ledger_verification_detects_unsigned_grant_in_store() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["clipboard:read"]).await;
    let grant = ScopeGrant {
        id: GrantId::parse("con_forged").unwrap(),
        scope: ScopeId::parse("filesystem:read").unwrap(),
        ..relation.grants[0].clone()
    };
    let mut more = relation.clone();
    more.grants.push(grant.clone());
    more.revision += 1;
    let change =
        ConsentChange::MoveRelation { from: relation.revision, relation: more.clone(), manifest_version: None };
    world.store.commit(vec![change.into()]).await.unwrap();
    let found = world.engine.consent().verify_ledger(&relation.id).await.unwrap_err();
    assert_eq!((found.code, found.message.contains("filesystem:read")), (ErrorCode::LedgerBroken, true));

    // A ledger entry for the forged grant, but without a signature.
    let scopes = vec![relation.grants[0].scope.clone(), grant.scope];
    let device = bob.device.id.clone();
    let forged =
        LedgerEntry { scopes, signature: None, ..more.draft_grant(&[], more.accepted, &device, world.clock.now()) };
    world.store.commit(vec![ConsentChange::AppendLedger(forged).into()]).await.unwrap();
    let found = world.engine.consent().verify_ledger(&relation.id).await.unwrap_err();
    assert_eq!((found.code, found.message.contains("entry 2")), (ErrorCode::LedgerBroken, true), "{found}");
}
