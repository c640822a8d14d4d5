//! Integration tests: documents against the specification, against other software (Ajv, TypeScript), and property
//! tests.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/consumer.rs"]
mod consumer;
#[path = "it/consumer_auth.rs"]
mod consumer_auth;
#[path = "it/consumer_provider.rs"]
mod consumer_provider;
#[path = "it/forms.rs"]
mod forms;
#[path = "it/hostile.rs"]
mod hostile;
#[path = "it/laws.rs"]
mod laws;
#[path = "it/lint.rs"]
mod lint;
#[path = "it/node.rs"]
mod node;
#[path = "it/sample.rs"]
mod sample;
#[path = "it/seed.rs"]
mod seed;
#[path = "it/version.rs"]
mod version;
