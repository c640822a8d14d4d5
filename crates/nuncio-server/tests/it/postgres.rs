//! A server whose store is a PostgreSQL database.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::execution::ExecutionState;
use nuncio_server::{DataDir, SecretKeySource, StoreLocation, SystemClock, open_engine};
use nuncio_test_postgres::{PostgresDatabase, PostgresServer};
use nuncio_testkit::{Gateway, GatewayBuilder};
use serde_json::json;

use crate::agents::{DESK, desk, tool};
use crate::executions::{invocation, look, output, over, submit};

fn builder(url: &str) -> GatewayBuilder {
    let tools = [tool("echo", "echo done", "skill = { type = \"task\" }")];
    // A DID names the public URL, which stays the same although the port changes.
    Gateway::builder()
        .agent(DESK, &desk(&tools))
        .public_url("https://desk.example")
        .store(StoreLocation::parse(Some(url)).unwrap())
}

fn did(gateway: &Gateway) -> String {
    gateway.server().dids().service().unwrap().did().to_string()
}

#[tokio::test]
async fn executions_and_dids_survive_a_restart_and_no_database_is_in_the_data_directory() {
    let database = PostgresDatabase::create();
    let gateway = builder(database.url()).start().await;
    let execution = submit(&gateway, invocation("echo", json!({})).with_key("k", "b")).await;
    assert_eq!(output(&over(&gateway, &execution).await), &json!("done"));
    let before = did(&gateway);
    let data = gateway.stop().await;
    assert!(!data.path().join("nuncio.db").exists());

    let gateway = builder(database.url()).data(data).start().await;
    assert_eq!(look(&gateway, &execution).await.state, ExecutionState::Completed { output: json!("done") });
    assert_eq!(did(&gateway), before);
    gateway.stop().await;
    assert_eq!(database.query("SELECT state, count(*) FROM nodes GROUP BY state"), "dead|2");
}

#[tokio::test]
async fn second_server_on_the_same_database_is_refused_until_the_first_has_stopped() {
    let database = PostgresDatabase::create();
    let first = builder(database.url()).start().await;
    let key = first.data().join("secret.key");
    let second = || builder(database.url()).secret_key(SecretKeySource::File(key.clone()));
    let error = second().try_start().await.map(|_| ()).unwrap_err();
    assert_eq!(error.code, ErrorCode::StoreInUse);
    assert!(error.message.contains("uses this store") && error.message.contains("lease ends at"), "{error}");
    let data = first.stop().await;
    let second = second().start().await;
    let execution = submit(&second, invocation("echo", json!({}))).await;
    assert_eq!(output(&over(&second, &execution).await), &json!("done"));
    second.stop().await;
    drop(data);
}

#[tokio::test]
async fn command_from_another_data_directory_is_refused_while_a_server_runs() {
    let database = PostgresDatabase::create();
    let server = builder(database.url()).start().await;
    let key = server.data().join("secret.key");
    let other = tempfile::tempdir().unwrap();
    let open = || {
        let data = DataDir::open(other.path()).unwrap().with_secret_key(SecretKeySource::File(key.clone()));
        open_engine(data.with_store(StoreLocation::parse(Some(database.url())).unwrap()), Arc::new(SystemClock))
    };
    let error = open().await.map(|_| ()).unwrap_err();
    assert_eq!(error.code, ErrorCode::StoreInUse, "{error}");
    let _data = server.stop().await;
    assert!(open().await.is_ok());
}

#[tokio::test]
async fn server_with_another_secret_key_is_refused_and_changes_nothing() {
    let database = PostgresDatabase::create();
    builder(database.url()).start().await.stop().await;
    let keys = database.query("SELECT name, sealed FROM keyring ORDER BY name");
    let error = builder(database.url()).try_start().await.map(|_| ()).unwrap_err();
    assert_eq!(error.code, ErrorCode::SecretKeyWrong);
    assert_eq!(database.query("SELECT name, sealed FROM keyring ORDER BY name"), keys);
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_during_a_crash_of_the_database_server_all_finish_once() {
    let server = PostgresServer::start();
    let gateway = Arc::new(builder(&server.url("postgres")).start().await);
    let submitted: Vec<_> = (0..12)
        .map(|number| {
            let gateway = Arc::clone(&gateway);
            tokio::spawn(async move {
                let key = format!("k{number}");
                let execution = submit(&gateway, invocation("echo", json!({})).with_key(&key, "b")).await;
                over(&gateway, &execution).await
            })
        })
        .collect();
    tokio::task::block_in_place(|| {
        server.stop("immediate");
        server.start_again();
    });
    for execution in submitted {
        let execution = execution.await.unwrap();
        assert_eq!((output(&execution), execution.attempt), (&json!("done"), 1));
    }
}
