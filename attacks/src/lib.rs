//! Attacks on the real `nuncio` binary. Each attack starts a server in its own folder, attacks it from outside, and
//! fails if the attack succeeds. `cargo xtask attack` runs all of them against the release binary and prints a table;
//! `cargo xtask test` runs the quick ones against the debug binary.

pub mod did_peer;
pub mod server;

mod bodies;
mod capacity;
mod connections;
mod device;
mod flood;
mod identity;
/// Attacks by programs, which only Linux confines.
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
mod programs;
mod rates;
mod raw;
mod record;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use did_peer::HostedTestDid;
pub use server::{CommandOutput, Server, ServerBuilder};

#[derive(Clone, Copy)]
pub struct Attack {
    /// Name of the attack: condition and result, as in a test name, such as `anp_token_is_refused_by_aap`.
    pub name: &'static str,
    /// Result of the attack at commit c83e809, before there was a defence.
    pub before: &'static str,
    /// Quick attacks run in `cargo xtask test`, slow ones only in `cargo xtask attack`.
    pub pace: AttackDurationClass,
    /// Runs the attack. The returned text describes the server's reaction; an error means that the attack succeeded.
    pub run: fn(AttackedBinary) -> AttackFuture,
}

/// How long an attack takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackDurationClass {
    /// The attack takes seconds, and runs in `cargo xtask test`.
    Quick,
    /// The attack takes longer or needs a quiet machine, and runs in `cargo xtask attack` only.
    Slow,
}

pub type AttackFuture = Pin<Box<dyn Future<Output = anyhow::Result<String>>>>;

#[derive(Debug, Clone)]
pub struct AttackedBinary {
    binary: Arc<PathBuf>,
}

impl AttackedBinary {
    /// Attacks this executable of `nuncio`.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        // Several targets in one process share the TLS provider of the first one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { binary: Arc::new(binary.into()) }
    }

    #[must_use]
    pub fn server(&self) -> ServerBuilder {
        ServerBuilder::new(Arc::clone(&self.binary))
    }
}

/// All attacks, section by section.
#[must_use]
pub fn all() -> Vec<Attack> {
    let sections: &[&[Attack]] = &[
        identity::ATTACKS,
        connections::ATTACKS,
        bodies::ATTACKS,
        rates::ATTACKS,
        capacity::ATTACKS,
        #[cfg(all(target_os = "linux", not(nuncio_portable)))]
        programs::ATTACKS,
        device::ATTACKS,
        record::ATTACKS,
        flood::ATTACKS,
    ];
    sections.concat()
}

/// An HTTP client that uses no proxy, follows no redirect and gives up a request after a minute.
#[must_use]
pub fn http_client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    client.timeout(Duration::from_secs(60)).build().expect("the TLS provider is installed by Target::new")
}

/// Calls `ask` until it returns a value, for at most a minute.
pub async fn poll<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> anyhow::Result<T> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        if let Some(answer) = ask().await {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    anyhow::bail!("gave up after a minute: {what}")
}
