//! Every row of the AAP conformance suite, on the program as shipped.

use std::collections::BTreeSet;
use std::fs;

use nuncio_conformance::{ConformanceReport, RequirementOutcome, ServerUnderTest, aap};

use crate::home::{SCRIPT, TestAgentFolder};

const MODEST: &str = r#"
[agent]
name = "modest"
version = "1.0.0"
description = "Echoes."

[brain]
kind = "script"

[capabilities]
history = []
stream = ["none"]
application_tools = false
images = []
"#;

#[tokio::test(flavor = "multi_thread")]
async fn aap_conformance_rows_pass_with_and_without_keys() {
    let open = TestAgentFolder::script();
    let server = open.start();
    let without = aap().run(&ServerUnderTest::new(server.aap_url())).await;

    let closed = TestAgentFolder::hotel();
    fs::create_dir_all(closed.path("agents/modest")).unwrap();
    fs::create_dir_all(closed.path("agents/script")).unwrap();
    fs::write(closed.path("agents/modest/agent.toml"), MODEST).unwrap();
    fs::copy(format!("{SCRIPT}/agent.toml"), closed.path("agents/script/agent.toml")).unwrap();
    let (key, other) = (closed.key(&[]), closed.key(&[]));
    // The suite sends all requests as one client, so the rate limit is raised.
    let server = closed.serve().arg("agents").env("NUNCIO_LIMITS_REQUESTS_PER_MINUTE", "1000000").start();
    let with = aap().run(&ServerUnderTest::new(server.aap_url()).with_key(key).with_other_key(other)).await;

    print!("without keys: {without}with keys:    {with}");
    assert_eq!((without.failed(), with.failed()), (0, 0), "\n{without}\n{with}");
    let proved: BTreeSet<_> = [passed(&without), passed(&with)].concat().into_iter().collect();
    let unproved: Vec<_> = aap().rows().iter().filter(|row| row.check.is_some()).map(|row| row.id.clone()).collect();
    let unproved: Vec<_> = unproved.into_iter().filter(|id| !proved.contains(id)).collect();
    assert!(unproved.is_empty(), "rows that neither server could prove: {unproved:?}");
    println!("{} rows proved, {} rows in all", proved.len(), aap().rows().len());
}

fn passed(report: &ConformanceReport) -> Vec<String> {
    let passed = report.rows.iter().filter(|row| row.outcome == RequirementOutcome::Passed);
    passed.map(|row| row.row.id.clone()).collect()
}
