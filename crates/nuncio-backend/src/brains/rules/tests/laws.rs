use std::sync::LazyLock;

use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::message::{Block, Content, ToolCall};
use proptest::prelude::*;

use super::*;

/// Hotel example agent, compiled once for all cases of a property test.
static HOTEL: LazyLock<RulesTestAgent> = LazyLock::new(RulesTestAgent::hotel);

fn call(name: &str, id: &str) -> Message {
    let (id, name) = (CallId::parse(id).unwrap(), ToolName::parse(name).unwrap());
    Message::assistant(vec![Block::tool_use(ToolCall { id, name, input: serde_json::Map::new() })])
}

/// Strategy for meaningful and arbitrary messages.
fn message() -> impl Strategy<Value = Message> {
    let said = prop_oneof![
        "(?s).{0,80}",
        "(book|find|cancel|预订|查房间|never mind|算了|203|GH-AAAAAA|[0-9]{1,4}[-/年.][0-9]{1,3}[-/月.][0-9]{1,3}|tomorrow|3 nights|两位| |,){0,8}",
    ];
    let result = prop_oneof![
        "(?s).{0,40}",
        Just(r#"{"rooms":[{"room_id":7,"type":null}]}"#.to_owned()),
        Just(r#"{"reservation":{"reservation_id":[],"check_in":"x"}}"#.to_owned()),
        Just("Tool call denied".to_owned()),
    ];
    let id = |text: &str| CallId::parse(text).unwrap();
    prop_oneof![
        4 => said.prop_map(Message::user),
        1 => result.prop_map(move |text| Message::tool(id("c"), Content::Text(text))),
        1 => prop_oneof![Just("search_rooms"), Just("make_reservation"), Just("other")].prop_map(|name| call(name, "c")),
    ]
}

proptest! {
    #[test]
    fn arbitrary_history_gets_a_repeatable_non_empty_reply(history in proptest::collection::vec(message(), 0..12)) {
        let answer = HOTEL.reply(&history);
        prop_assert_eq!(&answer, &HOTEL.reply(&history), "the same history gets the same answer");
        if let RulesBrainAction::Say(text) = answer {
            prop_assert!(!text.trim().is_empty());
        }
    }

    #[test]
    fn call_arguments_match_the_schema_except_number_of_guests(history in proptest::collection::vec(message(), 0..12)) {
        if let RulesBrainAction::Call { name, input } = HOTEL.reply(&history) {
            let faults = HOTEL.agent.tool(name.as_str()).unwrap().input.check(&serde_json::Value::Object(input)).err();
            // The number of guests may be out of range; all other arguments fit the schema.
            prop_assert!(faults.unwrap_or_default().iter().all(|fault| fault.pointer == "/guests"));
        }
    }
}

#[test]
fn history_of_1000_long_messages_gets_a_reply() {
    let noise = "book 2026-12-24 room 203 查房间 a b c ".repeat(400);
    let history = vec![Message::user(noise); 1000];
    assert!(matches!(HOTEL.reply(&history), RulesBrainAction::Say(_)));
}

#[test]
fn messages_older_than_the_last_200_are_ignored() {
    let mut history = vec![Message::user("book a room")];
    history.extend(std::iter::repeat_n(Message::assistant(vec![]), 200));
    history.push(Message::user("2026-12-24"));
    assert!(matches!(HOTEL.reply(&history), RulesBrainAction::Say(text) if text.starts_with("Sorry")));
}

#[test]
fn history_without_user_text_gets_the_fallback_reply() {
    for history in
        [vec![], vec![Message::user("")], vec![call("make_reservation", "c")], vec![Message::assistant(vec![])]]
    {
        assert!(matches!(HOTEL.reply(&history), RulesBrainAction::Say(text) if text.starts_with("Sorry")));
    }
}

#[test]
fn unrelated_tool_calls_and_results_are_ignored() {
    let id = |text: &str| CallId::parse(text).unwrap();
    // Neither a call of another tool nor a result of another call answers the user's request.
    let history =
        [Message::user("cancel reservation GH-AAAAAA"), call("other", "x"), Message::tool(id("x"), "done".into())];
    assert!(
        matches!(HOTEL.reply(&history), RulesBrainAction::Call { name, .. } if name.as_str() == "cancel_reservation")
    );
    let history = [
        Message::user("cancel reservation GH-AAAAAA"),
        call("cancel_reservation", "c"),
        Message::tool(id("other"), "done".into()),
    ];
    assert!(
        matches!(HOTEL.reply(&history), RulesBrainAction::Say(text) if text == "That did not work: no answer came")
    );
}
