//! Verifies signatures made by people's devices: on ledgers, keys and envelopes.

use nuncio_core::signature::{PublicKey, Signature, SignatureChecker};

/// Strict Ed25519 verification: no signature is valid for a second key or message.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceSignatureVerifier;

impl SignatureChecker for DeviceSignatureVerifier {
    fn holds(&self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature.as_bytes());
        ed25519_dalek::VerifyingKey::from_bytes(key.as_bytes())
            .is_ok_and(|key| key.verify_strict(message, &signature).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey as Point};

    #[test]
    fn device_signature_verifies_only_with_its_key_and_message() {
        let (one, two) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let key = |pair: &SigningKey| PublicKey::new(pair.verifying_key().to_bytes()).unwrap();
        let signature = Signature::new(one.sign(b"yes").to_bytes());
        assert!(DeviceSignatureVerifier.holds(&key(&one), b"yes", &signature));
        assert!(!DeviceSignatureVerifier.holds(&key(&one), b"no", &signature));
        assert!(!DeviceSignatureVerifier.holds(&key(&two), b"yes", &signature));
    }

    /// `nuncio-core` has a fixed list of weak keys, because it does no curve arithmetic. The list must be complete.
    #[test]
    fn core_refuses_weak_ed25519_keys_and_accepts_generated_keys() {
        // Multiples of a point of order eight, as listed by libsodium and others.
        let eighth: [u8; 32] = [
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
            0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
        ];
        assert!(Point::from_bytes(&eighth).unwrap().is_weak());
        let mut found = 0;
        for low in 0..=255_u8 {
            for high in [0x00, 0x05, 0x7a, 0x7f, 0x80, 0x85, 0xfa, 0xff] {
                for filler in [0x00, 0xff] {
                    let mut bytes = [filler; 32];
                    (bytes[0], bytes[31]) = (low, high);
                    let weak = Point::from_bytes(&bytes).is_ok_and(|point| point.is_weak());
                    assert!(!weak || PublicKey::new(bytes).is_err(), "{bytes:02x?}");
                    found += usize::from(weak);
                }
            }
        }
        assert!(found >= 5, "{found} weak ones were tried");
        assert!(PublicKey::new(eighth).is_err());
        for seed in 0..=255_u8 {
            assert!(PublicKey::new(SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes()).is_ok());
        }
    }
}
