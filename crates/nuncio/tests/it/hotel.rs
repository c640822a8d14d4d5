//! The Grand Hotel example of `nuncio serve`: guests find rooms, book, look up and cancel, through an MCP server.

use serde_json::{Value, json};

use crate::client::Client;
use crate::home::TestAgentFolder;

const TOOLS: [&str; 4] = ["search_rooms", "make_reservation", "get_reservation", "cancel_reservation"];

struct HotelGuest {
    client: Client,
    session: String,
}

struct GuestConversation {
    /// Names and arguments of the called tools.
    calls: Vec<(String, Value)>,
    results: Vec<Value>,
    text: String,
    /// Number of permission prompts.
    asked: usize,
}

impl HotelGuest {
    async fn new(client: Client, trust: bool) -> Self {
        let session = client.session("hotel-assistant", &TOOLS.map(|tool| (tool, trust))).await;
        Self { client, session }
    }

    async fn send(&self, text: &str) -> GuestConversation {
        self.answers(text, true).await
    }

    async fn answers(&self, text: &str, granted: bool) -> GuestConversation {
        let mut conversation =
            GuestConversation { calls: Vec::new(), results: Vec::new(), text: String::new(), asked: 0 };
        let mut answer = self.client.say(&self.session, text).await;
        loop {
            let mut waiting = Vec::new();
            for message in answer["messages"].as_array().unwrap() {
                if message["role"] == "tool" {
                    let content = message["content"].as_str().unwrap();
                    conversation.results.push(serde_json::from_str(content).unwrap_or_else(|_| json!(content)));
                    continue;
                }
                for block in message["content"].as_array().unwrap() {
                    conversation.text.push_str(block["text"].as_str().unwrap_or_default());
                    if block["type"] == "tool_use" {
                        conversation.calls.push((block["name"].as_str().unwrap().to_owned(), block["input"].clone()));
                        waiting.push(
                            json!({"role": "tool_permission", "toolCallId": block["toolCallId"], "granted": granted}),
                        );
                    }
                }
            }
            if answer["stopReason"] != "tool_use" {
                assert_eq!(answer["stopReason"], "end_turn", "{answer}");
                return conversation;
            }
            conversation.asked += 1;
            answer = self.client.turn(&self.session, json!(waiting)).await;
        }
    }
}

impl GuestConversation {
    fn reservation(&self) -> &Value {
        assert_eq!(self.results.len(), 1, "{:?}", self.results);
        let reservation = &self.results[0]["reservation"];
        assert!(reservation.is_object(), "{:?}", self.results);
        reservation
    }
}

#[tokio::test]
async fn hotel_example_books_and_cancels_a_room_in_english() {
    let home = TestAgentFolder::hotel();
    let server = home.start();
    assert_eq!(server.greeting["agents"], json!(["hotel-assistant"]));
    let guest = HotelGuest::new(server.aap(), true).await;
    book_and_cancel_room(
        &guest,
        [
            "Find a room from 2031-12-24 to 2031-12-26 for 2 guests",
            "203 please",
            "Ada Lovelace",
            "Show my reservation",
            "Cancel it",
        ],
        0,
    )
    .await;
    assert_eq!(home.audit().len(), 6);
}

#[tokio::test]
async fn every_call_of_an_untrusted_hotel_tool_asks_for_permission_in_a_chinese_chat() {
    let home = TestAgentFolder::hotel();
    let server = home.start();
    let guest = HotelGuest::new(server.aap(), false).await;
    book_and_cancel_room(
        &guest,
        ["2031年12月24日到26日有空房吗？两个人", "预订 203", "王小明", "查看我的预订", "取消预订"],
        1,
    )
    .await;
    let records = home.audit();
    assert_eq!(records.len(), 6);
    assert!(records.iter().all(|record| record["decision"]["by"] == json!(["client"])), "{records:?}");
}

/// Books room 203, looks up the reservation and cancels it; each call asks for permission `asked` times.
async fn book_and_cancel_room(guest: &HotelGuest, [find, choose, name, look, cancel]: [&str; 5], asked: usize) {
    let stay = json!({"check_in": "2031-12-24", "check_out": "2031-12-26", "guests": 2});
    let found = guest.send(find).await;
    assert_eq!(found.calls, [("search_rooms".to_owned(), stay)]);
    assert_eq!(found.asked, asked);
    let rooms = found.results[0]["rooms"].as_array().unwrap();
    assert!(rooms.len() > 5 && rooms.iter().any(|room| room["room_id"] == "room-203"), "{rooms:?}");
    assert!(rooms.iter().all(|room| found.text.contains(room["room_id"].as_str().unwrap())), "{}", found.text);

    let chosen = guest.send(choose).await;
    assert!(chosen.calls.is_empty() && !chosen.text.is_empty(), "the name is asked for: {}", chosen.text);
    let booked = guest.send(name).await;
    assert_eq!((booked.calls[0].0.as_str(), booked.asked), ("make_reservation", asked));
    let reservation = booked.reservation().clone();
    let id = reservation["reservation_id"].as_str().unwrap();
    assert_eq!((&reservation["room_id"], &reservation["guest_name"]), (&json!("room-203"), &json!(name)));
    assert_eq!((&reservation["check_in"], &reservation["check_out"]), (&json!("2031-12-24"), &json!("2031-12-26")));
    assert!(booked.text.contains(id) && booked.text.contains(name), "{}", booked.text);

    let looked = guest.send(look).await;
    assert_eq!(looked.calls, [("get_reservation".to_owned(), json!({"reservation_id": id}))]);
    assert_eq!(looked.reservation(), &reservation);
    assert!(looked.text.contains(id), "{}", looked.text);

    let again = guest.send(find).await;
    assert!(!again.text.contains("room-203"), "it is taken: {}", again.text);
    let cancelled = guest.send(cancel).await;
    assert_eq!(cancelled.calls, [("cancel_reservation".to_owned(), json!({"reservation_id": id}))]);
    assert_eq!(cancelled.reservation()["status"], "cancelled");
    assert!(guest.send(find).await.text.contains("room-203"), "it is free again");
}

#[tokio::test]
async fn denied_permission_to_book_leaves_the_room_free() {
    let home = TestAgentFolder::hotel();
    let server = home.start();
    let guest = HotelGuest::new(server.aap(), false).await;
    guest.send("Find a room from 2031-12-24 to 2031-12-26 for 2 guests").await;
    guest.send("203 please").await;
    let refused = guest.answers("Ada Lovelace", false).await;
    assert_eq!(refused.results, [json!("Tool call denied")]);
    assert!(!refused.text.contains("GH-"), "{}", refused.text);
    let found = guest.send("Find a room from 2031-12-24 to 2031-12-26 for 2 guests").await;
    assert!(found.text.contains("room-203"), "{}", found.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_four_concurrent_guests_gets_the_last_room() {
    let home = TestAgentFolder::hotel();
    let server = home.start();
    let mut guests = Vec::new();
    for _ in 0..4 {
        let guest = HotelGuest::new(server.aap(), true).await;
        let found = guest.send("Find a room from 2031-07-01 to 2031-07-04 for 5 guests").await;
        assert_eq!(found.results[0]["rooms"].as_array().unwrap().len(), 1, "only one room sleeps five");
        guest.send("303 please").await;
        guests.push(guest);
    }
    let booking: Vec<_> = guests
        .into_iter()
        .enumerate()
        .map(|(number, guest)| {
            tokio::spawn(async move { guest.send(["Ada", "Grace", "Barbara", "Radia"][number]).await })
        })
        .collect();
    let mut booked = 0;
    for guest in booking {
        let conversation = guest.await.unwrap();
        assert_eq!(conversation.calls.len(), 1);
        if conversation.results[0]["reservation"]["status"] == "confirmed" {
            booked += 1;
        } else {
            assert!(!conversation.text.contains("GH-") && !conversation.text.is_empty(), "{}", conversation.text);
        }
    }
    assert_eq!(booked, 1);
    let late =
        HotelGuest::new(server.aap(), true).await.send("Find a room from 2031-07-03 to 2031-07-05 for 5 guests").await;
    assert_eq!(late.results[0]["rooms"], json!([]));
}

#[tokio::test]
async fn reservation_and_conversation_survive_a_server_kill() {
    let home = TestAgentFolder::hotel();
    let server = home.start();
    let guest = HotelGuest::new(server.aap(), true).await;
    guest.send("Find a room from 2031-12-24 to 2031-12-26 for 2 guests").await;
    guest.send("203 please").await;
    let reservation = guest.send("Ada Lovelace").await.reservation().clone();
    let HotelGuest { session, .. } = guest;
    server.kill9();

    let server = home.start();
    let guest = HotelGuest { client: server.aap(), session };
    let looked = guest.send("Show my reservation").await;
    assert_eq!(looked.reservation(), &reservation, "also what the guest need not repeat is still known");
    let id = reservation["reservation_id"].as_str().unwrap();
    let stranger = HotelGuest::new(server.aap(), true).await;
    assert_eq!(stranger.send(&format!("Show my reservation {id}")).await.reservation(), &reservation);
}
