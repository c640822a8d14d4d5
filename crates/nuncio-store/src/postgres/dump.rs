//! Whole copies of a PostgreSQL store.
//!
//! A schema version has the same tables as the SQLite schema of that version, except what [`OTHER_FORMS`] lists. Tables
//! that only PostgreSQL has concern its own transactions and are not copied: `commits`, `leases`, `schema`.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use nuncio_engine::ports::store::StoreError;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{RowStream, Statement};

use super::address::PostgresAddress;
use super::connection::{self, Connector, Session};
use super::jobs::is_first;
use super::problem::SqlError;
use super::writes::{SqlValue, params};
use super::{migrations, rows};
use crate::dump::{CopyError, INFO_TABLE, Row, StoreSnapshot, StoreTarget, TableShape, Value};
use crate::sqlite::tables_of_version;

/// Size at which a batch of rows ends, in bytes.
const BATCH_BYTES: usize = 4 << 20;

/// Key of the advisory lock of the process that fills a database.
const FILL_LOCK: i64 = 0x6e75_6e63_6970;

/// A table that PostgreSQL stores differently from SQLite.
struct OtherForm {
    table: &'static str,
    /// SQL of a relation with the columns that SQLite has.
    relation: &'static str,
    /// Columns that are computed when they are read.
    computed: &'static [&'static str],
    /// Columns that only PostgreSQL has, with the value that they get when a row is copied from SQLite.
    constants: &'static [(&'static str, i64)],
}

const OTHER_FORMS: &[OtherForm] = &[
    OtherForm {
        table: "jobs",
        relation: concat!("(SELECT job.*, (", is_first!(), ")::INTEGER::BIGINT AS is_first FROM jobs AS job)"),
        computed: &["is_first"],
        constants: &[],
    },
    OtherForm {
        table: "stored_bytes",
        relation: "(SELECT owner, sum(bytes)::BIGINT AS bytes FROM stored_bytes GROUP BY owner)",
        computed: &[],
        constants: &[("lane", 0)],
    },
];

fn other_form(table: &TableShape) -> Option<&'static OtherForm> {
    OTHER_FORMS.iter().find(|form| form.table == table.name)
}

/// Opens a connection that may take any time, also between two statements of a transaction.
async fn connect(connector: &Connector) -> Result<Session, SqlError> {
    let session = connector.connect_for_maintenance().await?;
    // Index order streams rows as they are read; a sort would write whole tables to disk first.
    session.client.batch_execute("SET idle_in_transaction_session_timeout = 0; SET enable_sort = off").await?;
    Ok(session)
}

/// A read transaction, which sees the store as it was when the snapshot was taken. A server may use the store meanwhile.
pub struct PostgresSnapshot {
    session: Session,
    version: u32,
    tables: Vec<TableShape>,
    /// The query whose rows are being read.
    reading: Option<TableRead>,
}

struct TableRead {
    table: String,
    /// Key of the last row that was returned.
    last: Option<Vec<Value>>,
    /// Rows that arrive as they are taken: the connection reads no more than that from the server. `None` after the last.
    rows: Option<Pin<Box<RowStream>>>,
}

impl PostgresSnapshot {
    pub async fn open(address: PostgresAddress) -> Result<Self, StoreError> {
        Self::read(&Connector::new(address)?).await
    }

    async fn read(connector: &Connector) -> Result<Self, StoreError> {
        let session = connect(connector).await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        session.client.batch_execute(begin).await.map_err(SqlError::from)?;
        // The first query takes the snapshot.
        let version = migrations::version(&session).await?.ok_or_else(|| {
            let place = connector.address();
            StoreError::Unavailable(format!("the database {place} contains no store of Nuncio; name another one"))
        })?;
        Ok(Self { session, version, tables: tables_of_version(version)?, reading: None })
    }

    async fn begin_read(&self, table: &TableShape, after: Option<&[Value]>) -> Result<TableRead, SqlError> {
        let relation = other_form(table).map_or_else(|| quoted(&table.name), |form| form.relation.to_owned());
        let (columns, key) = (list(&table.columns), list(&table.key));
        let above = after.map(|after| {
            let places: Vec<_> = (1..=after.len()).map(|place| format!("${place}")).collect();
            format!("WHERE ({key}) > ({})", places.join(", "))
        });
        let above = above.unwrap_or_default();
        let sql = format!("SELECT {columns} FROM {relation} AS copied {above} ORDER BY {key}");
        let statement = self.session.prepare(&sql).await?;
        let params: Vec<SqlValue> = after.unwrap_or_default().iter().cloned().map(SqlValue::from).collect();
        let rows = Box::pin(self.session.client.query_raw(&statement, &params).await?);
        Ok(TableRead { table: table.name.clone(), last: after.map(<[Value]>::to_vec), rows: Some(rows) })
    }

    async fn batch(&mut self, table: &TableShape, after: Option<&[Value]>) -> Result<Vec<Row>, SqlError> {
        let begun = self.reading.take().filter(|read| read.table == table.name && read.last.as_deref() == after);
        let mut read = match begun {
            Some(read) => read,
            None => self.begin_read(table, after).await?,
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some(stream) = &mut read.rows
        {
            let Some(found) = stream.try_next().await? else {
                read.rows = None;
                break;
            };
            let row = (0..table.columns.len()).map(|column| value(&found, column)).collect::<Result<Row, _>>()?;
            bytes += row.iter().map(Value::size).sum::<usize>();
            rows.push(row);
        }
        if let Some(last) = rows.last() {
            read.last = Some(table.key_of(last));
            self.reading = Some(read);
        }
        Ok(rows)
    }
}

#[async_trait]
impl StoreSnapshot for PostgresSnapshot {
    fn schema_version(&self) -> u32 {
        self.version
    }

    fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    async fn rows(&mut self, table: &TableShape, after: Option<&[Value]>) -> Result<Vec<Row>, StoreError> {
        Ok(self.batch(table, after).await?)
    }
}

/// A store that is filled from another. Triggers do not run, because what they compute is copied too. One process at a
/// time fills a database.
pub struct PostgresTarget {
    connector: Connector,
    session: Session,
    version: u32,
    tables: Vec<TableShape>,
    is_open: bool,
    /// Tables with rows since the last commit.
    filled: BTreeSet<String>,
}

impl PostgresTarget {
    /// Opens a store, or creates one with the current schema in an empty database.
    pub async fn open(address: PostgresAddress) -> Result<Self, StoreError> {
        let mut target = Self::connect(address).await?;
        lock(&target.session, "SELECT pg_advisory_lock($1)", FILL_LOCK).await?;
        migrations::run(&target.session).await?;
        target.version = migrations::version(&target.session).await?.unwrap_or_default();
        target.tables = tables_of_version(target.version)?;
        Ok(target)
    }

    /// Creates a store with an earlier schema in an empty database. Nothing of it exists before the first commit.
    pub async fn create(address: PostgresAddress, schema: u32) -> Result<Self, CopyError> {
        let mut target = Self::connect(address).await?;
        target.begin().await.map_err(StoreError::from)?;
        // Other processes that open the database wait until the store is complete.
        lock(&target.session, "SELECT pg_advisory_xact_lock($1)", migrations::LOCK).await?;
        if migrations::version(&target.session).await.map_err(StoreError::from)?.is_some() {
            return Err(CopyError::NotEmpty);
        }
        target.tables = tables_of_version(schema)?;
        target.version = schema;
        migrations::create(&target.session, schema).await.map_err(StoreError::from)?;
        Ok(target)
    }

    async fn connect(address: PostgresAddress) -> Result<Self, StoreError> {
        let connector = Connector::new(address)?;
        connection::check_server(&connector).await?;
        let session = connect(&connector).await?;
        Ok(Self { connector, session, version: 0, tables: Vec::new(), is_open: false, filled: BTreeSet::new() })
    }

    async fn begin(&mut self) -> Result<(), SqlError> {
        if !self.is_open {
            self.session.client.batch_execute("BEGIN").await?;
            self.is_open = true;
        }
        Ok(())
    }

    async fn clear_rows(&mut self, table: &TableShape) -> Result<(), SqlError> {
        self.begin().await?;
        let name = quoted(&table.name);
        // The information about a store is replaced while others may read it, for which `TRUNCATE` would wait. From
        // another table, `TRUNCATE` also removes what refers to it, which is copied after it.
        let clear = if table.name == INFO_TABLE { format!("DELETE FROM {name}") } else { truncate(&name) };
        Ok(self.session.client.batch_execute(&clear).await?)
    }

    async fn insert_rows(&mut self, table: &TableShape, rows: Vec<Row>) -> Result<(), SqlError> {
        self.begin().await?;
        let name = quoted(&table.name);
        if self.filled.insert(table.name.clone()) {
            let disable = format!("ALTER TABLE {name} DISABLE TRIGGER USER");
            self.session.client.batch_execute(&disable).await?;
        }
        let (computed, constants) =
            other_form(table).map_or((&[][..], &[][..]), |form| (form.computed, form.constants));
        let is_written = |column: &str| !computed.contains(&column);
        let mut columns: Vec<String> = table.columns.iter().filter(|column| is_written(column)).cloned().collect();
        columns.extend(constants.iter().map(|(column, _)| (*column).to_owned()));
        let columns = list(&columns);
        let types = column_types(&self.session.prepare(&format!("SELECT {columns} FROM {name}")).await?)?;
        let sink = self.session.client.copy_in(&format!("COPY {name} ({columns}) FROM STDIN BINARY")).await?;
        let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
        for row in rows {
            if row.len() != table.columns.len() {
                return Err(SqlError::Damaged(format!("a row of {} has another number of columns", table.name)));
            }
            refuse_nul(table, &row)?;
            let cells = table.columns.iter().zip(row).filter(|(column, _)| is_written(column));
            let values = cells.map(|(_, value)| SqlValue::from(value));
            let values: Vec<_> = values.chain(constants.iter().map(|(_, number)| SqlValue::Integer(*number))).collect();
            writer.as_mut().write_raw(&values).await?;
        }
        writer.finish().await?;
        Ok(())
    }

    async fn commit_rows(&mut self) -> Result<(), SqlError> {
        if !self.is_open {
            return Ok(());
        }
        for table in std::mem::take(&mut self.filled) {
            let name = quoted(&table);
            let enable = format!("ALTER TABLE {name} ENABLE TRIGGER USER");
            self.session.client.batch_execute(&enable).await?;
            self.continue_numbers(&table, &name).await?;
        }
        self.session.client.batch_execute("COMMIT").await?;
        self.is_open = false;
        Ok(())
    }

    /// Makes new numbers of identity columns follow those of the copied rows.
    async fn continue_numbers(&self, table: &str, name: &str) -> Result<(), SqlError> {
        let identity = "SELECT column_name::TEXT FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name = $1 AND is_identity = 'YES'";
        for column in self.session.rows(identity, params![table]).await? {
            let column: String = rows::get(&column, 0)?;
            let quoted = quoted(&column);
            let last = format!(
                "SELECT setval(pg_get_serial_sequence($1, $2), COALESCE(max({quoted}), 1), max({quoted}) IS NOT NULL)
                 FROM {name}"
            );
            self.session.rows(&last, params![name, column]).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl StoreTarget for PostgresTarget {
    fn schema_version(&self) -> u32 {
        self.version
    }

    fn tables(&self) -> &[TableShape] {
        &self.tables
    }

    async fn clear(&mut self, table: &TableShape) -> Result<(), StoreError> {
        Ok(self.clear_rows(table).await?)
    }

    async fn insert(&mut self, table: &TableShape, rows: Vec<Row>) -> Result<(), StoreError> {
        Ok(self.insert_rows(table, rows).await?)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        Ok(self.commit_rows().await?)
    }

    async fn snapshot(&mut self) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        Ok(Box::new(PostgresSnapshot::read(&self.connector).await?))
    }
}

/// Takes an advisory lock. A process that was killed a moment ago may still have it.
async fn lock(session: &Session, sql: &str, key: i64) -> Result<(), StoreError> {
    session.client.batch_execute("SET lock_timeout = '5s'").await.map_err(SqlError::from)?;
    match session.execute(sql, params![key]).await {
        Ok(_) => {}
        Err(problem) if problem.is_collision() => {
            let why = "another process is filling this database; wait until it has ended".to_owned();
            return Err(StoreError::Unavailable(why));
        }
        Err(problem) => return Err(problem.into()),
    }
    Ok(session.client.batch_execute("SET lock_timeout = 0").await.map_err(SqlError::from)?)
}

/// PostgreSQL's texts cannot contain NUL, those of SQLite can.
fn refuse_nul(table: &TableShape, row: &Row) -> Result<(), SqlError> {
    let is_refused = |value: &Value| value.as_text().is_some_and(|text| text.contains('\0'));
    match row.iter().position(is_refused) {
        None => Ok(()),
        Some(place) => Err(SqlError::Unusable(format!(
            "a text in the column {} of {} contains a NUL character, which PostgreSQL cannot store",
            table.columns[place], table.name
        ))),
    }
}

fn column_types(statement: &Statement) -> Result<Vec<Type>, SqlError> {
    let columns = statement.columns().iter();
    columns.map(|column| checked_type(column.name(), column.type_()).cloned()).collect()
}

/// Refuses a column type that a copy cannot carry over: it knows integers, text and bytes.
fn checked_type<'kind>(column: &str, kind: &'kind Type) -> Result<&'kind Type, SqlError> {
    match *kind {
        Type::INT8 | Type::TEXT | Type::BYTEA => Ok(kind),
        _ => Err(SqlError::Damaged(format!("the column {column} has the unexpected type {kind}"))),
    }
}

fn value(row: &tokio_postgres::Row, column: usize) -> Result<Value, SqlError> {
    let Some(about) = row.columns().get(column) else {
        return Err(SqlError::Damaged("a row has too few columns".to_owned()));
    };
    let value = match *checked_type(about.name(), about.type_())? {
        Type::INT8 => rows::get::<Option<i64>>(row, column)?.map(Value::Integer),
        Type::BYTEA => rows::get::<Option<Vec<u8>>>(row, column)?.map(Value::Blob),
        _ => rows::get::<Option<String>>(row, column)?.map(Value::Text),
    };
    Ok(value.unwrap_or(Value::Null))
}

impl From<Value> for SqlValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(number),
            Value::Text(text) => Self::Text(text),
            Value::Blob(bytes) => Self::Bytes(bytes),
        }
    }
}

fn truncate(name: &str) -> String {
    format!("TRUNCATE {name} CASCADE")
}

fn list(columns: &[String]) -> String {
    columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
