//! Contract checks for agent accounts and manifests.

use nuncio_core::account::{AccountOwner, AgentAccount};
use nuncio_core::digest::Digest;
use nuncio_engine::ports::store::{Change, Conflict, ConsentChange, Store};

use super::consent_sample::{account, agent_id, create_account, name, name_history, publish, published};
use super::{TestDatabase, assert_one_winner, made, race, refusal};

fn update(account: &AgentAccount) -> Change {
    ConsentChange::UpdateAccount { account: account.clone(), words: format!("updated {}", account.id) }.into()
}

fn next(account: &AgentAccount) -> AgentAccount {
    AgentAccount { revision: account.revision + 1, ..account.clone() }
}

async fn found(store: &dyn Store, words: &[&str]) -> Vec<String> {
    let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
    store.public_accounts(&words, None, 10).await.unwrap().iter().map(|account| account.id.to_string()).collect()
}

pub async fn account_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let full = account("agt_1");
    let bare = AgentAccount {
        owner: AccountOwner::Operator,
        description: None,
        public: false,
        connection: nuncio_core::account::AgentConnection::Websocket,
        health_check_url: None,
        token: None,
        ..account("hotel")
    };
    made(&*store, [create_account(&full, ""), create_account(&bare, "")]).await;
    assert_eq!(store.account(&full.id).await.unwrap(), Some(full.clone()));
    assert_eq!(store.account(&bare.id).await.unwrap(), Some(bare));
    assert_eq!(store.account(&agent_id("agt_2")).await.unwrap(), None);
    let token = full.token.as_ref().unwrap().digest;
    assert_eq!(store.account_by_token(&token).await.unwrap(), Some(full));
    assert_eq!(store.account_by_token(&Digest::ZERO).await.unwrap(), None);
}

pub async fn duplicate_account_id_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [create_account(&account("agt_1"), "")]).await;
    let other = AgentAccount { token: None, ..account("agt_1") };
    assert_eq!(refusal(&*store, [create_account(&other, "")]).await, Conflict::Exists);
    assert_eq!(store.account(&agent_id("agt_1")).await.unwrap(), Some(account("agt_1")));
}

pub async fn account_changes_only_from_the_revision_that_was_read(place: &dyn TestDatabase) {
    let store = place.open().await;
    let first = account("agt_1");
    assert_eq!(refusal(&*store, [update(&next(&first))]).await, Conflict::Missing);
    made(&*store, [create_account(&first, "")]).await;
    let second = AgentAccount { token: None, display_name: "other".to_owned(), ..next(&first) };
    made(&*store, [update(&second)]).await;
    assert_eq!(refusal(&*store, [update(&next(&first))]).await, Conflict::Moved);
    assert_eq!(store.account(&first.id).await.unwrap(), Some(second));
    assert_eq!(store.account_by_token(&first.token.unwrap().digest).await.unwrap(), None);
}

pub async fn accounts_are_listed_by_owner(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ids = ["agt_c", "agt_a", "agt_b"];
    made(&*store, ids.map(|id| create_account(&account(id), ""))).await;
    let eves = AgentAccount { owner: AccountOwner::Person(name("eve")), ..account("agt_d") };
    made(&*store, [create_account(&eves, "")]).await;
    let ada = AccountOwner::Person(name("ada"));
    assert_eq!(store.accounts_of(&ada, None, 2).await.unwrap(), ["agt_a", "agt_b"].map(account));
    assert_eq!(store.accounts_of(&ada, Some(&agent_id("agt_b")), 2).await.unwrap(), [account("agt_c")]);
    assert_eq!(store.accounts_of(&AccountOwner::Operator, None, 2).await.unwrap(), []);
}

pub async fn public_accounts_are_found_by_search_words(place: &dyn TestDatabase) {
    let store = place.open().await;
    let hidden = AgentAccount { public: false, ..account("agt_h") };
    made(
        &*store,
        [
            create_account(&account("agt_a"), "books a room 房间"),
            create_account(&account("agt_b"), "books a table"),
            create_account(&hidden, "books a room"),
        ],
    )
    .await;
    assert_eq!(found(&*store, &[]).await, ["agt_a", "agt_b"]);
    assert_eq!(found(&*store, &["books", "room"]).await, ["agt_a"]);
    assert_eq!(found(&*store, &["房间"]).await, ["agt_a"]);
    for nothing in ["%", "_%", "x' OR 1=1", "*"] {
        assert_eq!(found(&*store, &[nothing]).await, [""; 0], "{nothing}");
    }
    let behind = store.public_accounts(&[], Some(&agent_id("agt_a")), 10).await.unwrap();
    assert_eq!(behind, [account("agt_b")]);
    assert_eq!(store.public_accounts(&[], None, 1).await.unwrap(), [account("agt_a")]);
}

pub async fn publication_stores_manifest_account_and_name_history_together(place: &dyn TestDatabase) {
    let store = place.open().await;
    let first = account("agt_1");
    made(&*store, [create_account(&first, ""), publish(&first, Some("{\"n\":1}"))]).await;
    let (second, version) = published(&first, Some("{\"n\":1}"));
    assert_eq!(store.account(&first.id).await.unwrap(), Some(second.clone()));
    assert_eq!(store.manifest(&first.id, 1).await.unwrap(), Some(version));
    assert_eq!(store.name_history(&first.id).await.unwrap(), Some(name_history(1)));
    assert_eq!(found(&*store, &["published"]).await, ["agt_1"]);
    assert_eq!(refusal(&*store, [publish(&first, Some("{\"n\":2}"))]).await, Conflict::Moved);
    assert_eq!(store.manifests(&first.id, u64::MAX, 10).await.unwrap().len(), 1);
    assert_eq!(store.manifest(&first.id, 2).await.unwrap(), None);
    assert_eq!(store.manifest(&first.id, u64::MAX).await.unwrap(), None);
    assert_eq!(store.name_history(&agent_id("agt_2")).await.unwrap(), None);
}

pub async fn manifest_versions_are_listed_newest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    let mut current = account("agt_1");
    made(&*store, [create_account(&current, "")]).await;
    for manifest in [Some("{\"n\":1}"), None, Some("{\"n\":3}")] {
        made(&*store, [publish(&current, manifest)]).await;
        current = published(&current, manifest).0;
    }
    let numbers = async |before, limit| -> Vec<(u64, bool)> {
        let versions = store.manifests(&current.id, before, limit).await.unwrap();
        versions.iter().map(|version| (version.version, version.manifest.is_some())).collect()
    };
    assert_eq!(numbers(u64::MAX, 2).await, [(3, true), (2, false)]);
    assert_eq!(numbers(2, 10).await, [(1, true)]);
    assert_eq!(store.account(&current.id).await.unwrap(), Some(current));
}

pub async fn only_one_of_many_concurrent_publications_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    let first = account("agt_1");
    made(&*store, [create_account(&first, "")]).await;
    let units = (0..16).map(|n| vec![publish(&first, Some(&format!("{{\"n\":{n}}}")))]);
    assert_one_winner(&race(&store, units).await, Conflict::Moved);
    assert_eq!(store.manifests(&first.id, u64::MAX, 99).await.unwrap().len(), 1);
}
