//! Agents built on the peer library outside of Nuncio, which receive messages by webhook or by long polling.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_a2h::peer::{Peer, ReceivedWebhookError, WebhookReceiver};
use nuncio_core::bundle::SealMode;
use nuncio_core::conversation::ContentType;
use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use nuncio_testkit::a2h::{AgentTransport, PeerDependencies, SealedAgent};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{RelayProcess, memory};
use crate::process::until;

/// A received webhook request: its headers and its body.
type WebhookRequest = (HashMap<String, String>, Vec<u8>);

type WebhookAgent = (Peer, Arc<WebhookReceiver>);

struct TestWebhookServer {
    called: Arc<Mutex<Vec<WebhookRequest>>>,
    answered: Arc<Mutex<Vec<u16>>>,
    taker: Arc<Mutex<Option<WebhookAgent>>>,
    url: String,
}

impl TestWebhookServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver = Self { called: Arc::default(), answered: Arc::default(), taker: Arc::default(), url };
        let (called, answered) = (Arc::clone(&receiver.called), Arc::clone(&receiver.answered));
        let taker = Arc::clone(&receiver.taker);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (called, answered, taker) = (Arc::clone(&called), Arc::clone(&answered), Arc::clone(&taker));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(call) = read(&mut stream).await {
                        called.lock().unwrap().push(call.clone());
                        let taker = taker.lock().unwrap().clone();
                        let status = match taker {
                            Some((peer, hooks)) => status(&take(&hooks, &peer, &call, SystemClock.now()).await),
                            None => 503,
                        };
                        answered.lock().unwrap().push(status);
                        let answer = format!("HTTP/1.1 {status} -\r\ncontent-length: 0\r\n\r\n");
                        if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        receiver
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<WebhookRequest> {
    let (mut headers, mut line) = (HashMap::new(), String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim().split_once(": ") {
            Some((name, value)) => drop(headers.insert(name.to_lowercase(), value.to_owned())),
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some((headers, body))
}

async fn take(
    hooks: &WebhookReceiver,
    peer: &Peer,
    (headers, body): &WebhookRequest,
    now: Timestamp,
) -> Result<(), ReceivedWebhookError> {
    hooks.take(peer, |name| headers.get(name).cloned(), body, now).await
}

fn status(taken: &Result<(), ReceivedWebhookError>) -> u16 {
    match taken {
        Ok(()) | Err(ReceivedWebhookError::Repeated) => 204,
        Err(ReceivedWebhookError::Failed(_)) => 503,
        Err(_) => 401,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_agent_calls_and_receives_and_refuses_forged_or_repeated_webhooks() {
    let relay = RelayProcess::start(&[("NUNCIO_A2H_ALLOW_LOOPBACK_WEBHOOKS", "true")]).await;
    let receiver = TestWebhookServer::start().await;
    let body = json!({"display_name": "Hooked", "connection_mode": "webhook", "webhook_url": receiver.url});
    let made = relay.owner.send(nuncio_testkit::Method::POST, "/agents", &body).await;
    let text = |name: &str| made.data()[name].as_str().unwrap_or_else(|| panic!("{made:?}")).to_owned();
    let (id, token, secret) = (text("id"), text("token"), text("webhook_secret"));
    relay.owner.publish(&id, &super::manifest()).await.data();
    let network = PeerDependencies::direct();
    let agent = SealedAgent::start(&network, &relay.url(), (&id, &token), memory(), AgentTransport::Hooks).await;
    let hooks = Arc::new(WebhookReceiver::new(&secret).unwrap());
    *receiver.taker.lock().unwrap() = Some((agent.peer.clone(), Arc::clone(&hooks)));

    let device = relay.device(&network, "ada", &id).await;
    for number in 0..3 {
        let answer = agent.call("ada", "read_file", json!({"path": format!("/{number}")})).await.unwrap();
        assert_eq!(answer["content"], format!("read /{number}"));
    }
    assert_eq!(device.runs(), 3);
    // The device knows that messages of this agent have no forward secrecy, and can show it.
    assert!(device.heard.lock().unwrap().iter().all(|call| call.mode == SealMode::Stateless));
    let me = RelayParty::Agent(AgentId::parse(&id).unwrap());
    let conversation = device.peer.conversation_with(&me).await.unwrap();
    let content = json!({"type": "text", "text": "hello"});
    device.peer.outbox().send(&conversation.id, ContentType::Text, content.clone()).await.unwrap();
    until("the agent hears", async || (!agent.heard.lock().unwrap().is_empty()).then_some(())).await;
    let received = agent.heard.lock().unwrap()[0].clone();
    assert_eq!((received.payload, received.mode), (content, SealMode::Stateless));

    let calls = receiver.called.lock().unwrap().clone();
    let answers =
        calls.iter().filter(|(_, body)| String::from_utf8_lossy(body).contains("\"artifact_response\"")).count();
    assert_eq!(answers, 3, "{} calls", calls.len());
    assert!(calls.iter().all(|(headers, body)| {
        headers.contains_key("x-hashee-signature") && !String::from_utf8_lossy(body).contains("hello")
    }));

    // Repeated, late, forged, truncated or wrongly signed webhook requests change nothing.
    let (peer, now) = (&agent.peer, SystemClock.now());
    let (headers, body) = calls.last().unwrap().clone();
    let with = |name: &str, value: &str| {
        let mut headers = headers.clone();
        headers.insert(name.to_owned(), value.to_owned());
        (headers, body.clone())
    };
    let late = now.after(Duration::from_secs(6 * 60));
    let early = now.before(Duration::from_secs(6 * 60));
    let other = WebhookReceiver::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    let fresh = WebhookReceiver::new(&secret).unwrap();
    let changed = (headers.clone(), String::from_utf8(body.clone()).unwrap().replace("ada", "eve").into_bytes());
    let cut = (headers.clone(), body[..body.len() - 1].to_vec());
    let mut unsigned = with("x-nothing", "");
    unsigned.0.remove("webhook-signature");
    assert_eq!(take(&hooks, peer, &(headers.clone(), body.clone()), now).await, Err(ReceivedWebhookError::Repeated));
    for when in [late, early] {
        assert_eq!(take(&hooks, peer, &(headers.clone(), body.clone()), when).await, Err(ReceivedWebhookError::Late));
    }
    for forged in [&changed, &cut, &with("webhook-id", "another"), &with("webhook-signature", "v1,AAAA")] {
        assert_eq!(take(&hooks, peer, forged, now).await, Err(ReceivedWebhookError::Forged));
    }
    assert_eq!(take(&hooks, peer, &unsigned, now).await, Err(ReceivedWebhookError::Missing("webhook-signature")));
    assert_eq!(take(&other, peer, &(headers.clone(), body.clone()), now).await, Err(ReceivedWebhookError::Forged));
    // An agent that lost its list of received requests still opens no message twice.
    assert_eq!(take(&fresh, peer, &(headers, body), now).await, Ok(()));
    assert_eq!(agent.heard.lock().unwrap().len(), 1);
    assert!(receiver.answered.lock().unwrap().iter().all(|status| *status == 204));

    // A new trusted device gets sealed messages after the webhook has notified the agent of it.
    let phone = relay.second_device("ada").await;
    device.endorse(&phone).await;
    let mut number = 10;
    until("the agent seals to the phone as well", async || {
        number += 1;
        agent.call("ada", "read_file", json!({"path": format!("/{number}")})).await.unwrap();
        (!phone.heard.lock().unwrap().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_agent_calls_tools_and_receives_each_waiting_message_once() {
    let relay = RelayProcess::start(&[]).await;
    let (id, token) = relay.make_agent(&json!({"display_name": "Polling"})).await;
    let (network, store, url) = (PeerDependencies::direct(), memory(), relay.url());
    let start = || SealedAgent::start(&network, &url, (&id, &token), Arc::clone(&store), AgentTransport::Polling);
    let agent = start().await;
    let device = relay.device(&network, "ada", &id).await;
    for number in 0..3 {
        let answer = agent.call("ada", "read_file", json!({"path": format!("/{number}")})).await.unwrap();
        assert_eq!(answer["content"], format!("read /{number}"));
    }
    assert!(device.heard.lock().unwrap().iter().all(|call| call.mode == SealMode::Stateful));
    // Two messages wait while the agent is stopped; each arrives once.
    drop(agent);
    let me = RelayParty::Agent(AgentId::parse(&id).unwrap());
    let conversation = device.peer.conversation_with(&me).await.unwrap();
    for word in ["one", "two"] {
        device
            .peer
            .outbox()
            .send(&conversation.id, ContentType::Text, json!({"type": "text", "text": word}))
            .await
            .unwrap();
    }
    let agent = start().await;
    let content = async || {
        let received = agent.heard.lock().unwrap();
        received.iter().map(|message| message.payload["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("both words came", async || (content().await.len() >= 2).then_some(())).await;
    agent.call("ada", "read_file", json!({"path": "/3"})).await.unwrap();
    assert_eq!((content().await, device.runs()), (vec!["one".to_owned(), "two".to_owned()], 4));
}
