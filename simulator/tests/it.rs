//! Fixed seeds. `cargo xtask simulate` runs new ones.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop here")]

use std::ops::Range;

use nuncio_simulator::{StoreSabotage, simulate};

fn all_keep_their_promises(seeds: Range<u64>) {
    for seed in seeds {
        if let Err(broken) = simulate(seed, None) {
            panic!("{broken}\nrepeat it with `cargo xtask simulate --seed {seed}`");
        }
    }
}

#[test]
fn promises_hold_for_seeds_0_to_249() {
    all_keep_their_promises(0..250);
}

#[test]
fn promises_hold_for_seeds_250_to_499() {
    all_keep_their_promises(250..500);
}

#[test]
fn promises_hold_for_seeds_500_to_749() {
    all_keep_their_promises(500..750);
}

#[test]
fn promises_hold_for_seeds_750_to_999() {
    all_keep_their_promises(750..1000);
}

#[test]
fn promises_hold_for_seeds_1000_to_1249() {
    all_keep_their_promises(1000..1250);
}

#[test]
fn promises_hold_for_seeds_1250_to_1499() {
    all_keep_their_promises(1250..1500);
}

#[test]
fn promises_hold_for_seeds_1500_to_1749() {
    all_keep_their_promises(1500..1750);
}

#[test]
fn promises_hold_for_seeds_1750_to_1999() {
    all_keep_their_promises(1750..2000);
}

#[test]
fn same_seed_gives_the_same_history() {
    for seed in 0..100 {
        assert_eq!(simulate(seed, None).unwrap(), simulate(seed, None).unwrap(), "seed {seed}");
    }
}

/// Whether one of the first seeds breaks a promise whose text starts so.
fn is_found(sabotage: StoreSabotage, promise: &str) -> bool {
    let mut broken = (0..200).filter_map(|seed| simulate(seed, Some(sabotage)).err());
    broken.any(|run| run.violations.iter().any(|violation| violation.starts_with(promise)))
}

#[test]
fn commit_of_an_incarnation_that_was_declared_dead_is_found() {
    assert!(is_found(StoreSabotage::NoFence, "promise 2:"));
}

#[test]
fn work_of_a_dead_incarnation_that_is_never_adopted_is_found() {
    assert!(is_found(StoreSabotage::NoAdoption, "promise 5:"));
}

#[test]
fn adoption_of_work_that_a_live_incarnation_runs_is_found() {
    assert!(is_found(StoreSabotage::AdoptsTheLiving, "promise 6:"));
}

#[test]
fn acknowledged_commit_that_was_not_stored_is_found() {
    assert!(is_found(StoreSabotage::LosesCommits, "promise"));
}

#[test]
fn stored_commit_that_was_reported_as_failed_is_found() {
    assert!(is_found(StoreSabotage::UntrueFailures, "promise"));
}

#[test]
fn job_that_two_nodes_run_at_the_same_time_is_found() {
    assert!(is_found(StoreSabotage::IgnoresClaims, "promise 11:"));
}

#[test]
fn second_execution_for_one_idempotency_key_is_found() {
    assert!(is_found(StoreSabotage::ForgetsKeys, "promise 9:"));
}
