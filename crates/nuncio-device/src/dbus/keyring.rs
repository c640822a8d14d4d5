//! Client of the system keyring: Secret Service over D-Bus (GNOME Keyring, KWallet, KeePassXC).
//!
//! Protocol: <https://specifications.freedesktop.org/secret-service-spec/latest/>

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use zbus::wire::DynamicDeserialize;
use zbus::{DynamicType, ObjectPath, OwnedObjectPath, OwnedVariant, Variant};

use super::KeyringError;
use super::client::{DbusConnection, DbusError, DbusObject};
use crate::tools::DesktopEnvironment;

const SERVICE: &str = "org.freedesktop.secrets";
const ITEM: &str = "org.freedesktop.Secret.Item";

const SECRETS: DbusObject<'static> =
    DbusObject { service: SERVICE, path: "/org/freedesktop/secrets", interface: "org.freedesktop.Secret.Service" };

/// Object path by which the Secret Service says that there is no object.
const NO_OBJECT: &str = "/";

/// Attribute of every keyring item stored by Nuncio.
const APPLICATION: (&str, &str) = ("application", "nuncio-device");

const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the person to answer a prompt of the keyring.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(120);

impl From<DbusError> for KeyringError {
    fn from(error: DbusError) -> Self {
        match error {
            DbusError::Closed(_) | DbusError::Absent(_) => Self::Absent(error.to_string()),
            DbusError::Refused { .. } | DbusError::Unreadable => Self::Failed(error.to_string()),
        }
    }
}

/// D-Bus form of a secret: session, encryption parameters (empty), value and content type.
type DbusSecret = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

/// Session with the keyring of the logged-in person.
#[derive(Debug)]
pub struct Keyring {
    bus: DbusConnection,
    session: OwnedObjectPath,
}

impl Keyring {
    pub async fn open(desktop: &DesktopEnvironment) -> Result<Self, KeyringError> {
        let none = || KeyringError::Absent("the address of the session bus is not set".to_owned());
        let address = desktop.session_bus().ok_or_else(none)?;
        within(CALL_TIMEOUT, async {
            let bus = DbusConnection::open(&address).await?;
            // Secrets cross the session bus unencrypted: only processes of the same account can read the bus, and they
            // could ask the keyring themselves.
            let (_, session): (OwnedVariant, _) =
                bus.call(SECRETS, "OpenSession", &("plain", Variant::from(""))).await?;
            Ok(Self { bus, session })
        })
        .await
    }

    /// Stores a secret under an id in the person's default collection; replaces an earlier one.
    pub async fn store(&mut self, id: &str, label: &str, secret: &[u8]) -> Result<(), KeyringError> {
        let collection: OwnedObjectPath = self.call(SECRETS, "ReadAlias", &"default").await?;
        if collection.as_str() == NO_OBJECT {
            return Err(KeyringError::Failed("it has no default collection".to_owned()));
        }
        self.unlock(&collection).await?;
        let properties = HashMap::from([
            (format!("{ITEM}.Label"), Variant::from(label)),
            (format!("{ITEM}.Attributes"), Variant::from(attributes(id))),
        ]);
        let secret: DbusSecret =
            (self.session.clone(), Vec::new(), secret.to_vec(), "application/octet-stream".to_owned());
        let object = object(&collection, "org.freedesktop.Secret.Collection");
        let (_, prompt): (OwnedObjectPath, OwnedObjectPath) =
            self.call(object, "CreateItem", &(properties, secret, true)).await?;
        self.confirm(&prompt).await
    }

    /// Secret stored under `id`; `None` if there is none.
    pub async fn load(&mut self, id: &str) -> Result<Option<Vec<u8>>, KeyringError> {
        let Some(item) = self.find(id).await? else { return Ok(None) };
        self.unlock(&item).await?;
        let ((_, _, value, _),): (DbusSecret,) = self.call(object(&item, ITEM), "GetSecret", &self.session).await?;
        Ok(Some(value))
    }

    /// Deletes the secret stored under `id`, if there is one.
    pub async fn delete(&mut self, id: &str) -> Result<(), KeyringError> {
        let Some(item) = self.find(id).await? else { return Ok(()) };
        let prompt: OwnedObjectPath = self.call(object(&item, ITEM), "Delete", &()).await?;
        self.confirm(&prompt).await
    }

    async fn find(&self, id: &str) -> Result<Option<OwnedObjectPath>, KeyringError> {
        let (unlocked, locked): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) =
            self.call(SECRETS, "SearchItems", &attributes(id)).await?;
        Ok(unlocked.into_iter().chain(locked).next())
    }

    /// Unlocks a collection or an item; the keyring may prompt the person.
    async fn unlock(&self, path: &ObjectPath<'_>) -> Result<(), KeyringError> {
        let (_, prompt): (Vec<OwnedObjectPath>, OwnedObjectPath) = self.call(SECRETS, "Unlock", &vec![path]).await?;
        self.confirm(&prompt).await
    }

    /// Lets the keyring show its prompt, if it needs one, and waits for the person's answer.
    async fn confirm(&self, prompt: &ObjectPath<'_>) -> Result<(), KeyringError> {
        if prompt.as_str() == NO_OBJECT {
            return Ok(());
        }
        let object = object(prompt, "org.freedesktop.Secret.Prompt");
        let answered = async {
            let mut completed = self.bus.listen(object, "Completed").await?;
            let () = self.bus.call(object, "Prompt", &"").await?;
            let (dismissed, _): (bool, OwnedVariant) = completed.next().await?;
            Ok(dismissed)
        };
        match within(UNLOCK_TIMEOUT, answered).await {
            Ok(false) => Ok(()),
            Ok(true) | Err(KeyringError::Failed(_)) => Err(KeyringError::Locked),
            Err(other) => Err(other),
        }
    }

    async fn call<R: for<'d> DynamicDeserialize<'d>>(
        &self,
        object: DbusObject<'_>,
        method: &str,
        body: &(impl Serialize + DynamicType),
    ) -> Result<R, KeyringError> {
        within(CALL_TIMEOUT, async { Ok(self.bus.call(object, method, body).await?) }).await
    }
}

async fn within<T>(time: Duration, answer: impl Future<Output = Result<T, KeyringError>>) -> Result<T, KeyringError> {
    let late = |_| KeyringError::Failed("it did not answer in time".to_owned());
    tokio::time::timeout(time, answer).await.map_err(late)?
}

fn attributes(id: &str) -> HashMap<&str, &str> {
    HashMap::from([APPLICATION, ("id", id)])
}

fn object<'a>(path: &'a ObjectPath<'_>, interface: &'static str) -> DbusObject<'a> {
    DbusObject { service: SERVICE, path: path.as_str(), interface }
}
