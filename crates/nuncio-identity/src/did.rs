//! did:wba names (ANP-03 §2): what they may hold, and where their documents are.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::encoding::base64url_exact;

/// The longest DID that is read.
pub const MAX_DID_BYTES: usize = 512;

/// A did:wba, kept byte for byte as it was written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Did {
    text: Arc<str>,
    /// Where the host ends in `text`.
    host_end: u16,
    /// Where host and port end in `text`.
    authority_end: u16,
    port: Option<u16>,
}

/// What the last segment of a DID says about its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fingerprint {
    /// Nothing: a bare domain, or an old path DID.
    None,
    /// `e1_…`: the thumbprint of the Ed25519 key that signs the document.
    E1([u8; 32]),
    /// `k1_…`: the thumbprint of a secp256k1 key that authenticates.
    K1([u8; 32]),
}

/// What is wrong with a DID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// It does not begin with `did:wba:`.
    #[error("only did:wba is supported; write did:wba:HOST or did:wba:HOST:SEGMENT…")]
    Method,
    /// It is longer than [`MAX_DID_BYTES`].
    #[error("a DID has at most {MAX_DID_BYTES} bytes")]
    TooLong,
    /// The host is no lower-case domain name.
    #[error("the host must be a domain name in lower case, not an address or {0:?}")]
    Host(String),
    /// The port is no number from 1 to 65535.
    #[error("the port must be a number from 1 to 65535 after %3A, not {0:?}")]
    Port(String),
    /// A segment of the path holds something else than letters, digits, `-`, `_` and `.`.
    #[error("a segment may hold letters, digits, '-', '_' and '.', and be neither '.' nor '..'; this one is {0:?}")]
    Segment(String),
    /// The last segment begins like a fingerprint and is none.
    #[error("a fingerprint is e1_ or k1_ and 43 characters of base64url, not {0:?}")]
    Fingerprint(String),
    /// The fragment of a DID URL is missing or holds what it may not.
    #[error("a key is named by a DID, '#' and a name; the name is missing or not printable ASCII")]
    Fragment,
}

impl DidError {
    /// The stable word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Method => "did_method_unsupported",
            Self::TooLong => "did_too_long",
            Self::Host(_) => "did_host_invalid",
            Self::Port(_) => "did_port_invalid",
            Self::Segment(_) => "did_segment_invalid",
            Self::Fingerprint(_) => "did_fingerprint_invalid",
            Self::Fragment => "did_fragment_invalid",
        }
    }
}

const PREFIX: &str = "did:wba:";

impl Did {
    /// Reads a DID.
    ///
    /// # Errors
    /// Says which part is not as ANP-03 wants it. Hosts in upper case are refused too: a second spelling of the
    /// same name would slip past whoever lists names.
    pub fn parse(text: &str) -> Result<Self, DidError> {
        if text.len() > MAX_DID_BYTES {
            return Err(DidError::TooLong);
        }
        let rest = text.strip_prefix(PREFIX).ok_or(DidError::Method)?;
        let (authority, path) = rest.split_once(':').map_or((rest, None), |(authority, path)| (authority, Some(path)));
        let (host, port) = authority_parts(authority)?;
        for segment in path.into_iter().flat_map(|path| path.split(':')) {
            if !is_segment(segment) {
                return Err(DidError::Segment(segment.to_owned()));
            }
        }
        if let Some(last) = path.and_then(|path| path.rsplit(':').next()) {
            Fingerprint::parse(last)?;
        }
        let end = |length: usize| u16::try_from(PREFIX.len() + length).map_err(|_| DidError::TooLong);
        Ok(Self { text: text.into(), host_end: end(host.len())?, authority_end: end(authority.len())?, port })
    }

    /// Puts a DID together from a host, a port and the segments of a path.
    ///
    /// # Errors
    /// As [`Did::parse`].
    pub fn new(host: &str, port: Option<u16>, segments: &[&str]) -> Result<Self, DidError> {
        let mut text = format!("{PREFIX}{host}");
        if let Some(port) = port {
            text.push_str(&format!("%3A{port}"));
        }
        for segment in segments {
            text.push(':');
            text.push_str(segment);
        }
        Self::parse(&text)
    }

    /// The DID as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.text[PREFIX.len()..usize::from(self.host_end)]
    }

    /// The port, where one is named.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The segments of the path; none for a bare domain.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.text[usize::from(self.authority_end)..].split(':').skip(1)
    }

    /// Whether it names a whole domain.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        usize::from(self.authority_end) == self.text.len()
    }

    /// What the last segment says about the key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let last = self.segments().last().map(Fingerprint::parse);
        last.and_then(Result::ok).unwrap_or(Fingerprint::None)
    }

    /// Host and segments without the fingerprint, such as `example.com:user:alice`: what stays the same when the
    /// key changes.
    #[must_use]
    pub fn stable_subject(&self) -> &str {
        let rest = &self.text[PREFIX.len()..];
        match self.fingerprint() {
            Fingerprint::None => rest,
            Fingerprint::E1(_) | Fingerprint::K1(_) => rest.rsplit_once(':').map_or(rest, |(before, _)| before),
        }
    }

    /// Where the document is: `https://host[:port]/…/did.json`.
    #[must_use]
    pub fn resolution_url(&self) -> String {
        match self.port {
            Some(port) => self.resolution_url_at(&format!("https://{}:{port}", self.host())),
            None => self.resolution_url_at(&format!("https://{}", self.host())),
        }
    }

    /// Where the document is when another scheme and host answer for it; `base` has no slash at its end.
    #[must_use]
    pub fn resolution_url_at(&self, base: &str) -> String {
        let mut url = base.to_owned();
        if self.is_bare() {
            url.push_str("/.well-known");
        }
        for segment in self.segments() {
            url.push('/');
            url.push_str(segment);
        }
        url.push_str("/did.json");
        url
    }

    /// The name of one of its keys or services.
    #[must_use]
    pub fn url(&self, fragment: &str) -> String {
        format!("{}#{fragment}", self.text)
    }
}

impl Fingerprint {
    /// Reads the last segment of a path.
    fn parse(segment: &str) -> Result<Self, DidError> {
        let digest = |text| base64url_exact::<32>(text).ok_or_else(|| DidError::Fingerprint(segment.to_owned()));
        if let Some(text) = segment.strip_prefix("e1_") {
            return Ok(Self::E1(digest(text)?));
        }
        if let Some(text) = segment.strip_prefix("k1_") {
            return Ok(Self::K1(digest(text)?));
        }
        Ok(Self::None)
    }
}

fn authority_parts(authority: &str) -> Result<(&str, Option<u16>), DidError> {
    let Some(at) = authority.find('%') else {
        return if is_domain(authority) { Ok((authority, None)) } else { Err(DidError::Host(authority.to_owned())) };
    };
    let (host, rest) = authority.split_at(at);
    let digits = rest
        .strip_prefix("%3A")
        .or_else(|| rest.strip_prefix("%3a"))
        .ok_or_else(|| DidError::Host(authority.to_owned()))?;
    if !is_domain(host) {
        return Err(DidError::Host(host.to_owned()));
    }
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let port = digits.parse().ok().filter(|_| number).ok_or_else(|| DidError::Port(digits.to_owned()))?;
    Ok((host, Some(port)))
}

/// Whether a text is a domain name in lower case. A name whose last label is a number is how addresses are
/// written, in any of their forms.
fn is_domain(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    host.len() <= 253 && host.split('.').all(label) && !is_number
}

fn is_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Did {
    type Err = DidError;

    fn from_str(text: &str) -> Result<Self, DidError> {
        Self::parse(text)
    }
}

impl From<Did> for String {
    fn from(did: Did) -> Self {
        did.text.to_string()
    }
}

impl TryFrom<String> for Did {
    type Error = DidError;

    fn try_from(text: String) -> Result<Self, DidError> {
        Self::parse(&text)
    }
}

/// The name of a key: a DID, `#` and a fragment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DidUrl {
    did: Did,
    fragment: String,
}

impl DidUrl {
    /// Reads `DID#fragment`.
    ///
    /// # Errors
    /// The DID or the fragment is not well formed.
    pub fn parse(text: &str) -> Result<Self, DidError> {
        let (did, fragment) = text.split_once('#').ok_or(DidError::Fragment)?;
        Self::new(Did::parse(did)?, fragment)
    }

    /// Names a key of a DID.
    ///
    /// # Errors
    /// The fragment is empty, long, or not printable.
    pub fn new(did: Did, fragment: &str) -> Result<Self, DidError> {
        let printable = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'#');
        if fragment.is_empty() || fragment.len() > 128 || !fragment.bytes().all(printable) {
            return Err(DidError::Fragment);
        }
        Ok(Self { did, fragment: fragment.to_owned() })
    }

    /// Whose key it is.
    #[must_use]
    pub const fn did(&self) -> &Did {
        &self.did
    }

    /// Which of the keys.
    #[must_use]
    pub fn fragment(&self) -> &str {
        &self.fragment
    }
}

impl fmt::Display for DidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.did, self.fragment)
    }
}

impl fmt::Debug for DidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
