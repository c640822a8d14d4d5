//! Integration tests: booking rules, races for the last room between threads and processes, and every tool through an
//! MCP client.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop here")]

#[path = "it/booking.rs"]
mod booking;
#[path = "it/client.rs"]
mod client;
#[path = "it/hotel_tools.rs"]
mod hotel_tools;
#[path = "it/ledger_file.rs"]
mod ledger_file;
#[path = "it/race.rs"]
mod race;
#[path = "it/script_tools.rs"]
mod script_tools;
#[path = "it/values.rs"]
mod values;
