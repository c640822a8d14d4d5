//! Fuzz targets for every parser of untrusted bytes. `cargo xtask fuzz` runs them with libFuzzer; the test below runs
//! every seed once.
//!
//! A target panics if a parser panics, if a value changes when it is written and parsed again, or if a forged proof
//! verifies. A finding is fixed, and its input becomes a test of the crate that had the fault.

#![expect(clippy::unwrap_used, reason = "a panic is how a fuzz target reports a finding")]

pub mod seeds;
pub mod targets;

/// A fuzz target: a function that takes any bytes, and its seed inputs.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: fn() -> Vec<Vec<u8>>,
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        pub const TARGETS: &[FuzzTarget] = &[$(FuzzTarget {
            name: stringify!($name),
            run: targets::$name::run,
            seeds: targets::$name::seeds,
        }),*];
    };
}

targets!(
    agent_file,
    cursors,
    did_document,
    envelope,
    event_stream,
    http_signature,
    json_rpc,
    manifest,
    schema_judge,
    structured_fields,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fuzz_target_panics_on_its_seeds_or_their_first_halves() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(seeds.len() >= 3, "{} has {} seeds", target.name, seeds.len());
            for seed in seeds {
                (target.run)(&seed);
                // The first half of a seed is a simple invalid input.
                (target.run)(&seed[..seed.len() / 2]);
            }
        }
    }

    #[test]
    fn every_fuzz_target_is_declared_as_a_binary_in_the_manifest() {
        let manifest = include_str!("../Cargo.toml");
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
        }
    }
}
