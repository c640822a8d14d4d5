//! Tool descriptions for `tools/list`, with their JSON Schemas (2020-12).

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::{
    hotel::{CURRENCY, GuestName, MAX_NIGHTS, RoomType},
    mcp::schema,
};

/// The four hotel tools in the order a guest needs them.
pub(in crate::hotel) fn all() -> [Tool; 4] {
    [search_rooms(), make_reservation(), get_reservation(), cancel_reservation()]
}

fn search_rooms() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "check_in": date("The day of arrival."),
            "check_out": check_out(),
            "guests": guests(),
            "room_type": room_type("Only rooms of this kind. Leave it out for all kinds.")
        },
        "required": ["check_in", "check_out"],
        "additionalProperties": false
    });
    let output = json!({
        "type": "object",
        "properties": {
            "rooms": {
                "type": "array",
                "description": "The free rooms, cheapest first; empty when there is none.",
                "items": offer()
            }
        },
        "required": ["rooms"],
        "additionalProperties": false
    });
    Tool::new(
        "search_rooms",
        "Find the rooms of the Grand Hotel that are free on every night of a stay and large \
         enough, cheapest first, with the price of the whole stay.",
        schema(input),
    )
    .with_title("Search rooms")
    .with_raw_output_schema(schema(output))
    .with_annotations(read_only_annotations())
}

fn make_reservation() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "room_id": {
                "type": "string",
                "minLength": 1,
                "description": "The room, as search_rooms names it.",
                "examples": ["room-203"]
            },
            "check_in": date("The day of arrival."),
            "check_out": check_out(),
            "guest_name": {
                "type": "string",
                "minLength": 1,
                "maxLength": GuestName::MAX_CHARS,
                "description": "The name the room is booked under."
            },
            "guests": guests()
        },
        "required": ["room_id", "check_in", "check_out", "guest_name"],
        "additionalProperties": false
    });
    Tool::new(
        "make_reservation",
        "Book a room of the Grand Hotel. The answer has the reservation_id the guest quotes; \
         the room is theirs from then on. Fails, and books nothing, when the room is taken on \
         any of the nights.",
        schema(input),
    )
    .with_title("Make a reservation")
    .with_raw_output_schema(schema(reservation_output()))
    .with_annotations(ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false))
}

fn get_reservation() -> Tool {
    Tool::new(
        "get_reservation",
        "Look up a reservation by its id, whether confirmed or cancelled.",
        schema(reservation_input()),
    )
    .with_title("Look up a reservation")
    .with_raw_output_schema(schema(reservation_output()))
    .with_annotations(read_only_annotations())
}

fn cancel_reservation() -> Tool {
    Tool::new(
        "cancel_reservation",
        "Cancel a reservation and free its nights for others. This cannot be undone. A \
         reservation that is cancelled already is an error and nothing changes.",
        schema(reservation_input()),
    )
    .with_title("Cancel a reservation")
    .with_raw_output_schema(schema(reservation_output()))
    .with_annotations(ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(false))
}

fn read_only_annotations() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).open_world(false)
}

fn reservation_input() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reservation_id": {
                "type": "string",
                "minLength": 1,
                "description": "The id from the answer of make_reservation.",
                "examples": ["GH-7K3QXM"]
            }
        },
        "required": ["reservation_id"],
        "additionalProperties": false
    })
}

fn reservation_output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reservation": {
                "type": "object",
                "properties": {
                    "reservation_id": { "type": "string", "pattern": "^GH-[0-9A-HJKMNP-TV-Z]{6}$" },
                    "room_id": { "type": "string" },
                    "type": room_type("The kind of room."),
                    "check_in": date("The day of arrival."),
                    "check_out": date("The day of departure."),
                    "nights": nights(),
                    "guests": { "type": "integer", "minimum": 1 },
                    "guest_name": { "type": "string" },
                    "total": price("The price of the whole stay, in euros."),
                    "currency": { "const": CURRENCY },
                    "status": { "enum": ["confirmed", "cancelled"] }
                },
                "required": [
                    "reservation_id", "room_id", "type", "check_in", "check_out", "nights",
                    "guests", "guest_name", "total", "currency", "status"
                ],
                "additionalProperties": false
            }
        },
        "required": ["reservation"],
        "additionalProperties": false
    })
}

fn offer() -> Value {
    json!({
        "type": "object",
        "properties": {
            "room_id": { "type": "string", "description": "What make_reservation wants." },
            "type": room_type("The kind of room."),
            "description": { "type": "string" },
            "max_guests": { "type": "integer", "minimum": 1 },
            "price_per_night": price("The price of one night, in euros."),
            "currency": { "const": CURRENCY },
            "nights": nights(),
            "total": price("The price of the whole stay, in euros.")
        },
        "required": [
            "room_id", "type", "description", "max_guests", "price_per_night", "currency",
            "nights", "total"
        ],
        "additionalProperties": false
    })
}

fn date(description: &str) -> Value {
    json!({
        "type": "string",
        "format": "date",
        "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        "description": format!("{description} YYYY-MM-DD.")
    })
}

fn check_out() -> Value {
    date(&format!("The day of departure, after check_in and at most {MAX_NIGHTS} nights later."))
}

fn guests() -> Value {
    json!({
        "type": "integer",
        "minimum": 1,
        "default": 1,
        "description": "How many people will sleep in the room."
    })
}

fn room_type(description: &str) -> Value {
    json!({
        "type": "string",
        "enum": RoomType::ALL,
        "description": description
    })
}

fn nights() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": MAX_NIGHTS })
}

fn price(description: &str) -> Value {
    json!({ "type": "number", "exclusiveMinimum": 0, "description": description })
}
