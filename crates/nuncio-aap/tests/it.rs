//! Integration tests of the AAP client against real and scripted servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop here")]

#[path = "it/brain.rs"]
mod brain;
#[path = "it/brain_sdk.rs"]
mod brain_sdk;
#[path = "it/faults.rs"]
mod faults;
#[path = "it/gateway.rs"]
mod gateway;
#[path = "it/requests.rs"]
mod requests;
#[path = "it/scripted.rs"]
mod scripted;
