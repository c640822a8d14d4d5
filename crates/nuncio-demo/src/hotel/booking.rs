//! Operations of the hotel ledger: search rooms, book, look up and cancel a reservation.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, ffi::SQLITE_CONSTRAINT_PRIMARYKEY, named_params};
use serde::Serialize;

use super::{
    CURRENCY, EuroCents, GuestName, HotelDatabase, HotelError, Reservation, ReservationId, ReservationStatus, Room,
    RoomType, Stay,
};

#[derive(Clone, Copy, Debug)]
pub struct RoomSearch {
    pub stay: Stay,
    pub guests: u32,
    /// Wanted room type; `None` means any type.
    pub room_type: Option<RoomType>,
}

/// Free room found by a search, with the price of the stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoomOffer {
    #[serde(flatten)]
    pub room: Room,
    /// Currency of `total` and of the room's price per night.
    pub currency: &'static str,
    /// Number of nights that `total` pays for.
    pub nights: u32,
    /// Price of the whole stay.
    pub total: EuroCents,
}

#[derive(Clone, Debug)]
pub struct BookingRequest {
    pub room_id: String,
    pub stay: Stay,
    pub guest_name: GuestName,
    pub guests: u32,
}

impl HotelDatabase {
    /// Rooms that are free on every night of the stay and large enough, cheapest first.
    pub fn search(&self, search: &RoomSearch) -> Result<Vec<RoomOffer>, HotelError> {
        let mut free = self.connection.prepare_cached(
            "SELECT room_id, type, description, max_guests, price_cents
             FROM room
             WHERE max_guests >= :guests
               AND (:type IS NULL OR type = :type)
               AND NOT EXISTS (
                   SELECT 1 FROM room_night
                   WHERE room_night.room_id = room.room_id
                     AND night >= :check_in AND night < :check_out)
             ORDER BY price_cents, room_id",
        )?;
        let nights = search.stay.nights();
        let offers = free.query_map(
            named_params! {
                ":guests": search.guests,
                ":type": search.room_type,
                ":check_in": search.stay.check_in().to_string(),
                ":check_out": search.stay.check_out().to_string(),
            },
            |row| {
                let room = Room::from_row(row)?;
                let total = room.price_per_night.times(nights);
                Ok(RoomOffer { room, currency: CURRENCY, nights, total })
            },
        )?;
        Ok(offers.collect::<Result<_, _>>()?)
    }

    /// Books a room. The reservation is on disk when this function returns.
    ///
    /// # Errors
    ///
    /// Fails without any change if the room does not exist, is too small, or is booked on any of the nights.
    pub fn reserve(&mut self, request: &BookingRequest) -> Result<Reservation, HotelError> {
        let BookingRequest { room_id, stay, guest_name, guests } = request;
        // The transaction takes the write lock first, so that the data read below cannot change before the commit.
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let room = room(&transaction, room_id)?.ok_or_else(|| HotelError::UnknownRoom(room_id.clone()))?;
        if *guests > room.max_guests {
            return Err(HotelError::TooManyGuests {
                room_id: room.room_id,
                guests: *guests,
                max_guests: room.max_guests,
            });
        }
        let mut reservation = Reservation {
            reservation_id: random_id(&transaction)?,
            room_id: room.room_id,
            room_type: room.room_type,
            stay: *stay,
            guests: *guests,
            guest_name: guest_name.clone(),
            total: room.price_per_night.times(stay.nights()),
            currency: CURRENCY,
            status: ReservationStatus::Confirmed,
        };
        // Tries another random id while the current one is already in use.
        while !insert_reservation(&transaction, &reservation)? {
            reservation.reservation_id = random_id(&transaction)?;
        }
        insert_nights(&transaction, &reservation)?;
        transaction.commit()?;
        Ok(reservation)
    }

    /// Looks up a reservation by id, whether confirmed or cancelled.
    pub fn reservation(&self, id: &ReservationId) -> Result<Reservation, HotelError> {
        reservation(&self.connection, id)?.ok_or_else(|| HotelError::UnknownReservation(id.clone()))
    }

    /// Cancels a reservation and frees its nights.
    ///
    /// # Errors
    ///
    /// Fails without any change if the id is unknown or the reservation is already cancelled. A second cancellation is
    /// refused, so that its caller learns that another one came first.
    pub fn cancel(&mut self, id: &ReservationId) -> Result<Reservation, HotelError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found = reservation(&transaction, id)?.ok_or_else(|| HotelError::UnknownReservation(id.clone()))?;
        if found.status == ReservationStatus::Cancelled {
            return Err(HotelError::AlreadyCancelled(id.clone()));
        }
        transaction.execute("UPDATE reservation SET status = 'cancelled' WHERE reservation_id = ?1", [id])?;
        transaction.execute("DELETE FROM room_night WHERE reservation_id = ?1", [id])?;
        transaction.commit()?;
        Ok(Reservation { status: ReservationStatus::Cancelled, ..found })
    }
}

fn room(connection: &Connection, room_id: &str) -> rusqlite::Result<Option<Room>> {
    connection
        .prepare_cached(
            "SELECT room_id, type, description, max_guests, price_cents
             FROM room WHERE room_id = ?1",
        )?
        .query_row([room_id], Room::from_row)
        .optional()
}

fn reservation(connection: &Connection, id: &ReservationId) -> rusqlite::Result<Option<Reservation>> {
    connection
        .prepare_cached(
            "SELECT reservation_id, room_id, type, check_in, check_out,
                    guests, guest_name, total_cents, status
             FROM reservation JOIN room USING (room_id)
             WHERE reservation_id = ?1",
        )?
        .query_row([id], Reservation::from_row)
        .optional()
}

/// Creates an id from SQLite's random generator, a ChaCha20 seeded by the operating system.
fn random_id(connection: &Connection) -> rusqlite::Result<ReservationId> {
    let bytes = connection.prepare_cached("SELECT randomblob(6)")?.query_row([], |row| row.get(0))?;
    Ok(ReservationId::from_random(bytes))
}

/// Inserts the reservation; returns false if its id is already in use.
fn insert_reservation(connection: &Connection, reservation: &Reservation) -> rusqlite::Result<bool> {
    let entered = connection
        .prepare_cached(
            "INSERT INTO reservation (reservation_id, room_id, check_in, check_out,
                                      guests, guest_name, total_cents, status)
             VALUES (:reservation_id, :room_id, :check_in, :check_out,
                     :guests, :guest_name, :total_cents, 'confirmed')
             ON CONFLICT (reservation_id) DO NOTHING",
        )?
        .execute(named_params! {
            ":reservation_id": reservation.reservation_id,
            ":room_id": reservation.room_id,
            ":check_in": reservation.stay.check_in().to_string(),
            ":check_out": reservation.stay.check_out().to_string(),
            ":guests": reservation.guests,
            ":guest_name": reservation.guest_name.as_str(),
            ":total_cents": reservation.total,
        })?;
    Ok(entered == 1)
}

/// Inserts a row for every night of the stay. The primary key refuses a night that is already booked.
fn insert_nights(connection: &Connection, reservation: &Reservation) -> Result<(), HotelError> {
    let mut take =
        connection.prepare_cached("INSERT INTO room_night (room_id, night, reservation_id) VALUES (?1, ?2, ?3)")?;
    for night in reservation.stay.each_night() {
        take.execute((&reservation.room_id, night.to_string(), &reservation.reservation_id)).map_err(|error| {
            match error.sqlite_error() {
                Some(code) if code.extended_code == SQLITE_CONSTRAINT_PRIMARYKEY => {
                    HotelError::RoomTaken { room_id: reservation.room_id.clone(), night }
                }
                _ => error.into(),
            }
        })?;
    }
    Ok(())
}
