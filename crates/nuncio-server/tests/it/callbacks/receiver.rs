//! A receiver of callbacks on a plain socket, whose every response the test decides.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use nuncio_testkit::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Debug, Clone, Copy)]
pub(crate) enum ReceiverReply {
    /// Responds with this status and no body.
    Status(u16),
    /// Responds with this status and a body of this length.
    Long(u16, usize),
    Silence,
    Redirect(SocketAddr),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedCallback {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedCallback {
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut all = self.headers.iter().filter(|(key, _)| key == name);
        let (Some((_, value)), None) = (all.next(), all.next()) else { panic!("not one {name} in {self:?}") };
        value
    }
}

type ReplyFn = Arc<dyn Fn(&ReceivedCallback) -> ReceiverReply + Send + Sync>;

pub(crate) struct CallbackReceiver {
    address: SocketAddr,
    seen: Arc<Mutex<ReceivedCallbacks>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct ReceivedCallbacks {
    sent: Vec<ReceivedCallback>,
    /// Number of clients that disconnected before they had a response.
    hung_up: usize,
}

impl CallbackReceiver {
    pub(crate) async fn start(replies: &[ReceiverReply]) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), in_order(replies))
    }

    pub(crate) async fn deciding(decide: impl Fn(&ReceivedCallback) -> ReceiverReply + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::new(decide))
    }

    pub(crate) async fn absent() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
    }

    pub(crate) async fn at(address: SocketAddr, replies: &[ReceiverReply]) -> Self {
        Self::on(TcpListener::bind(address).await.unwrap(), in_order(replies))
    }

    fn on(listener: TcpListener, decide: ReplyFn) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<ReceivedCallbacks>>::default();
        let told = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&decide), Arc::clone(&told)));
            }
        });
        Self { address, seen, serving }
    }

    /// Stops the receiver and frees its address.
    pub(crate) async fn leave(self) {
        self.serving.abort();
        assert!(self.serving.await.unwrap_err().is_cancelled());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn sent(&self) -> Vec<ReceivedCallback> {
        self.seen.lock().unwrap().sent.clone()
    }

    pub(crate) fn hung_up(&self) -> usize {
        self.seen.lock().unwrap().hung_up
    }

    /// Waits until exactly `count` requests were received, and returns the last.
    pub(crate) async fn nth(&self, count: usize) -> ReceivedCallback {
        let sent =
            eventually("a callback arrives", async || Some(self.sent()).filter(|sent| sent.len() >= count)).await;
        assert_eq!(sent.len(), count, "{sent:#?}");
        sent.last().unwrap().clone()
    }
}

fn in_order(replies: &[ReceiverReply]) -> ReplyFn {
    let replies = Mutex::new(VecDeque::from_iter(replies.iter().copied()));
    Arc::new(move |_| {
        let mut replies = replies.lock().unwrap();
        let reply = replies[0];
        if replies.len() > 1 {
            replies.pop_front();
        }
        reply
    })
}

async fn answer(mut stream: TcpStream, decide: ReplyFn, seen: Arc<Mutex<ReceivedCallbacks>>) {
    let Some(sent) = read(&mut stream).await else { return };
    let reply = {
        let mut seen = seen.lock().unwrap();
        let reply = decide(&sent);
        seen.sent.push(sent);
        reply
    };
    let mut more = String::new();
    let (status, length) = match reply {
        ReceiverReply::Status(status) => (status, 0),
        ReceiverReply::Long(status, length) => (status, length),
        ReceiverReply::Redirect(to) => {
            more = format!("Location: http://{to}/elsewhere\r\n");
            (307, 0)
        }
        ReceiverReply::Silence => {
            let _ = stream.read(&mut [0; 1]).await;
            seen.lock().unwrap().hung_up += 1;
            return;
        }
    };
    let text = "x".repeat(length);
    let head = format!("HTTP/1.1 {status} Told\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n{text}");
    let _ = stream.write_all(head.as_bytes()).await;
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedCallback> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = bytes.split_off(end + 4);
    let head = String::from_utf8(bytes).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next()?.to_owned();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let mut sent = ReceivedCallback { line, headers, body: Vec::new() };
    let length = sent.headers.iter().any(|(name, _)| name == "content-length");
    let length: usize = if length { sent.header("content-length").parse().unwrap() } else { 0 };
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    assert_eq!(body.len(), length);
    sent.body = body;
    Some(sent)
}
