//! Engine operations with a real store.

#![expect(clippy::unwrap_used, reason = "a test stops at the first step that fails")]

#[path = "it/access.rs"]
mod access;
#[path = "it/chain.rs"]
mod chain;
#[path = "it/change.rs"]
mod change;
#[path = "it/conversations.rs"]
mod conversations;
#[path = "it/crash.rs"]
mod crash;
#[path = "it/executions.rs"]
mod executions;
#[path = "it/jobs.rs"]
mod jobs;
#[path = "it/mail.rs"]
mod mail;
#[path = "it/people.rs"]
mod people;
#[path = "it/publish.rs"]
mod publish;
#[path = "it/rekey.rs"]
mod rekey;
#[path = "it/relations.rs"]
mod relations;
#[path = "it/streams.rs"]
mod streams;
#[path = "it/sweeps.rs"]
mod sweeps;
#[path = "it/world.rs"]
mod world;
