//! Attacks with silent connections and unread event streams.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::raw::{connect_from, head, is_closed_within, operator_key, send_from};
use crate::{Attack, AttackDurationClass, AttackedBinary, Server, http_client};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "connections_without_a_request_are_closed",
        before: "never closed",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(connections_without_a_request_are_closed(target)),
    },
    Attack {
        name: "silent_connections_leave_room_for_probes_operators_and_callers",
        before: "no connection was taken any more",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(silent_connections_leave_room(target)),
    },
    Attack {
        name: "silent_connections_of_one_address_are_limited",
        before: "no limit per address",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(silent_connections_of_one_address_are_limited(target)),
    },
    Attack {
        name: "probes_and_operators_have_connections_left_when_callers_hold_all",
        before: "no connection was taken any more",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(probes_and_operators_have_connections_left(target)),
    },
    Attack {
        name: "event_stream_that_is_not_read_is_closed",
        before: "open for ever",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(unread_event_stream_is_closed(target)),
    },
    Attack {
        name: "http2_event_stream_that_is_not_read_is_closed",
        before: "open for ever",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(unread_http2_stream_is_closed(target)),
    },
];

async fn connections_without_a_request_are_closed(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().settings("[limits]\nheader_seconds = 1\n").start()?;
    server.create_key(&[])?;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let with_settings = [preface.clone(), vec![0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    let sent = [
        ("nothing", Vec::new()),
        ("P", b"P".to_vec()),
        ("half a preface", b"PRI * HTTP/2.0".to_vec()),
        ("a preface", preface),
        ("a preface and settings", with_settings),
        ("half a head", b"GET /aap/meta HTTP/1.1\r\nHost: lo".to_vec()),
    ];
    let mut open = Vec::new();
    for (what, bytes) in sent {
        let mut stream = connect_from(&server, 1).await?;
        stream.write_all(&bytes).await?;
        open.push((what, stream));
    }
    for (what, stream) in &mut open {
        ensure!(is_closed_within(stream, Duration::from_secs(30)).await, "open after 30 s: {what}");
    }
    Ok("all closed".to_owned())
}

async fn silent_connections_leave_room(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().settings("[limits]\nconnections = 64\nheader_seconds = 120\n").start()?;
    let key = operator_key(&server)?;
    let mut silent = Vec::new();
    for last in 2..=11 {
        for _ in 0..20 {
            silent.push(connect_from(&server, last).await?);
        }
    }
    expect_service(&server, &key).await?;
    Ok("200 beside 200 silent connections, 64 allowed".to_owned())
}

/// Checks that a health probe, an operator and a caller with a key are answered, each on a new connection.
async fn expect_service(server: &Server, key: &str) -> anyhow::Result<()> {
    let bearer = format!("Bearer {key}");
    for path in ["/healthz", "/readyz", "/metrics", "/aap/sessions"] {
        let answer = send_from(server, 1, &format!("GET {path}"), &[("Authorization", &bearer)], "").await?;
        ensure!(answer.status == 200, "{path} answered {}", answer.text);
    }
    Ok(())
}

async fn silent_connections_of_one_address_are_limited(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().settings("[limits]\nconnections_per_address = 20\nheader_seconds = 120\n").start()?;
    let key = operator_key(&server)?;
    let mut other = connect_from(&server, 3).await?;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(connect_from(&server, 2).await?);
    }
    let mut closed = 0;
    for stream in &mut silent[..80] {
        closed += usize::from(is_closed_within(stream, Duration::from_secs(10)).await);
    }
    for stream in &mut silent[80..] {
        closed += usize::from(is_closed_within(stream, Duration::from_millis(10)).await);
    }
    ensure!(closed == 80, "{closed} of 100 were closed, 20 may stay");
    ensure!(!is_closed_within(&mut other, Duration::from_millis(100)).await, "another address lost its connection");
    expect_service(&server, &key).await?;
    Ok("80 of 100 closed, 20 allowed".to_owned())
}

async fn probes_and_operators_have_connections_left(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().settings("[limits]\nconnections = 8\nheader_seconds = 120\n").start()?;
    let key = operator_key(&server)?;
    let bearer = format!("Bearer {key}");
    let request = head("GET /aap/sessions", &[("Authorization", &bearer)]);
    let mut open: Vec<TcpStream> = Vec::new();
    for _ in 0..8 {
        let mut stream = connect_from(&server, 1).await?;
        stream.write_all(request.as_bytes()).await?;
        // The first bytes of the response show that the server has identified the caller.
        stream.readable().await?;
        open.push(stream);
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = send_from(&server, 2, &format!("GET {path}"), &[("Authorization", &bearer)], "").await?;
        ensure!(answer.status == 200, "{path} answered {}", answer.text);
    }
    let answer = send_from(&server, 2, "GET /aap/sessions", &[("Authorization", &bearer)], "").await?;
    ensure!(answer.status == 503 && answer.header("retry-after").is_some(), "AAP answered {}", answer.text);
    Ok("probes and /metrics 200, AAP 503 with Retry-After".to_owned())
}

/// A turn whose event stream is larger than the socket buffers of both ends.
fn long_turn() -> Value {
    let script = json!({"script": [[{"deltas": 400_000, "delta": "0123456789abcdef"}]]}).to_string();
    json!({"stream": "delta", "messages": [{"role": "user", "content": script}]})
}

async fn new_session(server: &Server, key: &str) -> anyhow::Result<String> {
    let post = http_client().post(format!("{}/aap/sessions", server.url())).bearer_auth(key);
    let answer: Value = post.json(&json!({"agent": {"name": "desk"}})).send().await?.json().await?;
    Ok(answer["sessionId"].as_str().with_context(|| format!("no session: {answer}"))?.to_owned())
}

/// Number of open event streams, from the server's metrics.
async fn open_streams(server: &Server, key: &str) -> Option<u64> {
    let get = http_client().get(format!("{}/metrics", server.url())).bearer_auth(key);
    let text = get.send().await.ok()?.text().await.ok()?;
    text.lines().find_map(|line| line.strip_prefix("nuncio_streams_open ")).and_then(|count| count.parse().ok())
}

async fn expect_end_of_stream(server: &Server, key: &str) -> anyhow::Result<()> {
    for wanted in [1, 0] {
        let began = Instant::now();
        while open_streams(server, key).await != Some(wanted) {
            ensure!(began.elapsed() < Duration::from_secs(60), "there are never {wanted} open streams");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn unread_event_stream_is_closed(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().settings("[limits]\nwrite_seconds = 1\n").start()?;
    let key = operator_key(&server)?;
    let session = new_session(&server, &key).await?;
    let body = long_turn().to_string();
    let (bearer, length) = (format!("Bearer {key}"), body.len().to_string());
    let headers =
        [("Authorization", bearer.as_str()), ("Content-Type", "application/json"), ("Content-Length", &length)];
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(server.address().parse()?).await?;
    stream.write_all((head(&format!("POST /aap/sessions/{session}/turns"), &headers) + &body).as_bytes()).await?;
    expect_end_of_stream(&server, &key).await?;
    drop(stream);
    Ok("closed".to_owned())
}

async fn unread_http2_stream_is_closed(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().settings("[limits]\nwrite_seconds = 1\n").start()?;
    let key = operator_key(&server)?;
    let session = new_session(&server, &key).await?;
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().http2_initial_stream_window_size(65_535);
    let post = client.build()?.post(format!("{}/aap/sessions/{session}/turns", server.url())).bearer_auth(&key);
    let unread = post.json(&long_turn()).send().await?;
    ensure!(unread.status() == 200, "the turn answered {}", unread.status());
    expect_end_of_stream(&server, &key).await?;
    drop(unread);
    Ok("closed".to_owned())
}
