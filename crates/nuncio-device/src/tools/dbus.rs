//! Small D-Bus client for method calls and signals. A library would add nineteen crates for a few calls.
//!
//! Protocol: <https://dbus.freedesktop.org/doc/dbus-specification.html>

use std::collections::VecDeque;
use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

mod wire;

pub(crate) use wire::{Arg, Secret};
use wire::{Kind, Message};

/// Limit of a message, in bytes.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Limit of signals that are queued while a reply is awaited.
const MAX_SIGNALS: usize = 64;
/// Limit of a line of the authentication handshake, in bytes.
const MAX_LINE: u64 = 512;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BusError {
    /// The bus cannot be connected to or closed the connection.
    #[error("the bus cannot be used: {0}")]
    Closed(String),
    /// The service does not run and cannot be started.
    #[error("there is no {0}")]
    Absent(&'static str),
    #[error("{name}: {message}")]
    Refused { name: String, message: String },
    /// The reply has an unexpected type.
    #[error("it answered something that cannot be read")]
    Unreadable,
}

impl From<io::Error> for BusError {
    fn from(error: io::Error) -> Self {
        Self::Closed(error.to_string())
    }
}

/// Target of a call: a service, an object path and an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<'a> {
    pub(crate) service: &'static str,
    pub(crate) path: &'a str,
    pub(crate) interface: &'static str,
}

#[derive(Debug)]
pub(crate) struct Bus {
    stream: BufReader<UnixStream>,
    serial: u32,
    signals: VecDeque<Message>,
}

impl Bus {
    /// Connects to the first socket of an address list that accepts.
    pub(crate) async fn open(address: &str) -> Result<Self, BusError> {
        let mut last = BusError::Closed(format!("{address:?} names no socket of this machine"));
        for place in address.split(';').filter_map(socket) {
            match UnixStream::connect(&place).await {
                Ok(stream) => return Self::greet(stream).await,
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    async fn greet(stream: UnixStream) -> Result<Self, BusError> {
        let mut bus = Self { stream: BufReader::new(stream), serial: 0, signals: VecDeque::new() };
        // EXTERNAL authentication: the socket's credentials identify this process.
        let uid = rustix::process::getuid().as_raw().to_string();
        let uid: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
        bus.stream.write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes()).await?;
        let mut line = String::new();
        (&mut bus.stream).take(MAX_LINE).read_line(&mut line).await?;
        if !line.starts_with("OK ") {
            return Err(BusError::Closed("it does not let us in".to_owned()));
        }
        bus.stream.write_all(b"BEGIN\r\n").await?;
        bus.call(DAEMON, "Hello", Vec::new()).await?;
        Ok(bus)
    }

    /// Calls a method and waits for the reply.
    pub(crate) async fn call(
        &mut self,
        object: Object<'_>,
        method: &str,
        body: Vec<Arg>,
    ) -> Result<Vec<Arg>, BusError> {
        self.serial += 1;
        let serial = self.serial;
        let call = Message {
            to: Some(object.service.to_owned()),
            path: Some(object.path.to_owned()),
            interface: Some(object.interface.to_owned()),
            member: Some(method.to_owned()),
            body,
            ..Message::call(serial)
        };
        self.stream.write_all(&call.written()).await?;
        loop {
            let message = self.next().await?;
            match message.kind {
                Kind::Return if message.reply_to == Some(serial) => return Ok(message.body),
                Kind::Error if message.reply_to == Some(serial) => return Err(refused(message, object.service)),
                Kind::Signal if self.signals.len() < MAX_SIGNALS => self.signals.push_back(message),
                _ => {}
            }
        }
    }

    pub(crate) async fn property(&mut self, object: Object<'_>, name: &str) -> Result<Arg, BusError> {
        let body = vec![Arg::text(object.interface), Arg::text(name)];
        match self.call(Object { interface: PROPERTIES, ..object }, "Get", body).await?.pop() {
            Some(Arg::Variant(value)) => Ok(*value),
            _ => Err(BusError::Unreadable),
        }
    }

    pub(crate) async fn set(&mut self, object: Object<'_>, name: &str, value: Arg) -> Result<(), BusError> {
        let body = vec![Arg::text(object.interface), Arg::text(name), Arg::variant(value)];
        self.call(Object { interface: PROPERTIES, ..object }, "Set", body).await.map(drop)
    }

    /// Subscribes to the signals of an object.
    pub(crate) async fn listen(&mut self, object: Object<'_>) -> Result<(), BusError> {
        let Object { service, path, interface } = object;
        let rule = format!("type='signal',sender='{service}',path='{path}',interface='{interface}'");
        self.call(DAEMON, "AddMatch", vec![Arg::Text(rule)]).await.map(drop)
    }

    pub(crate) async fn wait_signal(&mut self, object: Object<'_>, member: &str) -> Result<Vec<Arg>, BusError> {
        loop {
            let message = match self.signals.pop_front() {
                Some(kept) => kept,
                None => self.next().await?,
            };
            let said = (message.path.as_deref(), message.interface.as_deref(), message.member.as_deref());
            if message.kind == Kind::Signal && said == (Some(object.path), Some(object.interface), Some(member)) {
                return Ok(message.body);
            }
        }
    }

    async fn next(&mut self) -> Result<Message, BusError> {
        let mut start = [0; 16];
        self.stream.read_exact(&mut start).await?;
        let (whole, _) =
            wire::lengths(&start).filter(|(whole, _)| *whole <= MAX_MESSAGE).ok_or(BusError::Unreadable)?;
        let mut bytes = start.to_vec();
        bytes.resize(whole, 0);
        self.stream.read_exact(&mut bytes[start.len()..]).await?;
        wire::read(&bytes).ok_or(BusError::Unreadable)
    }
}

const DAEMON: Object<'static> =
    Object { service: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus" };

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

fn refused(message: Message, service: &'static str) -> BusError {
    let name = message.error.unwrap_or_default();
    let kind = name.strip_prefix("org.freedesktop.DBus.Error.").unwrap_or_default();
    if matches!(kind, "ServiceUnknown" | "NameHasNoOwner" | "NoReply") || kind.starts_with("Spawn.") {
        return BusError::Absent(service);
    }
    let text = message.body.into_iter().find_map(|arg| match arg {
        Arg::Text(text) => Some(nuncio_core::text::plain(&text)),
        _ => None,
    });
    BusError::Refused { name: nuncio_core::text::plain(&name), message: text.unwrap_or_default() }
}

/// Socket path of one address: `unix:path=…` or `unix:abstract=…`.
fn socket(place: &str) -> Option<String> {
    let keys = place.strip_prefix("unix:")?;
    keys.split(',').find_map(|pair| match pair.split_once('=')? {
        ("path", value) => unescaped(value),
        ("abstract", value) => Some(format!("\0{}", unescaped(value)?)),
        _ => None,
    })
}

/// Decodes percent escapes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_address_accepts_unix_sockets_only() {
        assert_eq!(socket("unix:path=/run/user/1/bus,guid=0f").as_deref(), Some("/run/user/1/bus"));
        assert_eq!(socket("unix:guid=0f,abstract=/tmp/a%20b").as_deref(), Some("\0/tmp/a b"));
        for other in ["tcp:host=example.com,port=1", "unix:path=/a%2", "unix:path=/a%zz", "unix:dir=/tmp", "", "unix:"]
        {
            assert_eq!(socket(other), None, "{other}");
        }
    }
}
