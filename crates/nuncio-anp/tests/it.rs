//! Integration tests of ANP documents, requests, negotiation and the ANP client.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/client_agreements.rs"]
mod client_agreements;
#[path = "it/client_call.rs"]
mod client_call;
#[path = "it/client_drafts.rs"]
mod client_drafts;
#[path = "it/client_fixtures.rs"]
mod client_fixtures;
#[path = "it/client_negotiate.rs"]
mod client_negotiate;
#[path = "it/client_read.rs"]
mod client_read;
#[path = "it/documents.rs"]
mod documents;
#[path = "it/files.rs"]
mod files;
#[path = "it/negotiation.rs"]
mod negotiation;
#[path = "it/properties.rs"]
mod properties;
#[path = "it/requests.rs"]
mod requests;
#[path = "it/specification_examples.rs"]
mod specification_examples;
#[path = "it/validator.rs"]
mod validator;

use nuncio_core::agent::Agent;
use serde_json::Value;

/// A JSON example from the specifications.
fn example(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn agent(text: &str) -> Agent {
    nuncio_agent_file::parse("agent.toml", text).unwrap_or_else(|faults| panic!("{faults}")).agent
}

fn example_agent(name: &str) -> Agent {
    let path = format!("{}/../../examples/{name}/agent.toml", env!("CARGO_MANIFEST_DIR"));
    agent(&std::fs::read_to_string(path).unwrap())
}
