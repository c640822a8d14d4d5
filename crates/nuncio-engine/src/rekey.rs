//! Replacement of the secret key: everything that is encrypted under the previous key is encrypted again.

use std::fmt;

use nuncio_core::session::{SessionSettings, StoredOptionValue};

use crate::access::signing_key_context;
use crate::accounts::webhook_secret_context;
use crate::context::EngineContext;
use crate::converse::secret_place;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::store::{
    AccessChange, ApiKey, Change, KeyKind, RelayChange, SealedColumn, SealedValueChange, SessionChange,
};
use crate::secret_cipher::KEY_BYTES;

/// Number of values per commit.
const BATCH: usize = 100;

/// The record name to which an entry of the keyring is encrypted.
#[must_use]
pub fn keyring_place(name: &str) -> String {
    format!("keyring/{name}")
}

impl Engine {
    /// From now on, secrets are encrypted under `key`; what is encrypted under the previous key can still be read until
    /// this process ends.
    pub fn change_secret_key(&self, key: &[u8; KEY_BYTES]) {
        self.context().cipher.replace_key(key);
    }

    /// Encrypts again, in small commits, what the store has under the previous key. Returns the number of values, which
    /// is 0 when nothing is left.
    pub async fn reseal_secrets(&self) -> Result<u64, EngineError> {
        let context = self.context();
        let mut count = 0;
        for column in SealedColumn::ALL {
            let mut after: Option<String> = None;
            loop {
                let values = context.store.sealed_values(column, after.as_deref(), BATCH).await?;
                let Some((last, _)) = values.last() else { break };
                after = Some(last.clone());
                let changes: Vec<Change> = values
                    .into_iter()
                    .filter_map(|(id, from)| {
                        let to = resealed(context, column, &id, &from)?;
                        Some(Change::from(SealedValueChange { column, id, from, to }))
                    })
                    .collect();
                count += changes.len() as u64;
                if !changes.is_empty() {
                    context.commit(changes).await?;
                }
            }
        }
        Ok(count)
    }
}

/// A value of a column, encrypted again; `None` if it is under the current key, or under none that is known.
fn resealed(context: &EngineContext, column: SealedColumn, id: &str, value: &str) -> Option<String> {
    match column {
        SealedColumn::Keyring => context.reseal(&keyring_place(id), value),
        SealedColumn::ApiKey | SealedColumn::PreviousApiKey => context.reseal(&signing_key_context(id), value),
        SealedColumn::Webhook => {
            let agent = id.strip_prefix("agent:").unwrap_or(id);
            context.reseal(&webhook_secret_context(agent), value)
        }
        SealedColumn::SessionSettings => {
            let mut settings: SessionSettings = serde_json::from_str(value).ok()?;
            let changed = reseal_settings(context, id, &mut settings);
            changed.then(|| serde_json::to_string(&settings).expect("settings are JSON"))
        }
    }
}

fn reseal_settings(
    context: &EngineContext,
    session: &(impl fmt::Display + ?Sized),
    settings: &mut SessionSettings,
) -> bool {
    let mut changed = false;
    for (name, value) in &mut settings.options {
        if let StoredOptionValue::Sealed(sealed) = value
            && let Some(new) = context.reseal(&secret_place(session, name), sealed)
        {
            *sealed = new;
            changed = true;
        }
    }
    changed
}

impl EngineContext {
    fn reseal(&self, place: &str, sealed: &str) -> Option<String> {
        self.cipher.reseal(&*self.entropy, place, sealed)
    }

    /// Encrypts again what a change would store under a previous key, because it was read before the key was replaced.
    pub(crate) fn reseal_change(&self, change: &mut Change) {
        match change {
            Change::Access(AccessChange::CreateKey(key) | AccessChange::RotateKey { key, .. }) => {
                self.reseal_api_key(key);
            }
            Change::Relay(RelayChange::PutWebhook(webhook)) => {
                if let Some(secret) = self.reseal(&webhook_secret_context(&webhook.agent), &webhook.secret) {
                    webhook.secret = secret;
                }
            }
            Change::Session(SessionChange::BeginTurn { session, settings: Some(settings), .. }) => {
                reseal_settings(self, session, settings);
            }
            Change::Session(SessionChange::Create { session, .. }) => {
                let id = session.id.clone();
                reseal_settings(self, &id, &mut session.settings);
            }
            _ => {}
        }
    }

    fn reseal_api_key(&self, key: &mut ApiKey) {
        let place = signing_key_context(&key.id);
        for kind in std::iter::once(&mut key.kind).chain(key.previous.as_mut().map(|previous| &mut previous.kind)) {
            if let KeyKind::Signing { sealed } = kind
                && let Some(new) = self.reseal(&place, sealed)
            {
                *sealed = new;
            }
        }
    }
}
