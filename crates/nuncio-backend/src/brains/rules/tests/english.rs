use super::RulesTestAgent;
use super::transcript::check;

#[test]
fn room_is_found_booked_and_cancelled_in_english_conversation() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: Hello!
        says: Welcome to the Grand Hotel! Would you like to find a room, or do you have a reservation with us?
        guest: Find a deluxe room from 2026-12-24 to 2026-12-26 for 2 guests
        calls: search_rooms {"check_in":"2026-12-24","check_out":"2026-12-26","guests":2,"room_type":"deluxe"}
        gets: {"rooms":[{"room_id":"room-201","type":"deluxe","description":"Over the old town.","max_guests":2,"price_per_night":159,"currency":"EUR","nights":2,"total":318},{"room_id":"room-203","type":"deluxe","description":"On the river.","max_guests":3,"price_per_night":179.5,"currency":"EUR","nights":2,"total":359}]}
        says: Free from 24 December 2026 to 26 December 2026 for 2 guests:
        • room-201 (deluxe): €159 a night, €318 in all. Over the old town.
        • room-203 (deluxe): €179.5 a night, €359 in all. On the river.
        Which one would you like? Just tell me its number.
        guest: 203 please
        says: Under which name shall I book it?
        guest: My name is Ada Lovelace.
        calls: make_reservation {"check_in":"2026-12-24","check_out":"2026-12-26","guests":2,"room_id":"room-203","guest_name":"Ada Lovelace"}
        gets: {"reservation":{"reservation_id":"GH-7K3QXM","room_id":"room-203","type":"deluxe","check_in":"2026-12-24","check_out":"2026-12-26","nights":2,"guests":2,"guest_name":"Ada Lovelace","total":359,"currency":"EUR","status":"confirmed"}}
        says: Booked! room-203 is yours, Ada Lovelace, from 24 December 2026 to 26 December 2026: 2 nights, €359 in all. Your reservation number is GH-7K3QXM.
        guest: Thank you!
        says: You are welcome. Have a pleasant day!
        guest: Oh, please cancel my reservation
        calls: cancel_reservation {"reservation_id":"GH-7K3QXM"}
        gets: {"reservation":{"reservation_id":"GH-7K3QXM","room_id":"room-203","type":"deluxe","check_in":"2026-12-24","check_out":"2026-12-26","nights":2,"guests":2,"guest_name":"Ada Lovelace","total":359,"currency":"EUR","status":"cancelled"}}
        says: Reservation GH-7K3QXM (room-203, 2026-12-24 to 2026-12-26) is cancelled.
        "#,
    );
}

#[test]
fn missing_slots_are_asked_for_until_answered() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: I'd like to book a room
        says: With pleasure. On which day will you arrive?
        guest: as soon as I can
        says: With pleasure. On which day will you arrive?
        guest: tomorrow
        says: And on which day will you leave?
        guest: I'll stay 3 nights
        says: For how many guests?
        guest: just the two of us
        says: Which room shall it be? Tell me its number, such as 203, or ask "which rooms are free?".
        guest: number 999
        says: Which room shall it be? Tell me its number, such as 203, or ask "which rooms are free?".
        guest: number 102
        says: Under which name shall I book it?
        guest: May Four
        calls: make_reservation {"check_in":"2026-11-16","check_out":"2026-11-19","guests":2,"room_id":"room-102","guest_name":"May Four"}
        gets: Tool execution failed: room-102 is already taken for the night of 2026-11-16. Search again.
        says: I could not book it: room-102 is already taken for the night of 2026-11-16. Search again.
        guest: then book room 103
        calls: make_reservation {"check_in":"2026-11-16","check_out":"2026-11-19","guests":2,"room_id":"room-103","guest_name":"May Four"}
        gets: Tool call denied: too dear
        says: You did not allow it, so nothing was booked.
        "#,
    );
}

#[test]
fn suspended_booking_resumes_after_another_question() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: book a room from 24 to 26 December for two
        says: Which room shall it be? Tell me its number, such as 203, or ask "which rooms are free?".
        guest: which rooms are free?
        calls: search_rooms {"check_in":"2026-12-24","check_out":"2026-12-26","guests":2}
        gets: {"rooms":[]}
        says: Sorry, from 24 December 2026 to 26 December 2026 there is no free room for 2 guests. Shall we try other dates?
        guest: number 401, then
        says: Under which name shall I book it?
        guest: what can you do?
        says: I can
        • find free rooms: "Find a room from 24 December to 26 December for 2 guests"
        • book one: "Book room 203"
        • look up a reservation: "Show my reservation GH-7K3QXM"
        • cancel one: "Cancel reservation GH-7K3QXM"
        "#,
    );
}

#[test]
fn english_cancel_phrase_abandons_the_current_intent() {
    for words in ["never mind", "Cancel", "No, forget it!", "oh, cancel that please"] {
        check(
            &RulesTestAgent::hotel(),
            &format!(
                "guest: book a room
                says: With pleasure. On which day will you arrive?
                guest: {words}
                says: All right, never mind. What else can I do for you?
                guest: 2026-12-24
                says: Sorry, I did not understand that. I can find free rooms, book one, and look up or cancel a \
                 reservation. For example: \"Find a room from 2026-12-24 to 2026-12-26 for 2 guests\"."
            ),
        );
    }
}

#[test]
fn one_english_sentence_can_fill_all_slots() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: Please book room 203 for 2 people from Dec 24, 2026 for two nights under the name of Ada King-Noel
        calls: make_reservation {"check_in":"2026-12-24","check_out":"2026-12-26","guests":2,"room_id":"room-203","guest_name":"Ada King-Noel"}
        "#,
    );
}

#[test]
fn new_date_is_not_combined_with_remembered_date() {
    check(
        &RulesTestAgent::hotel(),
        r#"
        guest: any room from 2026-12-24 to 2026-12-26 for 1?
        calls: search_rooms {"check_in":"2026-12-24","check_out":"2026-12-26","guests":1}
        gets: {"rooms":[]}
        says: Sorry, from 24 December 2026 to 26 December 2026 there is no free room for 1 guest. Shall we try other dates?
        guest: any suite from 2027-01-05?
        says: And on which day will you leave?
        guest: a week later... 7 nights
        says: And on which day will you leave?
        guest: 2027-01-07
        calls: search_rooms {"check_in":"2027-01-05","check_out":"2027-01-07","guests":1,"room_type":"suite"}
        gets: Invalid arguments: at /guests: 0 is less than the minimum of 1
        says: That did not work: at /guests: 0 is less than the minimum of 1
        guest: which rooms for 3 nights?
        calls: search_rooms {"check_in":"2027-01-05","check_out":"2027-01-08","guests":1}
        "#,
    );
}

#[test]
fn reply_asks_to_enable_the_needed_tool_when_it_is_disabled() {
    let mut hotel = RulesTestAgent::hotel();
    hotel.is_switched_on = false;
    check(
        &hotel,
        "guest: show my booking GH-7K3QXM
        says: For this I need the tool get_reservation, which must be switched on for this session first.",
    );
}

#[test]
fn counts_of_rooms_and_nights_are_not_taken_as_number_of_guests() {
    check(
        &RulesTestAgent::hotel(),
        "guest: is room 203 available for 3 nights from 2026-12-24?
        says: For how many guests?
        guest: 3 adults, 1 child
        says: For how many guests?
        guest: four
        calls: search_rooms {\"check_in\":\"2026-12-24\",\"check_out\":\"2026-12-27\",\"guests\":4}",
    );
}

#[test]
fn single_english_messages_get_expected_reply_or_call() {
    for (said, done) in [
        ("I would like to make a reservation", "says: With pleasure. On which day will you arrive?"),
        ("cancel a reservation", "says: Which reservation shall I cancel? Its number looks like GH-7K3QXM."),
        ("hi, how much is a suite?", "says: On which day will you arrive?"),
        ("where is my reservation gh-7k3qxm?", r#"calls: get_reservation {"reservation_id":"gh-7k3qxm"}"#),
        (
            "I need a room tomorrow for 2 nights, 2 adults",
            r#"calls: search_rooms {"check_in":"2026-11-16","check_out":"2026-11-18","guests":2}"#,
        ),
        (
            "rooms 24-26 Dec for three people",
            r#"calls: search_rooms {"check_in":"2026-12-24","check_out":"2026-12-26","guests":3}"#,
        ),
    ] {
        check(&RulesTestAgent::hotel(), &format!("guest: {said}\n{done}"));
    }
}

#[test]
fn agent_without_texts_uses_built_in_sentences() {
    let agent = RulesTestAgent::of(
        r#"
        [agent]
        name = "plain"
        version = "1.0.0"
        [[intent]]
        name = "flip-switch"
        keywords = ["flip"]
        tool = "flip"
        answer = "{{ nothing }}"
        [[intent.slot]]
        name = "up"
        type = "text"
        ask = "Up?"
        [[intent.slot]]
        name = "times"
        type = "integer"
        default = 3
        [[tool]]
        name = "flip"
        description = "Flips."
        input = { type = "object", properties = { up = { type = "boolean" }, times = { type = "number" } } }
        run = { command = ["true"] }
        "#,
    );
    check(
        &agent,
        r#"
        guest: ?
        says: Sorry, I did not understand that. What I can do: flip switch.
        guest: 开
        says: 抱歉，我没有听懂。我可以做：flip switch。
        guest: flip it over
        says: Up?
        guest: yes
        calls: flip {"up":true,"times":3}
        gets: flipped
        says: flipped
        guest: flip
        calls: flip {"up":true,"times":3}
        gets: Tool call denied
        says: I was not given permission, so nothing was done.
        "#,
    );
}
