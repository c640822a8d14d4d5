//! A proxy between a program and a PostgreSQL server that counts round trips.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Time for which an answer is held back, as if the server were on another machine: requests that are sent at once are
/// then seen before the first of them is answered.
const LATENCY: Duration = Duration::from_millis(10);

/// Length of the type and the length of a message.
const HEAD: usize = 5;

/// A proxy that counts how often a program waits for the server. Statements that are sent without waiting for each other
/// are one round trip, also on several connections; connecting and preparing statements count too.
#[derive(Debug)]
pub struct RoundTripCounter {
    port: u16,
    shared: Arc<CountedTraffic>,
}

#[derive(Debug, Default)]
struct CountedTraffic {
    round_trips: AtomicUsize,
    /// Number of connections that wait for an answer.
    waiting: AtomicUsize,
    /// First words of the statements, for the message of a failed test.
    statements: Mutex<Vec<String>>,
}

impl RoundTripCounter {
    /// Starts a proxy before the server of a URL.
    #[must_use]
    pub fn start(url: &str) -> Self {
        let target = host_and_port(url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(CountedTraffic::default());
        let counted = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&target) else { continue };
                forward(client, server, Arc::clone(&counted));
            }
        });
        Self { port, shared }
    }

    /// The URL of a database by way of this proxy.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        url.replace(host_and_port(url), &format!("127.0.0.1:{}", self.port))
    }

    /// Number of round trips since the last call, with the statements that they executed.
    #[must_use]
    pub fn take(&self) -> (usize, Vec<String>) {
        let statements = std::mem::take(&mut *self.shared.statements.lock().unwrap());
        (self.shared.round_trips.swap(0, Ordering::SeqCst), statements)
    }
}

fn host_and_port(url: &str) -> &str {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    authority.and_then(|authority| authority.rsplit('@').next()).expect("the URL names a host")
}

/// Forwards a connection in both directions, each on a thread of its own.
fn forward(client: TcpStream, server: TcpStream, counted: Arc<CountedTraffic>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    // Whether requests were sent to which the server has not answered yet.
    let is_waiting = Arc::new(AtomicBool::new(true));
    counted.waiting.fetch_add(1, Ordering::SeqCst);
    let answering = Arc::clone(&counted);
    let unanswered = Arc::new(AtomicUsize::new(1));
    let (from_client, to_client) = (client.try_clone().unwrap(), client);
    let (from_server, to_server) = (server.try_clone().unwrap(), server);
    let (sent, waiting) = (Arc::clone(&unanswered), Arc::clone(&is_waiting));
    thread::spawn(move || {
        // The first message has no type.
        let mut requests = MessageReader { is_startup: true, ..MessageReader::default() };
        let mut names = std::collections::HashMap::new();
        copy(from_client, to_server, |bytes| {
            requests.read(bytes, |kind, body| {
                // The end of a connection has no answer.
                if kind == b'X' {
                    return;
                }
                if !waiting.swap(true, Ordering::SeqCst) && counted.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
                    counted.round_trips.fetch_add(1, Ordering::SeqCst);
                }
                let mut texts = body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
                let mut text = || texts.next().unwrap_or_default();
                match kind {
                    b'Q' => counted.statements.lock().unwrap().push(text()),
                    b'P' => drop(names.insert(text(), text())),
                    b'B' => {
                        let _portal = text();
                        counted.statements.lock().unwrap().extend(names.get(&text()).cloned());
                    }
                    _ => {}
                }
                if matches!(kind, b'Q' | b'S') {
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            });
        });
    });
    thread::spawn(move || {
        let mut answers = MessageReader::default();
        copy(from_server, to_client, |bytes| {
            thread::sleep(LATENCY);
            answers.read(bytes, |kind, _| {
                if kind == b'Z' && unanswered.fetch_sub(1, Ordering::SeqCst) == 1 {
                    is_waiting.store(false, Ordering::SeqCst);
                    answering.waiting.fetch_sub(1, Ordering::SeqCst);
                }
            });
        });
        if is_waiting.swap(false, Ordering::SeqCst) {
            answering.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    });
}

/// Copies bytes until one side ends the connection. What is read is counted before it is sent on.
fn copy(mut from: TcpStream, mut to: TcpStream, mut count: impl FnMut(&[u8])) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        count(&bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Splits bytes into messages of the protocol.
#[derive(Default)]
struct MessageReader {
    is_startup: bool,
    rest: Vec<u8>,
}

impl MessageReader {
    fn read(&mut self, bytes: &[u8], mut message: impl FnMut(u8, &[u8])) {
        self.rest.extend_from_slice(bytes);
        let mut start = 0;
        loop {
            let head = if self.is_startup { HEAD - 1 } else { HEAD };
            let Some(length) = self.rest.get(start + head - 4..start + head) else { break };
            let end = start + head - 4 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
            let Some(body) = self.rest.get(start + head..end) else { break };
            if !std::mem::take(&mut self.is_startup) {
                message(self.rest[start], body);
            }
            start = end;
        }
        self.rest.drain(..start);
    }
}
