//! Tests of address checks with names that resolve to chosen addresses.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn answer(addresses: &[&str]) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
    let found = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
    Box::pin(async move { Ok(found) })
}

fn to_loopback(_: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
    answer(&["127.0.0.1"])
}

fn request(url: &str) -> FetchRequest {
    FetchRequest {
        method: "GET",
        url: Url::parse(url).unwrap(),
        headers: Vec::new(),
        body: None,
        trust: AddressTrust::Stranger,
        timeout: Duration::from_secs(10),
        max_bytes: 1000,
    }
}

fn assert_refused(outcome: Result<FetchResponse, FetchError>, because: &str) {
    match outcome {
        Err(FetchError::Refused { why, .. }) => assert!(why.contains(because), "{why}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn name_resolving_to_loopback_is_refused() {
    let fetch = GuardedFetch::with_lookup(usize::MAX, AllowedAddresses::none(), false, None, to_loopback).unwrap();
    assert_refused(fetch.fetch(request("https://harmless.example/")).await, "127.0.0.1");
}

#[tokio::test]
async fn name_with_public_and_private_addresses_is_refused() {
    let fetch = GuardedFetch::with_lookup(usize::MAX, AllowedAddresses::none(), false, None, |_| {
        answer(&["8.8.8.8", "10.0.0.1"])
    })
    .unwrap();
    assert_refused(fetch.fetch(request("https://mixed.example/")).await, "10.0.0.1");
}

#[tokio::test]
async fn connection_uses_the_address_that_was_checked_despite_dns_rebinding() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    fn rebinding(_: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
        let harmless = ASKED.fetch_add(1, Ordering::SeqCst) == 0;
        answer(if harmless { &["127.0.0.1"] } else { &["127.0.0.2"] })
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://rebind.example:{}/", listener.local_addr().unwrap().port());
    let fetch =
        GuardedFetch::with_lookup(usize::MAX, AllowedAddresses::parse(["127.0.0.1"]).unwrap(), false, None, rebinding)
            .unwrap();
    let (first, _) = tokio::join!(fetch.fetch(request(&url)), async { listener.accept().await.map(drop) });
    assert!(matches!(first, Err(FetchError::Unreachable { .. })), "{first:?}");
    assert_eq!(ASKED.load(Ordering::SeqCst), 1, "the check and the connection use one answer");
    assert_refused(fetch.fetch(request(&url)).await, "127.0.0.2");
}

#[tokio::test]
async fn network_allowed_by_operator_is_reachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let allow = AllowedAddresses::parse(["127.0.0.0/8"]).unwrap();
    let fetch = GuardedFetch::with_lookup(usize::MAX, allow, false, None, to_loopback).unwrap();
    let url = format!("https://hotel.internal:{port}/");
    let (outcome, accepted) = tokio::join!(fetch.fetch(request(&url)), async { listener.accept().await.map(drop) });
    // The connection reached the listener, which closed it instead of speaking TLS.
    assert!(matches!(outcome, Err(FetchError::Unreachable { .. })), "{outcome:?}");
    accepted.unwrap();
}

#[tokio::test]
async fn development_mode_refuses_addresses_other_than_loopback() {
    let fetch =
        GuardedFetch::with_lookup(usize::MAX, AllowedAddresses::none(), true, None, |_| answer(&["10.0.0.1"])).unwrap();
    assert_refused(fetch.fetch(request("http://localhost:1/")).await, "10.0.0.1 is not this machine");
    assert_refused(fetch.fetch(request("http://harmless.example/")).await, "only https:");
    assert_refused(fetch.fetch(request("https://harmless.example/")).await, "10.0.0.1");
}

#[tokio::test]
async fn client_without_connection_reuse_resolves_the_name_for_each_request() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    fn counting(_: String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
        ASKED.fetch_add(1, Ordering::SeqCst);
        answer(&["127.0.0.1"])
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
    // A server that would answer again on the same connection.
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
                }
            });
        }
    });
    let keeping = |idle| GuardedFetch::with_lookup(idle, AllowedAddresses::none(), true, None, counting).unwrap();
    let (anew, kept) = (keeping(0), keeping(usize::MAX));
    for count in 1..=3 {
        assert_eq!(anew.fetch(request(&url)).await.unwrap().status, 200);
        assert_eq!(ASKED.load(Ordering::SeqCst), count);
    }
    for _ in 0..3 {
        kept.fetch(request(&url)).await.unwrap();
    }
    assert!(ASKED.load(Ordering::SeqCst) < 6, "others keep their connection");
    serving.abort();
}
