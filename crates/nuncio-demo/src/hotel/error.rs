use jiff::civil::Date;

use super::{ReservationId, stay::MAX_NIGHTS};

/// Refused or failed hotel request. Each message says what was wrong and what to do. The database is unchanged,
/// except perhaps after [`HotelError::Ledger`] and [`HotelError::Dropped`].
#[derive(Debug, thiserror::Error)]
pub enum HotelError {
    /// The date is not written `YYYY-MM-DD` or does not exist.
    #[error("{field} is not a date: {value:?}. Write it as YYYY-MM-DD, for example 2026-12-24.")]
    BadDate {
        /// Name of the argument: `check_in` or `check_out`.
        field: &'static str,
        value: String,
    },

    /// The check-out date is not after the check-in date.
    #[error(
        "check_out ({check_out}) must be after check_in ({check_in}). \
         Choose a check_out at least one day later."
    )]
    NoNights { check_in: Date, check_out: Date },

    /// The stay exceeds [`MAX_NIGHTS`].
    #[error(
        "A stay of {nights} nights is too long; {MAX_NIGHTS} nights is the limit. \
         Choose an earlier check_out, or make several reservations."
    )]
    TooLong { nights: u32 },

    /// The guest name is empty, too long or has control characters.
    #[error("guest_name {0}. Give the name the room is booked under.")]
    BadGuestName(&'static str),

    /// The hotel has no room with this id.
    #[error("There is no room {0:?}. Use a room_id from search_rooms.")]
    UnknownRoom(String),

    /// The number of guests exceeds the room's `max_guests`.
    #[error(
        "{guests} guests do not fit in {room_id}, which sleeps {max_guests}. \
         Search with guests = {guests} for a larger room, or book several rooms."
    )]
    TooManyGuests { room_id: String, guests: u32, max_guests: u32 },

    /// The room is already booked on one of the requested nights.
    #[error(
        "{room_id} is already taken for the night of {night}. \
         Search again for a room that is free on all nights."
    )]
    RoomTaken {
        room_id: String,
        /// First requested night on which the room is already booked.
        night: Date,
    },

    /// The text does not have the form of a reservation id.
    #[error(
        "{0:?} is not a reservation id. It looks like GH-7K3QXM and is in the answer \
         of make_reservation."
    )]
    BadReservationId(String),

    /// No reservation has this id.
    #[error("There is no reservation {0}. Check the id in the answer of make_reservation.")]
    UnknownReservation(ReservationId),

    #[error(
        "Reservation {0} is already cancelled; nothing was changed. \
         Make a new reservation if the guest comes after all."
    )]
    AlreadyCancelled(ReservationId),

    /// The database file belongs to another program or to a newer version of this one.
    #[error("{0} is not a Grand Hotel ledger, or a newer one. Choose another file with --db.")]
    NotALedger(String),

    /// The folder for the ledger cannot be created.
    #[error("The folder {path} cannot be created: {source}. Choose another file with --db.")]
    Folder { path: String, source: std::io::Error },

    /// The database failed; a change may or may not have been stored.
    #[error(
        "The hotel's ledger does not answer ({0}). Try again; before you repeat a booking or a cancellation, check whether it took place."
    )]
    Ledger(#[from] rusqlite::Error),

    /// The database task ended before it answered.
    #[error("The request was dropped. Check whether it took place before you repeat it.")]
    Dropped,
}
