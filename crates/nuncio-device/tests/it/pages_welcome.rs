//! Tests of the enrolment page, by which a machine becomes a device and then serves the device's own pages.

use std::net::SocketAddr;
use std::sync::Arc;

use nuncio_core::notification::RelayParty;
use nuncio_device::Device;
use nuncio_device::pages::{PageAccess, SecretPagesPath, SharedPagesState, serve, welcome};
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemEntropy;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::pages_activity::SignedInPagesClient;
use crate::scene::{RelayAndAgentFixture, UnenrolledMachine, invite};

/// A served enrolment page, and a client that is signed in to it.
struct EnrolmentPage {
    reader: SignedInPagesClient,
    access: Arc<PageAccess>,
    at: SocketAddr,
    /// Second listener on the same address, for the pages of the enrolled device.
    next: TcpListener,
    becomes: JoinHandle<std::io::Result<Option<Device>>>,
    stop: CancellationToken,
}

impl EnrolmentPage {
    async fn at(scene: &RelayAndAgentFixture, machine: &UnenrolledMachine) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap().into_std().unwrap();
        let at = listener.local_addr().unwrap();
        let next = TcpListener::from_std(listener.try_clone().unwrap()).unwrap();
        let (access, stop) =
            (Arc::new(PageAccess::new(SecretPagesPath::random(&SystemEntropy))), CancellationToken::new());
        let link = access.link(at, &SystemEntropy, scene.clock.now());
        let listener = TcpListener::from_std(listener).unwrap();
        let becomes = tokio::spawn(welcome(machine.config(), Arc::clone(&access), listener, stop.clone()));
        let reader = SignedInPagesClient::by(&link, at, stop.clone()).await;
        Self { reader, access, at, next, becomes, stop }
    }

    /// Waits for the enrolled device and serves its pages.
    async fn goes_on(self, scene: &RelayAndAgentFixture) -> (SignedInPagesClient, Device) {
        let device = self.becomes.await.unwrap().unwrap().unwrap();
        assert_eq!(self.next.local_addr().unwrap(), self.at);
        let unused = SecretPagesPath::random(&SystemEntropy);
        let shared =
            SharedPagesState { access: self.access, ..SharedPagesState::new(Arc::new(scene.clock.clone()), unused) };
        tokio::spawn(serve(device.clone(), shared, self.next, self.stop.clone()));
        (self.reader, device)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn enrolment_page_refuses_invalid_invites_and_is_replaced_by_device_pages_after_enrolment() {
    let scene = RelayAndAgentFixture::start().await;
    let machine = scene.machine();
    let other = scene.device("owner").await;
    let right = other.device.identity().server_key.fingerprint().grouped();
    let newcomer = EnrolmentPage::at(&scene, &machine).await;
    let reader = &newcomer.reader;
    assert_eq!(reader.send("GET / HTTP/1.1", "").await.status, 401);
    let page = reader.get("/").await;
    for part in ["action=\"/join\"", "action=\"/restore\"", "data-token=\"\""] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(!page.body.contains("class=\"ways\""), "there are no other pages yet");
    assert_eq!(reader.get("/happened").await.header("location"), Some("/"));

    let (url, code) = (scene.gateway.url(), invite(&scene.gateway, "ada").await);
    let wrong = "0".repeat(64);
    for (status, address, code, fingerprint, why) in [
        (422, "", code.as_str(), right.as_str(), "The address is not valid"),
        (422, "javascript:alert(1)", &code, &right, "The address is not valid"),
        (422, "file:///etc/passwd", &code, &right, "The address is not valid"),
        (422, &url, " ", &right, "The code is missing"),
        (422, &url, &code, "", "The fingerprint is not valid"),
        (422, &url, &code, "12 34", "The fingerprint is not valid"),
        (409, &url, &code, &wrong, ""),
        (409, &url, "inv_<b>none</b>", &right, ""),
    ] {
        let fields = [("address", address), ("code", code), ("fingerprint", fingerprint), ("name", "<i>desk</i>")];
        let refused = reader.post("/join", &fields).await;
        assert_eq!(refused.status, status, "{address} {code} {fingerprint}: {}", refused.body);
        let told = refused.body.split("role=\"alert\">").nth(1).unwrap().split("</p>").next().unwrap();
        assert!(!told.is_empty() && told.contains(why), "{told}");
        assert!(!refused.body.contains("<b>none") && !refused.body.contains("<i>desk"), "{}", refused.body);
        assert!(refused.body.contains("desk"), "what was written stays");
    }
    let none = reader.send("POST /join HTTP/1.1\r\nSec-Fetch-Site: cross-site", "").await;
    assert_eq!(none.status, 403);

    assert_eq!(reader.get("/join?lang=zh-CN").await.header("location"), Some("/?lang=zh-CN"));

    // The refused attempts did not use up the invite. Two requests stay open while the device's pages take over.
    let (mut early, silent) = (reader.begin("/devices").await, reader.begin("/").await);
    let fields = [("address", url.as_str()), ("code", &code), ("fingerprint", &right), ("name", "desk")];
    let joined = reader.post("/join", &fields).await;
    assert_eq!((joined.status, joined.header("location")), (303, Some("/devices")), "{}", joined.body);
    early.write_all(b"\r\n").await.unwrap();
    let again = reader.answer(early).await;
    assert_eq!((again.status, again.header("location")), (303, Some("/devices")), "a moment too early: {again:?}");
    assert_eq!(again.header("connection"), Some("close"), "the next time it meets the device's own pages");
    let (reader, device) = newcomer.goes_on(&scene).await;
    drop(silent);
    assert_eq!(device.identity().person.as_str(), "ada");
    let page = reader.get("/devices").await;
    assert_eq!(page.status, 200, "the opened session stays valid");
    assert!(page.body.contains("<bdi>desk</bdi>") && page.body.contains("class=\"ways\""), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn enrolment_page_restores_device_from_backup_file_and_refuses_invalid_ones() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let phrase = "correct horse battery";
    let file = serde_json::to_string_pretty(&ada.device.backups().create(phrase).await.unwrap()).unwrap();
    ada.stop();
    let machine = scene.machine();
    let newcomer = EnrolmentPage::at(&scene, &machine).await;
    let before = machine.records();
    for (status, text, passphrase) in [
        (422, "", phrase),
        (422, "{}", phrase),
        (422, "<script>", phrase),
        (422, &file[..file.len() / 2], phrase),
        (409, &file, "another horse battery"),
        (409, &file, ""),
    ] {
        let refused = newcomer.reader.post("/restore", &[("file", text), ("passphrase", passphrase)]).await;
        assert_eq!(refused.status, status, "{}", refused.body);
        assert!(refused.body.contains("role=\"alert\"") && !refused.body.contains("horse"), "{}", refused.body);
        assert_eq!(machine.records(), before, "nothing was changed");
    }
    let back = newcomer.reader.post("/restore", &[("file", &file), ("passphrase", phrase)]).await;
    assert_eq!((back.status, back.header("location")), (303, Some("/devices")), "{}", back.body);
    let (reader, device) = newcomer.goes_on(&scene).await;
    assert_eq!(device.identity(), ada.device.identity());
    let page = reader.get("/agents").await;
    assert!(page.body.contains("Notes"), "what it may do is known again: {}", page.body);
    // The restored device answers calls.
    let running = machine.run(device);
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    let agent = RelayParty::Agent(scene.id.clone());
    assert!(running.device.peer().keys().safety_number(&agent).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_enrolment_page_creates_no_device() {
    let scene = RelayAndAgentFixture::start().await;
    let machine = scene.machine();
    let newcomer = EnrolmentPage::at(&scene, &machine).await;
    newcomer.stop.cancel();
    assert!(newcomer.becomes.await.unwrap().unwrap().is_none());
    assert!(Device::open(machine.config()).unwrap().is_none());
}
