//! The keys of the server in a copy of a store.

use nuncio_engine::ports::store::{KeyringEntry, StoreError};

use super::{Row, StoreSnapshot, TableShape, Value, all_rows};

/// Reads the keys of a store without opening it.
pub async fn read_stored_keyring(store: &mut dyn StoreSnapshot) -> Result<Vec<KeyringEntry>, StoreError> {
    let Some(table) = store.tables().iter().find(|table| table.name == "keyring").cloned() else {
        return Ok(Vec::new());
    };
    Ok(all_rows(store, &table).await?.iter().filter_map(|row| keyring_entry(&table, row)).collect())
}

/// Reads a row of the table `keyring`; `None` if it has another form.
#[must_use]
pub fn keyring_entry(table: &TableShape, row: &Row) -> Option<KeyringEntry> {
    let text = |column: &str| Some(row.get(table.column(column)?)?.as_text()?.to_owned());
    let Some(Value::Integer(revision)) = row.get(table.column("revision")?) else { return None };
    Some(KeyringEntry { name: text("name")?, sealed: text("sealed")?, revision: u64::try_from(*revision).ok()? })
}
