//! Contract checks for conversations and relayed messages.

use std::sync::Arc;

use nuncio_core::conversation::{ContentType, Conversation, MsgSubtype, SubmittedMessage, ToolCallClaim};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_engine::ports::store::relay::MemberConversation;
use nuncio_engine::ports::store::{Change, Conflict, RelayChange, Store};

use super::consent_sample::{agent_id, recipient};
use super::relay_sample::{
    agent, begin, client_id, conversation_id, device_id, group, of_two, place_of, post, posted, send, with_members,
};
use super::sample::later;
use super::{TestDatabase, assert_one_winner, made, race, refusal};

fn update(conversation: &Conversation) -> Change {
    RelayChange::UpdateConversation(conversation.clone()).into()
}

fn read(conversation: &str, reader: &RelayParty, seq: u64) -> Change {
    RelayChange::ReadConversation { conversation: conversation_id(conversation), reader: reader.clone(), seq }.into()
}

fn claim(conversation: &str, seq: u64, device: &str, at: i64) -> Change {
    let claim = ToolCallClaim { device: device_id(device), at: later(at) };
    RelayChange::ClaimMessage { place: place_of(conversation, seq), claim }.into()
}

fn forget(before: i64, limit: usize) -> Change {
    RelayChange::ForgetMessages { before: later(before), limit }.into()
}

/// Change that posts a message without recipients.
fn post_message(conversation: &str, sender: &RelayParty, name: &str) -> Change {
    send(conversation, &post(sender, name), &[], 1)
}

async fn load_member_conversation(store: &dyn Store, id: &str, member: &RelayParty) -> Option<MemberConversation> {
    store.member_view(&conversation_id(id), member).await.unwrap()
}

/// Numbers of the last message and of the last one read.
async fn read_positions(store: &dyn Store, id: &str, member: &RelayParty) -> (u64, u64) {
    let held = load_member_conversation(store, id, member).await.unwrap();
    (held.last_seq, held.read_seq)
}

async fn names(store: &dyn Store, id: &str, after: u64, limit: usize) -> Vec<(u64, String)> {
    let found = store.relayed_after(&conversation_id(id), after, limit).await.unwrap();
    found.into_iter().map(|posted| (posted.seq, posted.post.client_id.to_string())).collect()
}

pub async fn conversation_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob, hotel) = (recipient("ada"), recipient("bob"), agent("agt_1"));
    let (two, several) = (of_two("cnv_1", "agt_1"), group("cnv_2", [ada.clone(), bob.clone(), hotel.clone()]));
    made(&*store, [begin(&two), begin(&several)]).await;
    let new = |conversation: &Conversation| MemberConversation {
        conversation: conversation.clone(),
        last_seq: 0,
        read_seq: 0,
    };
    assert_eq!(load_member_conversation(&*store, "cnv_1", &ada).await, Some(new(&two)));
    assert_eq!(load_member_conversation(&*store, "cnv_1", &hotel).await, Some(new(&two)));
    assert_eq!(load_member_conversation(&*store, "cnv_2", &bob).await, Some(new(&several)));
    assert_eq!(load_member_conversation(&*store, "cnv_1", &bob).await, None, "does not take part");
    assert_eq!(
        load_member_conversation(&*store, "cnv_1", &recipient("agt_1")).await,
        None,
        "a person of the agent's name"
    );
    assert_eq!(load_member_conversation(&*store, "cnv_3", &ada).await, None);
    assert_eq!(store.conversation_of_pair(&two.pair().unwrap()).await.unwrap(), Some(two));
    let others = of_two("cnv_9", "agt_2").pair().unwrap();
    assert_eq!(store.conversation_of_pair(&others).await.unwrap(), None);
}

pub async fn duplicate_conversation_id_or_pair_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob) = (recipient("ada"), recipient("bob"));
    let two = of_two("cnv_1", "agt_1");
    made(&*store, [begin(&two)]).await;
    assert_eq!(refusal(&*store, [begin(&of_two("cnv_1", "agt_2"))]).await, Conflict::Exists);
    assert_eq!(refusal(&*store, [begin(&group("cnv_1", [ada.clone(), bob.clone()]))]).await, Conflict::Exists);
    assert_eq!(refusal(&*store, [begin(&of_two("cnv_2", "agt_1"))]).await, Conflict::Exists);
    assert_eq!(load_member_conversation(&*store, "cnv_1", &ada).await.unwrap().conversation, two);
    assert_eq!(load_member_conversation(&*store, "cnv_1", &bob).await, None);
    assert_eq!(load_member_conversation(&*store, "cnv_1", &agent("agt_2")).await, None);
    assert_eq!(load_member_conversation(&*store, "cnv_2", &ada).await, None);
    let groups = ["cnv_3", "cnv_4"].map(|id| begin(&group(id, [ada.clone(), bob.clone()])));
    made(&*store, groups).await;
    made(&*store, [begin(&of_two("cnv_2", "agt_2"))]).await;
}

pub async fn conversations_are_listed_by_id_per_member(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob) = (recipient("ada"), recipient("bob"));
    let with_bob = |id| begin(&group(id, [ada.clone(), bob.clone()]));
    made(&*store, [with_bob("cnv_c"), begin(&of_two("cnv_b", "agt_1")), with_bob("cnv_a")]).await;
    made(&*store, [post_message("cnv_c", &bob, "m1"), post_message("cnv_c", &bob, "m2"), read("cnv_c", &ada, 1)]).await;
    let listed = async |member: &RelayParty, after: Option<&str>, limit| {
        let after = after.map(conversation_id);
        let found = store.conversations_of(member, after.as_ref(), limit).await.unwrap();
        found.into_iter().map(|held| held.conversation.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&ada, None, 9).await, ["cnv_a", "cnv_b", "cnv_c"]);
    assert_eq!(listed(&ada, None, 2).await, ["cnv_a", "cnv_b"]);
    assert_eq!(listed(&ada, Some("cnv_b"), 2).await, ["cnv_c"]);
    assert_eq!(listed(&bob, None, 9).await, ["cnv_a", "cnv_c"]);
    assert_eq!(listed(&recipient("eve"), None, 9).await, [""; 0]);
    let last = store.conversations_of(&ada, Some(&conversation_id("cnv_b")), 1).await.unwrap();
    assert_eq!(last, [load_member_conversation(&*store, "cnv_c", &ada).await.unwrap()]);
    assert_eq!((last[0].last_seq, last[0].read_seq), (2, 1));
}

pub async fn conversation_members_can_be_added_and_removed(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob, eve) = (recipient("ada"), recipient("bob"), recipient("eve"));
    let before = group("cnv_1", [ada.clone(), bob.clone()]);
    made(
        &*store,
        [begin(&before), post_message("cnv_1", &ada, "m1"), post_message("cnv_1", &ada, "m2"), read("cnv_1", &bob, 1)],
    )
    .await;
    let after = with_members(&before, [ada.clone(), eve.clone()]);
    made(&*store, [update(&after)]).await;
    assert_eq!(load_member_conversation(&*store, "cnv_1", &bob).await, None);
    assert_eq!(store.conversations_of(&bob, None, 9).await.unwrap(), []);
    let expected = |read_seq| MemberConversation { conversation: after.clone(), last_seq: 2, read_seq };
    assert_eq!(load_member_conversation(&*store, "cnv_1", &ada).await, Some(expected(2)));
    assert_eq!(load_member_conversation(&*store, "cnv_1", &eve).await, Some(expected(0)));
}

pub async fn conversation_changes_only_from_the_previous_revision(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob, eve) = (recipient("ada"), recipient("bob"), recipient("eve"));
    let before = group("cnv_1", [ada.clone(), bob.clone()]);
    let after = with_members(&before, [ada.clone(), eve.clone()]);
    assert_eq!(refusal(&*store, [update(&after)]).await, Conflict::Missing);
    assert_eq!(load_member_conversation(&*store, "cnv_1", &ada).await, None);
    made(&*store, [begin(&before)]).await;
    for revision in [0, 2, u64::MAX] {
        let moved = Conversation { revision, ..after.clone() };
        assert_eq!(refusal(&*store, [update(&moved)]).await, Conflict::Moved, "{revision}");
    }
    assert_eq!(load_member_conversation(&*store, "cnv_1", &bob).await.unwrap().conversation, before);
    assert_eq!(load_member_conversation(&*store, "cnv_1", &eve).await, None);
    let outcomes = race(&store, (0..8).map(|_| vec![update(&after)])).await;
    assert_one_winner(&outcomes, Conflict::Moved);
    assert_eq!(load_member_conversation(&*store, "cnv_1", &eve).await.unwrap().conversation, after);
}

pub async fn relayed_message_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel) = (recipient("ada"), agent("agt_1"));
    let call = SubmittedMessage {
        content_type: ContentType::Artifact,
        subtype: Some(MsgSubtype::ArtifactToolCall),
        ..post(&hotel, "m1")
    };
    let answer = SubmittedMessage {
        device: Some(device_id("dev_1")),
        content_type: ContentType::Artifact,
        subtype: Some(MsgSubtype::ArtifactResponse),
        envelope: (0..=u8::MAX).cycle().take(300_000).collect(),
        ..post(&ada, "m1")
    };
    let words = post(&ada, "m3");
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2"))]).await;
    let messages = [(&call, 5), (&answer, 6), (&words, 7)].map(|(post, at)| send("cnv_1", post, &[], at));
    made(&*store, messages).await;
    let expected = [posted("cnv_1", 1, &call, 5), posted("cnv_1", 2, &answer, 6), posted("cnv_1", 3, &words, 7)];
    assert_eq!(store.relayed_after(&conversation_id("cnv_1"), 0, 9).await.unwrap(), expected);
    for expected in &expected {
        assert_eq!(store.relayed(&expected.reference()).await.unwrap().as_ref(), Some(expected));
        let post = &expected.post;
        let found = store.relayed_by_client_id(&expected.conversation, &post.sender, &post.client_id).await.unwrap();
        assert_eq!(found.as_ref(), Some(expected));
    }
    for nowhere in [place_of("cnv_1", 0), place_of("cnv_1", 4), place_of("cnv_2", 1), place_of("cnv_9", 1)] {
        assert_eq!(store.relayed(&nowhere).await.unwrap(), None, "{nowhere:?}");
    }
    for (conversation, sender, name) in [("cnv_2", &ada, "m1"), ("cnv_1", &hotel, "m3"), ("cnv_1", &ada, "m2")] {
        let (conversation, name) = (conversation_id(conversation), client_id(name));
        assert_eq!(store.relayed_by_client_id(&conversation, sender, &name).await.unwrap(), None);
    }
}

pub async fn concurrent_messages_are_numbered_without_gaps(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2"))]).await;
    let units = (0..60).map(|n| match n % 3 {
        0 => vec![post_message("cnv_1", &ada, &format!("m{n}")), post_message("cnv_9", &ada, "m")],
        1 => vec![post_message("cnv_1", &ada, &format!("m{n}"))],
        _ => vec![post_message("cnv_2", &ada, &format!("m{n}"))],
    });
    race(&store, units).await;
    for conversation in ["cnv_1", "cnv_2"] {
        let numbers: Vec<u64> = names(&*store, conversation, 0, 99).await.into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
        assert_eq!(read_positions(&*store, conversation, &ada).await.0, 20);
    }
}

pub async fn message_for_outdated_conversation_revision_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob, eve) = (recipient("ada"), recipient("bob"), recipient("eve"));
    let message = send("cnv_1", &post(&ada, "m1"), &[bob.clone(), eve.clone()], 1);
    assert_eq!(refusal(&*store, [message.clone()]).await, Conflict::Missing);
    let before = group("cnv_1", [ada.clone(), bob.clone()]);
    let after = with_members(&before, [ada.clone(), bob.clone(), eve.clone()]);
    made(&*store, [begin(&before), update(&after)]).await;
    assert_eq!(refusal(&*store, [message]).await, Conflict::Moved);
    let at_revision = |revision, name: &str| {
        let (conversation, post, to) = (conversation_id("cnv_1"), post(&ada, name), vec![bob.clone()]);
        Change::from(RelayChange::PostMessage { conversation, revision, at: later(1), post, to })
    };
    for revision in [2, u64::MAX] {
        assert_eq!(refusal(&*store, [at_revision(revision, "m1")]).await, Conflict::Moved);
    }
    assert_eq!(read_positions(&*store, "cnv_1", &ada).await, (0, 0));
    assert_eq!((store.mail_head(&bob).await.unwrap(), store.mail_head(&eve).await.unwrap()), (0, 0));
    made(&*store, [at_revision(1, "m1")]).await;
    assert_eq!(names(&*store, "cnv_1", 0, 9).await, [(1, "m1".to_owned())]);
}

pub async fn reused_client_message_id_of_a_sender_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel) = (recipient("ada"), agent("agt_1"));
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2"))]).await;
    let first = post(&ada, "m1");
    made(&*store, [send("cnv_1", &first, std::slice::from_ref(&hotel), 1)]).await;
    made(&*store, [post_message("cnv_1", &hotel, "m2")]).await;
    let again = SubmittedMessage { envelope: Arc::from(*b"other"), ..first.clone() };
    let repeated = send("cnv_1", &again, std::slice::from_ref(&hotel), 2);
    assert_eq!(refusal(&*store, [repeated]).await, Conflict::Exists);
    assert_eq!(store.relayed(&place_of("cnv_1", 1)).await.unwrap(), Some(posted("cnv_1", 1, &first, 1)));
    assert_eq!(read_positions(&*store, "cnv_1", &ada).await, (2, 1), "the number and what was read are as before");
    assert_eq!(store.mail_head(&hotel).await.unwrap(), 1);
    made(&*store, [post_message("cnv_1", &hotel, "m1"), post_message("cnv_2", &ada, "m1")]).await;
    assert_eq!(read_positions(&*store, "cnv_1", &ada).await.0, 3);
}

pub async fn only_one_of_many_concurrent_posts_with_one_client_id_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel) = (recipient("ada"), agent("agt_1"));
    made(&*store, [begin(&of_two("cnv_1", "agt_1"))]).await;
    let units = (0..16).map(|n| vec![send("cnv_1", &post(&ada, "m1"), std::slice::from_ref(&hotel), n)]);
    assert_one_winner(&race(&store, units).await, Conflict::Exists);
    assert_eq!(names(&*store, "cnv_1", 0, 9).await, [(1, "m1".to_owned())]);
    assert_eq!(store.mail_head(&hotel).await.unwrap(), 1);
}

pub async fn message_notifies_members_and_advances_senders_position(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob, hotel) = (recipient("ada"), recipient("bob"), agent("agt_1"));
    made(&*store, [begin(&group("cnv_1", [ada.clone(), bob.clone(), hotel.clone()]))]).await;
    made(&*store, [post_message("cnv_1", &hotel, "m1")]).await;
    made(&*store, [send("cnv_1", &post(&ada, "m1"), &[bob.clone(), hotel.clone()], 7)]).await;
    for told in [&bob, &hotel] {
        let mail = store.mail(told, 0, 9).await.unwrap();
        assert_eq!(mail.len(), 1, "{told}");
        assert_eq!(mail[0].at, later(7));
        assert_eq!(mail[0].notification, Notification::Message { conversation: conversation_id("cnv_1"), seq: 2 });
    }
    assert_eq!(store.mail_head(&ada).await.unwrap(), 0);
    assert_eq!(read_positions(&*store, "cnv_1", &ada).await, (2, 2));
    assert_eq!(read_positions(&*store, "cnv_1", &hotel).await, (2, 1));
    assert_eq!(read_positions(&*store, "cnv_1", &bob).await, (2, 0));
}

pub async fn read_position_never_decreases_or_exceeds_the_last_message(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob, hotel) = (recipient("ada"), recipient("bob"), agent("agt_1"));
    assert_eq!(refusal(&*store, [read("cnv_1", &ada, 1)]).await, Conflict::Missing);
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2"))]).await;
    made(&*store, [read("cnv_1", &ada, 5)]).await;
    assert_eq!(read_positions(&*store, "cnv_1", &ada).await, (0, 0), "nothing was said yet");
    made(&*store, ["m1", "m2", "m3"].map(|name| post_message("cnv_1", &hotel, name))).await;
    for (seq, then) in [(2, 2), (1, 2), (0, 2), (u64::MAX, 3)] {
        made(&*store, [read("cnv_1", &ada, seq)]).await;
        assert_eq!(read_positions(&*store, "cnv_1", &ada).await, (3, then), "after {seq}");
    }
    assert_eq!(refusal(&*store, [read("cnv_1", &bob, 1)]).await, Conflict::Missing);
    assert_eq!(refusal(&*store, [read("cnv_2", &hotel, 0)]).await, Conflict::Missing);
    assert_eq!(read_positions(&*store, "cnv_2", &ada).await, (0, 0));
}

pub async fn reading_relayed_messages_starts_after_the_given_number(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2"))]).await;
    let name = |seq: u64| (seq, format!("m{seq}"));
    made(&*store, (1..=100).map(|seq| post_message("cnv_1", &ada, &name(seq).1)).collect::<Vec<_>>()).await;
    made(&*store, [post_message("cnv_2", &ada, "other")]).await;
    for (after, limit) in [(0, 0), (0, 1), (10, 31), (10, 32), (10, 33), (0, 99), (0, 1000), (98, 9), (100, 9)] {
        let expected: Vec<_> = (after + 1..=100).take(limit).map(name).collect();
        assert_eq!(names(&*store, "cnv_1", after, limit).await, expected, "{limit} after {after}");
    }
    assert_eq!(names(&*store, "cnv_1", u64::MAX, 9).await, []);
    assert_eq!(names(&*store, "cnv_9", 0, 9).await, []);
    let large = |seq: u64| SubmittedMessage { envelope: vec![7; 200_000].into(), ..post(&ada, &format!("large{seq}")) };
    made(&*store, [2, 3, 4].map(|seq| send("cnv_2", &large(seq), &[], 1))).await;
    let found = store.relayed_after(&conversation_id("cnv_2"), 1, 2).await.unwrap();
    assert_eq!(found, [2, 3].map(|seq| posted("cnv_2", seq, &large(seq), 1)));
}

pub async fn message_is_claimed_by_only_one_device(place: &dyn TestDatabase) {
    let store = place.open().await;
    let hotel = agent("agt_1");
    made(
        &*store,
        [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2")), post_message("cnv_1", &hotel, "m1")],
    )
    .await;
    for (conversation, seq) in [("cnv_1", 0), ("cnv_1", 2), ("cnv_1", u64::MAX), ("cnv_2", 1), ("cnv_9", 1)] {
        assert_eq!(refusal(&*store, [claim(conversation, seq, "dev_1", 1)]).await, Conflict::Missing);
        assert_eq!(store.claim(&place_of(conversation, seq)).await.unwrap(), None);
    }
    assert_eq!(store.claim(&place_of("cnv_1", 1)).await.unwrap(), None);
    made(&*store, [claim("cnv_1", 1, "dev_1", 1)]).await;
    made(&*store, [claim("cnv_1", 1, "dev_1", 2)]).await;
    assert_eq!(refusal(&*store, [claim("cnv_1", 1, "dev_2", 3)]).await, Conflict::Exists);
    let first = ToolCallClaim { device: device_id("dev_1"), at: later(1) };
    assert_eq!(store.claim(&place_of("cnv_1", 1)).await.unwrap(), Some(first));
    assert_eq!(names(&*store, "cnv_1", 0, 9).await.len(), 1);
}

pub async fn only_one_of_many_concurrent_claims_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), post_message("cnv_1", &agent("agt_1"), "m1")]).await;
    let outcomes = race(&store, (0..16).map(|n| vec![claim("cnv_1", 1, &format!("dev_{n}"), n)])).await;
    assert_one_winner(&outcomes, Conflict::Exists);
    let winner = outcomes.iter().position(Result::is_ok).unwrap();
    let claim = store.claim(&place_of("cnv_1", 1)).await.unwrap().unwrap();
    assert_eq!(claim.device, device_id(&format!("dev_{winner}")));
}

pub async fn tool_calls_are_found_from_a_time_on(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, first, second) = (recipient("ada"), agent("agt_1"), agent("agt_2"));
    assert_eq!(store.tool_calls_since(later(0)).await.unwrap(), []);
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2"))]).await;
    let (content_type, subtype) = (ContentType::Artifact, Some(MsgSubtype::ArtifactToolCall));
    let call = |sender: &RelayParty, name: &str| SubmittedMessage { content_type, subtype, ..post(sender, name) };
    for (conversation, message, at) in [
        ("cnv_1", call(&first, "m1"), 1),
        ("cnv_1", call(&first, "m2"), 2),
        ("cnv_2", call(&second, "m1"), 3),
        ("cnv_1", post(&first, "m3"), 4),
        ("cnv_1", post(&ada, "m1"), 5),
        ("cnv_1", call(&first, "m4"), 6),
    ] {
        made(&*store, [send(conversation, &message, &[], at)]).await;
    }
    let (one, two) = (agent_id("agt_1"), agent_id("agt_2"));
    let all = [(one.clone(), later(1)), (one.clone(), later(2)), (two, later(3)), (one, later(6))];
    for (since, expected) in [(0, &all[..]), (2, &all[1..]), (3, &all[2..]), (6, &all[3..]), (7, &[])] {
        assert_eq!(store.tool_calls_since(later(since)).await.unwrap(), expected, "{since}");
    }
}

pub async fn deleted_message_numbers_are_not_reused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel) = (recipient("ada"), agent("agt_1"));
    assert!(!store.is_any_relayed_before(later(1000)).await.unwrap());
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), begin(&of_two("cnv_2", "agt_2"))]).await;
    for (conversation, name, at) in [("cnv_1", "m1", 0), ("cnv_2", "m2", 1), ("cnv_1", "m3", 2), ("cnv_1", "m4", 10)] {
        made(&*store, [send(conversation, &post(&ada, name), &[], at)]).await;
    }
    made(&*store, [claim("cnv_1", 1, "dev_1", 3), claim("cnv_1", 3, "dev_1", 11)]).await;
    assert!(!store.is_any_relayed_before(later(0)).await.unwrap());
    assert!(store.is_any_relayed_before(later(1)).await.unwrap());
    made(&*store, [forget(0, 9)]).await;
    assert_eq!(names(&*store, "cnv_1", 0, 9).await.len(), 3);
    made(&*store, [forget(10, 2)]).await;
    assert_eq!(names(&*store, "cnv_1", 0, 9).await, [(2, "m3".to_owned()), (3, "m4".to_owned())]);
    assert_eq!(names(&*store, "cnv_2", 0, 9).await, []);
    assert_eq!(store.claim(&place_of("cnv_1", 1)).await.unwrap(), None);
    assert!(store.is_any_relayed_before(later(10)).await.unwrap());
    made(&*store, [forget(10, 9)]).await;
    assert!(!store.is_any_relayed_before(later(10)).await.unwrap());
    assert_eq!(names(&*store, "cnv_1", 0, 9).await, [(3, "m4".to_owned())]);
    assert!(store.claim(&place_of("cnv_1", 3)).await.unwrap().is_some());
    assert_eq!(refusal(&*store, [claim("cnv_1", 1, "dev_1", 12)]).await, Conflict::Missing);
    made(&*store, [forget(99, 9), post_message("cnv_1", &ada, "m1"), post_message("cnv_2", &hotel, "m2")]).await;
    assert_eq!(names(&*store, "cnv_1", 0, 9).await, [(4, "m1".to_owned())]);
    assert_eq!(names(&*store, "cnv_2", 0, 9).await, [(2, "m2".to_owned())]);
}

pub async fn old_message_deletion_keeps_newer_messages_after_the_clock_was_set_back(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    made(&*store, [begin(&of_two("cnv_1", "agt_1"))]).await;
    for (name, at) in [("m1", 20), ("m2", 5), ("m3", 30)] {
        made(&*store, [send("cnv_1", &post(&ada, name), &[], at)]).await;
    }
    made(&*store, [forget(10, 9)]).await;
    let left: Vec<String> = names(&*store, "cnv_1", 0, 9).await.into_iter().map(|(_, name)| name).collect();
    assert!(left.contains(&"m1".to_owned()) && left.contains(&"m3".to_owned()), "{left:?}");
    while store.is_any_relayed_before(later(25)).await.unwrap() {
        made(&*store, [forget(25, 1)]).await;
    }
    assert_eq!(names(&*store, "cnv_1", 0, 9).await, [(3, "m3".to_owned())]);
}

pub async fn conversations_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel) = (recipient("ada"), agent("agt_1"));
    let conversation = of_two("cnv_1", "agt_1");
    let message = post(&hotel, "m1");
    made(&*store, [begin(&conversation), send("cnv_1", &message, std::slice::from_ref(&ada), 1)]).await;
    made(&*store, [read("cnv_1", &ada, 1), claim("cnv_1", 1, "dev_1", 2)]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(
        load_member_conversation(&*store, "cnv_1", &ada).await,
        Some(MemberConversation { conversation, last_seq: 1, read_seq: 1 })
    );
    assert_eq!(store.relayed(&place_of("cnv_1", 1)).await.unwrap(), Some(posted("cnv_1", 1, &message, 1)));
    assert_eq!(store.claim(&place_of("cnv_1", 1)).await.unwrap().unwrap().device, device_id("dev_1"));
    made(&*store, [post_message("cnv_1", &ada, "m2")]).await;
    assert_eq!(read_positions(&*store, "cnv_1", &ada).await, (2, 2));
}
