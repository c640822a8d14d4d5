//! The Grand Hotel: rooms to search and book, behind an MCP server.
//!
//! The ledger is one SQLite file that several processes may share. One night in a room is one row whose primary key is
//! room and night, so the schema itself prevents double bookings.

mod booking;
mod error;
mod inventory;
mod ledger;
mod money;
mod reservation;
mod server;
mod stay;
mod tools;

pub use booking::{BookingRequest, RoomOffer, RoomSearch};
pub use error::HotelError;
pub use inventory::{Room, RoomType};
pub use ledger::HotelDatabase;
pub use money::{CURRENCY, EuroCents};
pub use reservation::{GuestName, Reservation, ReservationId, ReservationStatus};
pub use server::HotelMcpServer;
pub use stay::{MAX_NIGHTS, Stay};
