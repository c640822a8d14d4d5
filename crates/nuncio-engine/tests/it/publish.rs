//! Manifest publication: permissions, versions and search.

use nuncio_core::ErrorCode;
use nuncio_core::account::AccountOwner;
use nuncio_core::audit::AuditEvent;
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_core::principal::Principal;
use nuncio_engine::Caller;
use nuncio_engine::accounts::AgentAccountPatch;
use nuncio_engine::consent::{ConsentSettings, NewAgentAccount};
use serde_json::json;

use super::world::{FILES, TestEngine, broken_version, first_version, manifest, new_agent, object, renumbered};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_publications_get_consecutive_versions() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let made = world.engine.manifests().create_agent(&owner.caller(), new_agent()).await.unwrap();
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let (engine, caller, id) = (world.engine.clone(), owner.caller(), made.account.id.clone());
            let bytes = renumbered(&first_version(), number).to_string().into_bytes();
            tokio::spawn(async move {
                engine.manifests().publish_manifest(&caller, &id, Some(&bytes), None, None).await.unwrap()
            })
        })
        .collect();
    let mut given = Vec::new();
    for task in tasks {
        let published = task.await.unwrap();
        assert!(published.changed);
        given.push((published.version, published.hash));
    }
    given.sort_unstable();
    assert_eq!(given.iter().map(|(version, _)| *version).collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    let mut kept = world.engine.manifests().manifest_history(&made.account.id, None, 100).await.unwrap();
    kept.reverse();
    assert_eq!(kept.iter().map(|version| (version.version, version.hash)).collect::<Vec<_>>(), given);
    for version in &kept {
        assert_eq!(version.hash, version.manifest.as_ref().map(|text| Digest::of_bytes(text.as_bytes())));
    }
    let account = world.engine.accounts().account(&made.account.id).await.unwrap();
    assert_eq!((account.manifest_version, account.manifest_hash), (50, given[49].1));
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_on_two_engines_during_consents_loses_no_version_or_relation() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let id = world.agent(&owner, &first_version()).await;
    let phones = [world.device("bob", 1).await, world.device("eve", 2).await];
    let other = world.beside().await;
    let publishing: Vec<_> = [world.engine.clone(), other]
        .into_iter()
        .enumerate()
        .map(|(place, engine)| {
            let (caller, id) = (owner.caller(), id.clone());
            tokio::spawn(async move {
                for number in 0..10 {
                    let manifest = renumbered(&broken_version(&["path", "limit"]), 1 + number * 2 + place);
                    let bytes = manifest.to_string().into_bytes();
                    assert!(
                        engine
                            .manifests()
                            .publish_manifest(&caller, &id, Some(&bytes), None, None)
                            .await
                            .unwrap()
                            .changed
                    );
                }
            })
        })
        .collect();
    let mut relations = Vec::new();
    for phone in &phones {
        // A consent that conflicts with a change is repeated.
        loop {
            match phone
                .try_allow(&world, &id, &[("filesystem:read", nuncio_core::grant::GrantTerm::UntilRevoked)])
                .await
            {
                Ok(relation) => break relations.push(relation),
                Err(error) => {
                    assert!(matches!(error.code, ErrorCode::ManifestStale | ErrorCode::ConsentUnsigned), "{error:?}");
                }
            }
        }
    }
    for task in publishing {
        task.await.unwrap();
    }
    let versions = world.engine.manifests().manifest_history(&id, None, 100).await.unwrap();
    let numbers: Vec<_> = versions.iter().rev().map(|version| version.version).collect();
    assert_eq!(numbers, (1..=21).collect::<Vec<_>>());
    for (phone, relation) in phones.iter().zip(&relations) {
        let now = world.relation(phone, relation).await;
        let waits = now.pending.as_ref().map(|pending| pending.version);
        assert_eq!(waits, (now.accepted.version == 1).then_some(21), "{now:?}");
        world.engine.consent().verify_ledger(&relation.id).await.unwrap();
    }
}

#[tokio::test]
async fn reformatted_manifest_creates_no_new_version() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let id = world.agent(&owner, &first_version()).await;
    let before = world.records().await.len();
    let pretty = serde_json::to_string_pretty(&first_version()).unwrap();
    let again = world
        .engine
        .manifests()
        .publish_manifest(&owner.caller(), &id, Some(pretty.as_bytes()), None, None)
        .await
        .unwrap();
    assert_eq!((again.changed, again.version, again.verdict.breaking), (false, 1, false));
    assert_eq!(world.records().await.len(), before);
}

#[tokio::test]
async fn only_the_owner_may_publish_judge_or_update_an_agent() {
    let world = TestEngine::new().await;
    let (owner, eve) = (world.person("ada").await, world.person("eve").await);
    let (id, token) = world.agent_with_token(&owner, &first_version()).await;
    let agent = world.engine.accounts().authenticate_agent_token(&token).await.unwrap().unwrap();
    let bytes = broken_version(&["path", "limit"]).to_string().into_bytes();
    for by in [
        eve.caller(),
        agent,
        Caller::new(Principal::Operator),
        Caller::new(Principal::Local),
        Caller::new(Principal::Anonymous),
    ] {
        let publish = world.engine.manifests().publish_manifest(&by, &id, Some(&bytes), None, None).await;
        assert_eq!(publish.unwrap_err().code, ErrorCode::NotOwner, "{:?}", by.principal);
        assert_eq!(
            world.engine.manifests().publish_manifest(&by, &id, None, None, None).await.unwrap_err().code,
            ErrorCode::NotOwner
        );
        assert_eq!(
            world.engine.manifests().judge_manifest(&by, &id, Some(&bytes)).await.unwrap_err().code,
            ErrorCode::NotOwner
        );
        let patch = AgentAccountPatch { public: Some(false), ..AgentAccountPatch::default() };
        assert_eq!(world.engine.accounts().update_agent(&by, &id, patch).await.unwrap_err().code, ErrorCode::NotOwner);
    }
    assert_eq!(world.engine.accounts().account(&id).await.unwrap().manifest_version, 1);
    let nobody = AgentId::parse("agt_nobody").unwrap();
    let unknown = world.engine.manifests().publish_manifest(&owner.caller(), &nobody, Some(&bytes), None, None).await;
    assert_eq!(unknown.unwrap_err().code, ErrorCode::UnknownAgent);
}

#[tokio::test]
async fn invalid_manifest_reports_every_fault_and_creates_nothing() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let mut wrong = first_version();
    wrong["schema_version"] = json!("2.0");
    wrong["tools"][0]["name"] = json!("Not A Name");
    wrong["permission_scopes"][0]["id"] = json!("system:root");
    let new = NewAgentAccount { manifest: Some(wrong.to_string().into_bytes()), ..new_agent() };
    let error = world.engine.manifests().create_agent(&owner.caller(), new).await.unwrap_err();
    let params = error.params();
    let pointers: Vec<_> =
        params["errors"].as_array().unwrap().iter().map(|it| it["pointer"].as_str().unwrap()).collect();
    for place in ["/schema_version", "/tools/0/name", "/permission_scopes/0/id"] {
        assert!(pointers.contains(&place), "{place} of {pointers:?}");
    }
    let ada = AccountOwner::Person(owner.person());
    assert_eq!(world.engine.accounts().accounts_of(&ada, None, 10).await.unwrap(), []);
    let id = world.agent(&owner, &first_version()).await;
    for bytes in [&b"{"[..], b"[]", b"null", br#"{"schema_version":"1.0","schema_version":"1.0"}"#] {
        let error =
            world.engine.manifests().publish_manifest(&owner.caller(), &id, Some(bytes), None, None).await.unwrap_err();
        assert!(error.code.as_str().starts_with("manifest_"), "{error:?}");
    }
    assert_eq!(world.engine.accounts().account(&id).await.unwrap().manifest_version, 1);
}

#[tokio::test]
async fn publication_based_on_an_outdated_manifest_hash_is_refused() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let id = world.agent(&owner, &first_version()).await;
    let seen = world.engine.accounts().account(&id).await.unwrap().manifest_hash;
    let publish = async |number, seen| {
        let bytes = renumbered(&first_version(), number).to_string().into_bytes();
        world.engine.manifests().publish_manifest(&owner.caller(), &id, Some(&bytes), seen, None).await
    };
    let second = publish(1, seen).await.unwrap();
    let stale = publish(2, seen).await.unwrap_err();
    assert_eq!(stale.code, ErrorCode::ManifestStale);
    assert_eq!(stale.params(), json!({"manifest_version": 2, "manifest_hash": second.hash}));
    assert_eq!(publish(2, second.hash).await.unwrap().version, 3);
}

#[tokio::test]
async fn judging_a_manifest_returns_the_verdict_of_publishing_and_stores_nothing() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    let bytes = broken_version(&["path", "limit"]).to_string().into_bytes();
    let before = (world.engine.accounts().account(&id).await.unwrap(), world.records().await.len());
    let dry = world.engine.manifests().judge_manifest(&owner.caller(), &id, Some(&bytes)).await.unwrap();
    assert!(dry.verdict.breaking && dry.changed);
    assert_eq!((dry.version, dry.affected), (2, 1));
    assert_eq!((world.engine.accounts().account(&id).await.unwrap(), world.records().await.len()), before);
    assert_eq!(world.relation(&bob, &relation).await, relation);
    let real = world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    assert_eq!((real.verdict, real.version, real.affected), (dry.verdict, 2, 1));
}

#[tokio::test]
async fn published_version_stores_its_change_note_verdict_and_publisher() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let id = world.agent(&owner, &first_version()).await;
    let bytes = broken_version(&["path", "limit"]).to_string().into_bytes();
    let publish = async |note: &str| {
        world.engine.manifests().publish_manifest(&owner.caller(), &id, Some(&bytes), None, Some(note)).await
    };
    assert_eq!(publish("a\u{202e}b").await.unwrap_err().code, ErrorCode::BadRequest);
    assert_eq!(publish(&"x".repeat(1001)).await.unwrap_err().code, ErrorCode::BadRequest);
    publish(" We read larger files. ").await.unwrap();
    let version = world.engine.manifests().manifest_version(&id, 2).await.unwrap().unwrap();
    assert_eq!(version.change_note.as_deref(), Some("We read larger files."));
    assert_eq!(version.verdict["scopes_requiring_reauth"], json!(["filesystem:read"]));
    assert_eq!(version.by, Principal::Person(owner.person()));
    assert!(world.records().await.iter().any(|record| {
        record.event == AuditEvent::ManifestPublished
            && record.manifest_version == Some(2)
            && record.agent.as_ref() == Some(&id)
    }));
}

#[tokio::test]
async fn search_finds_public_agents_by_name_and_capability() {
    let world = TestEngine::new().await;
    let owner = world.person("ada").await;
    let id = world.agent(&owner, &first_version()).await;
    let found = async |query: &str| world.engine.accounts().search_agents(query, None, 10).await.unwrap().len();
    for query in ["", "helper", "HELP read_file", "clipboard:read", id.as_str()] {
        assert_eq!(found(query).await, 1, "{query}");
    }
    assert_eq!(found("helper nothing").await, 0);
    let only_files = manifest(&[("read_file", "filesystem:read", object(&["path"]))], &[FILES]);
    world.publish(&owner, &id, &only_files).await;
    assert_eq!(found("clipboard:read").await, 0, "the removed scope is no longer found");
    let patch = AgentAccountPatch {
        display_name: Some("Archivist".into()),
        description: Some("Keeps 档案.".into()),
        ..AgentAccountPatch::default()
    };
    world.engine.accounts().update_agent(&owner.caller(), &id, patch).await.unwrap();
    assert_eq!((found("helper").await, found("档案 archivist").await, found("read_file").await), (0, 1, 1));
    let hide = AgentAccountPatch { public: Some(false), ..AgentAccountPatch::default() };
    world.engine.accounts().update_agent(&owner.caller(), &id, hide).await.unwrap();
    assert_eq!(found("").await, 0);
    assert_eq!(world.engine.accounts().account(&id).await.unwrap().manifest_version, 2);
}

#[tokio::test]
async fn only_people_may_create_agents_and_only_up_to_the_limit() {
    let world = TestEngine::with(ConsentSettings { agents_per_owner: 1, ..ConsentSettings::default() }).await;
    let owner = world.person("ada").await;
    let (_, token) = world.agent_with_token(&owner, &first_version()).await;
    assert_eq!(
        world.engine.manifests().create_agent(&owner.caller(), new_agent()).await.unwrap_err().code,
        ErrorCode::LimitReached
    );
    let agent = world.engine.accounts().authenticate_agent_token(&token).await.unwrap().unwrap();
    assert_eq!(world.engine.manifests().create_agent(&agent, new_agent()).await.unwrap_err().code, ErrorCode::NotOwner);
    let local = Caller::new(Principal::Local);
    assert_eq!(
        world.engine.manifests().create_agent(&local, new_agent()).await.unwrap_err().code,
        ErrorCode::Unauthorized
    );
    let eve = world.person("eve").await;
    let hidden = NewAgentAccount { display_name: "a\u{200b}".into(), ..new_agent() };
    assert_eq!(
        world.engine.manifests().create_agent(&eve.caller(), hidden).await.unwrap_err().code,
        ErrorCode::BadRequest
    );
    world.engine.manifests().create_agent(&eve.caller(), new_agent()).await.unwrap();
}
