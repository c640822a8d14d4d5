//! Keys and grants of several engines on one store.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::grant::{Grant, GrantTerm, KeyScopes};
use nuncio_core::ids::{AgentName, GrantId, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::Caller;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_engine::ports::Store as _;
use nuncio_engine::ports::store::{AccessChange, Change, KeyRole};

use super::chain::{call, call_on, serve, serve_on};
use super::world::TestEngine;

const SCOPE: &str = "filesystem:read";

fn guest() -> Caller {
    Caller::new(Principal::Did("did:wba:guest.example".to_owned()))
}

async fn grant(world: &TestEngine, term: GrantTerm) -> Grant {
    let (agent, scope) = (AgentName::parse("helper").unwrap(), ScopeId::parse(SCOPE).unwrap());
    let operator = Principal::Operator;
    world.engine.access().create_grant(guest().principal, agent, vec![scope], term, operator).await.unwrap()
}

#[tokio::test]
async fn key_revoked_on_one_node_is_refused_on_the_other() {
    let world = TestEngine::new().await;
    let other = world.beside().await;
    let (name, person, scopes, role, term) = (None, None, KeyScopes::All, KeyRole::App, None);
    let (key, secret) =
        world.engine.access().create_key(NewApiKeyRequest { name, person, scopes, role, term }).await.unwrap();
    until(|| other.access().caller_by_key(&secret).is_some()).await;
    world.engine.access().revoke_key(key.id.as_str()).await.unwrap();
    until(|| other.access().caller_by_key(&secret).is_none()).await;
}

#[tokio::test]
async fn using_a_one_time_grant_removes_it_without_reloading_all_grants() {
    let world = TestEngine::new().await;
    serve(&world).await;
    grant(&world, GrantTerm::Once).await;
    // Stored without the engine, which sees the grant only if it reads all grants again.
    let unseen = Grant {
        id: GrantId::parse("grant_unseen").unwrap(),
        principal: guest().principal,
        agent: AgentName::parse("helper").unwrap(),
        scopes: vec![ScopeId::parse(SCOPE).unwrap()],
        term: GrantTerm::UntilRevoked,
        given_by: Principal::Operator,
        given_at: Timestamp::from_millis(0),
    };
    world.store.commit(vec![Change::from(AccessChange::CreateGrant(unseen))]).await.unwrap();
    assert_eq!(call(&world, &guest()).await, Ok(()));
    assert_eq!(call(&world, &guest()).await, Err(ErrorCode::ScopeNotGranted));
    world.engine.access().load().await.unwrap();
    assert_eq!(call(&world, &guest()).await, Ok(()));
}

#[tokio::test]
async fn one_time_grant_used_on_one_node_is_used_up_on_the_other() {
    let world = TestEngine::new().await;
    let other = world.beside().await;
    serve(&world).await;
    serve_on(&other).await;
    for (first, second) in [(&world.engine, &other), (&other, &world.engine)] {
        let given = grant(&world, GrantTerm::Once).await;
        // Both nodes have the grant in memory; the second may not have heard of its use yet.
        other.access().load().await.unwrap();
        assert_eq!(call_on(first, &guest()).await, Ok(()));
        assert_eq!(call_on(second, &guest()).await, Err(ErrorCode::ScopeNotGranted));
        assert!(second.access().grants().await.unwrap().iter().all(|grant| grant.id != given.id));
        assert_eq!(call_on(first, &guest()).await, Err(ErrorCode::ScopeNotGranted));
    }
}

/// Waits until the condition holds, because a notice reaches the other engine later.
async fn until(condition: impl Fn() -> bool) {
    let reached = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reached).await.unwrap();
}
