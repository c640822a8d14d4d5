//! Webhook settings that only the owner of an agent can change.

use nuncio_testkit::a2h::SocketMessage;

use super::*;

#[tokio::test]
async fn webhook_secret_is_shown_once_and_rotated_only_by_the_owner() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let hooked = WebhookSetup::at(&receiver).await;
    let path = format!("/agents/{}", hooked.agent);
    for token in [&hooked.owner.token, &hooked.token] {
        let shown = hooked.world.server.send(Method::GET, &path, Some(token), None).await;
        assert_eq!(shown.data()["connection_mode"], "webhook");
        assert!(!shown.body.to_string().contains("whsec_"), "{}", shown.body);
    }
    hooked.post("m1").await;
    messages(&receiver, 1).await;
    assert_signed(&receiver.sent().pop().unwrap(), &hooked.secret, &hooked.agent);

    let rotate = format!("{path}/webhook-secret:rotate");
    for token in [&hooked.ada.token, &hooked.token] {
        let refused = hooked.world.server.send(Method::POST, &rotate, Some(token), Some(&json!({}))).await;
        assert_eq!(refused.refusal(), (403, "NOT_OWNER"));
        let refused = hooked.world.server.send(Method::GET, &format!("{path}/deliveries"), Some(token), None).await;
        assert_eq!(refused.refusal(), (403, "NOT_OWNER"));
    }
    let rotated = hooked.owner.send(Method::POST, &rotate, &json!({})).await;
    let fresh = rotated.data()["webhook_secret"].as_str().unwrap();
    assert_ne!(fresh, hooked.secret);
    hooked.post("m2").await;
    messages(&receiver, 2).await;
    let sent = receiver.sent().pop().unwrap();
    assert_signed(&sent, fresh, &hooked.agent);
    assert!(verified_by_others(&sent, &hooked.secret, &sent.body, 0)["refused"].is_string());
    let events = hooked.world.gateway.audit_events().await;
    assert!(events.iter().any(|record| record.event == nuncio_core::audit::AuditEvent::WebhookSecretRotated));
    // The secret is stored encrypted.
    let folder = hooked.world.gateway.data_as_after_a_crash();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let clear = fresh.strip_prefix("whsec_").unwrap().as_bytes();
            assert!(!bytes.windows(clear.len()).any(|window| window == clear), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn agent_switched_to_a_webhook_loses_its_socket_until_it_is_switched_back() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let world = A2hTestServer::with(loopback).await;
    let owner = world.person("owner").await;
    let (agent, token) = owner.make_agent(&agent_body(&seed())).await;
    let path = format!("/agents/{agent}");
    let connect = async || {
        let mut socket = world.server.socket("agent").await;
        socket.say(&json!({"type": "auth", "token": token})).await;
        let answer = socket.frame().await;
        (socket, answer)
    };
    let rotate = format!("{path}/webhook-secret:rotate");
    assert_eq!(owner.send(Method::POST, &rotate, &json!({})).await.refusal(), (400, "BAD_REQUEST"));
    let log = owner.get(&format!("{path}/deliveries")).await;
    assert_eq!(log.body, json!({"data": [], "next_cursor": null, "webhook": null}));

    let (mut socket, hello) = connect().await;
    assert_eq!(hello["type"], "auth.ok");
    let url = json!({"connection_mode": "webhook", "webhook_url": format!("{}/hook", receiver.origin())});
    let switched = owner.send(Method::PATCH, &path, &url).await;
    let secret = switched.data()["webhook_secret"].as_str().unwrap().to_owned();
    assert_eq!(socket.frame().await, json!({"type": "session.invalidated", "reason": "connection_mode"}));
    assert_eq!(socket.hear().await, SocketMessage::Closed(4401));
    let (_, refused) = connect().await;
    assert_eq!((&refused["type"], &refused["reason"]), (&json!("auth.error"), &json!("connection_mode")));

    let ada = world.person("ada").await;
    ada.allow(&agent, json!([])).await;
    receiver.nth(1).await;
    assert_signed(&receiver.sent()[0], &secret, &agent);

    // Removing the webhook: the agent gets no requests and can connect again.
    let back = owner.send(Method::PATCH, &path, &json!({"connection_mode": "websocket"})).await;
    assert_eq!((&back.data()["connection_mode"], back.data().get("webhook_url")), (&json!("websocket"), None));
    let (mut socket, hello) = connect().await;
    assert_eq!((&hello["type"], &hello["last_seq"]), (&json!("auth.ok"), &json!(1)));
    socket.say(&json!({"type": "resume", "after": 0})).await;
    begin(&ada, &agent).await;
    eventually("the agent receives the event", async || {
        (socket.frame().await["type"] == "conversation.updated").then_some(())
    })
    .await;
    assert_eq!(receiver.sent().len(), 1);
    // Each webhook has a new secret.
    let again = owner.send(Method::PATCH, &path, &url).await;
    assert_ne!(again.data()["webhook_secret"], json!(secret));
}

#[tokio::test]
async fn webhook_secret_is_returned_when_url_and_manifest_are_set_together() {
    let world = A2hTestServer::with(loopback).await;
    let owner = world.person("owner").await;
    let (agent, _) = owner.make_agent(&json!({"display_name": "Notes"})).await;
    let body = json!({"webhook_url": "https://agents.example/hook", "capability_manifest": seed()});
    let changed = owner.send(Method::PATCH, &format!("/agents/{agent}"), &body).await;
    assert!(changed.data()["webhook_secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(changed.data()["capability_manifest_version"], 1);
}

#[tokio::test]
async fn webhook_delivery_log_is_paged_and_deleted_after_thirty_days() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    for number in 0..5 {
        hooked.post(&format!("m{number}")).await;
    }
    hooked.nothing_waits().await;
    let (mut seqs, mut query) = (Vec::new(), "?limit=3".to_owned());
    loop {
        let page = hooked.deliveries(&query).await;
        let data = page.body["data"].as_array().unwrap();
        assert!(data.len() <= 3);
        seqs.extend(data.iter().map(|one| one["seq"].as_u64().unwrap()));
        match page.body["next_cursor"].as_str() {
            Some(cursor) => query = format!("?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seqs, [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(hooked.deliveries("?cursor=x").await.refusal(), (400, "BAD_CURSOR"));
    // The log keeps deliveries for thirty days.
    hooked.pass(Duration::from_secs(30 * 24 * 3600)).await;
    hooked.world.gateway.engine().relay().forget_old_messages().await.unwrap();
    assert_eq!(hooked.deliveries("").await.body["data"].as_array().unwrap().len(), 7);
    hooked.pass(Duration::from_secs(3600)).await;
    eventually("the delivery log is empty", async || {
        (hooked.deliveries("").await.body["data"] == json!([])).then_some(())
    })
    .await;
}
