//! Safety numbers: digits that two people compare to detect an interceptor.

use nuncio_core::notification::RelayParty;
use nuncio_core::signature::PublicKey;
use ring::digest::{Context, SHA512};

const LABEL: &[u8] = b"a2h/safety/v1";
/// Hash iterations per side, to make partial matches expensive for an attacker.
const ROUNDS: usize = 5200;

/// Returns twelve groups of five digits, equal on both sides.
pub(super) fn compute(one: (&RelayParty, &[PublicKey]), other: (&RelayParty, &[PublicKey])) -> String {
    let mut halves = [half(one), half(other)];
    halves.sort_unstable();
    halves.concat().join(" ")
}

/// Six digit groups of a safety number for one side, from its owner name and its root keys.
fn half((owner, keys): (&RelayParty, &[PublicKey])) -> Vec<String> {
    let mut keys: Vec<_> = keys.iter().map(PublicKey::as_bytes).collect();
    keys.sort_unstable();
    let keys = keys.into_iter().flatten().copied().collect::<Vec<_>>();
    let mut hash = [LABEL, b"\n", owner.to_string().as_bytes(), b"\n", &keys].concat();
    for _ in 0..ROUNDS {
        let mut context = Context::new(&SHA512);
        context.update(&hash);
        context.update(&keys);
        hash = context.finish().as_ref().to_vec();
    }
    let digits = |bytes: &[u8; 5]| {
        let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("{:05}", number % 100_000)
    };
    hash[..30].as_chunks::<5>().0.iter().map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::ids::PersonName;

    #[test]
    fn safety_number_is_equal_on_both_sides_and_changes_with_any_key() {
        let person = |name| RelayParty::Person(PersonName::parse(name).unwrap());
        let (ada, bob) = (person("ada"), person("bob"));
        let key = |byte| PublicKey::new([byte; 32]).unwrap();
        let there = compute((&ada, &[key(9), key(8)]), (&bob, &[key(7)]));
        assert_eq!(there, compute((&bob, &[key(7)]), (&ada, &[key(8), key(9)])));
        assert_ne!(there, compute((&ada, &[key(9)]), (&bob, &[key(7)])));
        assert_ne!(there, compute((&bob, &[key(9), key(8)]), (&ada, &[key(7)])));
        assert_eq!(there.len(), 12 * 5 + 11);
        assert!(there.split(' ').all(|group| group.len() == 5 && group.bytes().all(|byte| byte.is_ascii_digit())));
    }
}
