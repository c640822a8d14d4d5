//! The store contract on SQLite and PostgreSQL, and tests of SQLite's file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "it/crash.rs"]
mod crash;
#[path = "it/damage.rs"]
mod damage;
#[path = "it/dump.rs"]
mod dump;
#[path = "it/file.rs"]
mod file;
#[path = "it/postgres.rs"]
mod postgres;
#[path = "it/postgres_dump.rs"]
mod postgres_dump;
#[path = "it/postgres_server.rs"]
mod postgres_server;

mod contract {
    use std::sync::Arc;

    use async_trait::async_trait;
    use nuncio_engine::ports::store::Store;
    use nuncio_store::SqliteStore;
    use nuncio_store::contract::TestDatabase;
    use tempfile::TempDir;

    struct StoreFolder(TempDir);

    impl StoreFolder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }
    }

    #[async_trait]
    impl TestDatabase for StoreFolder {
        async fn open(&self) -> Arc<dyn Store> {
            Arc::new(SqliteStore::open(&self.0.path().join("nuncio.db")).unwrap())
        }
    }

    nuncio_store::store_contract!(StoreFolder::new());
}
