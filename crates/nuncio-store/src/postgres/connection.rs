//! Connections to the server.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nuncio_engine::ports::store::StoreError;
use tokio_postgres::{Client, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::PostgresAddress;
use super::problem::SqlError;
use super::tls;
use super::writes::SqlValue;

/// Time for which a server that cannot be reached is waited for. The lease of a node is longer.
pub(super) const OUTAGE_LIMIT: Duration = Duration::from_secs(12);

/// Pause between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Time limit of one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The oldest supported version of the server.
const MIN_VERSION: i64 = 14;

/// Session settings. A paused process holds its locks no longer than five seconds.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '3s';
    SET statement_timeout = '30s'; SET default_transaction_isolation = 'read committed'; SET search_path = public;
    SET client_min_messages = warning; SET synchronous_commit = on";

/// Settings for maintenance, which may take any time.
const UNLIMITED: &str = "SET lock_timeout = 0; SET statement_timeout = 0";

/// How to connect.
#[derive(Clone)]
pub(super) struct Connector {
    address: Arc<PostgresAddress>,
    /// `None` if connections are not encrypted.
    tls: Option<MakeRustlsConnect>,
}

impl Connector {
    pub(super) fn new(address: PostgresAddress) -> Result<Self, StoreError> {
        Ok(Self { tls: tls::settings(&address)?, address: Arc::new(address) })
    }

    pub(super) fn address(&self) -> &PostgresAddress {
        &self.address
    }

    /// Opens a connection, whose input and output the current runtime handles.
    pub(super) async fn connect(&self) -> Result<Session, SqlError> {
        let connecting = async {
            match &self.tls {
                Some(tls) => {
                    let (client, connection) = self.address.config.connect(tls.clone()).await?;
                    drive(connection);
                    Ok(client)
                }
                None => {
                    let (client, connection) = self.address.config.connect(NoTls).await?;
                    drive(connection);
                    Ok::<_, tokio_postgres::Error>(client)
                }
            }
        };
        let unreachable = || SqlError::Unusable(format!("the PostgreSQL server at {} does not answer", self.address));
        let client = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| unreachable())??;
        client.batch_execute(SETTINGS).await?;
        Ok(Session { client, statements: Mutex::default() })
    }

    /// Opens a connection, and waits for the server during a short outage.
    pub(super) async fn connect_within(&self, limit: Duration) -> Result<Session, SqlError> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            match self.connect().await {
                Err(problem) if is_outage(&problem) && tokio::time::Instant::now() + RECONNECT_PAUSE < deadline => {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                }
                other => return other,
            }
        }
    }

    /// Opens a connection without time limits for statements.
    pub(super) async fn connect_for_maintenance(&self) -> Result<Session, SqlError> {
        let session = self.connect().await?;
        session.client.batch_execute(UNLIMITED).await?;
        Ok(session)
    }
}

/// Handles the input and output of a connection on the current runtime.
fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
}

/// Whether the server may be back soon.
pub(super) fn is_outage(problem: &SqlError) -> bool {
    matches!(problem, SqlError::Unusable(_)) || problem.is_lost_connection()
}

/// A connection with its prepared statements.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

impl Session {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// A prepared statement if it was prepared before.
    pub(super) fn prepared(&self, sql: &str) -> Option<Statement> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned()
    }

    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, SqlError> {
        if let Some(statement) = self.prepared(sql) {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs a statement and returns the number of changed rows.
    pub(super) async fn execute(&self, sql: &str, params: impl AsRef<[SqlValue]>) -> Result<u64, SqlError> {
        let statement = self.prepare(sql).await?;
        Ok(self.client.execute_raw(&statement, params.as_ref()).await?)
    }

    pub(super) async fn rows(&self, sql: &str, params: impl AsRef<[SqlValue]>) -> Result<Vec<Row>, SqlError> {
        use futures_util::TryStreamExt as _;
        let statement = self.prepare(sql).await?;
        Ok(self.client.query_raw(&statement, params.as_ref()).await?.try_collect().await?)
    }

    /// Whether a query has a row.
    pub(super) async fn exists(&self, sql: &str, params: impl AsRef<[SqlValue]>) -> Result<bool, SqlError> {
        Ok(!self.rows(sql, params).await?.is_empty())
    }
}

/// Refuses servers that would lose or mix up commits, each with what to do.
pub(super) async fn check_server(connector: &Connector) -> Result<(), StoreError> {
    let unusable = |why: String| Err(StoreError::Unavailable(why));
    let session = connector.connect_within(OUTAGE_LIMIT).await?;
    let sql = "SELECT current_setting('server_version_num')::BIGINT / 10000, current_setting('fsync'),
        current_setting('full_page_writes'), pg_is_in_recovery()::TEXT, pg_backend_pid()::BIGINT,
        (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'), current_setting('server_encoding')";
    let rows = session.rows(sql, []).await?;
    let Some(row) = rows.first() else { return unusable("the PostgreSQL server answers nothing".to_owned()) };
    let text = |column| super::rows::get::<String>(row, column);
    let (version, pid): (i64, i64) = (super::rows::get(row, 0)?, super::rows::get(row, 4)?);
    if version < MIN_VERSION {
        return unusable(format!("PostgreSQL {version} is too old; use version {MIN_VERSION} or newer"));
    }
    if text(1)? != "on" || text(2)? != "on" {
        return unusable(
            "the PostgreSQL server runs with fsync = off or full_page_writes = off and would lose confirmed data in a \
             crash; switch both on in postgresql.conf and restart it"
                .to_owned(),
        );
    }
    if text(5)? == "off" {
        return unusable(
            "the PostgreSQL server runs with synchronous_commit = off and would lose confirmed data in a crash; set it \
             to on in postgresql.conf, for the database or for the user"
                .to_owned(),
        );
    }
    if text(3)? == "true" {
        return unusable("the PostgreSQL server is a standby; connect to the primary server".to_owned());
    }
    if text(6)? != "UTF8" {
        return unusable("the database is not encoded in UTF8; create it with ENCODING 'UTF8'".to_owned());
    }
    // A pooler in transaction mode gives an idle connection of the server to the next client.
    let other = connector.connect_within(OUTAGE_LIMIT).await?;
    let rows = other.rows("SELECT pg_backend_pid()::BIGINT", []).await?;
    if rows.first().map(|row| super::rows::get::<i64>(row, 0)).transpose()? == Some(pid) {
        return unusable(
            "a connection pooler in transaction mode stands before the PostgreSQL server; connect to the server \
             directly, or set pool_mode = session"
                .to_owned(),
        );
    }
    Ok(())
}
