//! The store contract on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_engine::ports::store::Store;
use nuncio_store::contract::TestDatabase;
use nuncio_store::{PostgresAddress, PostgresStore};
use nuncio_test_postgres::PostgresDatabase;

struct StoreDatabase(PostgresDatabase);

impl StoreDatabase {
    fn new() -> Self {
        Self(PostgresDatabase::create())
    }
}

#[async_trait]
impl TestDatabase for StoreDatabase {
    async fn open(&self) -> Arc<dyn Store> {
        let address = PostgresAddress::parse(self.0.url(), |_| None).unwrap();
        Arc::new(PostgresStore::open(address).await.unwrap())
    }
}

nuncio_store::store_contract!(StoreDatabase::new());
