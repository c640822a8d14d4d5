//! Searches bytes for the content key of a sealed message: raw, in base64 and in hex, at every offset.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    hdr: &'a RawValue,
    body: EnvelopeBody,
}

#[derive(Deserialize)]
struct EnvelopeBody {
    nonce: String,
    ct: String,
}

/// The content key that opens the envelope, if the bytes contain it.
#[must_use]
pub fn content_key_in(bytes: &[u8], envelope: &[u8]) -> Option<[u8; 32]> {
    let envelope: Envelope<'_> = serde_json::from_slice(envelope).unwrap();
    let header = digest(&SHA256, envelope.hdr.get().as_bytes());
    let aad = [b"a2h/body/v1".as_slice(), header.as_ref()].concat();
    let (nonce, ct) = (from_base64(envelope.body.nonce.as_bytes()), from_base64(envelope.body.ct.as_bytes()));
    let nonce: [u8; 12] = nonce.try_into().unwrap();
    let opens = |key: &[u8]| {
        let opening = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap());
        let (nonce, mut ct) = (Nonce::assume_unique_for_key(nonce), ct.clone());
        opening.open_in_place(nonce, Aad::from(&aad), &mut ct).is_ok()
    };
    // Candidates of zeros are skipped, because most of a database is zeros.
    let within = |bytes: &[u8]| {
        let mut keys = bytes.windows(32).filter(|key| key.iter().any(|byte| *byte != 0));
        keys.find(|key| opens(key)).map(|key| key.try_into().unwrap())
    };
    within(bytes).or_else(|| {
        let mut runs = bytes.split(|byte| !byte.is_ascii_alphanumeric() && !b"+/-_".contains(byte));
        runs.find_map(|run| {
            // Four offsets, because preceding characters may shift the base64 groups.
            let base64 = (0..4).filter(|_| run.len() >= 43).find_map(|from| within(&from_base64(&run[from..])));
            let hex = (0..2).filter(|_| run.len() >= 64).find_map(|from| within(&from_hex(&run[from..])));
            base64.or(hex)
        })
    })
}

fn from_base64(text: &[u8]) -> Vec<u8> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::with_capacity(text.len() * 3 / 4));
    for character in text {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

fn from_hex(text: &[u8]) -> Vec<u8> {
    let digit = |character: u8| char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks_exact(2).map_while(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    use ring::digest::{SHA256, digest};

    use super::content_key_in;

    fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
        let mut text = String::new();
        for piece in bytes.chunks(3) {
            let bits = piece.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - piece.len()));
            for index in 0..=piece.len() {
                text.push(char::from(alphabet[usize::try_from(bits >> (18 - 6 * index) & 63).unwrap()]));
            }
        }
        text
    }

    #[test]
    fn content_key_in_bytes_is_found_raw_in_base64_and_in_hex() {
        const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let key: [u8; 32] = std::array::from_fn(|index| u8::try_from(index * 7 + 3).unwrap());
        let header = r#"{"v":"a2h-envelope-v1"}"#;
        let aad = [b"a2h/body/v1".as_slice(), digest(&SHA256, header.as_bytes()).as_ref()].concat();
        let mut ct = vec![1; 256];
        let sealing = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap());
        sealing.seal_in_place_append_tag(Nonce::assume_unique_for_key([5; 12]), Aad::from(&aad), &mut ct).unwrap();
        let (nonce, ct) = (base64(&[5; 12], URL), base64(&ct, URL));
        let envelope = format!(r#"{{"body":{{"ct":"{ct}","nonce":"{nonce}"}},"hdr":{header},"sig":"","to":[]}}"#);
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let surrounded = [b"some bytes before".as_slice(), &key, b" and after"].concat();
        let written = [base64(&key, URL), base64(&key, STANDARD), format!("xx{}", base64(&key, URL)), hex];
        for bytes in written.iter().map(|text| format!("key={text}, ").into_bytes()).chain([surrounded]) {
            assert_eq!(content_key_in(&bytes, envelope.as_bytes()), Some(key));
        }
        assert_eq!(content_key_in(&[envelope.as_bytes(), &key[1..]].concat(), envelope.as_bytes()), None);
    }
}
