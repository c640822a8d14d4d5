//! This process as a node: the store that it opens, and its registration there.

use std::sync::Arc;

use nuncio_core::ids::Incarnation;
use nuncio_engine::Engine;
use nuncio_engine::nodes::StoreSharing;
use nuncio_engine::ports::{Meter, Store};
use nuncio_store::{PostgresStore, SqliteStore};

use crate::data::{DataDir, StoreLocation};
use crate::error::OperatorError;
use crate::system::host_name;

/// File of the data directory with the incarnation of the last server of a shared store.
const INCARNATION: &str = "incarnation";

pub(crate) async fn open_store(data: &DataDir, meter: Arc<dyn Meter>) -> Result<Arc<dyn Store>, OperatorError> {
    Ok(match data.store() {
        StoreLocation::DataDirectory => Arc::new(SqliteStore::open_counted(&data.database(), meter)?),
        StoreLocation::Postgres(address) => Arc::new(PostgresStore::open_counted((**address).clone(), meter).await?),
    })
}

/// Registers this process as a node of its store. The incarnation is kept in the data directory, so that the next
/// process knows that this one does not run any more.
pub(crate) async fn join(engine: &Engine, data: &DataDir) -> Result<(), OperatorError> {
    let nodes = engine.nodes();
    let (host, version) = (host_name(), env!("CARGO_PKG_VERSION"));
    if data.store().is_in_data_directory() {
        return Ok(nodes.join(&host, version, StoreSharing::Exclusive, None).await?);
    }
    let files = data.private_files();
    let previous = files.read(INCARNATION)?.and_then(|name| Incarnation::parse(&String::from_utf8(name).ok()?).ok());
    nodes.join(&host, version, StoreSharing::OneNode, previous).await?;
    files.write(INCARNATION, nodes.incarnation().as_str().as_bytes())?;
    Ok(())
}

/// Ends this node, so that the next one need not wait for its lease.
pub(crate) async fn leave(engine: &Engine, data: &DataDir) {
    if !data.store().is_in_data_directory()
        && let Err(error) = engine.nodes().leave().await
    {
        tracing::warn!(%error, "the lease of this node ends by itself, in 15 seconds");
    }
}
