//! Notifications: delivered in order, once each, and deleted when old.

use std::time::Duration;

use nuncio_core::conversation::{ContentType, ConversationType};
use nuncio_core::ids::ClientMessageId;
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_engine::consent::ConsentSettings;
use nuncio_engine::relay::{MessageToPost, NewConversation};

use super::world::{TestEngine, broken_version, first_version};

#[tokio::test]
async fn notification_wakes_a_waiting_reader_and_stays_readable_after_restart() {
    let world = TestEngine::new().await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    let mailbox = RelayParty::Person(bob.person());
    let seen = world.engine.mailbox().mail_head(&mailbox).await.unwrap();
    let waiting = {
        let (engine, mailbox) = (world.engine.clone(), mailbox.clone());
        tokio::spawn(async move { engine.mailbox().next_mail(&mailbox, seen, 10).await.unwrap() })
    };
    // Mail of another recipient does not end the wait.
    world.device("eve", 9).await;
    world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    let mail = waiting.await.unwrap();
    assert_eq!(mail.len(), 1);
    assert_eq!(mail[0].seq, seen + 1);
    assert!(
        matches!(&mail[0].notification, Notification::ReauthRequired { relation: Some(it), .. } if *it == relation.id)
    );
    assert_eq!(
        world.engine.mailbox().next_mail(&mailbox, seen, 10).await.unwrap(),
        mail,
        "waiting mail is returned at once"
    );

    world.engine.mailbox().mark_mail_read(&mailbox, "dev_1", mail[0].seq).await.unwrap();
    let world = world.restarted().await;
    assert_eq!(world.engine.mailbox().mail_read(&mailbox, "dev_1").await.unwrap(), seen + 1);
    assert_eq!(world.engine.mailbox().mail_read(&mailbox, "dev_2").await.unwrap(), 0);
    assert_eq!(world.engine.mailbox().mail(&mailbox, seen, 10).await.unwrap(), mail);
}

#[tokio::test]
async fn committed_message_of_a_dropped_request_still_wakes_its_recipient() {
    let world = TestEngine::new().await;
    let (ada, bob) = (world.person("ada").await, world.person("bob").await);
    let mailbox = RelayParty::Person(bob.person());
    let new = NewConversation { kind: ConversationType::H2h, with: vec![mailbox.clone()] };
    let id = world.engine.relay().open_conversation(&ada.caller(), new).await.unwrap().0.conversation.id;
    let mut told = 0;
    for polls in 1..40 {
        let seen = world.engine.mailbox().mail_head(&mailbox).await.unwrap();
        let waiting = {
            let (engine, mailbox) = (world.engine.clone(), mailbox.clone());
            tokio::spawn(async move { engine.mailbox().next_mail(&mailbox, seen, 10).await.unwrap() })
        };
        tokio::task::yield_now().await;
        let post = MessageToPost {
            client_id: ClientMessageId::parse(&format!("m_{polls}")).unwrap(),
            content_type: ContentType::Text,
            subtype: None,
            envelope: b"sealed".as_slice().into(),
        };
        let caller = ada.caller();
        let mut posting = Box::pin(world.engine.relay().post_message(&caller, &id, post));
        for _ in 0..polls {
            if futures_util::poll!(posting.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(posting);
        // This commit comes after all queued ones, so the message is now stored or never will be.
        world.engine.mailbox().mark_mail_read(&mailbox, "dev_1", 1).await.unwrap();
        if world.engine.mailbox().mail(&mailbox, seen, 10).await.unwrap().is_empty() {
            waiting.abort();
            continue;
        }
        let heard = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        assert_eq!(heard.expect("the waiting reader was not woken").unwrap().len(), 1, "after {polls} looks");
        told += 1;
    }
    assert!(told > 0, "no message was stored");
}

#[tokio::test]
async fn shutdown_returns_waiting_mail_readers_without_mail() {
    let world = TestEngine::new().await;
    let bob = world.person("bob").await;
    let mailbox = RelayParty::Person(bob.person());
    let seen = world.engine.mailbox().mail_head(&mailbox).await.unwrap();
    let waiting = {
        let engine = world.engine.clone();
        tokio::spawn(async move { engine.mailbox().next_mail(&mailbox, seen, 10).await.unwrap() })
    };
    world.engine.shut_down(Duration::ZERO).await;
    assert_eq!(waiting.await.unwrap(), []);
}

#[tokio::test]
async fn old_notifications_are_deleted_and_the_relation_keeps_its_pending_consent() {
    let world =
        TestEngine::with(ConsentSettings { mail_kept: Duration::from_secs(100), ..ConsentSettings::default() }).await;
    let (owner, bob) = (world.person("ada").await, world.person("bob").await);
    let id = world.agent(&owner, &first_version()).await;
    let relation = bob.allow(&world, &id, &["filesystem:read"]).await;
    world.publish(&owner, &id, &broken_version(&["path", "limit"])).await;
    let mailbox = RelayParty::Person(bob.person());
    let head = world.engine.mailbox().mail_head(&mailbox).await.unwrap();
    world.clock.advance(Duration::from_secs(100));
    world.engine.mailbox().forget_old_mail().await.unwrap();
    assert_eq!(
        world.engine.mailbox().mail(&mailbox, 0, 100).await.unwrap().len() as u64,
        head,
        "not a moment too early"
    );
    world.clock.advance(Duration::from_secs(1));
    world.engine.mailbox().forget_old_mail().await.unwrap();
    assert_eq!(world.engine.mailbox().mail(&mailbox, 0, 100).await.unwrap(), []);
    assert!(world.relation(&bob, &relation).await.pending.is_some());
    world.publish(&owner, &id, &broken_version(&["path", "limit", "encoding"])).await;
    let mail = world.engine.mailbox().mail(&mailbox, 0, 100).await.unwrap();
    assert_eq!(mail.iter().map(|mail| mail.seq).collect::<Vec<_>>(), [head + 1], "sequence numbers are not reused");
}
