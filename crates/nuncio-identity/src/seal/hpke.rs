//! Wraps content keys for one device with HPKE (RFC 9180): base mode, X25519, HKDF-SHA256, AES-256-GCM.

use std::convert::Infallible;

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{Deserializable as _, Kem as _, OpModeR, OpModeS, Serializable as _};
use nuncio_core::bundle::X25519PublicKey;
use zeroize::Zeroizing;

use crate::jcs::sha256;

const INFO: &[u8] = b"a2h/cek/v1";

/// Length in bytes of a content key with the hash of its header, before wrapping.
pub(super) const WRAPPED: usize = 64;
/// Length in bytes of a wrapped content key.
pub(super) const CT: usize = WRAPPED + 16;

pub(super) fn public(secret: &[u8; 32]) -> X25519PublicKey {
    let secret = private(secret);
    X25519PublicKey::new(X25519HkdfSha256::sk_to_pk(&secret).to_bytes().into())
}

/// Key id: SHA-256 of the public key.
pub(super) fn kid(key: &X25519PublicKey) -> [u8; 32] {
    sha256(key.as_bytes())
}

/// Wraps a content key for the holder of `key`. The ephemeral key is derived from `fresh`, 32 random bytes that must
/// not be used again. Returns `None` if `key` is not a valid public key.
pub(super) fn wrap(
    key: &X25519PublicKey,
    header: &[u8; 32],
    plain: &[u8; WRAPPED],
    fresh: [u8; 32],
) -> Option<([u8; 32], Vec<u8>)> {
    let key = <X25519HkdfSha256 as hpke::Kem>::PublicKey::from_bytes(key.as_bytes()).ok()?;
    let mut fresh = FixedBytesRng(Some(Zeroizing::new(fresh)));
    let (enc, ct) = hpke::single_shot_seal_with_rng::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
        &OpModeS::Base,
        &key,
        INFO,
        plain,
        header,
        &mut fresh,
    )
    .ok()?;
    Some((enc.to_bytes().into(), ct))
}

/// Unwraps a content key; `None` if it was changed or wrapped for another key.
pub(super) fn unwrap(
    secret: &[u8; 32],
    header: &[u8; 32],
    enc: &[u8; 32],
    ct: &[u8],
) -> Option<Zeroizing<[u8; WRAPPED]>> {
    let enc = <X25519HkdfSha256 as hpke::Kem>::EncappedKey::from_bytes(enc).ok()?;
    let plain = hpke::single_shot_open::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
        &OpModeR::Base,
        &private(secret),
        &enc,
        INFO,
        ct,
        header,
    );
    let plain = Zeroizing::new(plain.ok()?);
    plain.as_slice().try_into().ok().map(Zeroizing::new)
}

fn private(secret: &[u8; 32]) -> <X25519HkdfSha256 as hpke::Kem>::PrivateKey {
    <X25519HkdfSha256 as hpke::Kem>::PrivateKey::from_bytes(secret).expect("an X25519 private key is any 32 bytes")
}

/// A random generator that returns the given bytes once, for the single draw of an encapsulation.
struct FixedBytesRng(Option<Zeroizing<[u8; 32]>>);

impl TryRng for FixedBytesRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("an encapsulation draws bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("an encapsulation draws bytes")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&*self.0.take().expect("an encapsulation draws once"));
        Ok(())
    }
}

impl TryCryptoRng for FixedBytesRng {}
