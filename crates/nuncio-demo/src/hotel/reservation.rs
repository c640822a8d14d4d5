//! Reservations, their ids and states.

use std::{fmt, str::FromStr};

use rusqlite::{
    Row,
    types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, ValueRef},
};
use serde::Serialize;

use super::{CURRENCY, EuroCents, HotelError, RoomType, Stay};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reservation {
    pub reservation_id: ReservationId,
    pub room_id: String,
    #[serde(rename = "type")]
    pub room_type: RoomType,
    #[serde(flatten)]
    pub stay: Stay,
    pub guests: u32,
    pub guest_name: GuestName,
    /// Price of the whole stay.
    pub total: EuroCents,
    pub currency: &'static str,
    pub status: ReservationStatus,
}

impl Reservation {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (check_in, check_out): (String, String) = (row.get("check_in")?, row.get("check_out")?);
        let stay = Stay::parse(&check_in, &check_out)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))?;
        Ok(Self {
            reservation_id: row.get("reservation_id")?,
            room_id: row.get("room_id")?,
            room_type: row.get("type")?,
            stay,
            guests: row.get("guests")?,
            guest_name: GuestName(row.get("guest_name")?),
            total: row.get("total_cents")?,
            currency: CURRENCY,
            status: row.get("status")?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationStatus {
    /// The room is booked for the guest.
    Confirmed,
    /// The reservation was cancelled; its nights are free again.
    Cancelled,
}

impl FromSql for ReservationStatus {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "confirmed" => Ok(Self::Confirmed),
            "cancelled" => Ok(Self::Cancelled),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// Reservation id such as `GH-7K3QXM`: six characters of Crockford's base 32, which has no I, L, O or U. Parsing
/// ignores case and reads O as 0 and I or L as 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct ReservationId(String);

impl ReservationId {
    const PREFIX: &str = "GH-";
    const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    const LENGTH: usize = 6;

    /// Makes a reservation id from random bytes, using five bits of each byte.
    #[must_use]
    pub fn from_random(bytes: [u8; 6]) -> Self {
        let signs = bytes.map(|byte| char::from(Self::ALPHABET[usize::from(byte & 31)]));
        Self(Self::PREFIX.chars().chain(signs).collect())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ReservationId {
    type Err = HotelError;

    fn from_str(text: &str) -> Result<Self, HotelError> {
        let canonical = |text: &str| {
            let upper = text.trim().to_ascii_uppercase();
            let signs = upper.strip_prefix(Self::PREFIX)?;
            let signs: String = signs
                .chars()
                .map(|sign| match sign {
                    'O' => '0',
                    'I' | 'L' => '1',
                    other => other,
                })
                .collect();
            let known = signs.bytes().all(|sign| Self::ALPHABET.contains(&sign));
            (known && signs.len() == Self::LENGTH).then(|| format!("{}{signs}", Self::PREFIX))
        };
        canonical(text).map(Self).ok_or_else(|| HotelError::BadReservationId(text.to_owned()))
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl ToSql for ReservationId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for ReservationId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

/// Guest name: one line of one to [`GuestName::MAX_CHARS`] characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct GuestName(String);

impl GuestName {
    /// Maximum length of a guest name, in characters.
    pub const MAX_CHARS: usize = 200;

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GuestName {
    type Err = HotelError;

    fn from_str(text: &str) -> Result<Self, HotelError> {
        let name = text.trim();
        if name.is_empty() {
            return Err(HotelError::BadGuestName("is empty"));
        }
        if name.chars().count() > Self::MAX_CHARS {
            return Err(HotelError::BadGuestName("is longer than 200 characters"));
        }
        if name.chars().any(char::is_control) {
            return Err(HotelError::BadGuestName("has line breaks or control characters in it"));
        }
        Ok(Self(name.to_owned()))
    }
}
