//! Promises broken on purpose, to show that the checks find each.

/// A fault of the store that no store may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreSabotage {
    /// Incarnations that were declared dead can still commit.
    NoFence,
    /// The work of dead incarnations is never found.
    NoAdoption,
    /// Live incarnations are taken for dead ones.
    AdoptsTheLiving,
    /// Some commits are reported as stored but are not.
    LosesCommits,
    /// Some failed commits are stored all the same, and their node goes on.
    UntrueFailures,
    /// Idempotency keys are not stored.
    ForgetsKeys,
    /// Jobs that a node runs can be claimed by others.
    IgnoresClaims,
}
