//! The body of an envelope: the padded payload, encrypted once for all devices.

use zeroize::Zeroizing;

use super::cipher::{self, NONCE, TAG};

/// Minimum length of a padded text, in bytes.
const MIN_PADDED_BYTES: usize = 256;
/// Bytes of the length prefix of a padded text.
const PREFIX: usize = 4;
const LABEL: &[u8; 11] = b"a2h/body/v1";

pub(super) struct EncryptedBody {
    pub(super) nonce: [u8; NONCE],
    pub(super) ct: Vec<u8>,
}

/// Length after padding of a text with `text` bytes: a 4-byte length prefix is added and the sum is rounded up with
/// Padmé (at most 12 % more), to at least 256.
#[must_use]
pub fn padded_len(text: usize) -> usize {
    let length = text.saturating_add(PREFIX);
    if length <= MIN_PADDED_BYTES {
        return MIN_PADDED_BYTES;
    }
    let exponent = length.ilog2();
    let kept = exponent.ilog2() + 1;
    let mask = (1_usize << (exponent - kept)) - 1;
    length.saturating_add(mask) & !mask
}

fn associated(header: &[u8; 32]) -> [u8; 43] {
    let mut aad = [0; 43];
    aad[..11].copy_from_slice(LABEL);
    aad[11..].copy_from_slice(header);
    aad
}

/// Pads and encrypts a text. The key must not be used for anything else.
pub(super) fn encrypt(key: &[u8; 32], nonce: [u8; NONCE], header: &[u8; 32], text: &[u8]) -> Option<EncryptedBody> {
    Some(EncryptedBody { nonce, ct: encrypt_padded(key, nonce, &associated(header), text)? })
}

/// Pads and encrypts a text; `None` if its length does not fit in the prefix.
pub(super) fn encrypt_padded(key: &[u8; 32], nonce: [u8; NONCE], aad: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(text.len()).ok()?;
    let padded = padded_len(text.len());
    let mut ct = Vec::with_capacity(padded + TAG);
    ct.extend_from_slice(&length.to_be_bytes());
    ct.extend_from_slice(text);
    ct.resize(padded, 0);
    cipher::encrypt(key, nonce, aad, &mut ct);
    Some(ct)
}

/// Decrypts a body and removes the padding; `None` if the ciphertext or the padding is invalid.
pub(super) fn decrypt(key: &[u8; 32], header: &[u8; 32], body: EncryptedBody) -> Option<Zeroizing<Vec<u8>>> {
    decrypt_padded(key, body.nonce, &associated(header), body.ct)
}

/// Reverse of [`encrypt_padded`].
pub(super) fn decrypt_padded(
    key: &[u8; 32],
    nonce: [u8; NONCE],
    aad: &[u8],
    ct: Vec<u8>,
) -> Option<Zeroizing<Vec<u8>>> {
    let mut ct = Zeroizing::new(ct);
    let padded = cipher::decrypt(key, nonce, aad, &mut ct)?.len();
    let length = usize::try_from(u32::from_be_bytes(*ct.first_chunk::<PREFIX>()?)).ok()?;
    let whole = padded_len(length) == padded && ct.get(PREFIX + length..padded)?.iter().all(|byte| *byte == 0);
    if !whole {
        return None;
    }
    ct.truncate(PREFIX + length);
    ct.drain(..PREFIX);
    Some(ct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_uses_few_lengths_and_adds_at_most_12_percent() {
        for (text, padded) in [(0, 256), (252, 256), (253, 272), (268, 272), (269, 288), (1020, 1024), (1021, 1088)] {
            assert_eq!(padded_len(text), padded, "{text}");
        }
        let mut lengths = std::collections::BTreeSet::new();
        for text in 0..=400_000 {
            let padded = padded_len(text);
            assert!(
                padded >= text + PREFIX && (padded == MIN_PADDED_BYTES || padded * 100 <= (text + PREFIX) * 112),
                "{text}"
            );
            lengths.insert(padded);
        }
        assert!(lengths.len() < 250, "{}", lengths.len());
    }

    #[test]
    fn decrypt_refuses_non_canonical_padding() {
        let (key, header) = ([1; 32], [2; 32]);
        for length in [0, 1, 252, 253, 5000] {
            let text = vec![7; length];
            let body = encrypt(&key, [3; NONCE], &header, &text).unwrap();
            assert_eq!(body.ct.len(), padded_len(length) + TAG);
            assert_eq!(decrypt(&key, &header, body).unwrap().as_slice(), text);
        }
        // Forged bodies: with more padding than needed, with non-zero padding, and with a length beyond the end.
        let forged = |text: &[u8]| {
            let mut ct = text.to_vec();
            cipher::encrypt(&key, [3; NONCE], &associated(&header), &mut ct);
            decrypt(&key, &header, EncryptedBody { nonce: [3; NONCE], ct })
        };
        let mut padded = [[0, 0, 0, 1, b'x'].as_slice(), &[0; 251]].concat();
        assert_eq!(forged(&padded).unwrap().as_slice(), b"x");
        assert!(forged(&[padded.as_slice(), &[0; 16]].concat()).is_none());
        padded[255] = 1;
        assert!(forged(&padded).is_none());
        padded[3] = 253;
        assert!(forged(&padded).is_none());
        assert!(forged(b"\0\0").is_none());
        let body = encrypt(&key, [3; NONCE], &header, b"x").unwrap();
        assert!(decrypt(&key, &[9; 32], body).is_none(), "another header");
    }
}
