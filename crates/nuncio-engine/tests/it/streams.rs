//! Stream limits.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::conversation::{ConversationType, StreamId};
use nuncio_core::ids::{AgentId, ConversationId};
use nuncio_core::notification::RelayParty;
use nuncio_core::principal::Principal;
use nuncio_engine::consent::ConsentErrorDetails;
use nuncio_engine::relay::{NewConversation, StreamAbortReason, StreamPiece, StreamSender, StreamUpdateKind};
use nuncio_engine::{AuthenticationMethod, Caller};

use super::world::{EnrolledPhone, TestEngine, first_version};

fn streamer(world: &TestEngine, agent: &AgentId) -> StreamSender {
    let by =
        Caller { authentication: AuthenticationMethod::AgentToken, ..Caller::new(Principal::Agent(agent.clone())) };
    world.engine.relay().streamer(by).unwrap()
}

fn name(text: &str) -> StreamId {
    StreamId::parse(text).unwrap()
}

fn piece(seq: u64) -> StreamPiece {
    StreamPiece { seq, sealed: [7].as_slice().into() }
}

/// A conversation of a person with an agent they have a relation with.
async fn conversation(world: &TestEngine, phone: &EnrolledPhone, agent: &AgentId) -> ConversationId {
    phone.allow(world, agent, &["filesystem:read"]).await;
    let new = NewConversation { kind: ConversationType::H2a, with: vec![RelayParty::Agent(agent.clone())] };
    world.engine.relay().open_conversation(&phone.caller(), new).await.unwrap().0.conversation.id
}

#[tokio::test]
async fn streams_are_limited_per_conversation_and_sender_and_pieces_by_rate() {
    let world = TestEngine::new().await;
    let owner = world.device("owner", 255).await;
    let agent = world.agent(&owner, &first_version()).await;
    let mut streamer = streamer(&world, &agent);
    for number in 0..64_u8 {
        let phone = world.device(&format!("p{number}"), number + 1).await;
        let here = conversation(&world, &phone, &agent).await;
        for stream in 0..4 {
            streamer.start(&here, name(&format!("s{number}_{stream}")), [1].as_slice().into()).await.unwrap();
        }
        let more = streamer.start(&here, name("more"), [1].as_slice().into()).await.unwrap_err();
        let most = if number < 63 { 4 } else { 256 };
        assert_eq!(
            (more.code, &more.details),
            (ErrorCode::LimitReached, &ConsentErrorDetails::Limit(most)),
            "{number}"
        );
    }
    // The pieces of all streams of the sender share one rate limit.
    let mut taken = 0;
    let refused = 'all: loop {
        for number in 0..64 {
            if let Err(why) = streamer.piece(&name(&format!("s{number}_1")), piece(taken / 64 + 1)).await {
                break 'all why;
            }
            taken += 1;
        }
    };
    assert_eq!((taken, refused.code), (1000, ErrorCode::RateLimited));
    // An ended stream makes room for another.
    let late = world.device("late", 200).await;
    let here = conversation(&world, &late, &agent).await;
    streamer.start(&here, name("in_its_place"), [1].as_slice().into()).await.unwrap();
    assert!(streamer.start(&here, name("more"), [1].as_slice().into()).await.is_err());
    streamer.abort(&name("s0_0")).unwrap();
    streamer.start(&here, name("more"), [1].as_slice().into()).await.unwrap();
}

#[tokio::test]
async fn stream_is_not_stored_and_is_aborted_thirty_seconds_after_its_last_piece() {
    let world = TestEngine::new().await;
    let (owner, ada) = (world.person("owner").await, world.person("ada").await);
    let agent = world.agent(&owner, &first_version()).await;
    let here = conversation(&world, &ada, &agent).await;
    let reader = RelayParty::Person(ada.person());
    let before = world.engine.mailbox().mail_head(&reader).await.unwrap();
    let ear = world.engine.relay().listen_to_streams(&reader);
    let mut streamer = streamer(&world, &agent);
    assert_eq!(streamer.due(), None);
    streamer.start(&here, name("s"), [1].as_slice().into()).await.unwrap();
    assert!(matches!(ear.next().await.what, StreamUpdateKind::Started { .. }));
    world.clock.advance(Duration::from_secs(29));
    streamer.piece(&name("s"), piece(1)).await.unwrap();
    assert_eq!(ear.next().await.what, StreamUpdateKind::Piece(piece(1)));
    assert_eq!(streamer.due(), Some(world.engine.now().after(Duration::from_secs(30))));
    assert!(streamer.expire().is_empty());
    world.clock.advance(Duration::from_secs(30));
    // The stream has timed out.
    assert_eq!(streamer.piece(&name("s"), piece(2)).await.unwrap_err().code, ErrorCode::StreamNotFound);
    assert_eq!(ear.next().await.what, StreamUpdateKind::Aborted(StreamAbortReason::Silent));
    assert_eq!(streamer.due(), None);
    assert_eq!(world.engine.mailbox().mail_head(&reader).await.unwrap(), before);
    // Dropping the sender aborts its open streams.
    streamer.start(&here, name("t"), [1].as_slice().into()).await.unwrap();
    ear.next().await;
    drop(streamer);
    assert_eq!(ear.next().await.what, StreamUpdateKind::Aborted(StreamAbortReason::Gone));
    // People do not stream.
    assert_eq!(world.engine.relay().streamer(ada.caller()).unwrap_err().code, ErrorCode::PermissionDenied);
}
