//! Summaries of conversations that exceed their model's context window.

use std::sync::{Arc, Mutex};

use nuncio_testkit::Gateway;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

type ModelRequests = Arc<Mutex<Vec<Value>>>;

async fn model() -> (String, ModelRequests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = ModelRequests::default();
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let body = loop {
                stream.read_buf(&mut bytes).await.unwrap();
                let text = String::from_utf8_lossy(&bytes);
                let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
                if let Ok(body) = serde_json::from_str::<Value>(body) {
                    break body;
                }
            };
            let sums_up = body["messages"].to_string().contains("Sum up the conversation");
            seen.lock().unwrap().push(body);
            let said = if sums_up { "Ada wants a room by the river." } else { "Understood." };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
                 data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{said}\"}},\"finish_reason\":\"stop\"}}]}}\n\n\
                 data: [DONE]\n\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (format!("http://{address}/v1"), asked)
}

#[tokio::test]
async fn history_over_the_context_window_is_summarised_and_the_summary_reused() {
    let (base_url, asked) = model().await;
    let agent = format!(
        "[agent]\nname = \"talker\"\nversion = \"1.0.0\"\n[brain]\nkind = \"model\"\nprovider = \"openai\"\nmodel = \"m\"\n\
         base_url = \"{base_url}\"\nwindow_tokens = 1000\n"
    );
    let gateway = Gateway::builder().agent("talker", &agent).start().await;
    let aap = gateway.aap();
    let session = aap.session("talker", &[]).await;
    for number in 0..8 {
        let answer = aap.say(&session, &format!("Remark number {number}: {}", "I like rivers. ".repeat(45))).await;
        assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    }
    let full = aap.history(&session).await;
    assert_eq!(full.len(), 16, "the full history is exact");
    let (_, body) = aap.get(&format!("/sessions/{session}/history?type=compacted")).await;
    let compacted = body["history"]["compacted"].as_array().unwrap();
    assert!(compacted.len() < full.len(), "{compacted:?}");
    assert_eq!(compacted[0]["content"], "Summary of the conversation so far:\nAda wants a room by the river.");
    assert_eq!(compacted.last(), full.last(), "the newest message stays");

    let asked = asked.lock().unwrap().clone();
    let sums_up = asked.iter().filter(|body| body["messages"].to_string().contains("Sum up the conversation")).count();
    assert!((1..8).contains(&sums_up), "the summary is reused between turns: {sums_up}");
    let last = asked.last().unwrap()["messages"].to_string();
    assert!(last.contains("Ada wants a room by the river.") && !last.contains("Remark number 0"), "{last}");

    // The summary is stored, so it replaces the same messages after a restart.
    let data = gateway.stop().await;
    let gateway = Gateway::builder().agent("talker", &agent).data(data).start().await;
    let (_, again) = gateway.aap().get(&format!("/sessions/{session}/history?type=compacted")).await;
    assert_eq!(again, body);
}
