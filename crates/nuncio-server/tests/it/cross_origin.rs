//! Requests of web pages: an open loopback server refuses other origins; a server with keys allows all, because
//! browsers send no key by themselves.

use nuncio_server::settings::LoopbackAccess;
use nuncio_testkit::{Gateway, RawHttpResponse};
use serde_json::json;

use crate::agents::{DESK, desk, echo};

const LISTED: &str = "https://app.example";

async fn start() -> Gateway {
    let builder = Gateway::builder().agent(DESK, &desk(&[echo()]));
    builder.settings(|settings| settings.cors.origins.push(LISTED.to_owned())).start().await
}

/// Sends a request; `PORT` in a header value is replaced by the server's port.
async fn send(gateway: &Gateway, line: &str, headers: &[(&str, &str)], body: &str) -> RawHttpResponse {
    let port = gateway.address().port().to_string();
    let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {}\r\n", value.replace("PORT", &port));
    }
    if !body.is_empty() {
        request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    gateway.raw(request + "\r\n" + body).await.unwrap()
}

async fn sessions(gateway: &Gateway) -> usize {
    gateway.aap().get("/sessions").await.1["sessions"].as_array().unwrap().len()
}

/// A request line and headers to an open loopback server, with the expected error code, if any.
type CrossOriginCase = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>);

const HOST: (&str, &str) = ("Host", "localhost:PORT");
const STRANGER: Option<&str> = Some("cross_origin_refused");
const REBOUND: Option<&str> = Some("host_refused");

const ROWS: &[CrossOriginCase] = &[
    // Requests without an origin, by every name of this machine.
    ("curl", &[HOST], None),
    ("curl, any case", &[("Host", "LocalHost:PORT")], None),
    ("curl by address", &[("Host", "127.0.0.1:PORT")], None),
    ("curl by another loopback address", &[("Host", "127.8.8.8:PORT")], None),
    ("curl by IPv6", &[("Host", "[::1]:PORT")], None),
    ("curl without a port", &[("Host", "localhost")], None),
    // A foreign domain that resolves to this machine.
    ("rebound name", &[("Host", "evil.example:PORT")], REBOUND),
    (
        "rebound name, same origin to the browser",
        &[("Host", "evil.example:PORT"), ("Origin", "http://evil.example:PORT")],
        REBOUND,
    ),
    (
        "rebound name, as the browser tells it",
        &[("Host", "evil.example:PORT"), ("Sec-Fetch-Site", "same-origin")],
        REBOUND,
    ),
    ("rebound name behind a listed origin", &[("Host", "evil.example"), ("Origin", LISTED)], REBOUND),
    ("look-alike name", &[("Host", "localhost.evil.example:PORT")], REBOUND),
    ("look-alike address", &[("Host", "127.0.0.1.nip.io:PORT")], REBOUND),
    ("address in decimal", &[("Host", "2130706433:PORT")], REBOUND),
    ("this machine's other address", &[("Host", "192.168.1.10:PORT")], REBOUND),
    // Pages of this server.
    ("own page", &[HOST, ("Origin", "http://localhost:PORT")], None),
    ("own page by address", &[("Host", "127.0.0.1:PORT"), ("Origin", "http://127.0.0.1:PORT")], None),
    ("own page by IPv6", &[("Host", "[::1]:PORT"), ("Origin", "http://[::1]:PORT")], None),
    ("own page, as the browser tells it", &[HOST, ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors")], None),
    // Pages on other origins.
    ("another site", &[HOST, ("Origin", "https://evil.example")], STRANGER),
    (
        "another site, as the browser tells it",
        &[HOST, ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")],
        STRANGER,
    ),
    ("another site, both", &[HOST, ("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")], STRANGER),
    ("another port", &[HOST, ("Origin", "http://localhost:3000")], STRANGER),
    (
        "another port, which browsers call the same site",
        &[HOST, ("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "no-cors")],
        STRANGER,
    ),
    ("no port", &[HOST, ("Origin", "http://localhost")], STRANGER),
    ("another name of this machine", &[HOST, ("Origin", "http://127.0.0.1:PORT")], STRANGER),
    ("opaque origin", &[HOST, ("Origin", "null")], STRANGER),
    ("empty origin", &[HOST, ("Origin", "")], STRANGER),
    ("no URL", &[HOST, ("Origin", "localhost:PORT")], STRANGER),
    ("look-alike origin", &[HOST, ("Origin", "http://localhost:PORT.evil.example")], STRANGER),
    ("look-alike origin with a user", &[HOST, ("Origin", "http://localhost:PORT@evil.example")], STRANGER),
    ("an origin that begins like a listed one", &[HOST, ("Origin", "https://app.example.evil.example")], STRANGER),
    ("a listed name by another scheme", &[HOST, ("Origin", "http://app.example")], STRANGER),
    ("a listed name on another port", &[HOST, ("Origin", "https://app.example:8443")], STRANGER),
    ("a name below a listed one", &[HOST, ("Origin", "https://x.app.example")], STRANGER),
    ("embedded by another site", &[HOST, ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "cors")], STRANGER),
    // Pages of listed origins.
    ("a listed page", &[HOST, ("Origin", LISTED)], None),
    (
        "a listed page, as the browser tells it",
        &[HOST, ("Origin", LISTED), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "cors")],
        None,
    ),
    ("a listed page in another case", &[HOST, ("Origin", "https://APP.example")], None),
];

#[tokio::test]
async fn foreign_origin_cannot_read_or_act_on_an_open_server() {
    check_rows(&start().await).await;
}

#[tokio::test]
async fn foreign_origin_cannot_read_or_act_on_an_open_loopback_server_with_keys() {
    let gateway = start_open_loopback().await;
    let guest = gateway.key(&[]).await;
    check_rows(&gateway).await;

    // The same holds if a key exists: pages of other sites must not read what local callers may read.
    let bearer = format!("Bearer {}", guest.secret);
    let page = [HOST, ("Origin", "https://evil.example"), ("Authorization", bearer.as_str())];
    let refused = send(&gateway, "GET /aap/sessions", &page, "").await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "cross_origin_refused"));
    assert_eq!(refused.header("access-control-allow-origin"), None);
    assert!(refused.json()["error"].as_str().unwrap().contains("[access]"), "the way out is named: {refused:?}");
    let asks = [HOST, page[1], ("Access-Control-Request-Method", "POST")];
    assert_eq!(send(&gateway, "OPTIONS /aap/sessions", &asks, "").await.status, 403);
    let rebound = send(&gateway, "GET /aap/sessions", &[("Host", "evil.example"), page[2]], "").await;
    assert_eq!((rebound.status, rebound.code().as_str()), (403, "host_refused"));
    let listed = send(&gateway, "GET /aap/sessions", &[HOST, ("Origin", LISTED), page[2]], "").await;
    assert_eq!((listed.status, listed.header("access-control-allow-origin")), (200, Some(LISTED)));
}

async fn start_open_loopback() -> Gateway {
    let builder = Gateway::builder().agent(DESK, &desk(&[echo()]));
    let builder = builder.settings(|settings| {
        settings.cors.origins.push(LISTED.to_owned());
        settings.access.loopback = Some(LoopbackAccess::Open);
    });
    builder.start().await
}

async fn check_rows(gateway: &Gateway) {
    let create = json!({"agent": {"name": DESK}}).to_string();
    for (name, headers, refused) in ROWS {
        let before = sessions(gateway).await;
        let read = send(gateway, "GET /aap/sessions", headers, "").await;
        let write = send(gateway, "POST /aap/sessions", headers, &create).await;
        let unguarded = send(gateway, "GET /nothing", headers, "").await;
        let made = sessions(gateway).await - before;
        match refused {
            None => {
                assert_eq!((read.status, write.status, made, unguarded.status), (200, 201, 1, 404), "{name}: {read:?}");
            }
            Some(code) => {
                assert_eq!(
                    (read.status, write.status, made, unguarded.status),
                    (403, 403, 0, 403),
                    "{name}: {write:?}"
                );
                assert_eq!((read.code().as_str(), write.code().as_str()), (*code, *code), "{name}");
                assert_eq!(read.header("access-control-allow-origin"), None, "{name}");
            }
        }
        let origin = headers.iter().find(|(name, _)| *name == "Origin").map(|(_, origin)| *origin);
        let named = origin.filter(|origin| origin.eq_ignore_ascii_case(LISTED) && refused.is_none());
        assert_eq!(read.header("access-control-allow-origin"), named, "{name}");
    }
}

#[tokio::test]
async fn cross_site_navigation_is_allowed_but_form_post_is_refused() {
    let gateway = start().await;
    let navigation =
        [HOST, ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")];
    assert_eq!(send(&gateway, "GET /aap/meta", &navigation, "").await.status, 200);
    // Browsers send the origin with every form.
    let form = [&navigation[..], &[("Origin", "https://evil.example")]].concat();
    let create = json!({"agent": {"name": DESK}}).to_string();
    let sent = send(&gateway, "POST /aap/sessions", &form, &create).await;
    assert_eq!((sent.status, sent.code().as_str()), (403, "cross_origin_refused"));
    // A form cannot send JSON in any case.
    let plain = format!(
        "POST /aap/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{create}",
        create.len()
    );
    assert_eq!(gateway.raw(plain).await.unwrap().status, 415);
    assert_eq!(sessions(&gateway).await, 0);
}

#[tokio::test]
async fn invalid_host_is_refused() {
    let gateway = start().await;
    for host in [
        "",
        "localhost:PORT@evil.example",
        "localhost:evil.example",
        "127.0.0.1:80.evil.example",
        "[::1]evil.example:PORT",
    ] {
        let answer = send(&gateway, "GET /aap/meta", &[("Host", host)], "").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_header"), "{host}");
    }
}

#[tokio::test]
async fn request_without_a_host_is_refused() {
    let gateway = start().await;
    let nameless = gateway.raw("GET /aap/meta HTTP/1.0\r\n\r\n").await.unwrap();
    assert_eq!((nameless.status, nameless.code().as_str()), (403, "host_refused"));
}

#[tokio::test]
async fn preflight_is_answered_only_for_listed_origins() {
    let gateway = start().await;
    let asks = |origin| {
        [
            HOST,
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization,content-type"),
        ]
    };
    let answer = send(&gateway, "OPTIONS /aap/sessions", &asks(LISTED), "").await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(LISTED));
    assert!(answer.header("access-control-allow-methods").unwrap().contains("DELETE"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization,content-type"));
    assert!(answer.header("vary").unwrap().to_ascii_lowercase().contains("origin"), "a cache must not mix origins");
    for stranger in ["https://evil.example", "http://localhost:3000", "null"] {
        let refused = send(&gateway, "OPTIONS /aap/sessions", &asks(stranger), "").await;
        assert_eq!(refused.status, 403, "{stranger}");
        assert_eq!(refused.header("access-control-allow-origin"), None, "{stranger}");
    }
    // An OPTIONS request without a requested method is no preflight.
    let plain = send(&gateway, "OPTIONS /aap/sessions", &[HOST], "").await;
    assert_eq!((plain.status, plain.code().as_str()), (405, "method_not_allowed"));
    assert!(plain.header("allow").is_some());
}

#[tokio::test]
async fn cors_star_allows_every_origin() {
    let builder = Gateway::builder().agent(DESK, &desk(&[]));
    let gateway = builder.settings(|settings| settings.cors.origins.push("*".to_owned())).start().await;
    let answer = send(&gateway, "GET /aap/meta", &[HOST, ("Origin", "https://any.example")], "").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("https://any.example")));
    let rebound =
        send(&gateway, "GET /aap/meta", &[("Host", "evil.example"), ("Origin", "https://any.example")], "").await;
    assert_eq!(rebound.status, 403, "the name still has to be one of this machine");
}

#[tokio::test]
async fn server_with_keys_allows_every_origin_and_preflight_without_key() {
    let gateway = start().await;
    let guest = gateway.key(&[]).await;
    let page = ("Origin", "https://any.example");
    let asks = [
        ("Host", "nuncio.example"),
        page,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization, content-type, idempotency-key"),
    ];
    let preflight = send(&gateway, "OPTIONS /aap/sessions/ses_1/turns", &asks, "").await;
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some("*")));
    let named = preflight.header("access-control-allow-headers").unwrap();
    assert!(named.contains("authorization"), "a star would not cover it: {named}");
    assert_eq!(preflight.header("access-control-allow-credentials"), None);
    // The response allows `Authorization` also if the browser names no headers.
    let bare = send(&gateway, "OPTIONS /aap/sessions", &asks[..3], "").await;
    assert!(bare.header("access-control-allow-headers").unwrap().contains("authorization"));

    let bearer = format!("Bearer {}", guest.secret);
    let known = [("Host", "nuncio.example"), page, ("Authorization", bearer.as_str())];
    for (line, headers, body, status) in [
        ("GET /aap/meta", &known[..2], "", 200),
        ("GET /aap/sessions", &known[..], "", 200),
        ("GET /aap/sessions", &known[..2], "", 401),
        ("GET /aap/sessions/ses_none", &known[..], "", 404),
        ("PUT /aap/sessions", &known[..], "", 405),
        ("POST /aap/sessions", &known[..], "{", 400),
        ("GET /nothing", &known[..], "", 404),
    ] {
        let answer = send(&gateway, line, headers, body).await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{line}");
        if status >= 400 {
            assert!(answer.json()["error"].is_string(), "{line}: a page can read the error");
        }
    }

    let session = guest.aap.session(DESK, &[]).await;
    let turn = json!({"stream": "delta", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let stream = send(&gateway, &format!("POST /aap/sessions/{session}/turns"), &known, &turn).await;
    assert_eq!((stream.status, stream.header("access-control-allow-origin")), (200, Some("*")));
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert!(stream.body.contains("event: turn_stop"));
}

#[tokio::test]
async fn rate_limited_response_to_another_origin_has_cors_headers() {
    let builder = Gateway::builder().agent(DESK, &desk(&[]));
    let gateway = builder.settings(|settings| settings.limits.requests_per_minute = 1).start().await;
    let guest = gateway.key(&[]).await;
    let bearer = format!("Bearer {}", guest.secret);
    let headers = [HOST, ("Origin", "https://any.example"), ("Authorization", bearer.as_str())];
    assert_eq!(send(&gateway, "GET /aap/sessions", &headers, "").await.status, 200);
    let slowed = send(&gateway, "GET /aap/sessions", &headers, "").await;
    assert_eq!((slowed.status, slowed.header("access-control-allow-origin")), (429, Some("*")));
    let exposed: Vec<_> = slowed.header("access-control-expose-headers").unwrap().split(", ").collect();
    // A page that signs with a DID reads what to sign from `Accept-Signature`, and its token from
    // `Authentication-Info`.
    let needed = ["retry-after", "authentication-info", "accept-signature", "location", "idempotency-replayed"];
    assert!(needed.iter().all(|name| exposed.contains(name)), "{exposed:?}");
}
