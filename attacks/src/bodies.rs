//! Attacks with large, half-sent and deeply structured request bodies.

use anyhow::ensure;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::raw::{connect_from, head, send_from};
use crate::{Attack, AttackDurationClass, AttackedBinary, Server, http_client};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "half_sent_bodies_of_strangers_take_little_memory",
        before: "512 MB in 2.4 s over 58 connections",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(half_sent_bodies_take_little_memory(target)),
    },
    Attack {
        name: "body_of_a_stranger_is_limited",
        before: "8 MiB buffered",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(body_of_a_stranger_is_limited(target)),
    },
    Attack {
        name: "half_sent_bodies_leave_the_budget_to_known_callers",
        before: "no budget",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(half_sent_bodies_leave_the_budget(target)),
    },
    Attack {
        name: "body_of_many_json_values_is_refused",
        before: "864 MB for one body of 8 MiB",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(body_of_many_values_is_refused(target)),
    },
];

const JSON: (&str, &str) = ("Content-Type", "application/json");
const MEBIBYTE: u64 = 1 << 20;

/// URLs at which the server reads the body before authentication, because the signature covers the body.
const SIGNED: [&str; 3] = ["/anp", "/registry/agents", "/agents/desk/rpc"];

async fn half_sent_bodies_take_little_memory(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let key = server.create_key(&[])?;
    let before = server.resident_bytes()?;
    let mut open = Vec::new();
    let part = "x".repeat(7 << 20);
    for number in 0..60 {
        let line = format!("POST {}", SIGNED[number % SIGNED.len()]);
        let mut stream = connect_from(&server, 2).await?;
        stream.write_all(head(&line, &[JSON, ("Content-Length", "8388608")]).as_bytes()).await?;
        // The client stops sending when the server stops reading.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(200), stream.write_all(part.as_bytes())).await;
        open.push(stream);
    }
    let grown = server.resident_bytes()?.saturating_sub(before) / MEBIBYTE;
    ensure!(grown < 100, "memory grew by {grown} MiB");
    expect_session(&server, &key, 0).await?;
    Ok(format!("{grown} MiB for 60 bodies of 8 MiB"))
}

/// Creates a session as a caller with a key, in a request body of `size` bytes.
async fn expect_session(server: &Server, key: &str, size: usize) -> anyhow::Result<()> {
    let post = http_client().post(format!("{}/aap/sessions", server.url())).bearer_auth(key);
    let status = post.json(&json!({"agent": {"name": "desk"}, "x": "x".repeat(size)})).send().await?.status();
    ensure!(status == 201, "a known caller got {status}");
    Ok(())
}

async fn body_of_a_stranger_is_limited(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let key = server.create_key(&[])?;
    for path in SIGNED {
        let body = format!("\"{}\"", "x".repeat((1 << 20) + 1));
        let answer = send_from(&server, 2, &format!("POST {path}"), &[JSON], &body).await?;
        ensure!(answer.status == 413, "{path} answered {} to more than 1 MiB", answer.status);
    }
    let form = [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];
    let body = format!("key={}", "x".repeat(64 << 10));
    let answer = send_from(&server, 2, "POST /console/sign-in", &form, &body).await?;
    ensure!(answer.status == 413, "the sign-in page answered {} to more than 64 KiB", answer.status);
    expect_session(&server, &key, 2 << 20).await?;
    Ok("413 above 1 MiB and 64 KiB; a known caller may send 2 MiB".to_owned())
}

async fn half_sent_bodies_leave_the_budget(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().settings("[limits]\nbody_bytes_in_flight = 16777216\n").start()?;
    let key = server.create_key(&[])?;
    let part = "x".repeat(60 << 10);
    let mut open = Vec::new();
    for number in 0..120_u8 {
        let mut stream = connect_from(&server, 2 + number % 10).await?;
        let begun = head("POST /anp", &[JSON, ("Content-Length", "100000")]) + &part;
        stream.write_all(begun.as_bytes()).await?;
        open.push(stream);
    }
    let body = format!("\"{}\"", "x".repeat(900 << 10));
    let stranger = send_from(&server, 2, "POST /anp", &[JSON], &body).await?;
    let has_retry_after = stranger.header("retry-after").is_some();
    ensure!(stranger.status == 503 && has_retry_after, "a stranger's further body: {}", stranger.text);
    expect_session(&server, &key, 2 << 20).await?;
    Ok("strangers 503 with Retry-After, a known caller 201".to_owned())
}

async fn body_of_many_values_is_refused(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let key = server.create_key(&[])?;
    let before = server.resident_bytes()?;
    let body = format!("[{}0]", r#"{"":0},"#.repeat((8 << 20) / 7 - 2));
    let post = http_client().post(format!("{}/aap/sessions", server.url())).bearer_auth(&key);
    let status = post.header(JSON.0, JSON.1).body(body).send().await?.status();
    ensure!(status == 413, "answered {status}");
    let grown = server.resident_bytes()?.saturating_sub(before) / MEBIBYTE;
    ensure!(grown < 100, "memory grew by {grown} MiB");
    Ok(format!("413, {grown} MiB"))
}
