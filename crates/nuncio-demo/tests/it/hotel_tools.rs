//! Hotel tools through an MCP client.

use futures_util::future::join_all;
use nuncio_demo::hotel::HotelMcpServer;
use rmcp::model::{ErrorCode, Tool};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;

async fn hotel() -> (Client, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let server = HotelMcpServer::open(&folder.path().join("hotel.db")).unwrap();
    (Client::in_memory(server).await, folder)
}

fn stay(room_id: &str) -> Value {
    json!({
        "room_id": room_id, "check_in": "2026-12-24", "check_out": "2026-12-26",
        "guest_name": "Ada Lovelace", "guests": 2
    })
}

fn with(mut arguments: Value, name: &str, value: impl Into<Value>) -> Value {
    arguments[name] = value.into();
    arguments
}

async fn assert_nothing_booked(client: &Client) {
    let nights = json!({ "check_in": "2026-12-01", "check_out": "2026-12-31" });
    let found = client.call_ok("search_rooms", nights).await;
    assert_eq!(found["rooms"].as_array().unwrap().len(), 12);
}

fn output_of(tools: &[Tool], name: &str) -> jsonschema::Validator {
    let tool = tools.iter().find(|tool| tool.name == name).unwrap();
    let schema = Value::Object((**tool.output_schema.as_ref().unwrap()).clone());
    jsonschema::validator_for(&schema).unwrap()
}

#[tokio::test]
async fn hotel_tools_list_has_valid_schemas_without_additional_properties() {
    let (client, _folder) = hotel().await;
    let tools = client.tools().await;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["search_rooms", "make_reservation", "get_reservation", "cancel_reservation"]);
    for tool in &tools {
        assert!(tool.description.is_some() && tool.title.is_some());
        for schema in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
            let schema = Value::Object((**schema).clone());
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
            assert_eq!(schema["additionalProperties"], false);
            jsonschema::meta::validate(&schema).unwrap();
        }
    }
}

#[tokio::test]
async fn search_book_look_up_and_cancel_tools_work_in_sequence() {
    let (client, _folder) = hotel().await;
    let tools = client.tools().await;

    let wanted = json!({
        "check_in": "2026-12-24", "check_out": "2026-12-26", "guests": 2, "room_type": "suite"
    });
    let found = client.call_ok("search_rooms", wanted.clone()).await;
    output_of(&tools, "search_rooms").validate(&found).unwrap();
    let room = &found["rooms"][0];
    assert_eq!(room["room_id"], "room-401");
    assert_eq!((&room["nights"], &room["total"]), (&json!(2), &json!(658)));

    let made = client.call_ok("make_reservation", stay("room-401")).await;
    output_of(&tools, "make_reservation").validate(&made).unwrap();
    let reservation = &made["reservation"];
    let id = reservation["reservation_id"].as_str().unwrap();
    let expected = json!({ "reservation": {
        "reservation_id": id, "room_id": "room-401", "type": "suite",
        "check_in": "2026-12-24", "check_out": "2026-12-26", "nights": 2,
        "guests": 2, "guest_name": "Ada Lovelace",
        "total": 658, "currency": "EUR", "status": "confirmed"
    }});
    assert_eq!(made, expected);
    let left = client.call_ok("search_rooms", wanted.clone()).await;
    assert_eq!(left["rooms"].as_array().unwrap().len(), 1);

    let by_id = json!({ "reservation_id": id.to_lowercase() });
    let looked_up = client.call_ok("get_reservation", by_id.clone()).await;
    assert_eq!(looked_up, made);

    let cancelled = client.call_ok("cancel_reservation", by_id.clone()).await;
    output_of(&tools, "cancel_reservation").validate(&cancelled).unwrap();
    assert_eq!(cancelled["reservation"]["status"], "cancelled");
    let again = client.refused("cancel_reservation", by_id.clone()).await;
    assert!(again.contains("already cancelled"), "{again}");
    assert_eq!(client.call_ok("get_reservation", by_id).await, cancelled);
    assert_eq!(client.call_ok("search_rooms", wanted).await, found);
    client.disconnect().await;
}

#[tokio::test]
async fn invalid_hotel_arguments_are_named_in_the_error_and_book_nothing() {
    let (client, _folder) = hotel().await;
    let good = stay("room-203");
    let cases = [
        (json!({}), "missing field `room_id`"),
        (with(good.clone(), "room_id", 203), "`room_id`"),
        (with(good.clone(), "room_id", "room-999"), "search_rooms"),
        (with(good.clone(), "check_in", "24/12/2026"), "YYYY-MM-DD"),
        (with(good.clone(), "check_out", "2026-02-30"), "check_out is not a date"),
        (with(good.clone(), "check_out", "2026-12-24"), "must be after check_in"),
        (with(good.clone(), "check_out", "2026-12-20"), "must be after check_in"),
        (with(good.clone(), "check_out", "2027-01-24"), "31 nights is too long"),
        (with(good.clone(), "guests", 4), "sleeps 3"),
        (with(good.clone(), "guests", 0), "`guests`"),
        (with(good.clone(), "guests", -1), "`guests`"),
        (with(good.clone(), "guests", 1.5), "`guests`"),
        (with(good.clone(), "guests", "two"), "`guests`"),
        (with(good.clone(), "guests", Value::Null), "`guests`"),
        (with(good.clone(), "guests", 4_294_967_297_u64), "`guests`"),
        (with(good.clone(), "guest_name", " "), "guest_name is empty"),
        (with(good.clone(), "guest_name", "x".repeat(201)), "longer than 200"),
        (with(good.clone(), "minibar", true), "unknown field `minibar`"),
    ];
    for (arguments, expected) in cases {
        let said = client.refused("make_reservation", arguments.clone()).await;
        assert!(said.contains(expected), "{arguments}: {said}");
    }
    let nights = json!({ "check_in": "2026-12-24", "check_out": "2026-12-26" });
    let said = client.refused("search_rooms", with(nights, "room_type", "cave")).await;
    assert!(said.contains("`room_type`") && said.contains("deluxe"), "{said}");
    for tool in ["get_reservation", "cancel_reservation"] {
        let said = client.refused(tool, json!({ "reservation_id": "'; DROP TABLE room" })).await;
        assert!(said.contains("GH-7K3QXM"), "{said}");
        let said = client.refused(tool, json!({ "reservation_id": "GH-000000" })).await;
        assert!(said.contains("no reservation GH-000000"), "{said}");
    }
    assert_nothing_booked(&client).await;
}

#[tokio::test]
async fn guests_argument_defaults_to_one_and_may_be_written_as_2_0() {
    let (client, _folder) = hotel().await;
    let mut alone = stay("room-101");
    alone.as_object_mut().unwrap().shift_remove("guests");
    let made = client.call_ok("make_reservation", alone).await;
    assert_eq!(made["reservation"]["guests"], 1);
    let made = client.call_ok("make_reservation", with(stay("room-203"), "guests", 2.0)).await;
    assert_eq!(made["reservation"]["guests"], 2);
}

#[tokio::test]
async fn unknown_hotel_tool_is_an_invalid_params_error() {
    let (client, _folder) = hotel().await;
    let error = client.try_call("rob_the_safe", json!({})).await.unwrap_err();
    let rmcp::ServiceError::McpError(error) = error else { panic!("{error}") };
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_concurrent_bookings_on_one_connection_succeeds() {
    let (client, _folder) = hotel().await;
    let calls = (0..16).map(|_| client.call("make_reservation", stay("room-402")));
    let mut won = 0;
    for result in join_all(calls).await {
        won += usize::from(result.is_error == Some(false));
    }
    assert_eq!(won, 1);
}
