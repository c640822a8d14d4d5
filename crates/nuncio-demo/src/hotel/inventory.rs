//! Room types, and the rooms that a new hotel ledger starts with.

use rusqlite::{
    Connection, Row, named_params,
    types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef},
};
use serde::{Deserialize, Serialize};

use super::EuroCents;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoomType {
    Standard,
    Deluxe,
    Suite,
    Family,
}

impl RoomType {
    pub const ALL: [Self; 4] = [Self::Standard, Self::Deluxe, Self::Suite, Self::Family];

    /// Name of the room type in JSON and in the ledger.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Deluxe => "deluxe",
            Self::Suite => "suite",
            Self::Family => "family",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Room id: `room-` and the room number.
    pub room_id: String,
    #[serde(rename = "type")]
    pub room_type: RoomType,
    pub description: String,
    pub max_guests: u32,
    pub price_per_night: EuroCents,
}

impl Room {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            room_id: row.get("room_id")?,
            room_type: row.get("type")?,
            description: row.get("description")?,
            max_guests: row.get("max_guests")?,
            price_per_night: row.get("price_cents")?,
        })
    }
}

/// Columns: room number, type, maximum number of guests, euros per night, description.
type RoomTableRow = (u16, RoomType, u32, i64, &'static str);

#[rustfmt::skip]
const ROOMS: [RoomTableRow; 12] = {
    use RoomType::{Deluxe, Family, Standard, Suite};
    [
        (101, Standard, 1,  89, "Single room on the quiet courtyard, 16 m², a bed of 120 cm and a desk."),
        (102, Standard, 2, 109, "Double room on the courtyard, 20 m², queen-size bed, step-free from the lift."),
        (103, Standard, 2, 109, "Twin room on the garden, 20 m², two single beds and a walk-in shower."),
        (104, Standard, 2, 115, "Double room on the garden, 22 m², queen-size bed and a small terrace."),
        (201, Deluxe,   2, 159, "Deluxe room over the old town, 28 m², king-size bed and a bathtub."),
        (202, Deluxe,   2, 159, "Deluxe room over the old town, 28 m², twin beds and a bathtub."),
        (203, Deluxe,   3, 179, "Deluxe corner room on the river, 32 m², king-size bed, a sofa bed, a balcony."),
        (301, Family,   4, 199, "Family room on the garden, 38 m², king-size bed, two single beds in an alcove."),
        (302, Family,   4, 199, "Family room on the garden, 38 m², king-size bed and a bunk bed for children."),
        (303, Family,   5, 229, "Two connecting rooms on the courtyard, 46 m², two doubles, a single, two bathrooms."),
        (401, Suite,    3, 329, "River suite, 55 m², bedroom and salon, sofa bed, a balcony along the water."),
        (402, Suite,    4, 449, "Tower suite, 80 m², two bedrooms, a dining room and a roof terrace with the whole city."),
    ]
};

/// Inserts the twelve rooms of [`ROOMS`] into an empty ledger.
pub(super) fn insert_rooms(connection: &Connection) -> rusqlite::Result<()> {
    let mut insert = connection.prepare(
        "INSERT INTO room (room_id, type, description, max_guests, price_cents)
         VALUES (:room_id, :type, :description, :max_guests, :price_cents)",
    )?;
    for (number, room_type, max_guests, euros, description) in ROOMS {
        insert.execute(named_params! {
            ":room_id": format!("room-{number}"),
            ":type": room_type,
            ":description": description,
            ":max_guests": max_guests,
            ":price_cents": EuroCents::from_euros(euros),
        })?;
    }
    Ok(())
}

impl ToSql for RoomType {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for RoomType {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let name = value.as_str()?;
        let known = Self::ALL.into_iter().find(|room_type| room_type.as_str() == name);
        known.ok_or(FromSqlError::InvalidType)
    }
}
