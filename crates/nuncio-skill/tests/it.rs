//! Integration tests: documents against the specification, against other software (Ajv, TypeScript), and property
//! tests.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/consumer.rs"]
mod consumer;
#[path = "it/consumer_auth.rs"]
mod consumer_auth;
#[path = "it/consumer_provider.rs"]
mod consumer_provider;
#[path = "it/hostile_providers.rs"]
mod hostile_providers;
#[path = "it/lint.rs"]
mod lint;
#[path = "it/node.rs"]
mod node;
#[path = "it/properties.rs"]
mod properties;
#[path = "it/published_schemas.rs"]
mod published_schemas;
#[path = "it/sample.rs"]
mod sample;
#[path = "it/specification_examples.rs"]
mod specification_examples;
#[path = "it/version.rs"]
mod version;
