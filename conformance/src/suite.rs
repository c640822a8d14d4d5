//! Runs the rows of a protocol and their checks.

use std::collections::{HashMap, HashSet};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde::Deserialize;

use crate::report::{ConformanceReport, RequirementOutcome, RequirementReport};
use crate::row::{CheckPrecondition, RequirementRow, RequirementSource};
use crate::target::ServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict};

/// Function that checks one requirement.
pub(crate) type CheckFn = for<'a> fn(&'a ServerUnderTest) -> BoxFuture<'a, CheckVerdict>;

/// Inspects a server once before the checks: whether it answers, and what it offers.
pub(crate) type ServerProbeFn = for<'a> fn(&'a ServerUnderTest) -> BoxFuture<'a, Result<ServerFixtures, String>>;

/// Test fixtures that the server under test has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerFixtures {
    /// Whether the server has an agent named `script`; for Skill Sharing the skills `script/echo` and `script/fail`.
    pub(crate) script: bool,
    /// Whether the server has the skills of the probe agent.
    pub(crate) probe: bool,
}

/// Requirement rows and checks of one protocol.
#[derive(Clone)]
pub struct ConformanceSuite {
    rows: Vec<RequirementRow>,
    checks: HashMap<&'static str, CheckFn>,
    probe: ServerProbeFn,
}

impl ConformanceSuite {
    /// Creates a suite from the text of a requirements file.
    pub(crate) fn new(
        rows: &str,
        checks: impl IntoIterator<Item = (&'static str, CheckFn)>,
        probe: ServerProbeFn,
    ) -> Self {
        #[derive(Deserialize)]
        struct RequirementFile {
            row: Vec<RequirementRow>,
        }
        let file: RequirementFile = toml::from_str(rows).expect("the rows compiled in are well formed");
        Self { rows: file.row, checks: checks.into_iter().collect(), probe }
    }

    /// Requirement rows in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[RequirementRow] {
        &self.rows
    }

    /// Removes the requirement rows of one source.
    #[must_use]
    pub fn without(mut self, source: RequirementSource) -> Self {
        self.rows.retain(|row| row.source != source);
        self
    }

    /// Keeps the rows whose id or check contains `part`.
    #[must_use]
    pub fn only(mut self, part: &str) -> Self {
        self.rows.retain(|row| row.id.contains(part) || row.check.as_ref().is_some_and(|check| check.contains(part)));
        self
    }

    /// Runs every required check once and reports on each row.
    pub async fn run(&self, target: &ServerUnderTest) -> ConformanceReport {
        let offer = (self.probe)(target).await;
        let wanted: HashSet<&str> = self
            .rows
            .iter()
            .filter(|row| matches!(&offer, Ok(offer) if self.missing(row, *offer, target).is_none()))
            .filter_map(|row| row.check.as_deref())
            .collect();
        let verdicts: HashMap<&str, CheckVerdict> = stream::iter(wanted)
            .map(|name| async move { (name, self.check(name, target).await) })
            .buffer_unordered(target.parallel)
            .collect()
            .await;

        let outcome = |row: &RequirementRow| match (&row.check, &offer) {
            (None, _) => RequirementOutcome::Excluded(row.excluded.clone().unwrap_or_default()),
            (Some(_), Err(unreachable)) => RequirementOutcome::Failed(unreachable.clone()),
            (Some(check), Ok(offer)) => match self.missing(row, *offer, target) {
                Some(need) => RequirementOutcome::Skipped(need.missing().to_owned()),
                None => match verdicts.get(check.as_str()) {
                    Some(Ok(())) => RequirementOutcome::Passed,
                    Some(Err(CheckStopReason::Failed(reason))) => RequirementOutcome::Failed(reason.clone()),
                    Some(Err(CheckStopReason::Skipped(reason))) => RequirementOutcome::Skipped(reason.clone()),
                    None => RequirementOutcome::Failed("the check did not run".to_owned()),
                },
            },
        };
        let rows = self.rows.iter().map(|row| RequirementReport { row: row.clone(), outcome: outcome(row) }).collect();
        ConformanceReport { rows }
    }

    async fn check(&self, name: &str, target: &ServerUnderTest) -> CheckVerdict {
        let Some(check) = self.checks.get(name) else {
            return Err(CheckStopReason::Failed(format!("the suite has no check named {name}")));
        };
        match tokio::time::timeout(target.patience, check(target)).await {
            Ok(verdict) => verdict,
            Err(_) => {
                let seconds = target.patience.as_secs();
                Err(CheckStopReason::Failed(format!("expected an end, got none within {seconds} s")))
            }
        }
    }

    /// Precondition of the row that the server lacks, if any.
    fn missing(
        &self,
        row: &RequirementRow,
        offer: ServerFixtures,
        target: &ServerUnderTest,
    ) -> Option<CheckPrecondition> {
        let need = row.needs?;
        let met = match need {
            CheckPrecondition::Script => offer.script,
            CheckPrecondition::Key => target.key.is_some(),
            CheckPrecondition::Keys => target.key.is_some() && target.other_key.is_some(),
            CheckPrecondition::Open => target.key.is_none(),
            CheckPrecondition::Loopback => target.key.is_none() && target.is_loopback(),
            CheckPrecondition::Probe => offer.probe,
            CheckPrecondition::ProbeKeys => offer.probe && target.key.is_some() && target.other_key.is_some(),
            CheckPrecondition::ProbeSecret => offer.probe && target.key.is_some() && target.secret.is_some(),
        };
        (!met).then_some(need)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::ConformanceSuite;
    use crate::{ServerUnderTest, aap, skill};

    fn suites() -> [ConformanceSuite; 2] {
        [aap(), skill()]
    }

    #[test]
    fn every_requirement_row_has_either_a_check_or_a_reason_for_having_none() {
        for row in suites().iter().flat_map(ConformanceSuite::rows) {
            assert!(
                row.check.is_some() != row.excluded.is_some(),
                "{} must have either a check or the reason why it has none",
                row.id
            );
            assert!(!row.sentence.is_empty() && !row.section.is_empty(), "{} says nothing", row.id);
        }
    }

    #[test]
    fn every_requirement_row_names_an_existing_check_and_every_check_is_used() {
        for suite in suites() {
            let named: HashSet<&str> = suite.rows().iter().filter_map(|row| row.check.as_deref()).collect();
            let there: HashSet<&str> = suite.checks.keys().copied().collect();
            let absent: Vec<_> = named.difference(&there).collect();
            let idle: Vec<_> = there.difference(&named).collect();
            assert!(absent.is_empty(), "rows name checks that do not exist: {absent:?}");
            assert!(idle.is_empty(), "no row uses: {idle:?}");
        }
    }

    #[test]
    fn check_names_are_unique() {
        assert_eq!(crate::aap::checks().count(), aap().checks.len());
        assert_eq!(crate::skill::checks().count(), skill().checks.len());
    }

    #[test]
    fn requirement_row_ids_are_unique() {
        let mut seen = HashSet::new();
        for row in suites().iter().flat_map(ConformanceSuite::rows) {
            assert!(seen.insert(row.id.clone()), "{} is there twice", row.id);
        }
    }

    #[test]
    fn requirement_rows_with_the_same_check_have_the_same_precondition() {
        for suite in suites() {
            for a in suite.rows() {
                for b in suite.rows().iter().filter(|b| a.check.is_some() && a.check == b.check) {
                    assert_eq!(a.needs, b.needs, "{} and {}", a.id, b.id);
                }
            }
        }
    }

    #[tokio::test]
    async fn no_requirement_row_passes_on_an_unreachable_server() {
        for (suite, base) in suites().into_iter().zip(["http://127.0.0.1:9/aap", "http://127.0.0.1:9"]) {
            let report = suite.run(&ServerUnderTest::new(base)).await;
            assert_eq!(report.passed(), 0);
            assert!(report.failed() > 0);
        }
    }
}
