//! Test support: scripted skill providers, and a skill client whose host names resolve to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use nuncio_skill::client::{
    InvocationProgress, ProgressCallback, SkillCall, SkillConsumer, SkillConsumerError, SkillConsumerOptions,
    SkillTarget,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

#[derive(Debug, Clone)]
pub(crate) struct ProviderRequest {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ProviderRequest {
    /// Method and path, such as `POST /call`.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap().trim_end_matches(" HTTP/1.1")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

#[derive(Debug, Clone)]
pub(crate) enum TestReply {
    /// Response with status, headers and body.
    Whole(u16, Vec<(&'static str, String)>, String),
    /// Response with a body that never ends.
    Endless,
    /// No response; the connection stays open.
    Silent,
}

impl TestReply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::Whole(status, vec![("content-type", "application/json".to_owned())], body.to_string())
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Whole(_, headers, _) = &mut self {
            headers.retain(|(key, _)| *key != name);
            headers.push((name, value.into()));
        }
        self
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self::Whole(status, vec![("content-type", "text/html".to_owned())], body.to_owned())
    }
}

/// HTTP server whose response depends on the request and on the number of earlier requests with the same line.
pub(crate) struct TestProvider {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<ProviderRequest>>>,
}

impl TestProvider {
    pub(crate) async fn start(answer: impl Fn(&ProviderRequest, usize) -> TestReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received: Arc<Mutex<Vec<ProviderRequest>>> = Arc::default();
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

    /// Received requests with this method and path.
    pub(crate) fn got(&self, line: &str) -> Vec<ProviderRequest> {
        self.received.lock().unwrap().iter().filter(|one| one.line() == line).cloned().collect()
    }

    pub(crate) fn hits(&self, line: &str) -> usize {
        self.got(line).len()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.received.lock().unwrap().iter().map(|one| one.line().to_owned()).collect()
    }
}

async fn read(stream: &mut TcpStream) -> Option<ProviderRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let mut received = ProviderRequest { head: String::from_utf8(bytes[..end].to_vec()).ok()?, body: String::new() };
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

/// Real HTTP client that maps `https://NAME` to providers on loopback ports.
#[derive(Debug)]
struct HostMappingFetch {
    out: GuardedFetch,
    ports: BTreeMap<String, u16>,
    /// Request line whose timeout is set to 50 ms.
    hurried: Option<&'static str>,
    trusts: Arc<Mutex<Vec<(String, AddressTrust)>>>,
    /// Recorded timeout of each request.
    spans: Arc<Mutex<Vec<(String, Duration)>>>,
}

#[async_trait::async_trait]
impl Fetch for HostMappingFetch {
    async fn fetch(&self, mut request: FetchRequest) -> Result<FetchResponse, FetchError> {
        self.trusts.lock().unwrap().push((request.url.to_string(), request.trust));
        let line = format!("{} {}", request.method, request.url.path());
        self.spans.lock().unwrap().push((line.clone(), request.timeout));
        if self.hurried == Some(&*line) {
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

/// Clock on which every pause ends immediately and is recorded.
#[derive(Debug)]
pub(crate) struct InstantPauseClock {
    now: Mutex<Timestamp>,
    pauses: Mutex<Vec<u64>>,
}

impl InstantPauseClock {
    pub(crate) fn leap(&self, span: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = now.after(span);
    }
}

impl Clock for InstantPauseClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap()
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        let mut now = self.now.lock().unwrap();
        // Pauses of ten minutes or more are time limits, which must not end immediately.
        let span = now.until(moment);
        if span >= Duration::from_secs(600) {
            return Box::pin(std::future::pending());
        }
        self.pauses.lock().unwrap().push(u64::try_from(span.as_millis()).unwrap());
        *now = moment.max(*now);
        Box::pin(std::future::ready(()))
    }
}

/// Random source of zeros, so that delays have no jitter.
#[derive(Debug)]
pub(crate) struct ZeroEntropy;

impl Entropy for ZeroEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// Skill client whose host names lead to test providers.
pub(crate) struct TestConsumer {
    pub(crate) consumer: SkillConsumer,
    pub(crate) clock: Arc<InstantPauseClock>,
    pub(crate) events: Arc<Mutex<Vec<InvocationProgress>>>,
    trusts: Arc<Mutex<Vec<(String, AddressTrust)>>>,
    spans: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl TestConsumer {
    pub(crate) fn new(names: &[(&str, &TestProvider)]) -> Self {
        Self::hurried(names, None)
    }

    /// Client that sends requests with the line `hurried` with a timeout of 50 ms.
    pub(crate) fn hurried(names: &[(&str, &TestProvider)], hurried: Option<&'static str>) -> Self {
        let options = SkillConsumerOptions { exchange: Duration::from_secs(60), ..SkillConsumerOptions::default() };
        let ports = names.iter().map(|(name, provider)| ((*name).to_owned(), provider.port)).collect();
        let trusts = Arc::<Mutex<Vec<_>>>::default();
        let out = GuardedFetch::new(AllowedAddresses::none(), false, None).unwrap();
        let spans = Arc::<Mutex<Vec<_>>>::default();
        let fetch = HostMappingFetch { out, ports, hurried, trusts: Arc::clone(&trusts), spans: Arc::clone(&spans) };
        let start = Mutex::new(Timestamp::from_millis(1_794_740_400_000));
        let clock = Arc::new(InstantPauseClock { now: start, pauses: Mutex::default() });
        let events = Arc::<Mutex<Vec<InvocationProgress>>>::default();
        let log = Arc::clone(&events);
        let watcher = ProgressCallback::new(move |progress| log.lock().unwrap().push(progress.clone()));
        let consumer = SkillConsumer::new(Arc::new(fetch), Arc::clone(&clock) as _, Arc::new(ZeroEntropy), options);
        Self { consumer: consumer.with_progress(watcher), clock, events, trusts, spans }
    }

    /// Recorded pauses, in milliseconds.
    pub(crate) fn pauses(&self) -> Vec<u64> {
        self.clock.pauses.lock().unwrap().clone()
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let note = |event: &InvocationProgress| match event {
            InvocationProgress::Note { message } => Some(message.clone()),
            _ => None,
        };
        events.iter().filter_map(note).collect()
    }

    pub(crate) fn trust_of(&self, url: &str) -> Option<AddressTrust> {
        self.trusts.lock().unwrap().iter().find(|(asked, _)| asked == url).map(|(_, trust)| *trust)
    }

    /// Timeout of a request such as `POST /call`.
    pub(crate) fn span_of(&self, line: &str) -> Option<Duration> {
        self.spans.lock().unwrap().iter().find(|(asked, _)| asked == line).map(|(_, span)| *span)
    }

    /// Invokes `a/b@good.example` with its one input.
    pub(crate) async fn invoke(&self) -> Result<Value, SkillConsumerError> {
        self.call(&call()).await
    }

    pub(crate) async fn call(&self, call: &SkillCall) -> Result<Value, SkillConsumerError> {
        self.consumer.invoke(&target(), call).await
    }
}

pub(crate) fn target() -> SkillTarget {
    SkillTarget::parse("a/b@good.example").unwrap()
}

pub(crate) fn call() -> SkillCall {
    let Value::Object(inputs) = json!({"text": "hi"}) else { unreachable!("it is one") };
    SkillCall::with(inputs)
}

/// Index with the one skill `a/b`.
pub(crate) fn index() -> Value {
    json!({"protocol": {"version": "1.0.0"}, "provider": {"name": "Good"}, "skills": [entry("a/b")]})
}

pub(crate) fn entry(id: &str) -> Value {
    json!({
        "id": id, "name": "Echo", "capability_type": "api", "description": "Says it again.",
        "descriptor_url": "https://good.example/b.json", "access": "public", "version": "1.0.0",
    })
}

pub(crate) fn descriptor() -> Value {
    json!({
        "protocol": {"version": "1.0.0"}, "id": "a/b", "name": "Echo", "version": "1.0.0", "capability_type": "api",
        "description": "Says it again.", "provider": {"name": "Good"},
        "endpoint": {"url": "https://good.example/call", "method": "POST",
            "status_url": "https://good.example/status/{execution_id}"},
        "inputs": [
            {"name": "text", "type": "string", "description": "What to say.", "required": true},
            {"name": "times", "type": "number", "description": "How often.", "required": false, "default": 1},
        ],
        "output": {"content_type": "application/json",
            "schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
        "auth": {"type": "none"}, "access": "public",
    })
}

/// Status response of the execution `e-1`.
pub(crate) fn state(status: &str) -> Value {
    let mut answer = json!({
        "execution_id": "e-1", "status": status, "skill_id": "a/b",
        "timestamps": {"created_at": "2026-11-15T11:00:00Z", "updated_at": "2026-11-15T11:00:00Z"},
    });
    match status {
        "completed" => answer["output"] = json!({"text": "hi"}),
        "failed" | "timeout" => answer["error"] = json!({"code": "EXECUTION_FAILED", "message": "no luck"}),
        _ => {}
    }
    answer
}

/// Provider that follows the protocol, unless `odd` returns another response.
pub(crate) async fn provider(
    odd: impl Fn(&ProviderRequest, usize) -> Option<TestReply> + Send + Sync + 'static,
) -> TestProvider {
    TestProvider::start(move |request, before| {
        odd(request, before).unwrap_or_else(|| match request.line() {
            "GET /.well-known/skill-sharing" => TestReply::json(200, &index()),
            "GET /b.json" => TestReply::json(200, &descriptor()),
            "POST /call" => TestReply::json(202, &state("accepted")),
            "GET /status/e-1" => TestReply::json(200, &state(if before == 0 { "running" } else { "completed" })),
            "DELETE /status/e-1" => TestReply::json(202, &state("running")),
            _ => TestReply::text(404, "nothing here"),
        })
    })
    .await
}
