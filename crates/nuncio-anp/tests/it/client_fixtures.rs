//! Test support: servers with scripted responses, and an ANP client that resolves their names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_anp::client::{AnpClient, AnpClientOptions, KeySigner, RequestSigner};
use nuncio_anp::negotiation::{AcceptedInterfaceOrDraft, PreparedInterfaceOffers};
use nuncio_anp::project::{
    ConversationInterfaceState, HostDocumentSettings, InterfaceOfferContext, ToolDocumentKind, ToolOfferState,
};
use nuncio_anp::wire::{AnpRequest, RpcError};
use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_core::agent::Agent;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use nuncio_identity::proof::{self, ProofEncoding, ProofOptions};
use nuncio_identity::{Did, DidService, NewDidDocument, SigningKey};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::example_agent;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_794_740_400_000);
pub(crate) const HOTEL: &str = "https://grand-hotel.example";
pub(crate) const AD: &str = "https://grand-hotel.example/agents/hotel-assistant/ad.json";

#[derive(Debug, Clone)]
pub(crate) struct ReceivedPeerRequest {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ReceivedPeerRequest {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap().trim_end_matches(" HTTP/1.1")
    }

    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let pairs = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers().into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

#[derive(Debug, Clone)]
pub(crate) enum TestReply {
    Whole(u16, Vec<(&'static str, String)>, String),
    /// Responds with an endless body.
    Endless,
    /// Sends no response at all.
    Silent,
}

impl TestReply {
    pub(crate) fn json(body: &Value) -> Self {
        Self::Whole(200, vec![("content-type", "application/json".to_owned())], body.to_string())
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Whole(status, Vec::new(), String::new())
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Whole(_, headers, _) = &mut self {
            headers.retain(|(key, _)| *key != name);
            headers.push((name, value.into()));
        }
        self
    }
}

/// Server whose response depends on the request and on the number of earlier requests with the same line.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<ReceivedPeerRequest>>>,
}

impl TestServer {
    pub(crate) async fn start(
        answer: impl Fn(&ReceivedPeerRequest, usize) -> TestReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received: Arc<Mutex<Vec<ReceivedPeerRequest>>> = Arc::default();
        let (log, answer) = (Arc::clone(&received), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Some(request) = read(&mut stream).await else { return };
                    let before = {
                        let mut log = log.lock().unwrap();
                        let before = log.iter().filter(|one| one.line() == request.line()).count();
                        log.push(request.clone());
                        before
                    };
                    write(&mut stream, answer(&request, before)).await;
                });
            }
        });
        Self { port, received }
    }

    pub(crate) fn got(&self, line: &str) -> Vec<ReceivedPeerRequest> {
        self.received.lock().unwrap().iter().filter(|one| one.line() == line).cloned().collect()
    }

    pub(crate) fn hits(&self, line: &str) -> usize {
        self.got(line).len()
    }

    /// Number of requests for a method of the core binding.
    pub(crate) fn asked(&self, method: &str) -> usize {
        self.got("POST /anp").iter().filter(|one| one.json()["method"] == method).count()
    }
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedPeerRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let mut received =
        ReceivedPeerRequest { head: String::from_utf8(bytes[..end].to_vec()).ok()?, body: String::new() };
    let length: usize = received.header("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        stream.read_buf(&mut body).await.ok()?;
    }
    received.body = String::from_utf8(body).ok()?;
    Some(received)
}

async fn write(stream: &mut TcpStream, reply: TestReply) {
    match reply {
        TestReply::Whole(status, headers, body) => {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head =
                format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(body.as_bytes()).await;
        }
        TestReply::Endless => {
            let head = "HTTP/1.1 200 X\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n[";
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(&[b' '; 64 * 1024]).await.is_ok() {}
        }
        TestReply::Silent => std::future::pending().await,
    }
}

/// Real HTTP client that maps `https://NAME` to test servers on this machine.
#[derive(Debug)]
struct HostMappingFetch {
    out: GuardedFetch,
    ports: BTreeMap<String, u16>,
    /// Path for which the client has a very short timeout.
    hurried: Option<&'static str>,
    trusts: Arc<Mutex<Vec<(String, AddressTrust)>>>,
}

#[async_trait::async_trait]
impl Fetch for HostMappingFetch {
    async fn fetch(&self, mut request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.trusts.lock().unwrap().push((request.url.to_string(), request.trust));
        if self.hurried == Some(request.url.path()) {
            request.timeout = Duration::from_millis(50);
        }
        if let Some(port) = request.url.host_str().and_then(|host| self.ports.get(host)) {
            let rest = request.url[url::Position::BeforePath..].to_owned();
            request.url = Url::parse(&format!("http://127.0.0.1:{port}{rest}")).unwrap();
            request.trust = AddressTrust::Configured;
        }
        self.out.fetch(request).await
    }
}

/// A clock that tests advance.
#[derive(Debug)]
pub(crate) struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    pub(crate) fn advance(&self, span: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.after(span);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn sleep_until(&self, _: Timestamp) -> futures_util::future::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Random source that returns increasing numbers.
#[derive(Debug, Default)]
struct CountingEntropy(Mutex<u8>);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut next = self.0.lock().unwrap();
        *next = next.wrapping_add(1);
        bytes.fill(*next);
    }
}

/// ANP client whose host names lead to test servers.
pub(crate) struct TestClient {
    pub(crate) client: AnpClient,
    pub(crate) clock: Arc<ManualClock>,
    trusts: Arc<Mutex<Vec<(String, AddressTrust)>>>,
}

impl TestClient {
    pub(crate) fn new(names: &[(&str, &TestServer)]) -> Self {
        Self::hurried(names, None)
    }

    /// Sets a very short timeout for one path.
    pub(crate) fn hurried(names: &[(&str, &TestServer)], hurried: Option<&'static str>) -> Self {
        Self::with_options(names, hurried, AnpClientOptions { pages: 5, ..AnpClientOptions::default() })
    }

    pub(crate) fn with_options(
        names: &[(&str, &TestServer)],
        hurried: Option<&'static str>,
        options: AnpClientOptions,
    ) -> Self {
        let ports = names.iter().map(|(name, server)| ((*name).to_owned(), server.port)).collect();
        let trusts = Arc::<Mutex<Vec<_>>>::default();
        let out = GuardedFetch::new(AllowedAddresses::none(), false, None).unwrap();
        let fetch = HostMappingFetch { out, ports, hurried, trusts: Arc::clone(&trusts) };
        let clock = Arc::new(ManualClock(Mutex::new(NOW)));
        let client =
            AnpClient::new(Arc::new(fetch), Arc::clone(&clock) as _, Arc::<CountingEntropy>::default(), options);
        Self { client, clock, trusts }
    }

    /// Gives the client a DID to sign with.
    pub(crate) fn signed(mut self) -> Self {
        let signer: Arc<dyn RequestSigner> = Arc::new(KeySigner::new(
            caller_did(),
            caller_key(),
            Arc::clone(&self.clock) as _,
            Arc::<CountingEntropy>::default(),
        ));
        self.client = self.client.signed_by(Some(signer));
        self
    }

    pub(crate) fn trust_of(&self, url: &str) -> Option<AddressTrust> {
        self.trusts.lock().unwrap().iter().find(|(asked, _)| asked == url).map(|(_, trust)| *trust)
    }
}

pub(crate) fn caller_key() -> SigningKey {
    SigningKey::from_seed(&[9; 32])
}

pub(crate) fn caller_did() -> Did {
    Did::for_key("caller.example", None, &["agents", "me"], &caller_key()).unwrap()
}

pub(crate) fn hotel_key() -> SigningKey {
    SigningKey::from_seed(&[7; 32])
}

pub(crate) fn hotel_did() -> Did {
    Did::for_key("grand-hotel.example", None, &["agents", "hotel-assistant"], &hotel_key()).unwrap()
}

/// Request line that fetches the DID document of the test agent.
pub(crate) fn did_line() -> String {
    let url = Url::parse(&hotel_did().resolution_url()).unwrap();
    format!("GET {}", url.path())
}

pub(crate) fn hotel() -> Agent {
    example_agent("hotel")
}

pub(crate) fn service_did() -> Did {
    Did::parse("did:wba:grand-hotel.example").unwrap()
}

/// DID document of the test agent with these services.
pub(crate) fn did_document(services: &[(&str, &str)]) -> Value {
    let did = hotel_did();
    let mut document = NewDidDocument::new(&did, NOW);
    for (kind, url) in services {
        document.services.push(match *kind {
            "AgentDescription" => DidService::agent_description(&did, *url),
            _ => DidService::messages(&did, *url, &service_did(), &[], &[]),
        });
    }
    document.sign(&hotel_key())
}

pub(crate) fn usual_document() -> Value {
    did_document(&[("AgentDescription", AD), ("ANPMessageService", "https://grand-hotel.example/anp")])
}

/// Description of the test agent, changed by `change` and then signed.
pub(crate) fn description(change: impl Fn(&mut Value)) -> Value {
    let mut value = json!(HostDocumentSettings::new(HOTEL).description(&hotel(), Some(hotel_did().as_str())));
    change(&mut value);
    prove(value, Some("grand-hotel.example"))
}

pub(crate) fn prove(value: Value, domain: Option<&str>) -> Value {
    let Value::Object(mut members) = value else { panic!("an object") };
    let key = hotel_did().url("key-1");
    let challenge = domain.map(|_| "c-1");
    let options = ProofOptions { verification_method: &key, created: NOW, domain, challenge };
    proof::sign(&mut members, &hotel_key(), &options, ProofEncoding::Multibase);
    Value::Object(members)
}

/// Capabilities of the test agent's message service.
pub(crate) fn capabilities() -> Value {
    json!({
        "service_did": service_did().as_str(),
        "supported_profiles": ["anp.core.binding.v1", "anp.meta.negotiation.v1", "anp.rpc.v1"],
        "supported_security_profiles": ["transport-protected"],
        "limits": {"max_request_bytes": "1048576"},
    })
}

/// Negotiation result of the test agent, computed with Nuncio's own implementation.
pub(crate) fn negotiated(request: &ReceivedPeerRequest) -> Result<Value, RpcError> {
    let request = AnpRequest::read(request.body.as_bytes()).map_err(|refused| refused.1)?;
    let open = |_: &nuncio_core::agent::Tool| ToolOfferState {
        available: true,
        granted: true,
        latency_ms: None,
        timeout_ms: 30_000,
    };
    let conversation = ConversationInterfaceState {
        available: true,
        granted: true,
        latency_ms: None,
        timeout_ms: None,
        drafts: false,
        signs: true,
    };
    let moment = InterfaceOfferContext { tool: &open, conversation };
    let offers = PreparedInterfaceOffers::new(HostDocumentSettings::new(HOTEL).offers(&hotel(), &moment));
    let body = nuncio_anp::negotiate::read(&request.body)?;
    match offers.choose(&nuncio_anp::negotiate::request(&body, &request.meta), NOW) {
        Ok(AcceptedInterfaceOrDraft::Accepted(accepted)) => {
            let id = body.negotiation_id.unwrap();
            Ok(json!(nuncio_anp::negotiate::result(&accepted, id, NOW.after(Duration::from_secs(600)))))
        }
        Ok(AcceptedInterfaceOrDraft::Draft(_)) => panic!("no draft was requested"),
        Err(refusal) => Err(RpcError::from(&refusal)),
    }
}

/// A JSON-RPC response to a request.
pub(crate) fn rpc(request: &ReceivedPeerRequest, outcome: Result<Value, RpcError>) -> TestReply {
    let id = request.json()["id"].clone();
    TestReply::json(&match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    })
}

/// Server of the test agent, which follows the protocol except where `odd` returns another response.
pub(crate) async fn grand_hotel(
    odd: impl Fn(&ReceivedPeerRequest, usize) -> Option<TestReply> + Send + Sync + 'static,
) -> TestServer {
    let published = HostDocumentSettings::new(HOTEL);
    let (agent, did_line) = (hotel(), did_line());
    let page = json!(published.page([&agent].into_iter(), 1));
    let [tools, authorized] = ToolDocumentKind::ALL.map(|set| json!(published.openrpc(&agent, set)));
    TestServer::start(move |request, before| {
        odd(request, before).unwrap_or_else(|| match request.line() {
            "GET /.well-known/agent-descriptions" => TestReply::json(&page),
            "GET /agents/hotel-assistant/ad.json" => TestReply::json(&description(|_| {})),
            "GET /agents/hotel-assistant/interfaces/tools.json" => TestReply::json(&tools),
            "GET /agents/hotel-assistant/interfaces/authorized.json" => TestReply::json(&authorized),
            "POST /agents/hotel-assistant/rpc" => {
                let asked = request.json();
                rpc(request, Ok(json!({"called": asked["method"], "with": asked["params"]})))
            }
            "POST /anp" => match request.json()["method"].as_str() {
                Some("anp.get_capabilities") => rpc(request, Ok(capabilities())),
                _ => rpc(request, negotiated(request)),
            },
            line if line == did_line => TestReply::json(&usual_document()),
            _ => TestReply::status(404),
        })
    })
    .await
}

pub(crate) fn arguments(value: Value) -> Map<String, Value> {
    let Value::Object(arguments) = value else { panic!("an object") };
    arguments
}
