//! Arguments and implementations of the four hotel tools.

mod describe;

use std::num::NonZeroU32;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json};

use super::{BookingRequest, HotelDatabase, HotelError, RoomSearch, RoomType, Stay};

pub(super) use describe::all;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchRoomsArguments {
    check_in: String,
    check_out: String,
    #[serde(default = "one_guest", deserialize_with = "guests")]
    guests: NonZeroU32,
    #[serde(default, deserialize_with = "present")]
    room_type: Option<RoomType>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MakeReservationArguments {
    room_id: String,
    check_in: String,
    check_out: String,
    guest_name: String,
    #[serde(default = "one_guest", deserialize_with = "guests")]
    guests: NonZeroU32,
}

/// Arguments of `get_reservation` and `cancel_reservation`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReservationIdArguments {
    reservation_id: String,
}

pub(super) fn search_rooms(ledger: &mut HotelDatabase, call: &SearchRoomsArguments) -> Result<Value, HotelError> {
    let rooms = ledger.search(&RoomSearch {
        stay: Stay::parse(&call.check_in, &call.check_out)?,
        guests: call.guests.get(),
        room_type: call.room_type,
    })?;
    Ok(json!({ "rooms": rooms }))
}

pub(super) fn make_reservation(
    ledger: &mut HotelDatabase,
    call: &MakeReservationArguments,
) -> Result<Value, HotelError> {
    let reservation = ledger.reserve(&BookingRequest {
        room_id: call.room_id.clone(),
        stay: Stay::parse(&call.check_in, &call.check_out)?,
        guest_name: call.guest_name.parse()?,
        guests: call.guests.get(),
    })?;
    Ok(json!({ "reservation": reservation }))
}

pub(super) fn get_reservation(ledger: &mut HotelDatabase, call: &ReservationIdArguments) -> Result<Value, HotelError> {
    let reservation = ledger.reservation(&call.reservation_id.parse()?)?;
    Ok(json!({ "reservation": reservation }))
}

pub(super) fn cancel_reservation(
    ledger: &mut HotelDatabase,
    call: &ReservationIdArguments,
) -> Result<Value, HotelError> {
    let reservation = ledger.cancel(&call.reservation_id.parse()?)?;
    Ok(json!({ "reservation": reservation }))
}

fn one_guest() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Parses the number of guests. Accepts `2.0`, a valid JSON Schema `integer` that serde's integers refuse.
fn guests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    let whole = number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number);
    whole
        .then(|| NonZeroU32::new(number as u32))
        .flatten()
        .ok_or_else(|| D::Error::custom(format_args!("{number} is not a whole number from 1")))
}

/// Parses an optional argument. Refuses null, because the schema allows the argument to be absent but not null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
