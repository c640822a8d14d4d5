//! MCP on the program as shipped: the official conformance suite, and the client of the official Python SDK.

use std::path::PathBuf;
use std::process::Command;

use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/mcp");
const PYTHON_CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp_client.py");

/// A program that `cargo xtask test` installs.
fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    path.unwrap_or_else(|| panic!("{variable} must name a program: run `cargo xtask test`")).into()
}

#[test]
fn conformance_suite_of_mcp_passes_in_both_revisions_except_for_the_baseline() {
    let (node, suite) = (program("NUNCIO_TEST_NODE_24"), program("NUNCIO_TEST_MCP_CONFORMANCE"));
    let folder = TestAgentFolder::hotel();
    // The suite sends all requests as one client, so the rate limit is raised.
    let serve = folder.serve().arg(AGENT).env("NUNCIO_LIMITS_REQUESTS_PER_MINUTE", "1000000");
    let server = serve.start();
    let url = server.greeting["mcp"].as_str().unwrap();
    for revision in ["2025-11-25", "2026-07-28"] {
        let output = Command::new(&node)
            .arg(&suite)
            .args(["server", "--url", url, "--requirements", revision, "--expected-failures"])
            .arg(format!("{AGENT}/baseline.yml"))
            .arg("-o")
            .arg(folder.path(revision))
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{revision}: {out}\n{err}");
    }
}

#[test]
fn client_of_the_python_sdk_lists_asks_and_approves_in_both_revisions() {
    let python = program("NUNCIO_TEST_MCP_PYTHON");
    let scope = "\n[[scope]]\nid = \"danger:do\"\nlabel = \"d\"\ndescription = \"d\"\nsensitivity = \"high\"\n";
    let danger = shell_tool("danger", "printf done") + "scope = \"danger:do\"\n";
    let folder = TestAgentFolder::with_agent(&[SCRIPTED, scope, &shell_tool("echo", "cat"), &danger].concat());
    let server = folder.start();
    let output = Command::new(python).args([PYTHON_CLIENT, server.greeting["mcp"].as_str().unwrap()]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(out.lines().collect::<Vec<_>>(), ["legacy: passed", "2026-07-28: passed"], "{err}");
}
