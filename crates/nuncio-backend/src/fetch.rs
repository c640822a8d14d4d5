//! HTTP client for addresses that come from other hosts.
//!
//! Architecture Invariant: nothing else in the tree connects to an untrusted address. The client connects to such an
//! address only after the exact socket address was found to be public or allowed by the operator.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use nuncio_core::address::display_url;
use nuncio_core::http_request::TRANSPORT_HEADERS;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, ClientBuilder, Method};
use url::{Host, Url};

mod address;
mod allow;
mod dial;
mod resolver;
#[cfg(test)]
mod tests;

pub use address::is_public;
pub use allow::AllowedAddresses;

use allow::bare_name;
use resolver::{AddressPolicy, BlockedAddressError, GuardedResolver, HostLookupFn};

const USER_AGENT: &str = concat!("nuncio/", env!("CARGO_PKG_VERSION"));
/// Time limit for opening a connection, besides the time limit of the whole request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of headers in a response.
const MAX_HEADERS: usize = 100;
/// Size limit of all response headers, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Installs ring as the TLS provider of the process. Must run first; repeated calls are harmless.
pub fn install_crypto() {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// [`Fetch`] with rules for untrusted addresses: `https:` only, and only public addresses, checked at connection time.
/// For every address: no redirects, proxies, cookies or compression, and limits of time and size.
pub struct GuardedFetch {
    requests: ClientsByAddressTrust,
    /// Clients for WebSockets, which need HTTP/1.1.
    websockets: ClientsByAddressTrust,
    allow: AllowedAddresses,
}

/// HTTP clients for each rule about the addresses that may be reached.
struct ClientsByAddressTrust {
    /// Client for untrusted addresses, which must be public.
    strangers: Client,
    /// Client for addresses that the operator named, and untrusted addresses that the operator allowed.
    configured: Client,
    /// Client for untrusted addresses on this machine, in development mode.
    loopback: Option<Client>,
}

impl GuardedFetch {
    /// Creates a client with the operator's exceptions. `dev` allows untrusted addresses on this machine, also by
    /// `http:`. `extra_roots` are PEM certificates that are trusted beside the system's.
    pub fn new(allow: AllowedAddresses, dev: bool, extra_roots: Option<&[u8]>) -> Result<Self, String> {
        Self::with_lookup(usize::MAX, allow, dev, extra_roots, resolver::system)
    }

    /// As [`Self::new`], without connection reuse: each request resolves the name and checks its addresses again.
    pub fn connecting_anew(allow: AllowedAddresses, dev: bool, extra_roots: Option<&[u8]>) -> Result<Self, String> {
        Self::with_lookup(0, allow, dev, extra_roots, resolver::system)
    }

    /// As [`Self::new`], with a name resolver and the maximum number `idle` of idle connections per host.
    fn with_lookup(
        idle: usize,
        allow: AllowedAddresses,
        dev: bool,
        extra_roots: Option<&[u8]>,
        lookup: HostLookupFn,
    ) -> Result<Self, String> {
        install_crypto();
        let roots = match extra_roots {
            Some(pem) => Certificate::from_pem_bundle(pem)
                .map_err(|error| format!("the extra root certificates cannot be read as PEM: {}", cause(&error)))?,
            None => Vec::new(),
        };
        let guarded = |reach, for_websockets| {
            let resolver = GuardedResolver { reach, lookup };
            client(&roots, for_websockets, |builder| {
                builder.dns_resolver(resolver.clone()).pool_max_idle_per_host(idle)
            })
        };
        let clients = |for_websockets: bool| -> Result<ClientsByAddressTrust, String> {
            Ok(ClientsByAddressTrust {
                strangers: guarded(AddressPolicy::Public(allow.clone()), for_websockets)?,
                configured: client(&roots, for_websockets, |builder| builder.pool_max_idle_per_host(idle))?,
                loopback: dev.then(|| guarded(AddressPolicy::Loopback, for_websockets)).transpose()?,
            })
        };
        Ok(Self { requests: clients(false)?, websockets: clients(true)?, allow })
    }

    /// Client for addresses that the operator named, for libraries that send their own requests. The client has no
    /// redirects, proxies or cookies, and no limit of time or size.
    #[must_use]
    pub fn client_for_configured(&self) -> Client {
        self.requests.configured.clone()
    }

    /// Chooses the client that may reach an address; the error says why the address is refused.
    fn route<'a>(
        &self,
        clients: &'a ClientsByAddressTrust,
        url: &Url,
        trust: AddressTrust,
    ) -> Result<&'a Client, String> {
        let Some(host) = url.host() else {
            return Err("it has no host".into());
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("only http: and https: addresses are fetched, found {}:", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it contains a user name or password".into());
        }
        if url.port() == Some(0) {
            return Err("port 0 is not a valid port".into());
        }
        if trust == AddressTrust::Configured || self.allow.origin(url) {
            return Ok(&clients.configured);
        }
        if let Some(loopback) = &clients.loopback
            && is_this_machine(&host)
        {
            return Ok(loopback);
        }
        if url.scheme() != "https" {
            return Err("only https: is accepted for addresses that others provide".into());
        }
        // A literal address is not resolved, so it is checked here.
        let check = |address: IpAddr| AddressPolicy::Public(self.allow.clone()).check(address);
        match host {
            Host::Domain(name) if self.allow.host(name) => return Ok(&clients.configured),
            Host::Domain(_) if is_this_machine(&host) => return Err("it is an address of this machine".into()),
            // With an allowed network, the resolver decides by the address that the name has.
            Host::Domain(name) if is_private_name(name) && !self.allow.any_network() => {
                return Err("its host name exists only inside a private network".into());
            }
            Host::Domain(_) => {}
            Host::Ipv4(address) => check(address.into())?,
            Host::Ipv6(address) => check(address.into())?,
        }
        Ok(&clients.strangers)
    }

    async fn exchange(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let url = display_url(&request.url);
        let refused = |why: String| FetchError::Refused { url: url.clone(), why };
        let failed = |error: reqwest::Error| failure(&url, &error);

        let client = self.route(&self.requests, &request.url, request.trust).map_err(refused)?;
        let method =
            Method::from_bytes(request.method.as_bytes()).map_err(|_| refused("its method is invalid".into()))?;
        let headers = outgoing_headers(&request.headers).map_err(refused)?;
        let mut call = client.request(method, request.url.clone()).headers(headers);
        if let Some(body) = request.body.clone() {
            call = call.body(body);
        }
        let mut response = call.send().await.map_err(failed)?;

        let status = response.status().as_u16();
        let too_large = || FetchError::TooLarge { url: url.clone(), status, limit: request.max_bytes };
        let headers =
            incoming_headers(response.headers()).map_err(|why| FetchError::Unreachable { url: url.clone(), why })?;
        let announced = response.content_length();
        let is_head = request.method.eq_ignore_ascii_case("HEAD");
        if !is_head
            && announced.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |bytes| bytes > request.max_bytes))
        {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > request.max_bytes {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(FetchResponse { status, headers, body: body.freeze() })
    }
}

#[async_trait]
impl Fetch for GuardedFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let (url, limit) = (display_url(&request.url), request.timeout);
        let exchange = tokio::time::timeout(limit, self.exchange(request)).await;
        exchange.unwrap_or(Err(FetchError::TooSlow { url, limit }))
    }

    fn check(&self, url: &Url, trust: AddressTrust) -> Result<(), FetchError> {
        let refused = |why| FetchError::Refused { url: display_url(url), why };
        self.route(&self.requests, url, trust).map(drop).map_err(refused)
    }
}

impl fmt::Debug for GuardedFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFetch")
            .field("allow", &self.allow)
            .field("dev", &self.requests.loopback.is_some())
            .finish_non_exhaustive()
    }
}

/// Builds one HTTP client; the clients differ in name resolution and in whether they support WebSockets.
fn client(
    roots: &[Certificate],
    for_websockets: bool,
    resolution: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Client, String> {
    let base = || {
        let builder = if for_websockets { Client::builder().http1_only() } else { Client::builder() };
        resolution(builder)
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
    };
    let with_system_roots = base().tls_certs_merge(roots.iter().cloned()).build();
    // A machine without root certificates can still serve and use plain HTTP.
    with_system_roots.or_else(|error| {
        tracing::warn!(why = cause(&error), "no system root certificates: https: addresses cannot be verified");
        base()
            .tls_certs_only(roots.iter().cloned())
            .build()
            .map_err(|error| format!("the HTTP client cannot be set up: {}", cause(&error)))
    })
}

/// Whether a host name or address means this machine.
fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = bare_name(name);
            name == "localhost" || name.ends_with(".localhost") || name == "localhost.localdomain"
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Whether a host name never exists in the public DNS: without a dot, or below a name reserved for private networks
/// (RFC 6762, RFC 7686, RFC 8375, and `internal` by ICANN).
fn is_private_name(name: &str) -> bool {
    let name = bare_name(name);
    let is_below = |reserved: &&str| name.strip_suffix(*reserved).is_some_and(|rest| rest.ends_with('.'));
    !name.contains('.') || ["local", "internal", "onion", "home.arpa"].iter().any(is_below)
}

/// Parses a header name; refuses names that only the HTTP client itself may set.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a valid header name"))?;
    if TRANSPORT_HEADERS.contains(&parsed.as_str()) {
        return Err(format!("the header {parsed} is set by the HTTP client itself"));
    }
    Ok(parsed)
}

fn outgoing_headers(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut out = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = header_name(name)?;
        let value = HeaderValue::try_from(value).map_err(|_| format!("the value of the header {name} is not valid"))?;
        out.append(name, value);
    }
    Ok(out)
}

fn incoming_headers(headers: &HeaderMap) -> Result<Vec<(String, String)>, String> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        return Err(format!("it answered with more than {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes of them"));
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect())
}

/// Converts the error of a request: refused by an address check, or unreachable.
fn failure(url: &str, error: &reqwest::Error) -> FetchError {
    let url = url.to_owned();
    match causes(error).find_map(|cause| cause.downcast_ref()) {
        Some(BlockedAddressError(why)) => FetchError::Refused { url, why: why.clone() },
        None => FetchError::Unreachable { url, why: cause(error) },
    }
}

/// Innermost cause of a failed request, such as "connection refused". The URL is left out, because it may contain a
/// secret.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    match causes(error).last() {
        Some(innermost) => innermost.to_string(),
        None if error.is_body() => "the answer was interrupted".into(),
        None => "the exchange failed".into(),
    }
}

/// Causes of an error, from the outermost to the innermost.
pub(crate) fn causes<'a>(error: &'a dyn Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}
