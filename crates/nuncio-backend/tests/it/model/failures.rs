//! Model servers that are busy, disconnect, stall or send too much.

use super::*;

fn error(status: &str, headers: &str, message: &str) -> String {
    test_http_server::answer(status, headers, &json!({"error": {"message": message}}).to_string())
}

#[tokio::test]
async fn busy_model_server_is_retried_after_retry_after_or_default_delay() {
    let (at, log) = server(vec![
        error("429 Too Many Requests", "retry-after: 7\r\n", "slow down"),
        error("503 Service Unavailable", "", "busy"),
        hello(),
    ])
    .await;
    let thinker = brain("openai", &at, "");
    let began = thinker.workshop.clock.now();
    let (_, blocks) = thinker.think_with_moving_clock().await.blocks();
    assert_eq!(blocks[0]["text"], "Hello");
    assert_eq!(log.lock().unwrap().len(), 3);
    // Seven seconds as requested, then two seconds by default.
    let waited = began.until(thinker.workshop.clock.now());
    assert!(waited >= Duration::from_secs(9), "{waited:?}");
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}

#[tokio::test]
async fn model_request_is_not_retried_before_retry_after_passed() {
    let (at, log) = server(vec![error("429 Too Many Requests", "retry-after: 7\r\n", "slow down"), hello()]).await;
    let thinker = brain("openai", &at, "");
    let mut step = Box::pin(thinker.think());
    let waits = tokio::time::timeout(Duration::from_millis(200), &mut step).await;
    assert!(waits.is_err());
    thinker.workshop.clock.advance(Duration::from_millis(6900));
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut step).await.is_err());
    assert_eq!(log.lock().unwrap().len(), 1);
    thinker.workshop.clock.advance(Duration::from_millis(100));
    step.await.blocks();
    assert_eq!(log.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn retry_after_given_as_http_date_delays_the_retry() {
    // The test clock starts at 2026-11-15, 11:00 UTC.
    let later = "retry-after: Sun, 15 Nov 2026 11:00:05 GMT\r\n";
    let (at, log) = server(vec![error("529 Overloaded", later, "overloaded"), hello()]).await;
    let thinker = brain("anthropic", &at, "");
    let began = thinker.workshop.clock.now();
    thinker.think_with_moving_clock().await.failure();
    assert_eq!(log.lock().unwrap().len(), 2);
    assert!(began.until(thinker.workshop.clock.now()) >= Duration::from_secs(5));
}

#[tokio::test]
async fn retries_stop_after_three_attempts_and_client_errors_are_not_retried() {
    let (at, log) = server(vec![error("500 Internal Server Error", "", "no luck")]).await;
    let why = brain("openai", &at, "").think_with_moving_clock().await.failure();
    assert_eq!(why, "openai (127.0.0.1) answered with status 500 Internal Server Error: no luck (tried 3 times)");
    assert_eq!(log.lock().unwrap().len(), 3);

    for (status, said) in [
        ("400 Bad Request", "400 Bad Request"),
        ("401 Unauthorized", "401"),
        ("404 Not Found", "404"),
        ("302 Found", "302"),
    ] {
        let (at, log) = server(vec![error(status, "location: /elsewhere\r\n", "no such model")]).await;
        let why = brain("gemini", &at, "").think().await.failure();
        assert!(why.starts_with(&format!("gemini (127.0.0.1) answered with status {said}")), "{why}");
        assert!(why.ends_with(": no such model"), "{why}");
        assert_eq!(log.lock().unwrap().len(), 1);
    }

    let (at, log) = server(vec![error("429 Too Many Requests", "retry-after: 3600\r\n", "tomorrow")]).await;
    let why = brain("groq", &at, "").think().await.failure();
    assert!(why.ends_with("tomorrow (it asks to retry in 3600 seconds)"), "{why}");
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn unreachable_model_server_is_retried_and_named_in_the_error() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let why = brain("ollama", &format!("http://{free}"), "").think_with_moving_clock().await.failure();
    assert!(why.starts_with("ollama (127.0.0.1) cannot be reached: ") && why.ends_with("(tried 3 times)"), "{why}");
}

#[tokio::test]
async fn model_error_contains_no_secret() {
    let address = test_http_server::serve_whole(|received| {
        let key = received.header("authorization").unwrap_or_default().to_owned();
        test_http_server::answer("401 Unauthorized", "", &format!("<html>{key} is wrong\u{1b}[31m</html>"))
    })
    .await;
    let why = brain("openai", &format!("http://user:pass@{address}/?key=secret"), "").think().await.failure();
    assert_eq!(
        why,
        "openai (127.0.0.1) answered with status 401 Unauthorized: <html>Bearer [secret] is wrong[31m</html>"
    );
}

#[tokio::test]
async fn interrupted_model_answer_is_an_error_and_not_retried() {
    let begun = events(&[said("Half an ans")]);
    let chunked = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    for (answer, complaint) in [
        (format!("{HEAD}{begun}"), "the stream ended without an end event"),
        (format!("{HEAD}{begun}data: {{\"choi"), "it sent something that is not an event: {\"choi"),
        (format!("{chunked}{:x}\r\n{begun}\r\n", begun.len()), ""),
        (format!("{HEAD}{begun}data: {{\"error\":{{\"message\":\"the GPU fell out\"}}}}\n\n"), "the GPU fell out"),
        (format!("{HEAD}{begun}data: nonsense\n\n"), "it sent something that is not an event: nonsense"),
    ] {
        let (at, log) = server(vec![answer]).await;
        let step = brain("openai", &at, "").think().await;
        assert_eq!(step.message["content"][0]["text"], "Half an ans");
        let why = step.failure();
        assert!(
            why.starts_with("openai (127.0.0.1) did not complete its answer: ") && why.contains(complaint),
            "{why}"
        );
        assert_eq!(log.lock().unwrap().len(), 1);
    }
    let overloaded =
        events(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]);
    let (at, _) = server(vec![format!("{HEAD}{overloaded}")]).await;
    let why = brain("anthropic", &at, "").think().await.failure();
    assert_eq!(why, "anthropic (127.0.0.1) did not complete its answer: overloaded_error: Overloaded");
}

#[tokio::test]
async fn model_response_without_event_stream_is_an_error() {
    let whole = json!({"choices": [{"message": {"content": "Hello"}}]}).to_string();
    let (at, log) =
        server(vec![test_http_server::answer("200 OK", "content-type: application/json\r\n", &whole)]).await;
    let why = brain("openai", &at, "").think().await.failure();
    assert!(why.starts_with("openai (127.0.0.1) did not answer with a stream of events: "), "{why}");
    let (at, _) =
        server(vec![test_http_server::answer("200 OK", "content-type: text/html\r\n", "<h1>Welcome</h1>")]).await;
    let why = brain("openai", &at, "").think().await.failure();
    assert!(why.contains("the stream ended without an end event"), "{why}");
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn model_stream_line_above_the_limit_is_refused() {
    let mut huge = format!("{HEAD}{}data: ", events(&[said("a")]));
    huge.push_str(&"x".repeat(5 << 20));
    let (at, _) = server(vec![huge]).await;
    let step = brain("openai", &at, "").think().await;
    assert_eq!(step.message["content"][0]["text"], "a");
    let why = step.failure();
    assert!(why.ends_with("a line of the event stream is longer than 4194304 bytes"), "{why}");
}

/// Server that sends `begun` and nothing more. The receivers report the request and the client's disconnect.
async fn stuck(begun: &'static str) -> (String, oneshot::Receiver<()>, oneshot::Receiver<()>) {
    let (started, starts) = oneshot::channel();
    let (left, leaves) = oneshot::channel();
    let ends = Arc::new(Mutex::new(Some((started, left))));
    let address = test_http_server::serve(move |_, mut stream: TcpStream| {
        let ends = ends.lock().unwrap().take();
        async move {
            let Some((started, left)) = ends else { return };
            stream.write_all(begun.as_bytes()).await.unwrap();
            let _ = started.send(());
            // End of stream or an error: the client is gone.
            while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
            let _ = left.send(());
        }
    })
    .await;
    (format!("http://{address}"), starts, leaves)
}

#[tokio::test]
async fn stalled_model_answer_times_out() {
    let (at, _, left) = stuck("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"So…\"}}]}\n\n").await;
    let thinker = brain("openai", &at, "");
    let began = thinker.workshop.clock.now();
    let step = thinker.think_with_moving_clock().await;
    assert_eq!(step.message["content"][0]["text"], "So…");
    assert_eq!(step.failure(), "openai (127.0.0.1) did not complete its answer: nothing was received for 120 seconds");
    assert!(began.until(thinker.workshop.clock.now()) >= Duration::from_secs(120));
    left.await.unwrap();
}

#[tokio::test]
async fn missing_model_response_times_out() {
    let (at, _, left) = stuck("").await;
    let why = brain("openai", &at, "").think_with_moving_clock().await.failure();
    assert_eq!(why, "openai (127.0.0.1) did not answer within 300 seconds");
    left.await.unwrap();
}

#[tokio::test]
async fn dropped_step_closes_the_connection_to_the_model() {
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[]}\n\n"] {
        let (at, started, left) = stuck(begun).await;
        let thinker = brain("openai", &at, "");
        tokio::select! {
            step = thinker.think() => panic!("it ended: {step:?}"),
            started = started => started.unwrap(),
        }
        tokio::time::timeout(Duration::from_secs(10), left).await.expect("the request was not cancelled").unwrap();
    }
}
