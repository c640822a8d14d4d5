//! A flood of silent connections, half-sent bodies and anonymous requests, during which an authenticated caller must
//! still be served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::raw::head;
use crate::{Attack, AttackDurationClass, AttackedBinary, http_client};

pub(crate) const ATTACKS: &[Attack] = &[Attack {
    name: "combined_flood",
    before: "the server stopped",
    pace: AttackDurationClass::Slow,
    run: |target| Box::pin(combined_flood(target)),
}];

const REQUESTS_PER_SECOND: u64 = 50;
const QUIET_SECONDS: u64 = 20;
const FLOOD_SECONDS: u64 = 60;
const MOST_BYTES: u64 = 512 * 1024 * 1024;

async fn combined_flood(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let key = server.create_key(&[])?;
    let client = http_client();
    let url = format!("{}/aap/sessions", server.url());
    let quiet = measure(&client, &url, &key, QUIET_SECONDS, || Ok(())).await?;
    let flood = RunningFlood::start(server.address());
    let mut most = 0;
    let busy = measure(&client, &url, &key, FLOOD_SECONDS, || {
        most = most.max(server.resident_bytes()?);
        Ok(())
    })
    .await;
    let sent = flood.stop();
    let busy = busy?;
    let report = format!(
        "p99 {:.1} ms quiet, {:.1} ms under the flood of {sent}; {} errors of {}; {} MiB",
        millis(quiet.p99),
        millis(busy.p99),
        busy.errors,
        busy.count,
        most / (1024 * 1024)
    );
    ensure!(quiet.errors == 0 && busy.errors == 0, "{report}");
    ensure!(busy.p99 <= quiet.p99 * 5, "{report}");
    ensure!(most < MOST_BYTES, "{report}");
    Ok(report)
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

struct LatencyMeasurement {
    count: usize,
    errors: usize,
    p99: Duration,
}

/// Sends requests at a constant rate, without waiting for the answer to the previous one.
async fn measure(
    client: &reqwest::Client,
    url: &str,
    key: &str,
    seconds: u64,
    mut every_second: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<LatencyMeasurement> {
    let mut ticks = interval(Duration::from_millis(1000 / REQUESTS_PER_SECOND));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut requests = Vec::new();
    for number in 0..seconds * REQUESTS_PER_SECOND {
        ticks.tick().await;
        if number % REQUESTS_PER_SECOND == 0 {
            every_second()?;
        }
        let request = client.get(url).bearer_auth(key);
        requests.push(tokio::spawn(async move {
            let began = Instant::now();
            let is_ok = match request.send().await {
                Ok(answer) => answer.status() == 200 && answer.bytes().await.is_ok(),
                Err(_) => false,
            };
            (is_ok, began.elapsed())
        }));
    }
    let (mut errors, mut times) = (0, Vec::new());
    for request in requests {
        let (is_ok, time) = request.await?;
        errors += usize::from(!is_ok);
        times.push(time);
    }
    times.sort_unstable();
    Ok(LatencyMeasurement { count: times.len(), errors, p99: times[times.len() * 99 / 100] })
}

struct RunningFlood {
    is_over: Arc<AtomicBool>,
    sent: Arc<SentFloodCounts>,
    thread: std::thread::JoinHandle<()>,
}

#[derive(Default)]
struct SentFloodCounts {
    silent: AtomicU64,
    bodies: AtomicU64,
    requests: AtomicU64,
}

impl RunningFlood {
    fn start(address: String) -> Self {
        let (is_over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(SentFloodCounts::default()));
        let (until, counts) = (Arc::clone(&is_over), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime on this thread").block_on(async {
                for _ in 0..1500 {
                    tokio::spawn(stay_silent(address.clone(), Arc::clone(&counts)));
                }
                for _ in 0..200 {
                    tokio::spawn(send_half_bodies(address.clone(), Arc::clone(&counts)));
                }
                for _ in 0..50 {
                    tokio::spawn(send_requests(address.clone(), Arc::clone(&counts)));
                }
                while !until.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(50)).await;
                }
            });
        });
        Self { is_over, sent, thread }
    }

    /// Stops the flood, and returns the number of its connections and requests.
    fn stop(self) -> String {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        let [silent, bodies, requests] =
            [&self.sent.silent, &self.sent.bodies, &self.sent.requests].map(|count| count.load(Ordering::Relaxed));
        format!("{silent} silent connections, {bodies} half bodies and {requests} requests")
    }
}

async fn connect(address: &str) -> Option<TcpStream> {
    match TcpStream::connect(address).await {
        Ok(stream) => Some(stream),
        Err(_) => {
            sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// Opens a connection, sends nothing until the server closes it, and starts again.
async fn stay_silent(address: String, sent: Arc<SentFloodCounts>) {
    loop {
        let Some(mut stream) = connect(&address).await else { continue };
        sent.silent.fetch_add(1, Ordering::Relaxed);
        let _ = stream.read(&mut [0]).await;
    }
}

/// Sends the first half of a body and waits.
async fn send_half_bodies(address: String, sent: Arc<SentFloodCounts>) {
    let begun = head("POST /anp", &[("Content-Type", "application/json"), ("Content-Length", "1000000")]);
    let begun = begun + &"x".repeat(500_000);
    loop {
        let Some(mut stream) = connect(&address).await else { continue };
        sent.bodies.fetch_add(1, Ordering::Relaxed);
        if stream.write_all(begun.as_bytes()).await.is_ok() {
            let _ = timeout(Duration::from_secs(5), stream.read(&mut [0])).await;
        }
    }
}

/// Sends requests without a credential, one after the other.
async fn send_requests(address: String, sent: Arc<SentFloodCounts>) {
    let request = head("GET /aap/sessions", &[]);
    loop {
        let Some(mut stream) = connect(&address).await else { continue };
        let mut answer = [0; 4096];
        while stream.write_all(request.as_bytes()).await.is_ok() {
            sent.requests.fetch_add(1, Ordering::Relaxed);
            if !matches!(stream.read(&mut answer).await, Ok(1..)) {
                break;
            }
        }
    }
}
