//! The wire format `a2h-envelope-v1`, and the bytes its signature covers.

use std::borrow::Cow;

use nuncio_core::bundle::WrapAlgorithm;
use nuncio_core::conversation::MAX_ENVELOPE;
use nuncio_core::ids::DeviceId;
use nuncio_core::signature::Signature;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::body::EncryptedBody;
use super::cipher::NONCE;
use super::header::{EnvelopeHeader, VERSION};
use super::hpke;
use crate::encoding::{base64url, base64url_exact, from_base64url};
use crate::jcs::sha256;

/// Maximum number of devices per envelope.
pub(super) const MAX_ENTRIES: usize = 2048;
/// Maximum size in bytes of an Olm message that carries a content key.
const MAX_OLM: usize = 1024;
const LABEL: &[u8; 10] = b"a2h/sig/v1";

/// The content key, wrapped for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecipientKeyEntry {
    pub(super) device: DeviceId,
    pub(super) wrap: WrappedKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WrappedKey {
    /// The content key is wrapped in an Olm session: the message and its Olm message type.
    Olm { kind: u8, ct: Vec<u8> },
    /// The content key is wrapped with HPKE to the key whose id is `kid`.
    Hpke { kid: [u8; 32], enc: [u8; 32], ct: Vec<u8> },
}

pub(super) type EnvelopeSignedBytes = [u8; 106];

fn signed(header: &[u8; 32], body: &[u8; 32], to: &[u8; 32]) -> EnvelopeSignedBytes {
    let mut bytes = [0; 106];
    bytes[..10].copy_from_slice(LABEL);
    bytes[10..42].copy_from_slice(header);
    bytes[42..74].copy_from_slice(body);
    bytes[74..].copy_from_slice(to);
    bytes
}

/// Hash of the canonical JSON of an encrypted body, whose base64url values need no escaping.
fn body_hash(ct: &str, nonce: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in ["{\"ct\":\"", ct, "\",\"nonce\":\"", nonce, "\"}"] {
        hash.update(part);
    }
    hash.finalize().into()
}

/// Canonical JSON of the wrapped-key entries.
pub(super) fn entries_text(entries: &[RecipientKeyEntry]) -> String {
    let mut text = String::with_capacity(2 + entries.len() * 320);
    text.push('[');
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let device = entry.device.as_str();
        let parts = match &entry.wrap {
            WrappedKey::Olm { kind, ct } => {
                format!(r#"{{"alg":"olm-v1","ct":"{}","device_id":"{device}","type":{kind}}}"#, base64url(ct))
            }
            WrappedKey::Hpke { kid, enc, ct } => format!(
                r#"{{"alg":"hpke-x25519-hkdfsha256-aes256gcm","ct":"{}","device_id":"{device}","enc":"{}","kid":"{}"}}"#,
                base64url(ct),
                base64url(enc),
                base64url(kid)
            ),
        };
        text.push_str(&parts);
    }
    text.push(']');
    text
}

/// Writes an envelope; `sign` receives the bytes to sign. Returns `None` if the envelope is too large.
pub(super) fn write(
    header: &[u8],
    body: &EncryptedBody,
    entries: &[RecipientKeyEntry],
    sign: impl FnOnce(&EnvelopeSignedBytes) -> Signature,
) -> Option<Vec<u8>> {
    let (ct, nonce, to) = (base64url(&body.ct), base64url(&body.nonce), entries_text(entries));
    let signature = sign(&signed(&sha256(header), &body_hash(&ct, &nonce), &sha256(to.as_bytes()))).to_string();
    let mut bytes = Vec::with_capacity(ct.len() + to.len() + header.len() + 200);
    for part in [
        b"{\"body\":{\"ct\":\"".as_slice(),
        ct.as_bytes(),
        b"\",\"nonce\":\"",
        nonce.as_bytes(),
        b"\"},\"hdr\":",
        header,
        b",\"sig\":\"",
        signature.as_bytes(),
        b"\",\"to\":",
        to.as_bytes(),
        b"}",
    ] {
        bytes.extend_from_slice(part);
    }
    (bytes.len() <= MAX_ENVELOPE).then_some(bytes)
}

/// A well-formed envelope that is not verified.
pub(super) struct UnverifiedEnvelope {
    pub(super) header: EnvelopeHeader,
    pub(super) header_hash: [u8; 32],
    pub(super) body: EncryptedBody,
    pub(super) entries: Vec<RecipientKeyEntry>,
    pub(super) signature: Signature,
    pub(super) signed: EnvelopeSignedBytes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEnvelope<'a> {
    #[serde(borrow)]
    hdr: &'a RawValue,
    #[serde(borrow)]
    body: WireEnvelopeBody<'a>,
    #[serde(borrow)]
    to: Vec<WireRecipientEntry<'a>>,
    #[serde(borrow)]
    sig: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEnvelopeBody<'a> {
    #[serde(borrow)]
    nonce: Cow<'a, str>,
    #[serde(borrow)]
    ct: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRecipientEntry<'a> {
    device_id: DeviceId,
    alg: WrapAlgorithm,
    #[serde(borrow)]
    ct: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: Option<u8>,
    #[serde(borrow)]
    enc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kid: Option<Cow<'a, str>>,
}

/// Parses an envelope. The header must be in canonical form; the rest may be in any JSON form.
pub(super) fn read(bytes: &[u8]) -> Result<UnverifiedEnvelope, String> {
    if bytes.len() > MAX_ENVELOPE {
        return Err(format!("it has more than {MAX_ENVELOPE} bytes"));
    }
    let wire: WireEnvelope<'_> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let header: EnvelopeHeader = serde_json::from_str(wire.hdr.get()).map_err(|error| format!("hdr: {error}"))?;
    if header.v != VERSION {
        return Err(format!("hdr.v must be {VERSION:?}"));
    }
    if header.canonical() != wire.hdr.get().as_bytes() {
        return Err("hdr is not in its canonical form (RFC 8785, times as 2026-11-15T11:00:00.000Z)".to_owned());
    }
    if wire.to.len() > MAX_ENTRIES {
        return Err(format!("to has more than {MAX_ENTRIES} entries"));
    }
    let entries = wire.to.iter().map(entry).collect::<Option<Vec<_>>>().ok_or("an entry of to is malformed")?;
    let nonce = base64url_exact::<NONCE>(&wire.body.nonce).ok_or("body.nonce is not 12 bytes in base64url")?;
    let ct = from_base64url(&wire.body.ct).ok_or("body.ct is not in base64url")?;
    let signature = Signature::parse(&wire.sig).ok_or("sig is not 64 bytes in base64url")?;
    let header_hash = sha256(wire.hdr.get().as_bytes());
    let body_hash = body_hash(&wire.body.ct, &wire.body.nonce);
    let signed = signed(&header_hash, &body_hash, &sha256(entries_text(&entries).as_bytes()));
    Ok(UnverifiedEnvelope { header, header_hash, body: EncryptedBody { nonce, ct }, entries, signature, signed })
}

fn entry(wire: &WireRecipientEntry<'_>) -> Option<RecipientKeyEntry> {
    if wire.ct.len() > MAX_OLM * 2 {
        return None;
    }
    let ct = from_base64url(&wire.ct)?;
    let wrap = match (wire.alg, wire.kind, &wire.enc, &wire.kid) {
        (WrapAlgorithm::Olm, Some(kind @ (0 | 1)), None, None) if ct.len() <= MAX_OLM => WrappedKey::Olm { kind, ct },
        (WrapAlgorithm::Hpke, None, Some(enc), Some(kid)) if ct.len() == hpke::CT => {
            WrappedKey::Hpke { kid: base64url_exact(kid)?, enc: base64url_exact(enc)?, ct }
        }
        _ => return None,
    };
    Some(RecipientKeyEntry { device: wire.device_id.clone(), wrap })
}
