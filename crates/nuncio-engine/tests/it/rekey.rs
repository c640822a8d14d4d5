//! Replacement of the secret key: every column with sealed values, and values that were read before.

use std::collections::BTreeMap;
use std::time::Duration;

use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::{AgentId, AgentName, OptionName, SessionId};
use nuncio_core::notification::WebhookState;
use nuncio_core::principal::Principal;
use nuncio_core::session::{Session, SessionSettings, StoredOptionValue};
use nuncio_core::time::Timestamp;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_engine::ports::Store as _;
use nuncio_engine::ports::store::relay::Webhook;
use nuncio_engine::ports::store::{
    AccessStore as _, KeyKind, KeyRole, KeyringChange, KeyringEntry, RelayChange, SealedColumn, SealedValueStore as _,
    SessionChange,
};
use nuncio_engine::secret_cipher::SecretCipher;

use super::world::{RandomEntropy, TestEngine};

/// The key of the test engine.
const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];

fn signing_key() -> NewApiKeyRequest {
    NewApiKeyRequest {
        name: Some("till".to_owned()),
        person: None,
        scopes: KeyScopes::All,
        role: KeyRole::App,
        term: None,
    }
}

/// Seals a value in each column under the old key.
async fn fill(world: &TestEngine) {
    let old = SecretCipher::new(&OLD);
    let seal = |place: &str| old.seal(&RandomEntropy, place, "secret");
    let session = SessionId::parse("ses_1").unwrap();
    let option = OptionName::parse("apiKey").unwrap();
    let sealed = StoredOptionValue::Sealed(seal("ses_1/apiKey"));
    let settings = SessionSettings { options: BTreeMap::from([(option, sealed)]), ..SessionSettings::default() };
    let session = Session {
        id: session,
        owner: Principal::Local,
        agent: AgentName::parse("desk").unwrap(),
        settings,
        pending: Vec::new(),
        turns: 0,
        running: false,
        next_message: 0,
        summary: None,
        created_at: Timestamp::from_millis(1),
    };
    let webhook = Webhook {
        agent: AgentId::parse("helper").unwrap(),
        secret: seal("webhook/helper"),
        state: WebhookState::Reachable,
        failing_since: None,
        probe_at: None,
    };
    let entry = KeyringEntry { name: "people".to_owned(), sealed: seal("keyring/people"), revision: 1 };
    let changes = vec![
        SessionChange::Create { session, messages: Vec::new() }.into(),
        RelayChange::PutWebhook(webhook).into(),
        KeyringChange::Create(entry).into(),
    ];
    world.store.commit(changes).await.unwrap();
    let access = world.engine.access();
    access.create_signing_key(signing_key()).await.unwrap();
    access.rotate_key("till", None, Duration::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn every_sealed_value_is_under_the_new_key_alone_after_a_replacement() {
    let world = TestEngine::new().await;
    fill(&world).await;
    let read = async |column| world.store.sealed_values(column, None, 10).await.unwrap();
    let mut before = Vec::new();
    for column in SealedColumn::ALL {
        let values = read(column).await;
        assert_eq!(values.len(), 1, "{column:?}");
        before.push(values);
    }
    world.engine.change_secret_key(&NEW);
    assert_eq!(world.engine.reseal_secrets().await.unwrap(), 5);
    assert_eq!(world.engine.reseal_secrets().await.unwrap(), 0, "nothing is left");
    let (old, new) = (SecretCipher::new(&OLD), SecretCipher::new(&NEW));
    for (column, before) in SealedColumn::ALL.into_iter().zip(before) {
        let (id, value) = read(column).await.remove(0);
        assert_ne!(value, before[0].1, "{column:?}");
        let (place, sealed) = match column {
            SealedColumn::Keyring => ("keyring/people".to_owned(), value),
            SealedColumn::ApiKey | SealedColumn::PreviousApiKey => (format!("keys/{id}"), value),
            SealedColumn::Webhook => ("webhook/helper".to_owned(), value),
            SealedColumn::SessionSettings => {
                let settings: SessionSettings = serde_json::from_str(&value).unwrap();
                let Some(StoredOptionValue::Sealed(sealed)) = settings.options.into_values().next() else { panic!() };
                ("ses_1/apiKey".to_owned(), sealed)
            }
        };
        assert!(new.open(&place, &sealed).is_some(), "{column:?}");
        assert_eq!(old.open(&place, &sealed), None, "{column:?}");
    }
}

#[tokio::test]
async fn value_that_was_read_before_the_replacement_is_stored_under_the_new_key() {
    let world = TestEngine::new().await;
    let access = world.engine.access();
    access.create_signing_key(signing_key()).await.unwrap();
    world.engine.change_secret_key(&NEW);
    // The previous secret is copied from what the engine read before.
    access.rotate_key("till", None, Duration::from_secs(60)).await.unwrap();
    let [key] = world.store.keys().await.unwrap().try_into().unwrap();
    let new = SecretCipher::new(&NEW);
    for kind in [key.kind, key.previous.unwrap().kind] {
        let KeyKind::Signing { sealed } = kind else { panic!() };
        assert!(new.open(&format!("keys/{}", key.id), &sealed).is_some());
    }
}

#[tokio::test]
async fn reading_and_signing_continue_between_the_new_key_and_the_last_value() {
    let world = TestEngine::new().await;
    fill(&world).await;
    world.engine.change_secret_key(&NEW);
    world.engine.access().load().await.unwrap();
    assert_eq!(world.engine.access().signing_keys().len(), 2, "the secret and the previous one");
}
