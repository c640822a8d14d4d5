//! The outbound client: the one way to an address that came from outside.
//!
//! Architecture Invariant: nothing else in the tree connects to a stranger's address. A stranger's
//! address is connected to only after the very socket address was found to be public.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use nuncio_core::address::shown;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{FetchError, Incoming, Outgoing, Trust};
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
pub use allow::Allow;

use allow::bare_name;
use resolver::{Blocked, GuardedResolver, Lookup, Reach};

/// What we call ourselves.
const USER_AGENT: &str = concat!("nuncio/", env!("CARGO_PKG_VERSION"));
/// How long a connection may take to come about, whatever the whole exchange may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How many headers an answer may have.
const MAX_HEADERS: usize = 100;
/// How large the headers of an answer may be together.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Headers that are the transport's to write.
const TRANSPORT_HEADERS: [&str; 5] = ["connection", "content-length", "host", "transfer-encoding", "upgrade"];

/// Makes ring the process's TLS provider. Call it first thing; again does no harm.
pub fn install_crypto() {
    // An error means that a provider is installed already, which is what we want.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// [`Fetch`] with the rules for strangers' addresses: `https:` only, public addresses only, checked
/// on what is connected to; and for every address: no redirects, no proxies, no cookies, no
/// compression, bounded in time and size.
pub struct GuardedFetch {
    strangers: Client,
    /// For addresses the operator named, and for strangers' addresses the operator opened by name.
    configured: Client,
    /// For strangers' addresses on this machine, when developing.
    loopback: Option<Client>,
    /// The same three for connections that keep talking, which only HTTP/1.1 becomes.
    talking: Box<Talking>,
    allow: Allow,
}

/// Clients that speak HTTP/1.1 alone.
struct Talking {
    strangers: Client,
    configured: Client,
    loopback: Option<Client>,
}

impl GuardedFetch {
    /// A client with the operator's exceptions. `dev` lets strangers' addresses name this machine,
    /// also by `http:`. `extra_roots` are certificates, in PEM, trusted beside the system's.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub fn new(allow: Allow, dev: bool, extra_roots: Option<&[u8]>) -> Result<Self, String> {
        Self::with_lookup(allow, dev, extra_roots, resolver::system)
    }

    /// The same, but no connection is used twice: the name is resolved, and its addresses checked, for each
    /// request anew.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub fn connecting_anew(allow: Allow, dev: bool, extra_roots: Option<&[u8]>) -> Result<Self, String> {
        Self::keeping(0, allow, dev, extra_roots, resolver::system)
    }

    fn with_lookup(allow: Allow, dev: bool, extra_roots: Option<&[u8]>, lookup: Lookup) -> Result<Self, String> {
        Self::keeping(usize::MAX, allow, dev, extra_roots, lookup)
    }

    /// Keeps so many connections to a host that have nothing to do.
    fn keeping(
        idle: usize,
        allow: Allow,
        dev: bool,
        extra_roots: Option<&[u8]>,
        lookup: Lookup,
    ) -> Result<Self, String> {
        install_crypto();
        let roots = match extra_roots {
            Some(pem) => Certificate::from_pem_bundle(pem)
                .map_err(|error| format!("the extra root certificates cannot be read as PEM: {}", cause(&error)))?,
            None => Vec::new(),
        };
        let guarded = |reach, talks| {
            let resolver = GuardedResolver { reach, lookup };
            client(&roots, talks, |builder| builder.dns_resolver(resolver.clone()).pool_max_idle_per_host(idle))
        };
        let loopback = |talks| dev.then(|| guarded(Reach::Loopback, talks)).transpose();
        Ok(Self {
            strangers: guarded(Reach::Public(allow.clone()), false)?,
            configured: client(&roots, false, |builder| builder.pool_max_idle_per_host(idle))?,
            loopback: loopback(false)?,
            talking: Box::new(Talking {
                strangers: guarded(Reach::Public(allow.clone()), true)?,
                configured: client(&roots, true, |builder| builder)?,
                loopback: loopback(true)?,
            }),
            allow,
        })
    }

    /// A client for addresses the operator named, for libraries that bring requests of their own:
    /// no redirects, no proxies, no cookies. It sets no limit of time or size.
    #[must_use]
    pub fn client_for_configured(&self) -> Client {
        self.configured.clone()
    }

    /// The client that may be used for an address, or why there is none.
    fn client(&self, url: &Url, trust: Trust) -> Result<&Client, String> {
        Ok(match self.way(url, trust)? {
            Way::Configured => &self.configured,
            Way::Stranger => &self.strangers,
            Way::Loopback => self.loopback.as_ref().unwrap_or(&self.strangers),
        })
    }

    /// The same for a connection that keeps talking.
    fn talking_client(&self, url: &Url, trust: Trust) -> Result<&Client, String> {
        let talking = &self.talking;
        Ok(match self.way(url, trust)? {
            Way::Configured => &talking.configured,
            Way::Stranger => &talking.strangers,
            Way::Loopback => talking.loopback.as_ref().unwrap_or(&talking.strangers),
        })
    }

    /// By which way an address may be reached, or why by none.
    fn way(&self, url: &Url, trust: Trust) -> Result<Way, String> {
        let Some(host) = url.host() else {
            return Err("it names no host".into());
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("only http: and https: addresses are fetched, this is {}:", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it carries a user name or password".into());
        }
        if url.port() == Some(0) {
            return Err("there is no port 0".into());
        }
        if trust == Trust::Configured || self.allow.origin(url) {
            return Ok(Way::Configured);
        }
        if self.loopback.is_some() && is_this_machine(&host) {
            return Ok(Way::Loopback);
        }
        if url.scheme() != "https" {
            return Err("only https: is accepted from outside".into());
        }
        match host {
            Host::Domain(name) if self.allow.host(name) => Ok(Way::Configured),
            Host::Domain(_) if is_this_machine(&host) => Err("it names this machine".into()),
            Host::Domain(_) => Ok(Way::Stranger),
            // A literal address never meets the resolver.
            Host::Ipv4(address) => self.literal(address.into()),
            Host::Ipv6(address) => self.literal(address.into()),
        }
    }

    fn literal(&self, address: std::net::IpAddr) -> Result<Way, String> {
        Reach::Public(self.allow.clone()).check(address).map(|()| Way::Stranger)
    }

    async fn exchange(&self, request: Outgoing) -> Result<Incoming, FetchError> {
        let url = shown(&request.url);
        let refused = |why: String| FetchError::Refused { url: url.clone(), why };
        let unreachable = |why: String| FetchError::Unreachable { url: url.clone(), why };
        let failed = |error: &reqwest::Error| match blocked(error) {
            Some(why) => refused(why),
            None => unreachable(cause(error)),
        };

        let client = self.client(&request.url, request.trust).map_err(refused)?;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| refused("its method is none".into()))?;
        let headers = outgoing_headers(&request.headers).map_err(refused)?;
        let mut call = client.request(method, request.url.clone()).headers(headers);
        if let Some(body) = request.body.clone() {
            call = call.body(body);
        }
        let mut response = call.send().await.map_err(|error| failed(&error))?;

        let status = response.status().as_u16();
        let too_large = || FetchError::TooLarge { url: url.clone(), status, limit: request.max_bytes };
        let headers = incoming_headers(response.headers()).map_err(unreachable)?;
        let announced = response.content_length();
        let is_head = request.method.eq_ignore_ascii_case("HEAD");
        if !is_head
            && announced.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |bytes| bytes > request.max_bytes))
        {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if body.len() + chunk.len() > request.max_bytes {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Incoming { status, headers, body: body.freeze() })
    }
}

#[async_trait]
impl Fetch for GuardedFetch {
    async fn fetch(&self, request: Outgoing) -> Result<Incoming, FetchError> {
        let (url, limit) = (shown(&request.url), request.timeout);
        match tokio::time::timeout(limit, self.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(FetchError::TooSlow { url, limit }),
        }
    }
}

impl fmt::Debug for GuardedFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFetch")
            .field("allow", &self.allow)
            .field("dev", &self.loopback.is_some())
            .finish_non_exhaustive()
    }
}

/// How an address is reached.
enum Way {
    /// As the operator may.
    Configured,
    /// As anyone may.
    Stranger,
    /// On this machine alone.
    Loopback,
}

/// One client of ours; they differ in how names are resolved, and in whether their connections may keep
/// talking.
fn client(
    roots: &[Certificate],
    talks: bool,
    resolution: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Client, String> {
    let base = || {
        let builder = if talks { Client::builder().http1_only() } else { Client::builder() };
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
    // A machine without any root certificates can still serve and reach plain HTTP.
    with_system_roots.or_else(|error| {
        tracing::warn!(why = cause(&error), "no system root certificates: https: addresses cannot be verified");
        base()
            .tls_certs_only(roots.iter().cloned())
            .build()
            .map_err(|error| format!("the HTTP client cannot be set up: {}", cause(&error)))
    })
}

/// Whether a host is, by its name or as an address, the machine we run on.
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

/// Reads the name of a header that a request may set.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::try_from(name).map_err(|_| format!("{name:?} is no header name"))?;
    if TRANSPORT_HEADERS.contains(&parsed.as_str()) {
        return Err(format!("the header {parsed} is written by the transport"));
    }
    Ok(parsed)
}

fn outgoing_headers(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut out = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = header_name(name)?;
        let value =
            HeaderValue::try_from(value).map_err(|_| format!("the value of the header {name} cannot be sent"))?;
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

/// The rule a name broke while it was resolved.
fn blocked(error: &reqwest::Error) -> Option<String> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(Blocked(why)) = inner.downcast_ref() {
            return Some(why.clone());
        }
        source = inner.source();
    }
    None
}

/// What is at the bottom of an error: "connection refused", rather than that sending failed. Never
/// the address, which may hold a secret.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut source = error.source();
    let mut last = None;
    while let Some(inner) = source {
        last = Some(inner.to_string());
        source = inner.source();
    }
    last.unwrap_or_else(|| if error.is_body() { "the answer broke off".into() } else { "the exchange failed".into() })
}
