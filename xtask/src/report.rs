//! Reads the JUnit report that nextest writes (`.config/nextest.toml`).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestOutcome {
    Passed,
    /// The test failed at first and passed when it was repeated.
    Flaky,
    Failed,
}

/// nextest writes below the workspace, also if `CARGO_TARGET_DIR` is set.
fn file(root: &Path) -> PathBuf {
    root.join("target/nextest/default/junit.xml")
}

/// Removes the report of an earlier run.
pub(crate) fn remove(root: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file(root)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Name and result of every test, as `crate::binary test`; empty if no test ran because the tests do not compile.
pub(crate) fn read(root: &Path) -> anyhow::Result<Vec<(String, TestOutcome)>> {
    match fs::read_to_string(file(root)) {
        Ok(report) => Ok(parse(&report)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn parse(report: &str) -> Vec<(String, TestOutcome)> {
    let cases = report.split("<testcase ").skip(1);
    let result = |case: &str| {
        // The output of a test is escaped, so these tags belong to the report.
        let body = case.split_once("</testcase>").map_or("", |(body, _)| body);
        match (body.contains("<flakyFailure"), body.contains("<failure") || body.contains("<error")) {
            (true, _) => TestOutcome::Flaky,
            (false, true) => TestOutcome::Failed,
            (false, false) => TestOutcome::Passed,
        }
    };
    cases.map(|case| (format!("{} {}", attribute(case, "classname"), attribute(case, "name")), result(case))).collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let after = tag.split_once(&format!("{name}=\"")).map_or("", |(_, after)| after);
    after.split_once('"').map_or("", |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaky_failed_and_passed_tests_are_read_from_the_report() {
        let report = r#"<testsuite name="nuncio::it"><testcase name="a::good" classname="nuncio::it" time="0.1">
            </testcase><testcase name="a::shaky" classname="nuncio::it" time="0.1"><flakyFailure type="test failure">
            &lt;failure</flakyFailure></testcase><testcase name="a::bad" classname="nuncio::it" time="0.1">
            <failure type="test failure">no</failure></testcase></testsuite>"#;
        let name = |name: &str| format!("nuncio::it {name}");
        let expected = [
            (name("a::good"), TestOutcome::Passed),
            (name("a::shaky"), TestOutcome::Flaky),
            (name("a::bad"), TestOutcome::Failed),
        ];
        assert_eq!(parse(report), expected);
    }
}
