//! The HTTP client against misbehaving servers and untrusted addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchError, FetchRequest, FetchResponse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use url::Url;

use crate::test_http_server;

fn strict() -> GuardedFetch {
    GuardedFetch::new(AllowedAddresses::none(), false, None).unwrap()
}

fn request(url: &str, trust: AddressTrust) -> FetchRequest {
    FetchRequest {
        method: "GET",
        url: Url::parse(url).unwrap(),
        headers: Vec::new(),
        body: None,
        trust,
        timeout: Duration::from_secs(20),
        max_bytes: 64 * 1024,
    }
}

async fn configured(address: SocketAddr) -> Result<FetchResponse, FetchError> {
    strict().fetch(request(&format!("http://{address}/"), AddressTrust::Configured)).await
}

#[tokio::test]
async fn redirect_is_returned_and_not_followed() {
    let address = test_http_server::serve_whole(|received| {
        assert_eq!(received.line(), "GET / HTTP/1.1", "the redirect was followed");
        test_http_server::answer("302 Found", "Location: /elsewhere\r\nSet-Cookie: a=b\r\n", "")
    })
    .await;
    let answer = configured(address).await.unwrap();
    assert_eq!((answer.status, answer.header("location")), (302, Some("/elsewhere")));
}

#[tokio::test]
async fn request_has_user_agent_but_no_cookie_encoding_or_referer() {
    let address =
        test_http_server::serve_whole(|received| test_http_server::answer("200 OK", "", &received.head)).await;
    let fetch = strict();
    for _ in 0..2 {
        let answer = fetch.fetch(request(&format!("http://{address}/"), AddressTrust::Configured)).await.unwrap();
        let head = String::from_utf8(answer.body.to_vec()).unwrap().to_lowercase();
        assert!(head.contains(concat!("user-agent: nuncio/", env!("CARGO_PKG_VERSION"))), "{head}");
        for absent in ["cookie", "accept-encoding", "referer"] {
            assert!(!head.contains(absent), "{head}");
        }
    }
}

#[tokio::test]
async fn body_with_too_large_content_length_is_not_read() {
    let address = test_http_server::serve(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await;
        // Without the client's disconnect this would wait for ever.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    assert!(matches!(configured(address).await, Err(FetchError::TooLarge { limit: 65_536, .. })));
}

#[tokio::test]
async fn body_above_the_size_limit_is_aborted() {
    let address = test_http_server::serve(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    assert!(matches!(configured(address).await, Err(FetchError::TooLarge { .. })));
}

#[tokio::test]
async fn slow_body_times_out() {
    let address = test_http_server::serve(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nx").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let request = FetchRequest {
        timeout: Duration::from_millis(50),
        ..request(&format!("http://{address}/"), AddressTrust::Configured)
    };
    assert!(matches!(strict().fetch(request).await, Err(FetchError::TooSlow { .. })));
}

#[tokio::test]
async fn response_with_too_many_or_too_large_headers_is_refused() {
    let many = "x: y\r\n".repeat(200);
    let large = format!("x: {}\r\n", "y".repeat(70_000));
    for headers in [many, large] {
        let address = test_http_server::serve_whole(move |_| test_http_server::answer("200 OK", &headers, "")).await;
        let outcome = configured(address).await;
        assert!(matches!(outcome, Err(FetchError::Unreachable { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn connection_error_omits_the_query_of_the_url() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{address}/path?token=hunter22");
    let error = strict().fetch(request(&url, AddressTrust::Configured)).await.unwrap_err().to_string();
    assert!(error.contains("refused") && error.contains("/path"), "{error}");
    assert!(!error.contains("hunter22"), "{error}");
}

#[tokio::test]
async fn untrusted_loopback_or_private_address_is_refused_in_every_notation() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.0.1.",
        "0.0.0.0",
        "0",
        "[::]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "１２７.0.0.1",
        "127。0。0。1",
    ] {
        for scheme in ["https", "http"] {
            let url = format!("{scheme}://{host}:{port}/");
            let outcome = strict().fetch(request(&url, AddressTrust::Stranger)).await;
            assert!(matches!(outcome, Err(FetchError::Refused { .. })), "{url}: {outcome:?}");
        }
    }
    // No connection arrived.
    assert!(futures_util::FutureExt::now_or_never(listener.accept()).is_none());
}

#[tokio::test]
async fn urls_with_credentials_port_zero_or_other_schemes_are_refused() {
    for url in [
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://example.com:0/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "data:text/plain,x",
    ] {
        for trust in [AddressTrust::Stranger, AddressTrust::Configured] {
            let outcome = strict().fetch(request(url, trust)).await;
            assert!(matches!(outcome, Err(FetchError::Refused { .. })), "{url}: {outcome:?}");
        }
    }
    let outcome = strict().fetch(request("http://example.com/", AddressTrust::Stranger)).await;
    assert!(matches!(outcome, Err(FetchError::Refused { .. })), "{outcome:?}");
}

#[tokio::test]
async fn invalid_or_transport_request_headers_are_refused() {
    for (name, value) in [
        ("x", "a\r\nb: c"),
        ("bad name", "x"),
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("Host", "evil"),
    ] {
        let request = FetchRequest {
            headers: vec![(name.into(), value.into())],
            ..request("http://127.0.0.1:1/", AddressTrust::Configured)
        };
        let outcome = strict().fetch(request).await;
        assert!(matches!(outcome, Err(FetchError::Refused { .. })), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn allowed_origin_or_loopback_in_development_mode_is_reachable() {
    let address = test_http_server::serve_whole(|_| test_http_server::answer("200 OK", "", "hello")).await;
    let url = format!("http://{address}/");
    let allowed = GuardedFetch::new(AllowedAddresses::parse([url.as_str()]).unwrap(), false, None).unwrap();
    assert_eq!(allowed.fetch(request(&url, AddressTrust::Stranger)).await.unwrap().body, "hello");

    let developing = GuardedFetch::new(AllowedAddresses::none(), true, None).unwrap();
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("http://{host}:{}/", address.port());
        assert_eq!(developing.fetch(request(&url, AddressTrust::Stranger)).await.unwrap().body, "hello");
    }
    let outcome = developing.fetch(request("http://10.0.0.1/", AddressTrust::Stranger)).await;
    assert!(matches!(outcome, Err(FetchError::Refused { .. })), "{outcome:?}");
}

#[tokio::test]
async fn extra_root_certificate_is_trusted_and_others_are_not() {
    nuncio_backend::fetch::install_crypto();
    // Certificate made for this test by a root whose key was deleted.
    let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/localhost.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/localhost.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(test_http_server::answer("200 OK", "", "sealed").as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    let trusting = GuardedFetch::new(AllowedAddresses::none(), true, Some(include_bytes!("tls/ca.pem"))).unwrap();
    assert_eq!(trusting.fetch(request(&url, AddressTrust::Configured)).await.unwrap().body, "sealed");
    assert_eq!(trusting.fetch(request(&url, AddressTrust::Stranger)).await.unwrap().body, "sealed");
    let outcome = strict().fetch(request(&url, AddressTrust::Configured)).await;
    assert!(matches!(&outcome, Err(FetchError::Unreachable { why, .. }) if why.contains("certificate")), "{outcome:?}");
    assert!(
        GuardedFetch::new(AllowedAddresses::none(), false, Some(b"-----BEGIN CERTIFICATE-----\nnonsense")).is_err()
    );
}
