//! Checks of Skill Sharing 1.0, grouped by subject.
//!
//! A check is an `async fn(&SkillServerUnderTest) -> CheckVerdict`; rows of `skill/requirements.toml` refer to it by
//! name. It waits for or cancels its executions, so that checks can run concurrently.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::suite::{CheckFn, ServerFixtures};
use crate::target::ServerUnderTest;
use crate::verdict::CheckStopReason;
use wire::SkillServerUnderTest;

mod form;
mod wire;

/// Lists the checks of a module: `checks![first_check, second_check]`.
macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        /// Name and function of each check of this module.
        pub(super) const CHECKS: &[(&str, crate::suite::CheckFn)] = &[$(
            (stringify!($name), |target| {
                Box::pin(async move {
                    let api = SkillServerUnderTest::connect(target).await?;
                    $name(&api).await
                })
            }),
        )*];
    };
}

mod auth;
mod cancel;
mod context;
mod descriptor;
mod errors;
mod idempotency;
mod index;
mod inputs;
mod kinds;
mod methods;
mod owners;
mod private;
mod signature;
mod states;
mod submit;
mod wait;

pub(crate) fn checks() -> impl Iterator<Item = (&'static str, CheckFn)> {
    [
        auth::CHECKS,
        cancel::CHECKS,
        context::CHECKS,
        descriptor::CHECKS,
        errors::CHECKS,
        idempotency::CHECKS,
        index::CHECKS,
        inputs::CHECKS,
        kinds::CHECKS,
        methods::CHECKS,
        owners::CHECKS,
        private::CHECKS,
        signature::CHECKS,
        states::CHECKS,
        submit::CHECKS,
        wait::CHECKS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Checks that the server answers, and finds out whether it has the probe skills.
pub(crate) fn probe(target: &ServerUnderTest) -> BoxFuture<'_, Result<ServerFixtures, String>> {
    async move {
        match SkillServerUnderTest::connect(target).await {
            Ok(api) => Ok(ServerFixtures {
                script: api.has("script/echo") && api.has("script/fail"),
                probe: api.has(wire::ALL),
            }),
            Err(CheckStopReason::Failed(reason) | CheckStopReason::Skipped(reason)) => Err(reason),
        }
    }
    .boxed()
}
