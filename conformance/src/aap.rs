//! The checks of the Agent Application Protocol v3, grouped by what they look at.
//!
//! A check is an `async fn(&Api) -> Verdict`; its name is how a row of `aap.toml` refers to it. It
//! makes sessions of its own, so that checks may run side by side and on a server in use.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::suite::{Check, Offer};
use crate::target::Target;
use crate::verdict::Stop;
use wire::Api;

mod script;
mod sse;
mod turn;
mod wire;

/// Names the checks of a module: `checks![first_check, second_check]`.
macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        /// The checks of this module, by name.
        pub(super) const CHECKS: &[(&str, crate::suite::Check)] = &[$(
            (stringify!($name), |target| {
                Box::pin(async move {
                    let api = Api::connect(target).await?;
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

/// All checks, by name.
pub(crate) fn checks() -> impl Iterator<Item = (&'static str, Check)> {
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

/// Whether the server answers, and with which agents.
pub(crate) fn probe(target: &Target) -> BoxFuture<'_, Result<Offer, String>> {
    async move {
        match Api::connect(target).await {
            Ok(api) => Ok(Offer { script: api.script_agent().is_some(), probe: false }),
            Err(Stop::Failed(reason) | Stop::Skipped(reason)) => Err(reason),
        }
    }
    .boxed()
}
