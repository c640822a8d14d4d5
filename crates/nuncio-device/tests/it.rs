//! Tests with a real relay, a real agent and devices of this crate.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/consent.rs"]
mod consent;
#[path = "it/devices.rs"]
mod devices;
#[path = "it/disk.rs"]
mod disk;
#[path = "it/holes.rs"]
mod holes;
#[path = "it/keyring.rs"]
mod keyring;
#[path = "it/once.rs"]
mod once;
#[path = "it/pages_agents.rs"]
mod pages_agents;
#[path = "it/pages_happened.rs"]
mod pages_happened;
#[path = "it/pages_welcome.rs"]
mod pages_welcome;
#[path = "it/rows.rs"]
mod rows;
#[path = "it/scene.rs"]
mod scene;
#[path = "it/several.rs"]
mod several;
#[path = "it/talk.rs"]
mod talk;
#[path = "it/talk_pages.rs"]
mod talk_pages;
#[path = "it/tools_confined.rs"]
mod tools_confined;
#[path = "it/tools_desktop.rs"]
mod tools_desktop;
#[path = "it/vouched.rs"]
mod vouched;
