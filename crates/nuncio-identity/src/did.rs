//! did:wba identifiers (ANP-03 §2): their syntax, and the URL of their documents.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::encoding::base64url_exact;

pub const MAX_DID_BYTES: usize = 512;

/// A did:wba identifier, stored byte for byte as written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Did {
    text: Arc<str>,
    /// Byte offset in `text` where the host ends.
    host_end: u16,
    /// Byte offset in `text` where host and port end.
    authority_end: u16,
    port: Option<u16>,
}

/// The key fingerprint in the last path segment of a DID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DidKeyFingerprint {
    /// No fingerprint: a bare domain, or a path DID from before fingerprints.
    None,
    /// `e1_…`: RFC 7638 thumbprint of the Ed25519 key that signs the document.
    E1([u8; 32]),
    /// `k1_…`: RFC 7638 thumbprint of a secp256k1 authentication key.
    K1([u8; 32]),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidParseError {
    /// The text does not begin with `did:wba:`.
    #[error("only did:wba is supported; write did:wba:HOST or did:wba:HOST:SEGMENT…")]
    Method,
    #[error("a DID has at most {MAX_DID_BYTES} bytes")]
    TooLong,
    /// The host is not a lower-case domain name.
    #[error("the host must be a domain name in lower case, not an address or {0:?}")]
    Host(String),
    #[error("the port must be a number from 1 to 65535 after %3A, not {0:?}")]
    Port(String),
    #[error("a segment may contain letters, digits, '-', '_' and '.', and be neither '.' nor '..'; this one is {0:?}")]
    Segment(String),
    /// The last segment begins with `e1_` or `k1_` and is not a fingerprint.
    #[error("a fingerprint is e1_ or k1_ and 43 characters of base64url, not {0:?}")]
    Fingerprint(String),
    /// The fragment of a DID URL is missing or has characters that are not allowed.
    #[error("a key is named by a DID, '#' and a name; the name is missing or not printable ASCII")]
    Fragment,
}

const PREFIX: &str = "did:wba:";

impl Did {
    /// Parses a DID. Upper-case hosts are refused, so that one identifier has only one spelling in allow and block
    /// lists.
    pub fn parse(text: &str) -> Result<Self, DidParseError> {
        if text.len() > MAX_DID_BYTES {
            return Err(DidParseError::TooLong);
        }
        let rest = text.strip_prefix(PREFIX).ok_or(DidParseError::Method)?;
        let (authority, path) = rest.split_once(':').map_or((rest, None), |(authority, path)| (authority, Some(path)));
        let (host, port) = authority_parts(authority)?;
        for segment in path.into_iter().flat_map(|path| path.split(':')) {
            if !is_segment(segment) {
                return Err(DidParseError::Segment(segment.to_owned()));
            }
        }
        if let Some(last) = path.and_then(|path| path.rsplit(':').next()) {
            DidKeyFingerprint::parse(last)?;
        }
        let end = |length: usize| u16::try_from(PREFIX.len() + length).map_err(|_| DidParseError::TooLong);
        Ok(Self { text: text.into(), host_end: end(host.len())?, authority_end: end(authority.len())?, port })
    }

    /// Builds a DID from a host, a port and path segments.
    pub fn new(host: &str, port: Option<u16>, segments: &[&str]) -> Result<Self, DidParseError> {
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

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn host(&self) -> &str {
        &self.text[PREFIX.len()..usize::from(self.host_end)]
    }

    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path segments; none for a bare domain.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.text[usize::from(self.authority_end)..].split(':').skip(1)
    }

    /// Returns whether the DID has no path and names a whole domain.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        usize::from(self.authority_end) == self.text.len()
    }

    #[must_use]
    pub fn fingerprint(&self) -> DidKeyFingerprint {
        let last = self.segments().last().map(DidKeyFingerprint::parse);
        last.and_then(Result::ok).unwrap_or(DidKeyFingerprint::None)
    }

    /// Host and path of the DID without the fingerprint, such as `example.com:user:alice`; unchanged when the key
    /// changes.
    #[must_use]
    pub fn stable_subject(&self) -> &str {
        let rest = &self.text[PREFIX.len()..];
        match self.fingerprint() {
            DidKeyFingerprint::None => rest,
            DidKeyFingerprint::E1(_) | DidKeyFingerprint::K1(_) => {
                rest.rsplit_once(':').map_or(rest, |(before, _)| before)
            }
        }
    }

    /// URL of the DID document: `https://host[:port]/…/did.json`.
    #[must_use]
    pub fn resolution_url(&self) -> String {
        match self.port {
            Some(port) => self.resolution_url_at(&format!("https://{}:{port}", self.host())),
            None => self.resolution_url_at(&format!("https://{}", self.host())),
        }
    }

    /// URL of the DID document on another scheme and host. `base` must not end with a slash.
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

    /// DID URL of a key or service: the DID, `#` and the fragment.
    #[must_use]
    pub fn url(&self, fragment: &str) -> String {
        format!("{}#{fragment}", self.text)
    }
}

impl DidKeyFingerprint {
    /// Parses the last path segment of a DID; a segment without a prefix has no fingerprint.
    fn parse(segment: &str) -> Result<Self, DidParseError> {
        let digest = |text| base64url_exact::<32>(text).ok_or_else(|| DidParseError::Fingerprint(segment.to_owned()));
        if let Some(text) = segment.strip_prefix("e1_") {
            return Ok(Self::E1(digest(text)?));
        }
        if let Some(text) = segment.strip_prefix("k1_") {
            return Ok(Self::K1(digest(text)?));
        }
        Ok(Self::None)
    }
}

fn authority_parts(authority: &str) -> Result<(&str, Option<u16>), DidParseError> {
    let Some(at) = authority.find('%') else {
        return if is_domain(authority) {
            Ok((authority, None))
        } else {
            Err(DidParseError::Host(authority.to_owned()))
        };
    };
    let (host, rest) = authority.split_at(at);
    let digits = rest
        .strip_prefix("%3A")
        .or_else(|| rest.strip_prefix("%3a"))
        .ok_or_else(|| DidParseError::Host(authority.to_owned()))?;
    if !is_domain(host) {
        return Err(DidParseError::Host(host.to_owned()));
    }
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let port = digits.parse().ok().filter(|_| number).ok_or_else(|| DidParseError::Port(digits.to_owned()))?;
    Ok((host, Some(port)))
}

/// Returns whether the text is a lower-case domain name. A numeric last label is refused because it would parse as an
/// IP address.
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
    type Err = DidParseError;

    fn from_str(text: &str) -> Result<Self, DidParseError> {
        Self::parse(text)
    }
}

impl From<Did> for String {
    fn from(did: Did) -> Self {
        did.text.to_string()
    }
}

impl TryFrom<String> for Did {
    type Error = DidParseError;

    fn try_from(text: String) -> Result<Self, DidParseError> {
        Self::parse(&text)
    }
}

/// A DID URL that names a key: a DID, `#` and a fragment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DidUrl {
    did: Did,
    fragment: String,
}

impl DidUrl {
    pub fn parse(text: &str) -> Result<Self, DidParseError> {
        let (did, fragment) = text.split_once('#').ok_or(DidParseError::Fragment)?;
        Self::new(Did::parse(did)?, fragment)
    }

    /// Fails if the fragment is empty, longer than 128 bytes or not printable ASCII.
    pub fn new(did: Did, fragment: &str) -> Result<Self, DidParseError> {
        let printable = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'#');
        if fragment.is_empty() || fragment.len() > 128 || !fragment.bytes().all(printable) {
            return Err(DidParseError::Fragment);
        }
        Ok(Self { did, fragment: fragment.to_owned() })
    }

    #[must_use]
    pub const fn did(&self) -> &Did {
        &self.did
    }

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
