//! What a protocol asks of a server, as data: one row per sentence, each with the check that
//! proves it or the reason why none does.
//!
//! The same rows are used twice: by our own tests, and by `nuncio check URL` on anyone's server.
//! Checks are black box. They speak HTTP to a [`Target`] and know nothing of our other crates, so
//! a row can only pass because of what is on the wire.
//!
//! ```no_run
//! # async fn example() {
//! use nuncio_conformance::{Source, Target, aap};
//!
//! let report = aap().without(Source::Ours).run(&Target::new("http://127.0.0.1:7400/aap")).await;
//! print!("{report}");
//! # }
//! ```

mod aap;
mod reply;
mod report;
mod row;
mod skill;
mod suite;
mod target;
mod verdict;

pub use report::{Outcome, Report, RowReport};
pub use row::{Need, Row, Source};
pub use suite::Suite;
pub use target::Target;

/// The rows of the Agent Application Protocol, version 3.
#[must_use]
pub fn aap() -> Suite {
    Suite::new(include_str!("../aap.toml"), aap::checks(), aap::probe)
}

/// The rows of Skill Sharing, version 1.0.
#[must_use]
pub fn skill() -> Suite {
    Suite::new(include_str!("../skill/requirements.toml"), skill::checks(), skill::probe)
}
