//! The Grand Hotel: rooms to search and book, behind an MCP server.
//!
//! The ledger is one SQLite file that any number of processes share. A night
//! in a room is one row whose key is the room and the night, so the schema
//! itself makes a double booking impossible; nothing else here has to be right
//! for that to hold.

mod booking;
mod error;
mod inventory;
mod ledger;
mod money;
mod reservation;
mod server;
mod stay;
mod tools;

pub use booking::{BookingRequest, Offer, Search};
pub use error::HotelError;
pub use inventory::{Room, RoomType};
pub use ledger::Ledger;
pub use money::{CURRENCY, Cents};
pub use reservation::{GuestName, Reservation, ReservationId, Status};
pub use server::HotelServer;
pub use stay::{MAX_NIGHTS, Stay};
