//! Integration tests with a real relay, a real agent and devices of this crate.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/call_limits.rs"]
mod call_limits;
#[path = "it/call_outcomes.rs"]
mod call_outcomes;
#[path = "it/calls_run_once.rs"]
mod calls_run_once;
#[path = "it/connection.rs"]
mod connection;
#[path = "it/consent.rs"]
mod consent;
#[path = "it/devices.rs"]
mod devices;
#[path = "it/did_verification.rs"]
mod did_verification;
#[path = "it/disk.rs"]
mod disk;
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
#[path = "it/keyring.rs"]
mod keyring;
#[path = "it/pages_activity.rs"]
mod pages_activity;
#[path = "it/pages_agents.rs"]
mod pages_agents;
#[path = "it/pages_arguments.rs"]
mod pages_arguments;
#[path = "it/pages_welcome.rs"]
mod pages_welcome;
#[path = "it/scene.rs"]
mod scene;
#[path = "it/several_devices.rs"]
mod several_devices;
#[path = "it/talk.rs"]
mod talk;
#[path = "it/talk_pages.rs"]
mod talk_pages;
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
#[path = "it/tools_confined.rs"]
mod tools_confined;
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
#[path = "it/tools_desktop.rs"]
mod tools_desktop;
