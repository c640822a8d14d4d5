//! People with one device each, created as in use: invites over the admin socket, enrolment and consent over HTTP.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, bail, ensure};
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::person::{DeviceAssertion, EnrolmentAssertion};
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_core::time::Timestamp;
use nuncio_identity::SigningKey;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::client::RawHttpConnection;
use crate::process::Server;

/// Number of concurrent connections during preparation.
const HANDS: usize = 32;

pub(super) struct BenchDevice {
    key: SigningKey,
    pub(super) person: String,
    pub(super) id: String,
    pub(super) token: String,
}

impl BenchDevice {
    fn public(&self) -> anyhow::Result<PublicKey> {
        let jwk = self.key.public().to_jwk();
        PublicKey::parse(jwk["x"].as_str().context("an Ed25519 key")?).map_err(|_| anyhow::anyhow!("a weak key"))
    }

    fn sign(&self, message: &[u8]) -> Signature {
        Signature::new(self.key.sign(message))
    }

    async fn enrol(
        data: &Path,
        connection: &mut RawHttpConnection,
        person: String,
        number: u64,
    ) -> anyhow::Result<Self> {
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        let key = SigningKey::from_seed(&seed);
        let mut device = Self { key, person, id: String::new(), token: String::new() };
        let invite = order(data, &json!({"do": "user_invite", "name": device.person})).await?;
        let code = invite["code"].as_str().context("no code")?;
        let (key, name) = (device.public()?, "laptop".to_owned());
        let enrolment = EnrolmentAssertion { invite: Digest::of_bytes(code.as_bytes()), key, name };
        let body = json!({
            "code": code, "device_name": "laptop", "public_key": key, "signature": device.sign(&enrolment.message()),
        });
        let data = check_status(connection.ask("POST", "/a2h/auth/enroll", None, &body.to_string()).await?)?;
        device.id = text(&data["device"]["id"])?;
        device.token = text(&data["access_token"])?;
        Ok(device)
    }

    /// Gets a new access token from the server, whose address may have changed.
    async fn refresh(&mut self, connection: &mut RawHttpConnection, audience: &str) -> anyhow::Result<()> {
        let assertion = DeviceAssertion {
            device_id: DeviceId::parse(&self.id)?,
            audience: audience.to_owned(),
            at: Timestamp::from_millis(clock_gettime(ClockId::Realtime).tv_sec * 1000),
            nonce: Digest::of_bytes(self.token.as_bytes()).to_string(),
        };
        let mut body = json!(assertion);
        body["signature"] = json!(self.sign(&assertion.message()));
        let data = check_status(connection.ask("POST", "/a2h/auth/token", None, &body.to_string()).await?)?;
        self.token = text(&data["access_token"])?;
        Ok(())
    }

    /// Grants an agent a scope: requests the ledger entry, signs it and sends it back.
    async fn allow(&self, connection: &mut RawHttpConnection, agent: &str, scope: &str) -> anyhow::Result<()> {
        let mut body = json!({"agent_id": agent, "granted_scopes": [scope]});
        let (status, answer) =
            connection.ask("POST", "/a2h/h2a/relations", Some(&self.token), &body.to_string()).await?;
        ensure!(status == 428, "{status} {}", String::from_utf8_lossy(&answer));
        let mut answer: Value = serde_json::from_slice(&answer)?;
        let entry: LedgerEntry = serde_json::from_value(answer["error"]["params"]["entry"].take())?;
        let signature = Some(self.sign(&entry.message()));
        body["entry"] = json!(LedgerEntry { signature, ..entry });
        self.ask(connection, "POST", "/a2h/h2a/relations", &body).await.map(|_| ())
    }

    /// Sends a request and returns the response data.
    pub(super) async fn ask(
        &self,
        connection: &mut RawHttpConnection,
        method: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Value> {
        check_status(connection.ask(method, path, Some(&self.token), &body.to_string()).await?)
    }

    /// Creates an agent; returns its id and token.
    pub(super) async fn make_agent(
        &self,
        connection: &mut RawHttpConnection,
        manifest: Value,
    ) -> anyhow::Result<(String, String)> {
        let body = json!({"display_name": "Notes", "capability_manifest": manifest});
        let made = self.ask(connection, "POST", "/a2h/agents", &body).await?;
        Ok((text(&made["id"])?, text(&made["token"])?))
    }
}

/// Enrols `count` people with one device each.
pub(super) async fn enrol(server: &Server, data: &Path, count: usize) -> anyhow::Result<Vec<BenchDevice>> {
    let (data, numbers) = (Arc::from(data), (0..count).map(|number| number as u64).collect());
    run_concurrently(server, numbers, async move |connection, number: u64| {
        let data: &Arc<Path> = &data;
        BenchDevice::enrol(data, connection, format!("person{number}"), number).await
    })
    .await
}

/// Lets all devices grant an agent a scope.
pub(super) async fn allow(
    server: &Server,
    devices: Vec<BenchDevice>,
    agent: &str,
    scope: &str,
) -> anyhow::Result<Vec<BenchDevice>> {
    run_concurrently(server, devices, async |connection, device: BenchDevice| {
        device.allow(connection, agent, scope).await?;
        Ok(device)
    })
    .await
}

/// Gets new access tokens for all devices.
pub(super) async fn refresh(server: &Server, devices: Vec<BenchDevice>) -> anyhow::Result<Vec<BenchDevice>> {
    let mut connection = RawHttpConnection::open(&server.address).await?;
    let keys = check_status(connection.ask("GET", "/a2h/auth/keys", None, "").await?)?;
    let audience = text(&keys["audience"])?;
    run_concurrently(server, devices, async |connection, mut device: BenchDevice| {
        device.refresh(connection, &audience).await?;
        Ok(device)
    })
    .await
}

/// Runs a function for each item over [`HANDS`] concurrent connections; the results have the order of the items.
pub(super) async fn run_concurrently<T, U>(
    server: &Server,
    items: Vec<T>,
    work: impl AsyncFn(&mut RawHttpConnection, T) -> anyhow::Result<U>,
) -> anyhow::Result<Vec<U>> {
    let mut shares: Vec<Vec<(usize, T)>> = (0..HANDS).map(|_| Vec::new()).collect();
    for (place, item) in items.into_iter().enumerate() {
        shares[place % HANDS].push((place, item));
    }
    let work = &work;
    let hands = shares.into_iter().map(|share| async move {
        let mut connection = RawHttpConnection::open(&server.address).await?;
        let mut done = Vec::with_capacity(share.len());
        for (place, item) in share {
            done.push((place, work(&mut connection, item).await?));
        }
        anyhow::Ok(done)
    });
    let mut done: Vec<_> = futures_util::future::try_join_all(hands).await?.into_iter().flatten().collect();
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, item)| item).collect())
}

/// A number that was not returned before.
pub(super) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Runs an admin command on the server.
async fn order(data: &Path, order: &Value) -> anyhow::Result<Value> {
    let mut order = order.clone();
    order["token"] = json!(std::fs::read_to_string(data.join("admin.token"))?);
    let mut stream = UnixStream::connect(data.join("admin.sock")).await?;
    stream.write_all(format!("{order}\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let mut answer: Value = serde_json::from_str(&answer)?;
    ensure!(answer["done"].is_object(), "{answer}");
    Ok(answer["done"].take())
}

fn check_status((status, body): (u16, Vec<u8>)) -> anyhow::Result<Value> {
    if !(200..300).contains(&status) {
        bail!("{status} {}", String::from_utf8_lossy(&body));
    }
    let mut answer: Value = serde_json::from_slice(&body)?;
    Ok(answer["data"].take())
}

pub(super) fn text(value: &Value) -> anyhow::Result<String> {
    Ok(value.as_str().with_context(|| format!("no text: {value}"))?.to_owned())
}

/// Manifest with one tool and one scope. Each number above zero requires another argument, so that a manifest with a
/// new number breaks existing consent.
pub(super) fn manifest(number: u64) -> Value {
    let name = format!("arg_{number}");
    let required: &[&str] = if number == 0 { &[] } else { &[&name] };
    json!({
        "schema_version": "1.0",
        "agent_version": format!("1.0.{number}"),
        "tools": [{
            "name": "read_file", "description_i18n_key": "agent.cap.read_file.description",
            "input_schema": {
                "type": "object", "properties": {&name: {"type": "string"}}, "required": required,
                "additionalProperties": false,
            },
            "permission_scope": SCOPE,
        }],
        "permission_scopes": [{
            "id": SCOPE, "sensitivity": "medium",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "description_i18n_key": "agent.scope.filesystem_read.description",
        }],
        "capability_flags": {},
    })
}

pub(super) const SCOPE: &str = "filesystem:read";
