//! The audit record of a server on PostgreSQL, which has a chain for each writer lane.

use std::path::Path;
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_core::ids::PersonName;
use nuncio_core::time::Timestamp;
use nuncio_server::admin::{self, AdminCommand};
use nuncio_server::{DataDir, OperatorError, StoreLocation, SystemClock, open_engine};
use nuncio_test_postgres::PostgresDatabase;
use nuncio_testkit::Gateway;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agents::{DESK, desk, tool};
use crate::executions::{invocation, over, submit};

/// A stopped server that has records of operators in the main chain and of executions in another one.
async fn stopped_server(database: &PostgresDatabase) -> Arc<TempDir> {
    let tools = [tool("echo", "echo done", "skill = { type = \"task\" }")];
    let gateway = Gateway::builder().agent(DESK, &desk(&tools)).public_url("https://desk.example");
    let gateway = gateway.store(StoreLocation::parse(Some(database.url())).unwrap()).start().await;
    gateway.order(AdminCommand::UserInvite { name: PersonName::parse("ada").unwrap(), seconds: None }).await.unwrap();
    for _ in 0..3 {
        let execution = submit(&gateway, invocation("echo", json!({}))).await;
        over(&gateway, &execution).await;
    }
    gateway.stop().await
}

async fn verify(database: &PostgresDatabase, data: &Path) -> Result<Value, OperatorError> {
    let data = DataDir::open(data)?.with_store(StoreLocation::parse(Some(database.url())).unwrap());
    let engine = open_engine(data, Arc::new(SystemClock)).await?;
    engine.carry_out(AdminCommand::AuditVerify, &admin::this_account()).await
}

/// Number of the chain of the executions.
fn other_chain(database: &PostgresDatabase) -> String {
    database.query("SELECT max(chain) FROM audit_links WHERE record LIKE '%\"tool\":\"echo\"%'")
}

#[tokio::test]
async fn all_chains_and_the_rounds_that_name_them_verify() {
    let database = PostgresDatabase::create();
    let data = stopped_server(&database).await;
    let chain = other_chain(&database);
    assert_ne!(chain, "0");
    let verified = verify(&database, data.path()).await.unwrap();
    assert_eq!(verified["chains"].to_string(), database.query("SELECT count(DISTINCT chain) FROM audit_links"));
    assert_eq!(verified["rounds"], 1, "{verified}");
    assert_eq!(verified["records"].to_string(), database.query("SELECT count(*) FROM audit_links"));

    let data = DataDir::open(data.path()).unwrap().with_store(StoreLocation::parse(Some(database.url())).unwrap());
    let engine = open_engine(data, Arc::new(SystemClock)).await.unwrap();
    let list = AdminCommand::AuditList { after: Some(0), limit: 100, filter: Default::default() };
    let listed = engine.carry_out(list, &admin::this_account()).await.unwrap();
    let of_chain: Vec<_> = listed["records"].as_array().unwrap().iter().map(|it| it["of_chain"].clone()).collect();
    assert!(of_chain.contains(&json!({"chain": chain.parse::<u32>().unwrap(), "seq": 3})), "{of_chain:?}");
}

#[tokio::test]
async fn removed_or_altered_records_are_noticed_with_and_without_the_checkpoint_file() {
    let database = PostgresDatabase::create();
    let data = stopped_server(&database).await;
    let chain = other_chain(&database);
    let backup = "CREATE TABLE backup AS SELECT * FROM audit_links";
    let _ = database.query(backup);
    let checkpoints = data.path().join("audit-checkpoints.jsonl");
    for (statement, expected) in [
        (format!("DELETE FROM audit_links WHERE chain = {chain}"), "ends at record 0, but"),
        (format!("DELETE FROM audit_links WHERE chain = {chain} AND seq = 3"), "ends at record 2, but"),
        (format!("DELETE FROM audit_links WHERE chain = {chain} AND seq = 2"), "record 2 is missing"),
        (
            format!("UPDATE audit_links SET record = replace(record, 'completed', 'not_run') WHERE chain = {chain}"),
            "record 1 was changed",
        ),
    ] {
        for keeps_checkpoints in [true, false] {
            let kept = std::fs::read(&checkpoints).unwrap();
            let _ = database.query(&statement);
            if !keeps_checkpoints {
                std::fs::remove_file(&checkpoints).unwrap();
            }
            let error = verify(&database, data.path()).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::AuditBroken, "{statement}");
            let message = error.message;
            assert!(message.contains(&format!("chain {chain}: ")) && message.contains(expected), "{message}");
            std::fs::write(&checkpoints, kept).unwrap();
            let _ = database.query("TRUNCATE audit_links; INSERT INTO audit_links SELECT * FROM backup");
        }
    }
    assert!(verify(&database, data.path()).await.is_ok());
}

#[tokio::test]
async fn redactions_and_rounds_of_another_data_directory_verify_and_forged_rounds_do_not() {
    let database = PostgresDatabase::create();
    let data = stopped_server(&database).await;
    // Another node of the same store: its own audit key, the same secret key.
    let other = tempfile::tempdir().unwrap();
    std::fs::copy(data.path().join("secret.key"), other.path().join("secret.key")).unwrap();
    assert_eq!(verify(&database, other.path()).await.unwrap()["rounds"], 1);
    // Whoever can change the store cannot sign a key into it.
    let _ = database.query("DELETE FROM keyring WHERE name LIKE 'audit/%'");
    let error = verify(&database, other.path()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::AuditBroken);
    assert!(error.message.contains("not signed by a server of this store"), "{error}");
}

#[tokio::test]
async fn pruned_chains_verify_and_are_continued() {
    let database = PostgresDatabase::create();
    let data = stopped_server(&database).await;
    let command = async |command| {
        let data = DataDir::open(data.path()).unwrap().with_store(StoreLocation::parse(Some(database.url())).unwrap());
        let engine = open_engine(data, Arc::new(SystemClock)).await.unwrap();
        engine.carry_out(command, &admin::this_account()).await
    };
    let stored = database.query("SELECT count(*) - count(DISTINCT chain) FROM audit_links");
    let before = Timestamp::try_from("2999-01-01T00:00:00Z".to_owned()).unwrap();
    let pruned = command(AdminCommand::AuditPrune { before }).await.unwrap();
    // The main chain is deleted whole, with the order to prune, and goes on with the record of the deletion.
    assert_eq!(pruned["pruned"].as_u64().unwrap(), stored.parse::<u64>().unwrap() + 2, "{pruned}");
    assert_eq!(verify(&database, data.path()).await.unwrap()["pruned"], pruned["pruned"]);

    let tools = [tool("echo", "echo done", "skill = { type = \"task\" }")];
    let gateway = Gateway::builder().agent(DESK, &desk(&tools)).public_url("https://desk.example").data(data.clone());
    let gateway = gateway.store(StoreLocation::parse(Some(database.url())).unwrap()).start().await;
    let execution = submit(&gateway, invocation("echo", json!({}))).await;
    over(&gateway, &execution).await;
    gateway.stop().await;
    assert_eq!(verify(&database, data.path()).await.unwrap()["pruned"], pruned["pruned"]);
    assert_eq!(database.query("SELECT seq FROM audit_links ORDER BY number DESC OFFSET 1 LIMIT 1"), "4");
}
