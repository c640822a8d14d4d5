//! Random numbers for fault tests: from a fixed seed in `cargo xtask test`, from a new seed in `cargo nextest run`.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{LazyLock, Mutex};

/// State of a xorshift generator, which is never zero.
static STATE: LazyLock<Mutex<u64>> = LazyLock::new(|| {
    let fixed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seed = fixed.unwrap_or_else(|| RandomState::new().hash_one(()));
    println!("PROPTEST_RNG_SEED={seed} repeats the random numbers of this test");
    Mutex::new((seed ^ 0x9e37_79b9_7f4a_7c15).max(1))
});

/// A number below `limit`.
pub(crate) fn random(limit: u64) -> u64 {
    let mut state = STATE.lock().unwrap();
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % limit
}
