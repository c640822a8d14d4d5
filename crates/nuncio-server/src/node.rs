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
    nodes.join(&host, version, StoreSharing::OneNode, previous(data)?).await?;
    data.private_files().write(INCARNATION, nodes.incarnation().as_str().as_bytes())?;
    Ok(())
}

/// Fails while a node of another data directory uses the store. An earlier node of this one has ended, because its lock
/// is held.
pub(crate) async fn refuse_others(engine: &Engine, data: &DataDir) -> Result<(), OperatorError> {
    Ok(engine.nodes().refuse_other_nodes(previous(data)?.as_ref()).await?)
}

/// The incarnation of the last server of a data directory.
fn previous(data: &DataDir) -> Result<Option<Incarnation>, OperatorError> {
    let name = data.private_files().read(INCARNATION)?;
    Ok(name.and_then(|name| Incarnation::parse(&String::from_utf8(name).ok()?).ok()))
}

/// Ends this node, so that the next one need not wait for its lease.
pub(crate) async fn leave(engine: &Engine, data: &DataDir) {
    if !data.store().is_in_data_directory()
        && let Err(error) = engine.nodes().leave().await
    {
        tracing::warn!(%error, "the lease of this node ends by itself, in 15 seconds");
    }
}
