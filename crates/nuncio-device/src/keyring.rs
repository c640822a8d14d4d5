//! Client of the system keyring: Secret Service over D-Bus (GNOME Keyring, KWallet, KeePassXC).
//!
//! Protocol: <https://specifications.freedesktop.org/secret-service-spec/latest/>

use std::future::Future;
use std::time::Duration;

use crate::tools::Desktop;
use crate::tools::dbus::{Arg, Bus, BusError, Object, Secret};

const SERVICE: &str = "org.freedesktop.secrets";
const ITEM: &str = "org.freedesktop.Secret.Item";

const SECRETS: Object<'static> =
    Object { service: SERVICE, path: "/org/freedesktop/secrets", interface: "org.freedesktop.Secret.Service" };

/// Attribute of every item stored by Nuncio.
const APPLICATION: (&str, &str) = ("application", "nuncio-device");

/// How long a call may take.
const CALL: Duration = Duration::from_secs(10);
/// Time for the person to unlock the keyring.
const UNLOCK: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// No keyring runs in this session.
    #[error("there is no keyring in this session: {0}")]
    Absent(String),
    #[error("the keyring is locked: unlock it and try again")]
    Locked,
    /// The keyring refused, or its answer cannot be parsed.
    #[error("the keyring failed: {0}")]
    Failed(String),
}

impl From<BusError> for KeyringError {
    fn from(error: BusError) -> Self {
        match error {
            BusError::Closed(_) | BusError::Absent(_) => Self::Absent(error.to_string()),
            BusError::Refused { .. } | BusError::Unreadable => Self::Failed(error.to_string()),
        }
    }
}

/// Session with the keyring of the logged-in person.
#[derive(Debug)]
pub struct Keyring {
    bus: Bus,
    session: String,
}

impl Keyring {
    /// Opens a session.
    ///
    /// # Errors
    /// No keyring runs, or it does not answer.
    pub async fn open(desktop: &Desktop) -> Result<Self, KeyringError> {
        let none = || KeyringError::Absent("no session bus is named".to_owned());
        let address = desktop.session_bus().ok_or_else(none)?;
        within(CALL, async {
            let mut bus = Bus::open(&address).await?;
            // The secret crosses the session bus unencrypted: only processes of the same account can listen there, and
            // those can ask the keyring themselves.
            let arguments = vec![Arg::text("plain"), Arg::variant(Arg::text(""))];
            match bus.call(SECRETS, "OpenSession", arguments).await?.as_slice() {
                [_, Arg::Path(session)] => Ok(Self { session: session.clone(), bus }),
                _ => Err(BusError::Unreadable.into()),
            }
        })
        .await
    }

    /// Stores a secret under an id, in the person's default collection.
    ///
    /// # Errors
    /// There is no such collection, or it stays locked.
    pub async fn store(&mut self, id: &str, label: &str, secret: &[u8]) -> Result<(), KeyringError> {
        let answer = within(CALL, self.call(SECRETS, "ReadAlias", vec![Arg::text("default")])).await?;
        let collection = match answer.as_slice() {
            [Arg::Path(path)] if path != "/" => path.clone(),
            _ => return Err(KeyringError::Failed("it has no default collection".to_owned())),
        };
        self.unlock(&collection).await?;
        let properties = vec![
            (format!("{ITEM}.Label"), Arg::text(label)),
            (format!("{ITEM}.Attributes"), Arg::TextMap(attributes(id))),
        ];
        let secret = Secret { session: self.session.clone(), value: secret.to_vec() };
        let object = Object { service: SERVICE, path: &collection, interface: "org.freedesktop.Secret.Collection" };
        let arguments = vec![Arg::Map(properties), Arg::Secret(secret), Arg::Bool(true)];
        let answer = within(CALL, self.call(object, "CreateItem", arguments)).await?;
        match answer.as_slice() {
            [Arg::Path(_), Arg::Path(prompt)] => self.confirm(prompt.clone()).await,
            _ => Err(BusError::Unreadable.into()),
        }
    }

    /// Secret stored under `id`; `None` if there is none.
    ///
    /// # Errors
    /// The keyring stays locked, or fails.
    pub async fn load(&mut self, id: &str) -> Result<Option<Vec<u8>>, KeyringError> {
        let Some(item) = self.find(id).await? else { return Ok(None) };
        self.unlock(&item).await?;
        let session = Arg::Path(self.session.clone());
        let object = Object { service: SERVICE, path: &item, interface: ITEM };
        let mut answer = within(CALL, self.call(object, "GetSecret", vec![session])).await?;
        match answer.pop() {
            Some(Arg::Secret(secret)) => Ok(Some(secret.value)),
            _ => Err(BusError::Unreadable.into()),
        }
    }

    /// Deletes the secret stored under `id`, if there is one.
    ///
    /// # Errors
    /// The keyring stays locked, or fails.
    pub async fn delete(&mut self, id: &str) -> Result<(), KeyringError> {
        let Some(item) = self.find(id).await? else { return Ok(()) };
        let object = Object { service: SERVICE, path: &item, interface: ITEM };
        let answer = within(CALL, self.call(object, "Delete", Vec::new())).await?;
        match answer.as_slice() {
            [Arg::Path(prompt)] => self.confirm(prompt.clone()).await,
            _ => Err(BusError::Unreadable.into()),
        }
    }

    async fn find(&mut self, id: &str) -> Result<Option<String>, KeyringError> {
        let wanted = vec![Arg::TextMap(attributes(id))];
        let answer = within(CALL, self.call(SECRETS, "SearchItems", wanted)).await?;
        match answer.as_slice() {
            [Arg::Paths(unlocked), Arg::Paths(locked)] => Ok(unlocked.iter().chain(locked).next().cloned()),
            _ => Err(BusError::Unreadable.into()),
        }
    }

    /// Unlocks a collection or an item; the keyring may prompt the person.
    async fn unlock(&mut self, path: &str) -> Result<(), KeyringError> {
        let answer = within(CALL, self.call(SECRETS, "Unlock", vec![Arg::Paths(vec![path.to_owned()])])).await?;
        match answer.as_slice() {
            [Arg::Paths(_), Arg::Path(prompt)] => self.confirm(prompt.clone()).await,
            _ => Err(BusError::Unreadable.into()),
        }
    }

    /// Shows a prompt of the keyring and waits for the person's answer. The path `/` means that no prompt is needed.
    async fn confirm(&mut self, prompt: String) -> Result<(), KeyringError> {
        if prompt == "/" {
            return Ok(());
        }
        let object = Object { service: SERVICE, path: &prompt, interface: "org.freedesktop.Secret.Prompt" };
        let answered = async {
            self.bus.listen(object).await?;
            self.bus.call(object, "Prompt", vec![Arg::text("")]).await?;
            Ok(self.bus.wait_signal(object, "Completed").await?)
        };
        let answer = within(UNLOCK, answered).await.map_err(|error| match error {
            KeyringError::Failed(_) => KeyringError::Locked,
            other => other,
        })?;
        match answer.first() {
            Some(Arg::Bool(false)) => Ok(()),
            _ => Err(KeyringError::Locked),
        }
    }

    async fn call(&mut self, object: Object<'_>, method: &str, body: Vec<Arg>) -> Result<Vec<Arg>, KeyringError> {
        Ok(self.bus.call(object, method, body).await?)
    }
}

async fn within<T>(time: Duration, answer: impl Future<Output = Result<T, KeyringError>>) -> Result<T, KeyringError> {
    let late = |_| KeyringError::Failed("it did not answer in time".to_owned());
    tokio::time::timeout(time, answer).await.map_err(late)?
}

fn attributes(id: &str) -> Vec<(String, String)> {
    [APPLICATION, ("id", id)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
