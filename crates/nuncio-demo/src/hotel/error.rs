//! Everything that can be wrong with a request to the hotel.

use jiff::civil::Date;

use super::{ReservationId, stay::MAX_NIGHTS};

/// Why the hotel refused. Each message says what was wrong and what to do;
/// none of them leaves anything changed behind it, but see [`Ledger`].
///
/// [`Ledger`]: HotelError::Ledger
#[derive(Debug, thiserror::Error)]
pub enum HotelError {
    /// A date that is not written `YYYY-MM-DD` or is not in the calendar.
    #[error("{field} is not a date: {value:?}. Write it as YYYY-MM-DD, for example 2026-12-24.")]
    BadDate {
        /// The argument, `check_in` or `check_out`.
        field: &'static str,
        /// What was sent.
        value: String,
    },

    /// A stay without a night in it.
    #[error(
        "check_out ({check_out}) must be after check_in ({check_in}). \
         Choose a check_out at least one day later."
    )]
    NoNights {
        /// The arrival.
        check_in: Date,
        /// The departure, not after it.
        check_out: Date,
    },

    /// A stay longer than the hotel takes.
    #[error(
        "A stay of {nights} nights is too long; {MAX_NIGHTS} nights is the limit. \
         Choose an earlier check_out, or make several reservations."
    )]
    TooLong {
        /// How long it was to be.
        nights: u32,
    },

    /// A guest's name nobody could be called by.
    #[error("guest_name {0}. Give the name the room is booked under.")]
    BadGuestName(&'static str),

    /// A room the hotel does not have.
    #[error("There is no room {0:?}. Use a room_id from search_rooms.")]
    UnknownRoom(String),

    /// More guests than the room sleeps.
    #[error(
        "{guests} guests do not fit in {room_id}, which sleeps {max_guests}. \
         Search with guests = {guests} for a larger room, or book several rooms."
    )]
    TooManyGuests {
        /// The room.
        room_id: String,
        /// How many were to stay.
        guests: u32,
        /// How many may.
        max_guests: u32,
    },

    /// Somebody else has the room on one of the nights.
    #[error(
        "{room_id} is already taken for the night of {night}. \
         Search again for a room that is free on all nights."
    )]
    RoomTaken {
        /// The room.
        room_id: String,
        /// The first night of the stay that is taken.
        night: Date,
    },

    /// Text that cannot be a reservation's id.
    #[error(
        "{0:?} is not a reservation id. It looks like GH-7K3QXM and is in the answer \
         of make_reservation."
    )]
    BadReservationId(String),

    /// An id nothing is booked under.
    #[error("There is no reservation {0}. Check the id in the answer of make_reservation.")]
    UnknownReservation(ReservationId),

    /// A second cancellation.
    #[error(
        "Reservation {0} is already cancelled; nothing was changed. \
         Make a new reservation if the guest comes after all."
    )]
    AlreadyCancelled(ReservationId),

    /// The file is some other program's database.
    #[error("{0} is not a Grand Hotel ledger, or a newer one. Choose another file with --db.")]
    NotALedger(String),

    /// The folder for the ledger cannot be made.
    #[error("The folder {path} cannot be created: {source}. Choose another file with --db.")]
    Folder {
        /// The folder.
        path: String,
        /// Why not.
        source: std::io::Error,
    },

    /// The ledger cannot be read or written.
    #[error(
        "The hotel's ledger does not answer ({0}). Try again; before repeating a booking or a \
         cancellation, look whether it took place."
    )]
    Ledger(#[from] rusqlite::Error),

    /// The work on the ledger died before it answered.
    #[error("The front desk dropped this request. Look whether it took place before repeating it.")]
    Dropped,
}
