//! Signatures over requests, and everything a stranger or a listener on the wire may try with them.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use nuncio_core::ids::KeyId;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::{Caller, Credential};
use nuncio_server::admin::Order;
use nuncio_server::auth::{Signatures, Signed};
use nuncio_server::settings::SignatureSettings;
use nuncio_testkit::{Gateway, ManualClock};
use ring::hmac;

use crate::agents::{DESK, desk, echo};

const BODY: &[u8] = br#"{"skill_id":"desk/echo","inputs":{}}"#;

/// A server that checks, and one key that signs.
struct Fixture {
    gateway: Gateway,
    clock: ManualClock,
    signatures: Signatures,
    secret: String,
    id: KeyId,
}

/// A signed request, before it is sent.
#[derive(Clone)]
struct Request {
    headers: HeaderMap,
    body: Vec<u8>,
}

fn mac(secret: &str, message: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message);
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sign(secret: &str, timestamp: &str, nonce: &str, body: &[u8]) -> Request {
    let message = [timestamp.as_bytes(), b".", nonce.as_bytes(), b".", body].concat();
    let mut request = Request { headers: HeaderMap::new(), body: body.to_vec() };
    request.set("x-signature", &format!("v1={}", mac(secret, &message)));
    request.set("x-signature-timestamp", timestamp);
    request.set("x-signature-nonce", nonce);
    request
}

impl Request {
    fn set(&mut self, name: &'static str, value: &str) {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }

    fn with(&self, name: &'static str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.set(name, value);
        changed
    }

    fn without(&self, name: &'static str) -> Self {
        let mut changed = self.clone();
        changed.headers.remove(name);
        changed
    }
}

async fn signing_key(gateway: &Gateway) -> (KeyId, String) {
    let order = Order::KeyCreate { name: None, person: None, scopes: Vec::new(), signing: true };
    let made = gateway.order(order).await.unwrap();
    (serde_json::from_value(made["id"].clone()).unwrap(), made["key"].as_str().unwrap().to_owned())
}

impl Fixture {
    async fn start(allow_bare: bool) -> Self {
        let clock = ManualClock::new();
        let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).start().await;
        let (id, secret) = signing_key(&gateway).await;
        let signatures = Signatures::new(gateway.engine().clone(), &SignatureSettings { allow_bare });
        Self { gateway, clock, signatures, secret, id }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millis() / 1000
    }

    fn signed(&self, nonce: &str) -> Request {
        sign(&self.secret, &self.now().to_string(), nonce, BODY)
    }

    fn check(&self, request: &Request) -> Signed {
        self.signatures.check(&request.headers, &request.body, self.clock.now())
    }

    fn refusal(&self, request: &Request) -> String {
        match self.check(request) {
            Signed::Invalid(why) => why,
            other => panic!("{:?} came to {other:?}", request.headers),
        }
    }

    fn caller(&self) -> Signed {
        let principal = Principal::Key(self.id.clone());
        Signed::Known(Caller { credential: Credential::Signature, ..Caller::new(principal) })
    }
}

#[tokio::test]
async fn whoever_holds_the_secret_is_known_by_the_key() {
    let it = Fixture::start(false).await;
    assert!(it.secret.starts_with("nsk_"), "{}", it.secret);
    assert_eq!(it.check(&it.signed("nonce-01")), it.caller());
    let nothing = Request { headers: HeaderMap::new(), body: BODY.to_vec() };
    assert_eq!(it.check(&nothing), Signed::Absent);
    assert_eq!(it.check(&nothing.with("x-signature-nonce", "nonce-02")), Signed::Absent);
    let upper = it.signed("nonce-03").headers["x-signature"].to_str().unwrap().to_uppercase().replace("V1=", "v1=");
    assert_eq!(it.check(&it.signed("nonce-03").with("x-signature", &upper)), it.caller());
    // While a secret is being replaced, a client signs with both.
    let (_, other) = signing_key(&it.gateway).await;
    let [old, new] = [&it.secret, &other].map(|secret| sign(secret, &it.now().to_string(), "nonce-04", BODY));
    let both = [&old, &new].map(|request| request.headers["x-signature"].to_str().unwrap()).join(", ");
    assert!(matches!(it.check(&old.with("x-signature", &both)), Signed::Known(_)));
}

#[tokio::test]
async fn what_was_altered_is_refused() {
    let it = Fixture::start(false).await;
    let request = it.signed("nonce-01");
    let altered = Request { body: BODY.to_ascii_uppercase(), ..request.clone() };
    let longer = Request { body: [BODY, b" "].concat(), ..request.clone() };
    let later = (it.now() + 1).to_string();
    for changed in [
        altered,
        longer,
        Request { body: Vec::new(), ..request.clone() },
        request.with("x-signature-timestamp", &later),
        request.with("x-signature-nonce", "nonce-02"),
        request.with("x-signature", &format!("v1={}", "0".repeat(64))),
    ] {
        assert!(it.refusal(&changed).contains("no valid signing key"));
    }
    assert_eq!(it.check(&request), it.caller(), "what was refused did not use up the nonce");
}

#[tokio::test]
async fn the_border_between_nonce_and_body_cannot_be_moved() {
    let it = Fixture::start(false).await;
    let timestamp = it.now().to_string();
    let request = sign(&it.secret, &timestamp, "nonce-01", b"first.second");
    let moved = Request { body: b"second".to_vec(), ..request.with("x-signature-nonce", "nonce-01.first") };
    assert!(it.refusal(&moved).contains("full stop"));
    let own = sign(&it.secret, &timestamp, "nonce.01", b"second");
    assert!(it.refusal(&own).contains("full stop"), "nor by whoever signs");
}

#[tokio::test]
async fn a_request_counts_once() {
    let it = Fixture::start(false).await;
    let request = it.signed("nonce-01");
    assert_eq!(it.check(&request), it.caller());
    assert!(it.refusal(&request).contains("used before"));
    let other = sign(&it.secret, &it.now().to_string(), "nonce-01", b"another body");
    assert!(it.refusal(&other).contains("used before"));
    // As long as its timestamp counts, and then not by its timestamp.
    it.clock.advance(Duration::from_secs(300));
    assert!(it.refusal(&request).contains("used before"));
    it.clock.advance(Duration::from_secs(1));
    assert!(it.refusal(&request).contains("may differ by 300 seconds"));
    // Another key's nonces are its own.
    let (_, secret) = signing_key(&it.gateway).await;
    assert!(matches!(it.check(&sign(&secret, &it.now().to_string(), "nonce-01", BODY)), Signed::Known(_)));
}

#[tokio::test]
async fn many_who_send_the_same_at_once_are_let_in_once() {
    let it = std::sync::Arc::new(Fixture::start(false).await);
    let request = it.signed("nonce-01");
    let attempts = (0..16).map(|_| {
        let (it, request) = (std::sync::Arc::clone(&it), request.clone());
        std::thread::spawn(move || matches!(it.check(&request), Signed::Known(_)))
    });
    let attempts: Vec<_> = attempts.collect();
    assert_eq!(attempts.into_iter().map(|attempt| attempt.join().unwrap()).filter(|let_in| *let_in).count(), 1);
}

#[tokio::test]
async fn timestamps_count_within_five_minutes() {
    let it = Fixture::start(false).await;
    it.clock.advance(Duration::from_secs(1000));
    let at = |seconds: i64, nonce: &str| sign(&it.secret, &(it.now() + seconds).to_string(), nonce, BODY);
    assert_eq!(it.check(&at(-300, "nonce-01")), it.caller());
    assert_eq!(it.check(&at(300, "nonce-02")), it.caller());
    assert!(it.refusal(&at(-301, "nonce-03")).contains("may differ by 300 seconds"));
    assert!(it.refusal(&at(301, "nonce-04")).contains("may differ by 300 seconds"));
    let now = it.now();
    for wrong in ["", "yesterday", "-1", &format!("+{now}"), &format!("{now}.0"), &format!(" {now}"), "9999999999999"] {
        let request = sign(&it.secret, wrong, "nonce-05", BODY);
        assert!(it.refusal(&request).contains("seconds since 1970"), "{wrong:?}");
    }
}

#[tokio::test]
async fn what_was_signed_before_the_server_started_may_have_been_used_then() {
    let it = Fixture::start(false).await;
    it.clock.advance(Duration::from_secs(60));
    let request = it.signed("nonce-01");
    assert_eq!(it.check(&request), it.caller());
    it.clock.advance(Duration::from_millis(1));
    let restarted = Signatures::new(it.gateway.engine().clone(), &SignatureSettings::default());
    let again = restarted.check(&request.headers, &request.body, it.clock.now());
    assert!(matches!(&again, Signed::Invalid(why) if why.contains("before this server started")), "{again:?}");
}

#[tokio::test]
async fn a_flood_of_nonces_is_refused_and_nothing_is_forgotten() {
    let it = Fixture::start(false).await;
    let first = it.signed("nonce-first");
    assert_eq!(it.check(&first), it.caller());
    let (mut taken, mut refused) = (1, None);
    while refused.is_none() {
        match it.check(&it.signed(&format!("nonce-{taken:08}"))) {
            Signed::Known(_) => taken += 1,
            Signed::Invalid(why) => refused = Some(why),
            Signed::Absent => panic!("it was signed"),
        }
        assert!(taken <= 100_000, "the memory is bounded");
    }
    assert!(refused.unwrap().contains("wait, or use several keys"));
    assert!(it.refusal(&first).contains("used before"));
    it.clock.advance(Duration::from_secs(301));
    assert_eq!(it.check(&it.signed("nonce-first")), it.caller(), "there is room again");
}

#[tokio::test]
async fn only_signing_keys_sign_and_only_other_keys_are_sent() {
    let it = Fixture::start(false).await;
    let sent = it.gateway.key(&[]).await;
    for secret in [sent.secret.as_str(), "nsk_guessed", "", &it.secret[1..]] {
        let request = sign(secret, &it.now().to_string(), "nonce-01", BODY);
        assert!(it.refusal(&request).contains("no valid signing key"), "{secret}");
    }
    assert_eq!(it.gateway.aap_with_key(&it.secret).get("/sessions").await.0, 401);
    assert_eq!(it.gateway.engine().caller_by_key(&it.secret), None);
    assert_eq!(sent.aap.get("/sessions").await.0, 200);
}

#[tokio::test]
async fn a_revoked_key_signs_nothing_and_the_list_tells_kinds_apart() {
    let it = Fixture::start(false).await;
    it.gateway.key(&[]).await;
    let listed = it.gateway.order(Order::KeyList).await.unwrap();
    let keys = listed["keys"].as_array().unwrap();
    assert!(keys.iter().any(|key| key["kind"] == "signing" && key["id"] == it.id.as_str()), "{listed}");
    assert!(keys.iter().any(|key| key["kind"] == "bearer" && key["id"] != it.id.as_str()), "{listed}");
    let text = listed.to_string();
    assert!(!text.contains("sealed") && !text.contains(&it.secret), "{text}");

    let request = it.signed("nonce-01");
    it.gateway.order(Order::KeyRevoke { which: it.id.to_string() }).await.unwrap();
    assert!(it.refusal(&request).contains("no valid signing key"));
}

#[tokio::test]
async fn headers_that_could_be_read_in_two_ways_are_refused() {
    let it = Fixture::start(false).await;
    let request = it.signed("nonce-01");
    for name in ["x-signature", "x-signature-timestamp", "x-signature-nonce"] {
        let mut twice = request.clone();
        let value = twice.headers[name].clone();
        twice.headers.append(HeaderName::from_static(name), value);
        assert!(it.refusal(&twice).contains("more than once"), "{name}");
    }
    let good = request.headers["x-signature"].to_str().unwrap().to_owned();
    let cases = [
        (request.without("x-signature-timestamp"), "x-signature-timestamp is missing"),
        (request.without("x-signature-nonce"), "x-signature-nonce is missing"),
        (request.with("x-signature", ""), "must be v1="),
        (request.with("x-signature", &good[3..]), "must be v1="),
        (request.with("x-signature", &good[..66]), "64 hex digits"),
        (request.with("x-signature", &format!("{good}0")), "64 hex digits"),
        (request.with("x-signature", &format!("v1=+{}", &good[4..])), "64 hex digits"),
        (request.with("x-signature", "v0=00"), "no v1= signature"),
        (request.with("x-signature", &[good.as_str(); 5].join(",")), "more than 4"),
        (it.signed("seven77"), "8 to 128"),
        (it.signed(&"n".repeat(129)), "8 to 128"),
        (it.signed("nonce 01"), "8 to 128"),
    ];
    for (request, expected) in cases {
        let why = it.refusal(&request);
        assert!(why.contains(expected), "{:?}: {why}", request.headers);
    }
    assert_eq!(it.check(&request), it.caller());
}

#[tokio::test]
async fn a_signature_over_the_body_alone_needs_the_operators_word() {
    for allowed in [false, true] {
        let it = Fixture::start(allowed).await;
        let mut bare = Request { headers: HeaderMap::new(), body: BODY.to_vec() };
        bare.set("x-signature", &mac(&it.secret, BODY));
        if !allowed {
            assert!(it.refusal(&bare).contains("not taken here"));
            continue;
        }
        assert_eq!(it.check(&bare), it.caller());
        assert_eq!(it.check(&bare), it.caller(), "nothing keeps it from coming again");
        assert!(it.refusal(&Request { body: Vec::new(), ..bare.clone() }).contains("no valid signing key"));
        // What was signed with a nonce is not taken without it.
        let whole = it.signed("nonce-01");
        assert!(matches!(it.check(&whole.without("x-signature-nonce")), Signed::Invalid(_)));
    }
}

#[tokio::test]
async fn signing_keys_survive_a_restart_sealed_and_there_are_not_endlessly_many() {
    let it = Fixture::start(false).await;
    for _ in 1..64 {
        signing_key(&it.gateway).await;
    }
    let order = Order::KeyCreate { name: None, person: None, scopes: Vec::new(), signing: true };
    let refused = it.gateway.order(order).await.unwrap_err();
    assert!(refused.message.contains("64 valid signing keys"), "{refused}");

    let data = it.gateway.stop().await;
    let stored = std::fs::read(data.path().join("nuncio.db")).unwrap();
    assert!(!stored.windows(it.secret.len()).any(|bytes| bytes == it.secret.as_bytes()), "secrets are sealed");
    let next = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&it.clock).data(data).start().await;
    let signatures = Signatures::new(next.engine().clone(), &SignatureSettings::default());
    let request = sign(&it.secret, &(it.clock.now().as_millis() / 1000).to_string(), "nonce-01", BODY);
    assert!(matches!(signatures.check(&request.headers, &request.body, it.clock.now()), Signed::Known(_)));
}
