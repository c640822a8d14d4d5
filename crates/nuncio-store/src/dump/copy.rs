//! Copies a store into an empty one, table by table. An interrupted copy is continued at the table where it ended.

use std::collections::BTreeMap;

use nuncio_engine::ports::store::{StoreError, info};

use super::{Row, StoreSnapshot, StoreTarget, TableDigest, TableHasher, TableShape, Value, all_rows, table_digest};

/// A table of the target that equals that of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    pub name: String,
    pub rows: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the target is not empty")]
    NotEmpty,
    #[error("the stores have different schemas ({from} and {to}); open both with this version of Nuncio first")]
    OtherSchema { from: u32, to: u32 },
    #[error("the table {0} of the target differs from the source after it was copied")]
    Differs(String),
}

/// Name of the table in which a store says something about itself.
pub(crate) const INFO_TABLE: &str = "store_info";

/// Prefix of the entries of `store_info` that name a copied table, with its digest.
const COPIED: &str = "copied/";

/// Copies all tables except `store_info`. `origin` names the source: only a copy from it can be continued. The target is
/// not usable until [`finish_copy`].
pub async fn copy_store(
    from: &mut dyn StoreSnapshot,
    to: &mut dyn StoreTarget,
    origin: &str,
) -> Result<Vec<CopiedTable>, CopyError> {
    if (from.schema_version(), from.tables()) != (to.schema_version(), to.tables()) {
        return Err(CopyError::OtherSchema { from: from.schema_version(), to: to.schema_version() });
    }
    let tables = from.tables().to_vec();
    let mut marks = begin_copy(to, &tables, origin).await?;
    let mut copied = Vec::new();
    for table in tables.iter().filter(|table| table.name != INFO_TABLE) {
        let mark = format!("{COPIED}{}", table.name);
        let mut digest = table_digest(from, table).await?;
        let is_marked = marks.get(&mark).is_some_and(|marked| *marked == digest.digest.to_string());
        if !is_marked || target_digest(to, table).await? != digest {
            digest = copy_table(from, to, table).await?;
            to.commit().await?;
            if target_digest(to, table).await? != digest {
                return Err(CopyError::Differs(table.name.clone()));
            }
            marks.insert(mark, digest.digest.to_string());
            replace_info(to, &tables, &marks).await?;
            to.commit().await?;
        }
        copied.push(CopiedTable { name: table.name.clone(), rows: digest.rows });
    }
    Ok(copied)
}

/// Makes the copy usable, as the last step of a copy.
pub async fn finish_copy(
    from: &mut dyn StoreSnapshot,
    to: &mut dyn StoreTarget,
    origin: &str,
) -> Result<(), StoreError> {
    let tables = from.tables().to_vec();
    let mut entries = read_info(from, &tables).await?;
    entries.retain(|name, _| name != info::MOVED_TO && name != info::ORIGIN);
    entries.insert(info::ORIGIN.to_owned(), origin.to_owned());
    replace_info(to, &tables, &entries).await?;
    to.commit().await
}

/// Marks an empty target as a copy in progress, or reads the marks of a copy that was interrupted.
async fn begin_copy(
    to: &mut dyn StoreTarget,
    tables: &[TableShape],
    origin: &str,
) -> Result<BTreeMap<String, String>, CopyError> {
    let mut snapshot = to.snapshot().await?;
    let marks = read_info(&mut *snapshot, tables).await?;
    match marks.get(info::COPYING_FROM) {
        Some(started) if started == origin => return Ok(marks),
        Some(_) => return Err(CopyError::NotEmpty),
        None => {}
    }
    for table in tables {
        if !snapshot.rows(table, None).await?.is_empty() {
            return Err(CopyError::NotEmpty);
        }
    }
    drop(snapshot);
    let marks = BTreeMap::from([(info::COPYING_FROM.to_owned(), origin.to_owned())]);
    replace_info(to, tables, &marks).await?;
    to.commit().await?;
    Ok(marks)
}

async fn copy_table(
    from: &mut dyn StoreSnapshot,
    to: &mut dyn StoreTarget,
    table: &TableShape,
) -> Result<TableDigest, StoreError> {
    to.clear(table).await?;
    let (mut hasher, mut after) = (TableHasher::default(), None::<Vec<Value>>);
    loop {
        let rows = from.rows(table, after.as_deref()).await?;
        let Some(last) = rows.last() else { return Ok(hasher.finish()) };
        after = Some(table.key_of(last));
        rows.iter().for_each(|row| hasher.add(row));
        to.insert(table, rows).await?;
    }
}

async fn target_digest(to: &mut dyn StoreTarget, table: &TableShape) -> Result<TableDigest, StoreError> {
    let mut snapshot = to.snapshot().await?;
    table_digest(&mut *snapshot, table).await
}

fn info_table(tables: &[TableShape]) -> Option<&TableShape> {
    tables.iter().find(|table| table.name == INFO_TABLE)
}

/// Reads the table `store_info`.
pub async fn read_info(
    store: &mut dyn StoreSnapshot,
    tables: &[TableShape],
) -> Result<BTreeMap<String, String>, StoreError> {
    let Some(table) = info_table(tables) else { return Ok(BTreeMap::new()) };
    let entry = |row: Row| match <[Value; 2]>::try_from(row) {
        Ok([Value::Text(name), Value::Text(value)]) => Some((name, value)),
        _ => None,
    };
    Ok(all_rows(store, table).await?.into_iter().filter_map(entry).collect())
}

/// Replaces the content of the table `store_info`, without a commit.
pub async fn replace_info(
    to: &mut dyn StoreTarget,
    tables: &[TableShape],
    entries: &BTreeMap<String, String>,
) -> Result<(), StoreError> {
    let Some(table) = info_table(tables) else { return Ok(()) };
    let row = |(name, value): (&String, &String)| vec![Value::Text(name.clone()), Value::Text(value.clone())];
    to.clear(table).await?;
    to.insert(table, entries.iter().map(row).collect()).await
}
