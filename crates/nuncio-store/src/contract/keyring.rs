//! Contract checks for the keyring (nodes that create a key at once get the same one) and for what the store says about
//! itself.

use nuncio_engine::ports::store::{
    Change, Conflict, KeyringChange, KeyringEntry, SealedColumn, SealedValueChange, StoreInfoChange,
};

use super::{TestDatabase, assert_one_winner, made, race, refusal, sample};

fn entry(name: &str, sealed: &str, revision: u64) -> KeyringEntry {
    KeyringEntry { name: name.to_owned(), sealed: sealed.to_owned(), revision }
}

fn create(name: &str, sealed: &str) -> Change {
    KeyringChange::Create(entry(name, sealed, 1)).into()
}

fn replace(name: &str, sealed: &str, revision: u64) -> Change {
    KeyringChange::Replace(entry(name, sealed, revision)).into()
}

pub async fn keyring_entry_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.keyring_entry("people").await.unwrap(), None);
    made(&*store, [create("webhook", "w"), create("people", "p")]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(store.keyring_entry("people").await.unwrap(), Some(entry("people", "p", 1)));
    assert_eq!(store.keyring().await.unwrap(), [entry("people", "p", 1), entry("webhook", "w", 1)]);
}

pub async fn second_keyring_entry_of_a_name_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create("people", "first")]).await;
    assert_eq!(refusal(&*store, [create("other", "o"), create("people", "second")]).await, Conflict::Exists);
    assert_eq!(store.keyring().await.unwrap(), [entry("people", "first", 1)]);
}

pub async fn keyring_entry_is_replaced_only_from_the_revision_that_was_read(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(refusal(&*store, [replace("people", "b", 2)]).await, Conflict::Missing);
    made(&*store, [create("people", "a")]).await;
    for revision in [1, 3] {
        assert_eq!(refusal(&*store, [replace("people", "b", revision)]).await, Conflict::Moved);
    }
    made(&*store, [replace("people", "b", 2)]).await;
    assert_eq!(refusal(&*store, [replace("people", "c", 2)]).await, Conflict::Moved);
    assert_eq!(store.keyring().await.unwrap(), [entry("people", "b", 2)]);
}

pub async fn only_one_of_many_concurrent_keyring_entries_is_created(place: &dyn TestDatabase) {
    let store = place.open().await;
    let outcomes = race(&store, (0..32).map(|n| vec![create("people", &n.to_string())])).await;
    assert_one_winner(&outcomes, Conflict::Exists);
    let winner = outcomes.iter().position(Result::is_ok).unwrap();
    assert_eq!(store.keyring_entry("people").await.unwrap().unwrap().sealed, winner.to_string());
}

pub async fn store_info_is_put_replaced_and_removed(place: &dyn TestDatabase) {
    let store = place.open().await;
    let put =
        |name: &str, value: &str| Change::from(StoreInfoChange::Put { name: name.to_owned(), value: value.to_owned() });
    let remove = |name: &str| Change::from(StoreInfoChange::Remove { name: name.to_owned() });
    let read = async || store.store_info().await.unwrap().into_iter().collect::<Vec<_>>();
    let entry = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(read().await, []);
    made(&*store, [put("origin", "a"), put("moved_to", "b"), put("origin", "c")]).await;
    assert_eq!(read().await, [entry("moved_to", "b"), entry("origin", "c")]);
    made(&*store, [remove("origin")]).await;
    assert_eq!(refusal(&*store, [remove("origin")]).await, Conflict::Missing);
    assert_eq!(read().await, [entry("moved_to", "b")]);
}

pub async fn sealed_value_is_replaced_only_if_it_is_as_it_was_read(place: &dyn TestDatabase) {
    let store = place.open().await;
    let changed = |id: &str, from: &str, to: &str| {
        let (id, from, to) = (id.to_owned(), from.to_owned(), to.to_owned());
        Change::from(SealedValueChange { column: SealedColumn::Keyring, id, from, to })
    };
    made(&*store, [create("a", "1"), create("b", "2"), create("c", "3")]).await;
    // A value that changed meanwhile, or is gone, does not prevent the other changes.
    made(&*store, [changed("a", "1", "new"), changed("b", "other", "new"), changed("none", "1", "new")]).await;
    let read = async |after, limit| store.sealed_values(SealedColumn::Keyring, after, limit).await.unwrap();
    let pair = |id: &str, value: &str| (id.to_owned(), value.to_owned());
    assert_eq!(read(None, 10).await, [pair("a", "new"), pair("b", "2"), pair("c", "3")]);
    assert_eq!(read(Some("a"), 1).await, [pair("b", "2")]);
    assert_eq!(read(Some("c"), 10).await, []);
    // A sealed value keeps the revision of its key.
    made(&*store, [replace("a", "d", 2)]).await;
    for column in SealedColumn::ALL {
        store.sealed_values(column, None, 10).await.unwrap();
    }
}

pub async fn status_has_the_size_of_every_table_and_unfinished_work(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.status().await.unwrap().unfinished, []);
    made(&*store, [create("a", "1"), sample::create("s"), sample::begin("s", 1)]).await;
    let status = store.status().await.unwrap();
    let rows = |name: &str| status.tables.iter().find(|table| table.name == name).map(|table| table.rows);
    assert_eq!([rows("keyring"), rows("turns"), rows("grants")], [Some(1), Some(1), Some(0)]);
    assert!(status.tables.iter().all(|table| table.bytes > 0) && status.schema > 20);
    let kinds: Vec<_> = status.unfinished.iter().map(|work| (work.kind.as_str(), work.count)).collect();
    assert_eq!(kinds, [("turn", 1)]);
}
