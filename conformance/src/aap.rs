//! Checks of the Agent Application Protocol v3, grouped by subject.
//!
//! A check is an `async fn(&AapServerUnderTest) -> CheckVerdict`; rows of `aap.toml` refer to it by name. It creates
//! its own sessions, so that checks can run concurrently and on a server in use.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::suite::{CheckFn, ServerFixtures};
use crate::target::ServerUnderTest;
use crate::verdict::CheckStopReason;
use wire::AapServerUnderTest;

mod script;
mod sse;
mod turn;
mod wire;

/// Lists the checks of a module: `checks![first_check, second_check]`.
macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        /// Name and function of each check of this module.
        pub(super) const CHECKS: &[(&str, crate::suite::CheckFn)] = &[$(
            (stringify!($name), |target| {
                Box::pin(async move {
                    let api = AapServerUnderTest::connect(target).await?;
                    let verdict = $name(&api).await;
                    api.clean_up().await;
                    verdict
                })
            }),
        )*];
    };
}

mod answers;
mod auth;
mod cancel;
mod capabilities;
mod concurrency;
mod cors;
mod denial;
mod errors;
mod history;
mod idempotency;
mod images;
mod listing;
mod meta;
mod options;
mod overrides;
mod resume;
mod sessions;
mod shapes;
mod streams;
mod tools;
mod turns;

pub(crate) fn checks() -> impl Iterator<Item = (&'static str, CheckFn)> {
    [
        answers::CHECKS,
        auth::CHECKS,
        cancel::CHECKS,
        capabilities::CHECKS,
        concurrency::CHECKS,
        cors::CHECKS,
        denial::CHECKS,
        errors::CHECKS,
        history::CHECKS,
        idempotency::CHECKS,
        images::CHECKS,
        listing::CHECKS,
        meta::CHECKS,
        options::CHECKS,
        overrides::CHECKS,
        resume::CHECKS,
        sessions::CHECKS,
        shapes::CHECKS,
        streams::CHECKS,
        tools::CHECKS,
        turns::CHECKS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Checks that the server answers, and finds out whether it has the agent `script`.
pub(crate) fn probe(target: &ServerUnderTest) -> BoxFuture<'_, Result<ServerFixtures, String>> {
    async move {
        match AapServerUnderTest::connect(target).await {
            Ok(api) => Ok(ServerFixtures { script: api.script_agent().is_some(), probe: false }),
            Err(CheckStopReason::Failed(reason) | CheckStopReason::Skipped(reason)) => Err(reason),
        }
    }
    .boxed()
}
