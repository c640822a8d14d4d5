//! Name resolution that hands out only addresses which may be connected to.

use std::net::{IpAddr, SocketAddr};

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;
use super::allow::Allow;

/// Which addresses a client may connect to.
#[derive(Debug, Clone)]
pub(super) enum Reach {
    /// Public ones and those the operator opened.
    Public(Allow),
    /// This machine, for developing.
    Loopback,
}

impl Reach {
    /// Whether that address may be connected to, else why not.
    pub(super) fn check(&self, address: IpAddr) -> Result<(), String> {
        match self {
            Self::Public(allow) if is_public(address) || allow.address(address) => Ok(()),
            Self::Public(_) => Err(format!("{address} is not an address of the public internet")),
            Self::Loopback if address.is_loopback() => Ok(()),
            Self::Loopback => Err(format!("{address} is not this machine")),
        }
    }
}

/// The refusal, found again in the error chain of the HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Blocked(pub(super) String);

/// Asks for the addresses of a name; tests answer by themselves.
pub(super) type Lookup = fn(String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>>;

/// Asks the system.
pub(super) fn system(name: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
}

/// A resolver with [`Reach`] applied to its answer. The addresses that pass are the ones that are
/// connected to, so a name that answers differently the second time gains nothing.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver {
    pub(super) reach: Reach,
    pub(super) lookup: Lookup,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { reach, lookup } = self.clone();
        Box::pin(async move {
            let found = lookup(name.as_str().to_owned()).await?;
            // One bad address condemns the name: a mixed answer is what rebinding looks like.
            for address in &found {
                reach.check(address.ip()).map_err(|why| Blocked(format!("its name resolves elsewhere: {why}")))?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
