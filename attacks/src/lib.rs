//! Attacks on the real `nuncio` binary. Each is a program: it starts a server in a folder of its own, attacks it from
//! outside, and fails if the attack succeeds. `cargo xtask attack` runs all of them against the release binary and
//! prints a table; `cargo xtask test` runs the quick ones against the debug binary.

pub mod did_peer;
pub mod server;

mod bodies;
mod capacity;
mod connections;
mod device;
mod flood;
mod identity;
/// Needs the confinement of programs, which only Linux has.
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
mod programs;
mod rates;
mod raw;
mod record;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use did_peer::DidPeer;
pub use server::{CommandOutput, Server, ServerBuilder};

#[derive(Clone, Copy)]
pub struct Attack {
    /// The attack and the defence in one phrase: `anp_token_is_refused_by_aap`.
    pub name: &'static str,
    /// What the attack achieved at commit c83e809, before there was a defence.
    pub before: &'static str,
    /// Whether it runs in `cargo xtask test`.
    pub pace: Pace,
    /// Runs it. The text says what the server did; an error means that the attack succeeded.
    pub run: fn(Target) -> AttackFuture,
}

/// How long an attack takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Seconds: it runs in `cargo xtask test`.
    Quick,
    /// Longer, or it needs a quiet machine: it runs in `cargo xtask attack` alone.
    Slow,
}

pub type AttackFuture = Pin<Box<dyn Future<Output = anyhow::Result<String>>>>;

#[derive(Debug, Clone)]
pub struct Target {
    binary: Arc<PathBuf>,
}

impl Target {
    /// Attacks that executable.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        // Tests of one process may come here several times; the first provider stays.
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

/// An HTTP client that uses no proxy and follows no redirect.
#[must_use]
pub fn http_client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    client.timeout(Duration::from_secs(60)).build().expect("the TLS provider is installed by Target::new")
}

/// Asks again until there is an answer, for at most a minute.
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
