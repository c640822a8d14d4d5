//! API keys: creation, lookup, rotation and revocation.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::{KeyId, PersonName};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;

use super::signing::caller_of;
use super::{AccessControl, AuthenticationMethod, Caller, CallerCheckResult, RequestSigningKey};
use crate::context::CommitResultExt as _;
use crate::error::EngineError;
use crate::ports::store::{AccessChange, ApiKey, Conflict, KeyExpiry, KeyKind, KeyRole, PreviousSecret};

/// Maximum number of valid signing keys. A signature does not name its key, so every key is tried.
const MAX_SIGNING_KEYS: usize = 64;

/// Properties that an operator chooses for an API key when creating it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKeyRequest {
    pub name: Option<String>,
    pub person: Option<PersonName>,
    pub scopes: KeyScopes,
    pub role: KeyRole,
    /// Expiry rule of the new key; `None` if the key does not expire.
    pub term: Option<KeyExpiry>,
}

/// Error for a key that expired at `at`.
#[must_use]
pub fn key_expired(at: Timestamp) -> EngineError {
    let message = format!(
        "the key expired at {at}; the operator of this server can renew it with `nuncio key rotate ID_OR_NAME`"
    );
    EngineError::new(ErrorCode::KeyExpired, message)
}

impl AccessControl {
    /// Authenticates a bearer key: its caller, an expired key, or an invalid credential.
    #[must_use]
    pub fn identity_by_key(&self, key: &str) -> CallerCheckResult {
        // The key is looked up by digest, so that timing reveals nothing about existing keys.
        let digest = Digest::of_bytes(key.as_bytes());
        let Some(found) = self.table.snapshot().keys.get(&digest).cloned() else { return CallerCheckResult::Invalid };
        let now = self.context.now();
        match found.expires_at.filter(|_| found.is_expired(now)) {
            _ if !found.has_secret(&digest, now) => CallerCheckResult::Invalid,
            Some(end) => CallerCheckResult::Expired(end),
            None => CallerCheckResult::Known(caller_of(&found, AuthenticationMethod::Key)),
        }
    }

    /// The caller that a valid bearer key identifies.
    #[must_use]
    pub fn caller_by_key(&self, key: &str) -> Option<Caller> {
        match self.identity_by_key(key) {
            CallerCheckResult::Known(caller) => Some(caller),
            CallerCheckResult::Missing | CallerCheckResult::Invalid | CallerCheckResult::Expired(_) => None,
        }
    }

    #[must_use]
    pub fn valid_key(&self, id: &KeyId) -> Option<Arc<ApiKey>> {
        self.table.snapshot().keys_by_id.get(id).filter(|key| !key.is_expired(self.context.now())).cloned()
    }

    /// The key of a caller, by whose name or creation time people know their app; `None` without a key.
    #[must_use]
    pub(crate) fn key_of(&self, caller: &Principal) -> Option<Arc<ApiKey>> {
        let Principal::Key(id) = caller else { return None };
        self.table.snapshot().keys_by_id.get(id).cloned()
    }

    /// Signing keys including expired ones; [`RequestSigningKey::is_valid`] tells them apart.
    #[must_use]
    pub fn signing_keys(&self) -> Arc<[RequestSigningKey]> {
        Arc::clone(&self.table.snapshot().signing)
    }

    /// Creates an API key. The secret is returned only here.
    pub async fn create_key(&self, new: NewApiKeyRequest) -> Result<(ApiKey, String), EngineError> {
        self.store_new_key(&KeyKind::Bearer, new).await
    }

    /// Creates a request signing key. The secret is returned only here.
    pub async fn create_signing_key(&self, new: NewApiKeyRequest) -> Result<(ApiKey, String), EngineError> {
        self.check_room_for_signing_key()?;
        self.store_new_key(&KeyKind::Signing { sealed: String::new() }, new).await
    }

    async fn store_new_key(&self, kind: &KeyKind, new: NewApiKeyRequest) -> Result<(ApiKey, String), EngineError> {
        let id = KeyId::parse(&self.context.random_name("key_"))?;
        let (kind, secret) = self.new_secret(kind, &id);
        let now = self.context.now();
        let key = ApiKey {
            id,
            kind,
            name: new.name,
            digest: Digest::of_bytes(secret.as_bytes()),
            scopes: new.scopes,
            role: new.role,
            person: new.person,
            created_at: now,
            rotated_at: None,
            expires_at: new.term.map(|term| end_after(term, now)).transpose()?,
            lifetime_seconds: new.term.and_then(KeyExpiry::lifetime_seconds),
            previous: None,
            revoked_at: None,
        };
        self.context.commit_one(AccessChange::CreateKey(key.clone())).await?;
        self.access_changed().await?;
        Ok((key, secret))
    }

    /// Gives a key, found by id or name, a new secret, which is returned only here. Its id, grants, sessions and links
    /// stay. The previous secret stops working at once, or after `overlap`, but never later than the key would have
    /// expired. An overlap is refused while that of an earlier rotation lasts, because a key has only one previous
    /// secret. Without a new `term`, the key's own term starts again.
    pub async fn rotate_key(
        &self,
        which: &str,
        term: Option<KeyExpiry>,
        overlap: Duration,
    ) -> Result<(ApiKey, String), EngineError> {
        let old = self.find_key(which, "rotate").await?;
        let now = self.context.now();
        if !overlap.is_zero() {
            check_no_earlier_overlap(&old, now)?;
        }
        let term = term.or_else(|| KeyExpiry::of(&old));
        let expires_at = term.map(|term| end_after(term, now)).transpose()?;
        // Renewing an expired signing key or keeping its previous secret adds a secret that counts towards the limit.
        if matches!(old.kind, KeyKind::Signing { .. }) && (old.is_expired(now) || !overlap.is_zero()) {
            self.check_room_for_signing_key()?;
        }
        let (kind, secret) = self.new_secret(&old.kind, &old.id);
        // A new expiry must not extend the previous secret.
        let until = [Some(now.after(overlap)), old.expires_at].into_iter().flatten().min().filter(|end| now < *end);
        let previous = until.map(|until| PreviousSecret { digest: old.digest, kind: old.kind.clone(), until });
        let replaced = old.digest;
        let key = ApiKey {
            kind,
            digest: Digest::of_bytes(secret.as_bytes()),
            rotated_at: Some(now),
            expires_at,
            lifetime_seconds: term.and_then(KeyExpiry::lifetime_seconds),
            previous,
            ..old
        };
        let change = AccessChange::RotateKey { key: key.clone(), replaced };
        if !self.context.commit_one(change).await.made_unless(Conflict::Moved)? {
            let message = format!("the key {} was rotated or revoked in the meantime; see `nuncio key list`", key.id);
            return Err(EngineError::new(ErrorCode::KeyNotFound, message));
        }
        self.access_changed().await?;
        Ok((key, secret))
    }

    /// Lists the API keys without their secrets.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, EngineError> {
        Ok(self.store.keys().await?)
    }

    /// Revokes a key, found by id or name.
    pub async fn revoke_key(&self, which: &str) -> Result<ApiKey, EngineError> {
        let key = self.find_key(which, "revoke").await?;
        let at = self.context.now();
        self.context.commit_one(AccessChange::RevokeKey { id: key.id.clone(), at }).await?;
        self.access_changed().await?;
        Ok(ApiKey { revoked_at: Some(at), ..key })
    }

    /// Finds the one unrevoked key with the id or name `which`. `action` names the operation in the error message.
    async fn find_key(&self, which: &str, action: &str) -> Result<ApiKey, EngineError> {
        let keys = self.store.keys().await?;
        let matching: Vec<_> = keys
            .into_iter()
            .filter(|key| key.revoked_at.is_none())
            .filter(|key| key.id.as_str() == which || key.name.as_deref() == Some(which))
            .collect();
        match <[ApiKey; 1]>::try_from(matching) {
            Ok([key]) => Ok(key),
            Err(none) if none.is_empty() => {
                let message = format!("no valid key has the id or name {which:?}; `nuncio key list` shows them");
                Err(EngineError::new(ErrorCode::KeyNotFound, message))
            }
            Err(several) => {
                let ids: Vec<_> = several.iter().map(|key| key.id.as_str()).collect();
                let message = format!("several keys are named {which:?}; {action} one by its id: {}", ids.join(", "));
                Err(EngineError::new(ErrorCode::KeyNotFound, message))
            }
        }
    }

    /// Creates a secret for a key of this kind; returns it with the kind as stored.
    fn new_secret(&self, kind: &KeyKind, id: &KeyId) -> (KeyKind, String) {
        let random = |prefix| self.context.random_name(prefix) + &self.context.random_name("");
        match kind {
            KeyKind::Bearer => (KeyKind::Bearer, random("nk_")),
            KeyKind::Signing { .. } => {
                let secret = random("nsk_");
                (KeyKind::Signing { sealed: RequestSigningKey::seal(&self.context, id, &secret) }, secret)
            }
        }
    }

    fn check_room_for_signing_key(&self) -> Result<(), EngineError> {
        let now = self.context.now();
        if self.signing_keys().iter().filter(|key| key.is_valid(now)).count() < MAX_SIGNING_KEYS {
            return Ok(());
        }
        let message = format!(
            "there are {MAX_SIGNING_KEYS} valid signing keys, the maximum; revoke one with `nuncio key revoke`"
        );
        Err(EngineError::new(ErrorCode::BadRequest, message))
    }
}

/// Refuses an overlap that would end the one of an earlier rotation.
fn check_no_earlier_overlap(key: &ApiKey, now: Timestamp) -> Result<(), EngineError> {
    let Some(until) = key.previous.as_ref().map(|previous| previous.until).filter(|until| now < *until) else {
        return Ok(());
    };
    let message = format!(
        "the previous secret of the key {} is still valid, until {until}, and another overlap would end it now; rotate \
         after that time, or without --overlap, which ends both old secrets at once",
        key.id
    );
    Err(EngineError::new(ErrorCode::BadRequest, message))
}

/// Expiry of a secret created now; an error if the expiry is already past.
fn end_after(term: KeyExpiry, now: Timestamp) -> Result<Timestamp, EngineError> {
    let end = term.end(now);
    if now < end {
        return Ok(end);
    }
    let message = match term {
        KeyExpiry::Seconds(_) => {
            "a key cannot expire when it is created; give a longer time, such as `--expires 30d`".to_owned()
        }
        KeyExpiry::Until(_) => {
            format!("{end} is in the past, so the key would have expired already; give a later time with `--expires`")
        }
    };
    Err(EngineError::new(ErrorCode::BadRequest, message))
}
