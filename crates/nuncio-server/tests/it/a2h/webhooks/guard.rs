//! Addresses that webhooks are never sent to.

use super::*;

/// Waits until one delivery was attempted and its failure noted, which follows the attempt.
async fn tried(hooked: &WebhookSetup) {
    eventually("it was tried and failed", async || {
        let webhook = hooked.deliveries("").await.body["webhook"].clone();
        (webhook["waiting"]["attempts"] == 1 && webhook["failing_since"].is_string()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn webhook_to_this_machine_is_not_sent_without_the_setting() {
    let inside = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let hooked = WebhookSetup::of(A2hTestServer::start().await, &called_at(&format!("{}/hook", inside.origin()))).await;
    hooked.post("m1").await;
    tried(&hooked).await;
    assert_eq!(inside.sent(), []);
}

#[tokio::test]
async fn webhook_to_this_machine_is_allowed_in_dev_mode() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let world = A2hTestServer::with(GatewayBuilder::dev).await;
    let hooked = WebhookSetup::of(world, &called_at(&format!("{}/hook", receiver.origin()))).await;
    hooked.post("m1").await;
    assert_eq!(messages(&receiver, 1).await, ["m1"]);
}

#[tokio::test]
async fn outbound_allow_list_does_not_apply_to_webhooks() {
    let inside = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let origin = inside.origin();
    let world =
        A2hTestServer::with(|builder| builder.settings(|settings| settings.outbound.allow = vec![origin])).await;
    let hooked = WebhookSetup::of(world, &called_at(&format!("{}/hook", inside.origin()))).await;
    tried(&hooked).await;
    assert_eq!(inside.sent(), []);
}

/// Even if this machine is allowed, other private addresses are never connected to.
#[tokio::test]
async fn webhook_to_a_private_address_is_never_sent() {
    for url in [
        "https://10.0.0.1/hook",
        "https://192.168.1.1/hook",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00::1]/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://0.0.0.0/hook",
        "https://100.64.0.1/hook",
    ] {
        let mut hooked = WebhookSetup::make(&called_at(url)).await;
        tried(&hooked).await;
        // Eight more attempts for each of the two events; then the log has the reason.
        for _ in 0..16 {
            hooked.pass_to_next().await;
        }
        hooked.nothing_waits().await;
        let log = hooked.deliveries("").await.body["data"].clone();
        assert_eq!(log.as_array().unwrap().len(), 2, "{log}");
        let why = log[0]["outcome"].as_str().unwrap();
        assert!(why.contains("are not allowed"), "{url}: {why}");
    }
}

#[tokio::test]
async fn webhook_redirect_is_not_followed_and_counts_as_failure() {
    let inside = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let to = inside.address();
    let receiver = CallbackReceiver::deciding(move |sent| {
        if is_message(sent) { ReceiverReply::Redirect(to) } else { ReceiverReply::Status(200) }
    })
    .await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    hooked.post("m1").await;
    hooked.pass_pause(Duration::from_secs(5)).await;
    messages(&receiver, 2).await;
    assert_eq!(inside.sent(), []);
}

#[tokio::test]
async fn oversized_webhook_response_is_judged_by_its_status() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Long(200, 100_000)]).await;
    let hooked = WebhookSetup::at(&receiver).await;
    hooked.post("m1").await;
    messages(&receiver, 1).await;
    hooked.nothing_waits().await;
    assert_eq!(hooked.deliveries("").await.body["data"][0]["delivered"], true);
}

#[tokio::test]
async fn webhook_delivers_a_message_of_the_maximum_size_whole() {
    let receiver = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let hooked = WebhookSetup::at(&receiver).await;
    let bytes: Vec<u8> = (0..512 * 1024_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let body = json!({"client_message_id": "big", "content_type": "file", "envelope": STANDARD.encode(&bytes)});
    let path = format!("/conversations/{}/messages", hooked.conversation);
    hooked.ada.send(Method::POST, &path, &body).await.data();
    messages(&receiver, 1).await;
    let sent = receiver.sent().pop().unwrap();
    assert_eq!(super::body(&sent)["wire_envelope"], json!(STANDARD.encode(&bytes)));
    assert_signed(&sent, &hooked.secret, &hooked.agent);
}
