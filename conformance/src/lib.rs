//! Requirements of protocols as data: one row per requirement, with its check or the reason why there is none.
//!
//! Our own tests and the program `nuncio-conformance` use the same rows. Checks are black box: they send HTTP requests
//! to a [`ServerUnderTest`] and use no other crate of the workspace.
//!
//! ```no_run
//! # async fn example() {
//! use nuncio_conformance::{RequirementSource, ServerUnderTest, aap};
//!
//! let server = ServerUnderTest::new("http://127.0.0.1:7400/aap");
//! let report = aap().without(RequirementSource::Ours).run(&server).await;
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

pub use report::{ConformanceReport, RequirementOutcome, RequirementReport};
pub use row::{CheckPrecondition, RequirementRow, RequirementSource};
pub use suite::ConformanceSuite;
pub use target::ServerUnderTest;

/// Suite of the Agent Application Protocol, version 3.
#[must_use]
pub fn aap() -> ConformanceSuite {
    ConformanceSuite::new(include_str!("../aap.toml"), aap::checks(), aap::probe)
}

/// Suite of Skill Sharing, version 1.0.
#[must_use]
pub fn skill() -> ConformanceSuite {
    ConformanceSuite::new(include_str!("../skill/requirements.toml"), skill::checks(), skill::probe)
}
