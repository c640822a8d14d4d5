//! `nuncio invoke --intent` on a real server, behind a proxy that counts requests and can refuse a call as outdated.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};

use crate::home::{TestAgentFolder, mode};

/// Forwards HTTP requests to a server, except the calls that it refuses.
#[derive(Default)]
struct CallRefusingProxy {
    server: OnceLock<String>,
    /// The JSON-RPC methods of the requests, in order.
    methods: Mutex<Vec<String>>,
    refuses_next_call: AtomicBool,
}

impl CallRefusingProxy {
    fn start() -> (Arc<Self>, u16) {
        let proxy = Arc::new(Self::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (shared, port) = (Arc::clone(&proxy), listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.handle(stream.unwrap()));
            }
        });
        (proxy, port)
    }

    fn handle(&self, mut client: TcpStream) {
        let Some((head, body)) = read_request(&mut client) else { return };
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Some(method) = request["method"].as_str() {
            self.methods.lock().unwrap().push(method.to_owned());
        }
        let is_call = head.starts_with("POST /agents/");
        if is_call && self.refuses_next_call.swap(false, Ordering::SeqCst) {
            let error = json!({"code": 1603, "message": "Unsupported candidate profile"});
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(client, "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
            return;
        }
        let mut server = TcpStream::connect(self.server.get().unwrap()).unwrap();
        write!(server, "{head}\r\nconnection: close\r\n\r\n").unwrap();
        server.write_all(&body).unwrap();
        std::io::copy(&mut server, &mut client).unwrap();
    }

    fn count(&self, method: &str) -> usize {
        self.methods.lock().unwrap().iter().filter(|it| *it == method).count()
    }
}

/// The head of a request without its last line break, and the body; none if the connection ends before.
fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&chunk[..length]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let mut body = bytes.split_off(end + 4);
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut rest = vec![0; length.unwrap_or(0_usize).saturating_sub(body.len())];
    stream.read_exact(&mut rest).ok()?;
    body.append(&mut rest);
    Some((head, body))
}

#[test]
fn intent_is_negotiated_once_and_again_if_a_call_is_refused_as_outdated() {
    let (proxy, port) = CallRefusingProxy::start();
    let home = TestAgentFolder::hotel();
    let free_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("localhost:{free_port}");
    proxy.server.set(listen.clone()).unwrap();
    let public = format!("http://localhost:{port}");
    let _server = home.nuncio(&["--json", "serve", "--listen", &listen, "--dev", "--public-url", &public]).start();
    let target = format!("localhost:{port}");
    let invoke = |form: &[&str]| {
        let stay = ["-i", "check_in=2027-01-01", "-i", "check_out=2027-01-02"];
        let arguments = [form, &["invoke", &target, "--intent", "search free rooms"], &stay].concat();
        let ran = home.nuncio(&arguments).run();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        ran
    };
    let steps = || {
        let events = invoke(&["--json"]).stdout;
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let step = |event: Value| match (event["event"].as_str().unwrap(), event["reused"].as_bool()) {
            ("agreed", Some(true)) => "reused".to_owned(),
            (name, _) => name.to_owned(),
        };
        events.map(step).collect::<Vec<_>>()
    };
    assert_eq!(steps(), ["described", "agreed", "result"]);
    assert_eq!(steps(), ["described", "reused", "result"]);
    assert!(invoke(&[]).stderr.contains("agreed before: search_rooms by neg-"));
    assert_eq!((proxy.count("anp.negotiate"), proxy.count("search_rooms")), (1, 3));
    let file = home.state().join("nuncio/agreements.json");
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));

    proxy.refuses_next_call.store(true, Ordering::SeqCst);
    assert_eq!(steps(), ["described", "reused", "note", "agreed", "result"]);
    assert_eq!((proxy.count("anp.negotiate"), proxy.count("search_rooms")), (2, 5));

    std::fs::write(&file, "damaged").unwrap();
    assert_eq!(steps(), ["described", "agreed", "result"]);
    assert_eq!(steps(), ["described", "reused", "result"]);
}
