//! A minimal skill provider for tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct StubModelProvider {
    pub(crate) host: String,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl StubModelProvider {
    /// Starts a provider; `change` edits its descriptor, and all its executions have the status `status`.
    pub(crate) fn start(change: fn(&mut Value), status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<RecordedRequest>>> = Arc::default();
        let (log, origin) = (Arc::clone(&asked), format!("http://{host}"));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, origin) = (Arc::clone(&log), origin.clone());
                std::thread::spawn(move || serve(stream, &log, &origin, change, status));
            }
        });
        Self { host, asked }
    }

    pub(crate) fn requests_to(&self, line: &str) -> Vec<RecordedRequest> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.line == line).cloned().collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<RecordedRequest>>, origin: &str, change: fn(&mut Value), status: &str) {
    let Some(asked) = read(&stream) else { return };
    log.lock().unwrap().push(asked.clone());
    let form = |name: &str| url::form_urlencoded::parse(asked.body.as_bytes()).any(|(key, _)| key == name);
    let (code, body) = match asked.line.as_str() {
        "GET /.well-known/skill-sharing" | "GET /.well-known/skill-sharing?type=api" => (200, index(origin)),
        "GET /b.json" => {
            let mut skill = descriptor(origin);
            change(&mut skill);
            (200, skill)
        }
        "POST /call" => (202, state("accepted")),
        "GET /status/e-1" => (200, state(status)),
        "DELETE /status/e-1" => (202, state(status)),
        "POST /token" if form("code_verifier") => {
            (200, json!({"access_token": "from-login", "token_type": "Bearer", "expires_in": 3600}))
        }
        "POST /token" => (200, json!({"access_token": "from-client", "token_type": "Bearer", "expires_in": 3600})),
        _ => (404, json!({"error": {"code": "SKILL_NOT_FOUND", "message": "nothing here"}})),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

fn read(stream: &TcpStream) -> Option<RecordedRequest> {
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    lines.read_line(&mut line).ok()?;
    let line = line.trim_end().strip_suffix(" HTTP/1.1")?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        lines.read_line(&mut header).ok()?;
        match header.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let mut asked = RecordedRequest { line, headers, body: String::new() };
    let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}

fn index(origin: &str) -> Value {
    json!({"protocol": {"version": "1.0.0"}, "provider": {"name": "Good \u{1b}[2JProvider"}, "skills": [{
        "id": "a/b", "name": "Echo", "capability_type": "api",
        "description": "Says it again, as often as it is told to, in as many words as are needed to fill more than one line of a terminal.",
        "descriptor_url": format!("{origin}/b.json"), "access": "public", "version": "1.2.0",
    }]})
}

pub(crate) fn descriptor(origin: &str) -> Value {
    json!({
        "protocol": {"version": "1.0.0"}, "id": "a/b", "name": "Echo", "version": "1.2.0", "capability_type": "api",
        "description": "Says it again.", "provider": {"name": "Good Provider", "contact": "help@good.example"},
        "endpoint": {"url": format!("{origin}/call"), "method": "POST",
            "status_url": format!("{origin}/status/{{execution_id}}"), "timeout_ms": 30000},
        "inputs": [
            {"name": "text", "type": "string", "description": "What to say.", "required": true},
            {"name": "times", "type": "number", "description": "How often.", "required": false, "default": 1},
            {"name": "loud", "type": "boolean", "description": "Whether to shout.", "required": false},
            {"name": "to", "type": "object", "description": "To whom.", "required": false},
        ],
        "output": {"content_type": "application/json", "description": "The text.", "schema": {"type": "object"}},
        "auth": {"type": "none"}, "access": "public", "tags": ["echo"],
    })
}

fn state(status: &str) -> Value {
    let mut answer = json!({"execution_id": "e-1", "status": status, "skill_id": "a/b",
        "timestamps": {"created_at": "2026-11-15T11:00:00Z", "updated_at": "2026-11-15T11:00:00Z"}});
    match status {
        "completed" => answer["output"] = json!({"text": "hi"}),
        "failed" => answer["error"] = json!({"code": "EXECUTION_FAILED", "message": "no luck", "details": {"n": 1}}),
        _ => {}
    }
    answer
}
