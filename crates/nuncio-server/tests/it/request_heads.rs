//! Request heads that are malformed, too large, or name no host or two.

use nuncio_testkit::{Gateway, RawHttpResponse};
use serde_json::json;

use crate::agents::{DESK, desk, echo};

async fn gateway() -> Gateway {
    Gateway::builder().agent(DESK, &desk(&[echo()])).start().await
}

fn assert_refused(answer: &RawHttpResponse, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()), "{answer:?}");
    assert!(answer.json()["error"].as_str().is_some_and(|why| !why.is_empty()), "{answer:?}");
}

#[tokio::test]
async fn too_large_and_malformed_request_heads_get_a_json_error() {
    let gateway = gateway().await;
    let many = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect::<String>();
    let huge = format!("X-Huge: {}\r\n", "x".repeat(100_000));
    for more in [many, huge] {
        let answer = gateway.raw(format!("GET /aap/meta HTTP/1.1\r\nHost: localhost\r\n{more}\r\n")).await.unwrap();
        assert_refused(&answer, 431, "head_too_large");
    }
    let long = format!("GET /aap/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000));
    let long = gateway.raw(long).await.unwrap();
    assert_refused(&long, long.status, "head_too_large");
    for malformed in [
        "\u{1}\u{2}\u{3} nonsense\r\n\r\n",
        "GET /aap/meta\r\n\r\n",
        "GET /aap/meta HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET /aap/meta HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n",
    ] {
        assert_refused(&gateway.raw(malformed).await.unwrap(), 400, "bad_request");
    }
    // The answers before it on the same connection are unchanged.
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answers = gateway.raw(format!("{request}nonsense\r\n\r\n")).await.unwrap();
    assert_eq!(answers.status, 200, "{answers:?}");
    assert!(answers.body.contains("HTTP/1.1 400") && answers.body.ends_with('}'), "{answers:?}");
    assert_eq!(gateway.aap().get("/meta").await.0, 200, "and the server is still there");
}

#[tokio::test]
async fn http_1_1_request_without_a_host_with_two_or_with_an_invalid_one_is_refused() {
    let gateway = gateway().await;
    let ask = async |line: &str, headers: &str| {
        gateway.raw(format!("{line}\r\nConnection: close\r\n{headers}\r\n")).await.unwrap()
    };
    let two = "Host: localhost\r\nHost: localhost\r\n";
    for (line, headers) in [
        ("GET /aap/meta HTTP/1.1", ""),
        ("GET http://localhost/aap/meta HTTP/1.1", ""),
        ("GET /healthz HTTP/1.1", ""),
        ("GET /aap/meta HTTP/1.1", two),
        ("GET /aap/meta HTTP/1.0", two),
    ] {
        let refused = ask(line, headers).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "bad_header"), "{line}: {refused:?}");
        assert!(refused.json()["error"].as_str().unwrap().contains("Host"), "{refused:?}");
    }
    for host in
        ["", "local host", "localhost, evil.example", "ada@localhost", "http://localhost", "[::1", "localhost/x"]
    {
        let refused = ask("GET /aap/meta HTTP/1.1", &format!("Host: {host}\r\n")).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "bad_header"), "{host}: {refused:?}");
    }
    // Every protocol has its own error format.
    let skill = ask("GET /skills/desk/echo.json HTTP/1.1", "").await;
    assert_eq!((skill.status, &skill.json()["error"]["code"]), (400, &json!("VALIDATION_ERROR")));
    assert_eq!(ask("GET /aap/meta HTTP/1.1", "Host: localhost\r\n").await.status, 200);
    // HTTP/1.0 needs no host, but without one the request is not known to be meant for this machine.
    assert_eq!(ask("GET /healthz HTTP/1.0", "").await.status, 403);
}
