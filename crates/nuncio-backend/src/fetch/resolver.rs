//! Name resolver that returns only permitted addresses.

use std::net::{IpAddr, SocketAddr};

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;
use super::allow::AllowedAddresses;

/// Addresses that a client may connect to.
#[derive(Debug, Clone)]
pub(super) enum AddressPolicy {
    /// Public addresses, and addresses that the operator allowed.
    Public(AllowedAddresses),
    /// Loopback addresses only, in development mode.
    Loopback,
}

impl AddressPolicy {
    /// Checks an address; the error says why it is refused.
    pub(super) fn check(&self, address: IpAddr) -> Result<(), String> {
        match self {
            Self::Public(allow) if is_public(address) || allow.address(address) => Ok(()),
            Self::Public(_) => Err(format!("{address} is not an address of the public internet")),
            Self::Loopback if address.is_loopback() => Ok(()),
            Self::Loopback => Err(format!("{address} is not this machine")),
        }
    }
}

/// Error of a refused address, which `failure` finds in the error chain of the HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BlockedAddressError(pub(super) String);

/// Resolves a host name; tests replace this function.
pub(super) type HostLookupFn = fn(String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>>;

/// Resolves a host name with the system's resolver.
pub(super) fn system(name: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
}

/// Resolver that applies [`AddressPolicy`]. Connections use exactly the checked addresses, which defeats DNS rebinding.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver {
    pub(super) reach: AddressPolicy,
    pub(super) lookup: HostLookupFn,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { reach, lookup } = self.clone();
        Box::pin(async move {
            let found = lookup(name.as_str().to_owned()).await?;
            // One forbidden address refuses the whole name, because mixed answers are typical of DNS rebinding.
            for address in &found {
                reach.check(address.ip()).map_err(|why| {
                    BlockedAddressError(format!("its name resolves to an address that is not allowed: {why}"))
                })?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
