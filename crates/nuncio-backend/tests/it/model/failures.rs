//! Servers that are busy, break off, stall or say too much.

use super::*;

fn error(status: &str, headers: &str, message: &str) -> String {
    tiny::answer(status, headers, &json!({"error": {"message": message}}).to_string())
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says_so() {
    let (at, log) = server(vec![
        error("429 Too Many Requests", "retry-after: 7\r\n", "slow down"),
        error("503 Service Unavailable", "", "busy"),
        hello(),
    ])
    .await;
    let thinker = brain("openai", &at, "");
    let began = thinker.workshop.clock.now();
    let (_, blocks) = thinker.think_long().await.blocks();
    assert_eq!(blocks[0]["text"], "Hello");
    assert_eq!(log.lock().unwrap().len(), 3);
    // Seven seconds as asked, two as is our habit before a third.
    let waited = began.until(thinker.workshop.clock.now());
    assert!(waited >= Duration::from_secs(9), "{waited:?}");
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}

#[tokio::test]
async fn it_is_not_asked_before_that() {
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
async fn a_date_to_come_again_is_understood() {
    // The workshop's clock shows 2026-11-15, 11:00 UTC, when it begins.
    let later = "retry-after: Sun, 15 Nov 2026 11:00:05 GMT\r\n";
    let (at, log) = server(vec![error("529 Overloaded", later, "overloaded"), hello()]).await;
    let thinker = brain("anthropic", &at, "");
    let began = thinker.workshop.clock.now();
    thinker.think_long().await.failure();
    assert_eq!(log.lock().unwrap().len(), 2);
    assert!(began.until(thinker.workshop.clock.now()) >= Duration::from_secs(5));
}

#[tokio::test]
async fn three_times_is_enough_and_some_things_are_not_worth_a_second() {
    let (at, log) = server(vec![error("500 Internal Server Error", "", "no luck")]).await;
    let why = brain("openai", &at, "").think_long().await.failure();
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
    assert!(why.ends_with("tomorrow (it asks to come again in 3600 seconds)"), "{why}");
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_and_named() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let why = brain("ollama", &format!("http://{free}"), "").think_long().await.failure();
    assert!(why.starts_with("ollama (127.0.0.1) cannot be reached: ") && why.ends_with("(tried 3 times)"), "{why}");
}

#[tokio::test]
async fn no_secret_comes_out_in_an_error() {
    let address = tiny::serve_whole(|received| {
        let key = received.header("authorization").unwrap_or_default().to_owned();
        tiny::answer("401 Unauthorized", "", &format!("<html>{key} is wrong\u{1b}[31m</html>"))
    })
    .await;
    let why = brain("openai", &format!("http://user:pass@{address}/?key=secret"), "").think().await.failure();
    assert_eq!(
        why,
        "openai (127.0.0.1) answered with status 401 Unauthorized: <html>Bearer [secret] is wrong[31m</html>"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_is_not_begun_again() {
    let begun = events(&[said("Half an ans")]);
    let chunked = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    for (answer, complaint) in [
        (format!("{HEAD}{begun}"), "it ended without saying that it was finished"),
        (format!("{HEAD}{begun}data: {{\"choi"), "it sent what is no event: {\"choi"),
        (format!("{chunked}{:x}\r\n{begun}\r\n", begun.len()), ""),
        (format!("{HEAD}{begun}data: {{\"error\":{{\"message\":\"the GPU fell out\"}}}}\n\n"), "the GPU fell out"),
        (format!("{HEAD}{begun}data: nonsense\n\n"), "it sent what is no event: nonsense"),
    ] {
        let (at, log) = server(vec![answer]).await;
        let step = brain("openai", &at, "").think().await;
        assert_eq!(step.message["content"][0]["text"], "Half an ans");
        let why = step.failure();
        assert!(why.starts_with("openai (127.0.0.1) broke off its answer: ") && why.contains(complaint), "{why}");
        assert_eq!(log.lock().unwrap().len(), 1);
    }
    let overloaded =
        events(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]);
    let (at, _) = server(vec![format!("{HEAD}{overloaded}")]).await;
    let why = brain("anthropic", &at, "").think().await.failure();
    assert_eq!(why, "anthropic (127.0.0.1) broke off its answer: overloaded_error: Overloaded");
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_an_error() {
    let whole = json!({"choices": [{"message": {"content": "Hello"}}]}).to_string();
    let (at, log) = server(vec![tiny::answer("200 OK", "content-type: application/json\r\n", &whole)]).await;
    let why = brain("openai", &at, "").think().await.failure();
    assert!(why.starts_with("openai (127.0.0.1) answered with no stream of events: "), "{why}");
    let (at, _) = server(vec![tiny::answer("200 OK", "content-type: text/html\r\n", "<h1>Welcome</h1>")]).await;
    let why = brain("openai", &at, "").think().await.failure();
    assert!(why.contains("ended without saying that it was finished"), "{why}");
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn more_than_a_line_may_hold_is_not_read() {
    let mut huge = format!("{HEAD}{}data: ", events(&[said("a")]));
    huge.push_str(&"x".repeat(5 << 20));
    let (at, _) = server(vec![huge]).await;
    let step = brain("openai", &at, "").think().await;
    assert_eq!(step.message["content"][0]["text"], "a");
    let why = step.failure();
    assert!(why.ends_with("a line of the event stream is longer than 4194304 bytes"), "{why}");
}

/// A server that begins to answer, tells its client's end, and otherwise says nothing.
async fn stuck(begun: &'static str) -> (String, oneshot::Receiver<()>, oneshot::Receiver<()>) {
    let (started, starts) = oneshot::channel();
    let (left, leaves) = oneshot::channel();
    let ends = Arc::new(Mutex::new(Some((started, left))));
    let address = tiny::serve(move |_, mut stream: TcpStream| {
        let ends = ends.lock().unwrap().take();
        async move {
            let Some((started, left)) = ends else { return };
            stream.write_all(begun.as_bytes()).await.unwrap();
            let _ = started.send(());
            // Nothing, or an error: gone either way.
            while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
            let _ = left.send(());
        }
    })
    .await;
    (format!("http://{address}"), starts, leaves)
}

#[tokio::test]
async fn silence_in_the_middle_ends_it() {
    let (at, _, left) = stuck("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"So…\"}}]}\n\n").await;
    let thinker = brain("openai", &at, "");
    let began = thinker.workshop.clock.now();
    let step = thinker.think_long().await;
    assert_eq!(step.message["content"][0]["text"], "So…");
    assert_eq!(step.failure(), "openai (127.0.0.1) broke off its answer: nothing came for 120 seconds");
    assert!(began.until(thinker.workshop.clock.now()) >= Duration::from_secs(120));
    left.await.unwrap();
}

#[tokio::test]
async fn silence_from_the_start_ends_it_too() {
    let (at, _, left) = stuck("").await;
    let why = brain("openai", &at, "").think_long().await.failure();
    assert_eq!(why, "openai (127.0.0.1) did not answer within 300 seconds");
    left.await.unwrap();
}

#[tokio::test]
async fn whoever_stops_thinking_lets_the_server_go() {
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[]}\n\n"] {
        let (at, started, left) = stuck(begun).await;
        let thinker = brain("openai", &at, "");
        tokio::select! {
            step = thinker.think() => panic!("it ended: {step:?}"),
            started = started => started.unwrap(),
        }
        tokio::time::timeout(Duration::from_secs(10), left).await.expect("the request goes on").unwrap();
    }
}
