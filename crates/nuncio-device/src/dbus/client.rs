//! D-Bus client, and the two services that tools use: desktop notifications and GeoClue.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use zbus::address::Transport;
use zbus::address::transport::{Unix, UnixSocket};
use zbus::message::Type;
use zbus::wire::DynamicDeserialize;
use zbus::{Address, Connection, DBusError as _, DynamicType, MatchRule, MessageStream};
use zbus::{OwnedObjectPath, OwnedVariant, Variant};

use super::{no_desktop, no_location};
use crate::tools::LocalToolFailure;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DbusError {
    /// Connecting to the bus failed, or the bus closed the connection.
    #[error("the bus cannot be used: {0}")]
    Closed(String),
    /// The D-Bus service does not run and cannot be started.
    #[error("there is no {0}")]
    Absent(&'static str),
    #[error("{name}: {message}")]
    Refused { name: String, message: String },
    #[error("its reply has an unexpected type")]
    Unreadable,
}

impl DbusError {
    fn new(error: &zbus::Error, service: &'static str) -> Self {
        let (name, message) = match error {
            zbus::Error::MethodError(name, message, _) => (name.to_string(), message.clone()),
            zbus::Error::FDO(error) => (error.name().to_string(), error.description().map(str::to_owned)),
            zbus::Error::InputOutput(_) => return Self::Closed(error.to_string()),
            _ => return Self::Unreadable,
        };
        let kind = name.strip_prefix("org.freedesktop.DBus.Error.").unwrap_or_default();
        if matches!(kind, "ServiceUnknown" | "NameHasNoOwner" | "NoReply") || kind.starts_with("Spawn.") {
            return Self::Absent(service);
        }
        let plain = nuncio_core::text::plain;
        Self::Refused { name: plain(&name), message: plain(&message.unwrap_or_default()) }
    }
}

/// Target of a D-Bus call: a service, an object path and an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct DbusObject<'a> {
    pub(super) service: &'static str,
    pub(super) path: &'a str,
    pub(super) interface: &'static str,
}

#[derive(Debug)]
pub(super) struct DbusConnection(Connection);

impl DbusConnection {
    /// Connects to the first address in a `;` list that accepts. Only local sockets are tried.
    pub(super) async fn open(addresses: &str) -> Result<Self, DbusError> {
        let mut last = DbusError::Closed(format!("{addresses:?} has no local socket"));
        for socket in addresses.split(';').filter_map(socket) {
            let address = Address::new(Transport::Unix(Unix::new(socket)));
            match zbus::connection::Builder::address(address).build().await {
                Ok(connection) => return Ok(Self(connection)),
                Err(error) => last = DbusError::Closed(error.to_string()),
            }
        }
        Err(last)
    }

    pub(super) async fn call<R: for<'d> DynamicDeserialize<'d>>(
        &self,
        object: DbusObject<'_>,
        method: &str,
        body: &(impl Serialize + DynamicType),
    ) -> Result<R, DbusError> {
        let DbusObject { service, path, interface } = object;
        let reply = self.0.call_method(Some(service), path, Some(interface), method, body).await;
        let reply = reply.map_err(|error| DbusError::new(&error, service))?;
        reply.body().deserialize().map_err(|_| DbusError::Unreadable)
    }

    async fn property(&self, object: DbusObject<'_>, name: &str) -> Result<OwnedVariant, DbusError> {
        self.call(DbusObject { interface: PROPERTIES, ..object }, "Get", &(object.interface, name)).await
    }

    async fn set(&self, object: DbusObject<'_>, name: &str, value: Variant<'_>) -> Result<(), DbusError> {
        self.call(DbusObject { interface: PROPERTIES, ..object }, "Set", &(object.interface, name, value)).await
    }

    pub(super) async fn listen(&self, object: DbusObject<'_>, signal: &str) -> Result<DbusSignals, DbusError> {
        let DbusObject { service, path, interface } = object;
        let rule = MatchRule::builder().msg_type(Type::Signal).sender(service).path(path).interface(interface);
        let stream = match rule.member(signal).build() {
            Ok(rule) => MessageStream::for_match_rule(rule, &self.0, None).await,
            Err(error) => Err(error),
        };
        stream.map(DbusSignals).map_err(|error| DbusError::new(&error, service))
    }
}

pub(super) struct DbusSignals(MessageStream);

impl DbusSignals {
    pub(super) async fn next<R: for<'d> DynamicDeserialize<'d>>(&mut self) -> Result<R, DbusError> {
        match self.0.next().await {
            Some(Ok(message)) => message.body().deserialize().map_err(|_| DbusError::Unreadable),
            Some(Err(error)) => Err(DbusError::Closed(error.to_string())),
            None => Err(DbusError::Closed("it ended the connection".to_owned())),
        }
    }
}

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// Socket of a D-Bus address `unix:path=…` or `unix:abstract=…`. Parsed here, because zbus does not decode its escapes.
fn socket(address: &str) -> Option<UnixSocket> {
    let keys = address.strip_prefix("unix:")?;
    keys.split(',').find_map(|pair| match pair.split_once('=')? {
        ("path", value) => Some(UnixSocket::File(unescaped(value)?.into())),
        ("abstract", value) => Some(UnixSocket::Abstract(unescaped(value)?.into())),
        _ => None,
    })
}

/// Decodes percent escapes; `None` if they are invalid.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Desktop notification service: <https://specifications.freedesktop.org/notification-spec/latest/protocol.html>
const NOTIFICATIONS: DbusObject<'static> = DbusObject {
    service: "org.freedesktop.Notifications",
    path: "/org/freedesktop/Notifications",
    interface: "org.freedesktop.Notifications",
};

pub(crate) async fn notify(bus: &str, title: &str, body: &str, time: Duration) -> Result<(), LocalToolFailure> {
    match tokio::time::timeout(time, show(bus, title, body)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error @ (DbusError::Closed(_) | DbusError::Absent(_)))) => Err(no_desktop(&error.to_string())),
        Ok(Err(error)) => Err(LocalToolFailure::Failed(format!("the notification was not shown: {error}"))),
        Err(_) => Err(LocalToolFailure::Failed("the desktop did not show the notification in time".to_owned())),
    }
}

async fn show(bus: &str, title: &str, body: &str) -> Result<u32, DbusError> {
    let bus = DbusConnection::open(bus).await?;
    let can: Vec<String> = bus.call(NOTIFICATIONS, "GetCapabilities", &()).await?;
    // Agents may not send markup.
    let body = if can.iter().any(|word| word == "body-markup") { escaped(body) } else { body.to_owned() };
    let (actions, hints) = (Vec::<&str>::new(), HashMap::<&str, Variant<'_>>::new());
    bus.call(NOTIFICATIONS, "Notify", &("Nuncio", 0_u32, "", title, body, actions, hints, -1_i32)).await
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Location service GeoClue: <https://www.freedesktop.org/software/geoclue/docs/>
const GEOCLUE: &str = "org.freedesktop.GeoClue2";
const MANAGER: DbusObject<'static> = DbusObject {
    service: GEOCLUE,
    path: "/org/freedesktop/GeoClue2/Manager",
    interface: "org.freedesktop.GeoClue2.Manager",
};
/// Desktop id under which the system's location settings list Nuncio.
const DESKTOP_ID: &str = "nuncio";
const EXACT_ACCURACY: u32 = 8;

/// Location of this machine according to the system's location service (GeoClue).
pub(crate) async fn locate(bus: &str, time: Duration) -> Result<Value, LocalToolFailure> {
    match tokio::time::timeout(time, find_location(bus)).await {
        Ok(found) => found.map_err(|error| no_location(&error.to_string())),
        Err(_) => Err(LocalToolFailure::Failed(
            "the location service did not answer in time: write your location into place.toml".to_owned(),
        )),
    }
}

async fn find_location(bus: &str) -> Result<Value, DbusError> {
    let bus = DbusConnection::open(bus).await?;
    let client: OwnedObjectPath = bus.call(MANAGER, "GetClient", &()).await?;
    let client = DbusObject { service: GEOCLUE, path: client.as_str(), interface: "org.freedesktop.GeoClue2.Client" };
    bus.set(client, "DesktopId", DESKTOP_ID.into()).await?;
    bus.set(client, "RequestedAccuracyLevel", EXACT_ACCURACY.into()).await?;
    let mut updates = bus.listen(client, "LocationUpdated").await?;
    let () = bus.call(client, "Start", &()).await?;
    let (_, location): (OwnedObjectPath, OwnedObjectPath) = updates.next().await?;
    let location =
        DbusObject { service: GEOCLUE, path: location.as_str(), interface: "org.freedesktop.GeoClue2.Location" };
    let mut found = json!({"source": "system"});
    for (key, name) in [("latitude", "Latitude"), ("longitude", "Longitude"), ("accuracy_m", "Accuracy")] {
        let number = f64::try_from(bus.property(location, name).await?).map_err(|_| DbusError::Unreadable)?;
        found[key] = json!(number);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_unix_socket_bus_addresses_are_accepted() {
        assert_eq!(socket("unix:path=/run/user/1/bus,guid=0f"), Some(UnixSocket::File("/run/user/1/bus".into())));
        assert_eq!(socket("unix:guid=0f,abstract=/tmp/a%20b"), Some(UnixSocket::Abstract("/tmp/a b".into())));
        for other in ["tcp:host=example.com,port=1", "unix:path=/a%2", "unix:path=/a%zz", "unix:dir=/tmp", "", "unix:"]
        {
            assert_eq!(socket(other), None, "{other}");
        }
    }
}
