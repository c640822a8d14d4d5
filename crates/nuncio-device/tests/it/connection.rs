//! A device that its server no longer accepts, or that cannot reach it, says so on its pages.

use nuncio_core::ids::PersonName;
use nuncio_device::ServerConnectionState;
use nuncio_server::admin::AdminCommand;

use crate::pages_activity::SignedInPagesClient;
use crate::scene::{RelayAndAgentFixture, RunningDevice};

async fn until_state(running: &RunningDevice, state: ServerConnectionState) {
    running.device.connection().wait_for(|now| *now == state).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_a_revoked_device_states_the_removal_and_how_to_join_again() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    until_state(&ada, ServerConnectionState::Connected).await;
    let page = reader.get("/").await.body;
    assert!(page.contains("id=\"server\" role=\"status\" hidden"), "{page}");

    let order = AdminCommand::UserRevoke { name: PersonName::parse("ada").unwrap(), device: None };
    scene.gateway.order(order).await.unwrap();
    until_state(&ada, ServerConnectionState::Removed).await;
    for path in ["/", "/happened"] {
        let page = reader.get(path).await.body;
        assert!(page.contains("This device was removed from your account."), "{path}: {page}");
        assert!(page.contains("nuncio device join LINK --home FOLDER"), "{path}: {page}");
    }
    assert_eq!(ada.device.check_connection().await, ServerConnectionState::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_a_device_states_that_its_server_cannot_be_reached() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    until_state(&ada, ServerConnectionState::Connected).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let RelayAndAgentFixture { gateway, .. } = scene;
    gateway.stop().await;
    until_state(&ada, ServerConnectionState::Unreachable).await;
    let page = reader.get("/").await.body;
    assert!(page.contains("This device cannot reach its server."), "{page}");
}
