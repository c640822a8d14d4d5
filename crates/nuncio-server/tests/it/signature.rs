//! Requests signed with a shared secret, and refused replays and alterations of them.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use nuncio_auth::settings::RequestSignatureSettings;
use nuncio_auth::{RequestHead, RequestSignatureVerifier, SignatureCheckResult};
use nuncio_core::ids::KeyId;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::KeyExpiry;
use nuncio_engine::{AuthenticationMethod, Caller};
use nuncio_server::admin::{AdminCommand, KeyCreationCommand, KeyRotationCommand};
use nuncio_testkit::{Gateway, ManualClock};
use ring::hmac;

use crate::agents::{DESK, desk, echo};

const BODY: &[u8] = br#"{"skill_id":"desk/echo","inputs":{}}"#;

/// A server with a manual clock, and a signing key that it issued.
struct SigningKeySetup {
    gateway: Gateway,
    clock: ManualClock,
    signatures: RequestSignatureVerifier,
    secret: String,
    id: KeyId,
}

/// A signed request, before it is sent.
#[derive(Clone)]
struct UnsentSignedRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Vec<u8>,
}

fn mac(secret: &str, message: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message);
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sign(secret: &str, timestamp: &str, nonce: &str, body: &[u8]) -> UnsentSignedRequest {
    let message = [timestamp.as_bytes(), b".", nonce.as_bytes(), b".", body].concat();
    let mut request = UnsentSignedRequest::unsigned(body);
    request.set("x-signature", &format!("v1={}", mac(secret, &message)));
    request.set("x-signature-timestamp", timestamp);
    request.set("x-signature-nonce", nonce);
    request
}

/// A request signed with version 2, which covers method and target.
fn sign_v2(secret: &str, timestamp: &str, nonce: &str, method: Method, target: &'static str) -> UnsentSignedRequest {
    let message = format!("{timestamp}\n{nonce}\n{method}\n{target}\n");
    let mut request =
        UnsentSignedRequest { method, uri: Uri::from_static(target), ..UnsentSignedRequest::unsigned(b"") };
    request.set("x-signature", &format!("v2={}", mac(secret, message.as_bytes())));
    request.set("x-signature-timestamp", timestamp);
    request.set("x-signature-nonce", nonce);
    request
}

impl UnsentSignedRequest {
    fn unsigned(body: &[u8]) -> Self {
        let uri = Uri::from_static("/skills/desk/echo/invoke");
        Self { method: Method::POST, uri, headers: HeaderMap::new(), body: body.to_vec() }
    }

    async fn check_by(&self, signatures: &RequestSignatureVerifier) -> SignatureCheckResult {
        let head = RequestHead { method: &self.method, uri: &self.uri, headers: &self.headers };
        signatures.check(head, &self.body).await
    }

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
    let order = AdminCommand::KeyCreate(KeyCreationCommand {
        name: None,
        person: None,
        scopes: Vec::new(),
        signing: true,
        operator: false,
        term: None,
    });
    let made = gateway.order(order).await.unwrap();
    (serde_json::from_value(made["id"].clone()).unwrap(), made["key"].as_str().unwrap().to_owned())
}

impl SigningKeySetup {
    async fn start(allow_bare: bool) -> Self {
        let clock = ManualClock::new();
        let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).start().await;
        let (id, secret) = signing_key(&gateway).await;
        let signatures =
            RequestSignatureVerifier::new(gateway.engine().clone(), &RequestSignatureSettings { allow_bare });
        Self { gateway, clock, signatures, secret, id }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millis() / 1000
    }

    fn signed(&self, nonce: &str) -> UnsentSignedRequest {
        sign(&self.secret, &self.now().to_string(), nonce, BODY)
    }

    async fn check(&self, request: &UnsentSignedRequest) -> SignatureCheckResult {
        request.check_by(&self.signatures).await
    }

    async fn refusal(&self, request: &UnsentSignedRequest) -> String {
        match self.check(request).await {
            SignatureCheckResult::Invalid(why) => why,
            other => panic!("{:?} came to {other:?}", request.headers),
        }
    }

    fn caller(&self) -> SignatureCheckResult {
        let principal = Principal::Key(self.id.clone());
        SignatureCheckResult::Known(Caller {
            authentication: AuthenticationMethod::Signature,
            ..Caller::new(principal)
        })
    }
}

#[tokio::test]
async fn valid_signature_identifies_the_signing_key() {
    let it = SigningKeySetup::start(false).await;
    assert!(it.secret.starts_with("nsk_"), "{}", it.secret);
    assert_eq!(it.check(&it.signed("nonce-01")).await, it.caller());
    let nothing = UnsentSignedRequest::unsigned(BODY);
    assert_eq!(it.check(&nothing).await, SignatureCheckResult::Absent);
    assert_eq!(it.check(&nothing.with("x-signature-nonce", "nonce-02")).await, SignatureCheckResult::Absent);
    let upper = it.signed("nonce-03").headers["x-signature"].to_str().unwrap().to_uppercase().replace("V1=", "v1=");
    assert_eq!(it.check(&it.signed("nonce-03").with("x-signature", &upper)).await, it.caller());
    // While a secret is being replaced, a client signs with both.
    let (_, other) = signing_key(&it.gateway).await;
    let [old, new] = [&it.secret, &other].map(|secret| sign(secret, &it.now().to_string(), "nonce-04", BODY));
    let both = [&old, &new].map(|request| request.headers["x-signature"].to_str().unwrap()).join(", ");
    assert!(matches!(it.check(&old.with("x-signature", &both)).await, SignatureCheckResult::Known(_)));
}

#[tokio::test]
async fn altered_signed_request_is_refused() {
    let it = SigningKeySetup::start(false).await;
    let request = it.signed("nonce-01");
    let altered = UnsentSignedRequest { body: BODY.to_ascii_uppercase(), ..request.clone() };
    let longer = UnsentSignedRequest { body: [BODY, b" "].concat(), ..request.clone() };
    let later = (it.now() + 1).to_string();
    for changed in [
        altered,
        longer,
        UnsentSignedRequest { body: Vec::new(), ..request.clone() },
        request.with("x-signature-timestamp", &later),
        request.with("x-signature-nonce", "nonce-02"),
        request.with("x-signature", &format!("v1={}", "0".repeat(64))),
    ] {
        assert!(it.refusal(&changed).await.contains("no valid signing key"));
    }
    assert_eq!(it.check(&request).await, it.caller(), "a refused request does not use up its nonce");
}

#[tokio::test]
async fn nonce_with_a_full_stop_is_refused_so_that_nonce_and_body_cannot_be_mixed() {
    let it = SigningKeySetup::start(false).await;
    let timestamp = it.now().to_string();
    let request = sign(&it.secret, &timestamp, "nonce-01", b"first.second");
    let moved = UnsentSignedRequest { body: b"second".to_vec(), ..request.with("x-signature-nonce", "nonce-01.first") };
    assert!(it.refusal(&moved).await.contains("full stop"));
    let own = sign(&it.secret, &timestamp, "nonce.01", b"second");
    assert!(it.refusal(&own).await.contains("full stop"), "also with a valid signature");
}

#[tokio::test]
async fn signed_request_is_accepted_once() {
    let it = SigningKeySetup::start(false).await;
    let request = it.signed("nonce-01");
    assert_eq!(it.check(&request).await, it.caller());
    assert!(it.refusal(&request).await.contains("used before"));
    let other = sign(&it.secret, &it.now().to_string(), "nonce-01", b"another body");
    assert!(it.refusal(&other).await.contains("used before"));
    // The replay is refused by its nonce within the time window, and by its timestamp afterwards.
    it.clock.advance(Duration::from_secs(300));
    assert!(it.refusal(&request).await.contains("used before"));
    it.clock.advance(Duration::from_secs(1));
    assert!(it.refusal(&request).await.contains("may differ by 300 seconds"));
    // Nonces are unique per key.
    let (_, secret) = signing_key(&it.gateway).await;
    assert!(matches!(
        it.check(&sign(&secret, &it.now().to_string(), "nonce-01", BODY)).await,
        SignatureCheckResult::Known(_)
    ));
}

#[tokio::test]
async fn one_of_concurrent_identical_signed_requests_is_accepted() {
    let it = SigningKeySetup::start(false).await;
    let request = it.signed("nonce-01");
    let attempts = (0..16).map(|_| async { matches!(it.check(&request).await, SignatureCheckResult::Known(_)) });
    let let_in = futures_util::future::join_all(attempts).await;
    assert_eq!(let_in.into_iter().filter(|let_in| *let_in).count(), 1);
}

#[tokio::test]
async fn signature_timestamp_may_differ_from_the_server_clock_by_five_minutes() {
    let it = SigningKeySetup::start(false).await;
    it.clock.advance(Duration::from_secs(1000));
    let at = |seconds: i64, nonce: &str| sign(&it.secret, &(it.now() + seconds).to_string(), nonce, BODY);
    assert_eq!(it.check(&at(-300, "nonce-01")).await, it.caller());
    assert_eq!(it.check(&at(300, "nonce-02")).await, it.caller());
    assert!(it.refusal(&at(-301, "nonce-03")).await.contains("may differ by 300 seconds"));
    assert!(it.refusal(&at(301, "nonce-04")).await.contains("may differ by 300 seconds"));
    let now = it.now();
    for wrong in ["", "yesterday", "-1", &format!("+{now}"), &format!("{now}.0"), &format!(" {now}"), "9999999999999"] {
        let request = sign(&it.secret, wrong, "nonce-05", BODY);
        assert!(it.refusal(&request).await.contains("seconds since 1970"), "{wrong:?}");
    }
}

#[tokio::test]
async fn signed_request_used_before_a_restart_is_refused_after_it() {
    let it = SigningKeySetup::start(false).await;
    // The signer's clock may run ahead: its time may be later than the restart.
    let ahead = sign(&it.secret, &(it.now() + 200).to_string(), "nonce-02", BODY);
    let (used, unused) = (it.signed("nonce-01"), it.signed("nonce-03"));
    for request in [&used, &ahead] {
        assert_eq!(it.check(request).await, it.caller());
    }
    let (secret, clock) = (it.secret.clone(), it.clock.clone());
    drop(it.signatures);
    let data = it.gateway.stop().await;
    let next = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).data(data).start().await;
    let restarted = RequestSignatureVerifier::new(next.engine().clone(), &RequestSignatureSettings::default());
    for request in [&used, &ahead] {
        let again = request.check_by(&restarted).await;
        assert!(matches!(&again, SignatureCheckResult::Invalid(why) if why.contains("used before")), "{again:?}");
    }
    assert!(matches!(unused.check_by(&restarted).await, SignatureCheckResult::Known(_)), "{secret}");
}

#[tokio::test]
async fn version_2_signature_covers_method_and_target() {
    let it = SigningKeySetup::start(false).await;
    let now = it.now().to_string();
    let target = "/skills/desk/echo/invoke?a=%201&b=2";
    let request = sign_v2(&it.secret, &now, "nonce-01", Method::GET, target);
    for changed in [
        UnsentSignedRequest { method: Method::DELETE, ..request.clone() },
        UnsentSignedRequest { uri: Uri::from_static("/skills/desk/echo/invoke?a=%201&b=3"), ..request.clone() },
        UnsentSignedRequest { uri: Uri::from_static("/skills/desk/other/invoke?a=%201&b=2"), ..request.clone() },
        UnsentSignedRequest { body: b" ".to_vec(), ..request.clone() },
        request.with("x-signature-nonce", "nonce-02"),
    ] {
        assert!(it.refusal(&changed).await.contains("no valid signing key"));
    }
    assert_eq!(it.check(&request).await, it.caller());
    assert!(it.refusal(&request).await.contains("used before"));
    let posted = sign_v2(&it.secret, &now, "nonce-03", Method::POST, "/skills/desk/echo/invoke");
    assert_eq!(it.check(&posted).await, it.caller());
}

#[tokio::test]
async fn version_1_signature_of_get_or_delete_is_refused_naming_version_2() {
    let it = SigningKeySetup::start(true).await;
    for method in [Method::GET, Method::DELETE] {
        let v1 =
            UnsentSignedRequest { method: method.clone(), ..sign(&it.secret, &it.now().to_string(), "nonce-01", b"") };
        assert!(it.refusal(&v1).await.contains("v2="));
        let old = UnsentSignedRequest { method: method.clone(), ..sign(&it.secret, "1", "nonce-02", b"") };
        assert!(it.refusal(&old).await.contains("v2="));
        let mut bare = UnsentSignedRequest { method: method.clone(), ..UnsentSignedRequest::unsigned(b"") };
        bare.set("x-signature", &mac(&it.secret, b""));
        assert!(it.refusal(&bare).await.contains("v2="));
    }
}

#[tokio::test]
async fn signing_key_sent_as_bearer_and_bearer_key_used_to_sign_are_refused() {
    let it = SigningKeySetup::start(false).await;
    let sent = it.gateway.key(&[]).await;
    for secret in [sent.secret.as_str(), "nsk_guessed", "", &it.secret[1..]] {
        let request = sign(secret, &it.now().to_string(), "nonce-01", BODY);
        assert!(it.refusal(&request).await.contains("no valid signing key"), "{secret}");
    }
    assert_eq!(it.gateway.aap_with_key(&it.secret).get("/sessions").await.0, 401);
    assert_eq!(it.gateway.engine().access().caller_by_key(&it.secret), None);
    assert_eq!(sent.aap.get("/sessions").await.0, 200);
}

#[tokio::test]
async fn revoked_signing_key_is_refused_and_the_key_list_shows_key_kinds() {
    let it = SigningKeySetup::start(false).await;
    it.gateway.key(&[]).await;
    let listed = it.gateway.order(AdminCommand::KeyList).await.unwrap();
    let keys = listed["keys"].as_array().unwrap();
    assert!(keys.iter().any(|key| key["kind"] == "signing" && key["id"] == it.id.as_str()), "{listed}");
    assert!(keys.iter().any(|key| key["kind"] == "bearer" && key["id"] != it.id.as_str()), "{listed}");
    let text = listed.to_string();
    assert!(!text.contains("sealed") && !text.contains(&it.secret), "{text}");

    let request = it.signed("nonce-01");
    it.gateway.order(AdminCommand::KeyRevoke { which: it.id.to_string() }).await.unwrap();
    assert!(it.refusal(&request).await.contains("no valid signing key"));
}

#[tokio::test]
async fn repeated_missing_or_malformed_signature_headers_are_refused() {
    let it = SigningKeySetup::start(false).await;
    let request = it.signed("nonce-01");
    for name in ["x-signature", "x-signature-timestamp", "x-signature-nonce"] {
        let mut twice = request.clone();
        let value = twice.headers[name].clone();
        twice.headers.append(HeaderName::from_static(name), value);
        assert!(it.refusal(&twice).await.contains("more than once"), "{name}");
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
        (request.with("x-signature", "v0=00"), "no v1= or v2= signature"),
        (request.with("x-signature", &[good.as_str(); 5].join(",")), "more than 4"),
        (it.signed("seven77"), "8 to 128"),
        (it.signed(&"n".repeat(129)), "8 to 128"),
        (it.signed("nonce 01"), "8 to 128"),
    ];
    for (request, expected) in cases {
        let why = it.refusal(&request).await;
        assert!(why.contains(expected), "{:?}: {why}", request.headers);
    }
    assert_eq!(it.check(&request).await, it.caller());
}

#[tokio::test]
async fn body_only_signature_is_accepted_only_if_enabled() {
    for allowed in [false, true] {
        let it = SigningKeySetup::start(allowed).await;
        let mut bare = UnsentSignedRequest::unsigned(BODY);
        bare.set("x-signature", &mac(&it.secret, BODY));
        if !allowed {
            assert!(it.refusal(&bare).await.contains("is not accepted"));
            continue;
        }
        assert_eq!(it.check(&bare).await, it.caller());
        assert_eq!(it.check(&bare).await, it.caller(), "a body-only signature can be replayed");
        assert!(
            it.refusal(&UnsentSignedRequest { body: Vec::new(), ..bare.clone() })
                .await
                .contains("no valid signing key")
        );
        // A request signed with a nonce is refused without it.
        let whole = it.signed("nonce-01");
        assert!(matches!(it.check(&whole.without("x-signature-nonce")).await, SignatureCheckResult::Invalid(_)));
    }
}

#[tokio::test]
async fn signing_keys_are_stored_encrypted_and_limited_in_number() {
    let it = SigningKeySetup::start(false).await;
    for _ in 1..64 {
        signing_key(&it.gateway).await;
    }
    let order = AdminCommand::KeyCreate(KeyCreationCommand {
        name: None,
        person: None,
        scopes: Vec::new(),
        signing: true,
        operator: false,
        term: None,
    });
    let refused = it.gateway.order(order).await.unwrap_err();
    assert!(refused.message.contains("64 valid signing keys"), "{refused}");

    drop(it.signatures);
    let data = it.gateway.stop().await;
    let stored = std::fs::read(data.path().join("nuncio.db")).unwrap();
    assert!(!stored.windows(it.secret.len()).any(|bytes| bytes == it.secret.as_bytes()), "secrets are sealed");
    let next = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&it.clock).data(data).start().await;
    let signatures = RequestSignatureVerifier::new(next.engine().clone(), &RequestSignatureSettings::default());
    let request = sign(&it.secret, &(it.clock.now().as_millis() / 1000).to_string(), "nonce-01", BODY);
    assert!(matches!(request.check_by(&signatures).await, SignatureCheckResult::Known(_)));
}

#[tokio::test]
async fn replaced_or_expired_signing_secret_is_refused() {
    let it = SigningKeySetup::start(false).await;
    let rotate = |overlap_seconds, term| {
        AdminCommand::KeyRotate(KeyRotationCommand { which: it.id.to_string(), term, overlap_seconds })
    };
    let secret = |rotated: &serde_json::Value| rotated["key"].as_str().unwrap().to_owned();
    let check = async |secret: &str, nonce: &str| it.check(&sign(secret, &it.now().to_string(), nonce, BODY)).await;

    let second = secret(&it.gateway.order(rotate(0, None)).await.unwrap());
    assert!(second.starts_with("nsk_"));
    assert!(matches!(check(&it.secret, "nonce-1a").await, SignatureCheckResult::Invalid(_)));
    assert_eq!(check(&second, "nonce-1b").await, it.caller(), "it is the same key");

    let term = Some(KeyExpiry::Seconds(7200));
    let third = secret(&it.gateway.order(rotate(3600, term)).await.unwrap());
    assert_eq!(check(&second, "nonce-2a").await, it.caller());
    assert_eq!(check(&third, "nonce-2b").await, it.caller());
    it.clock.advance(Duration::from_secs(3600));
    assert!(matches!(check(&second, "nonce-3a").await, SignatureCheckResult::Invalid(_)), "the overlap is over");
    assert_eq!(check(&third, "nonce-3b").await, it.caller());
    it.clock.advance(Duration::from_secs(3600));
    let expired = check(&third, "nonce-4a").await;
    assert!(matches!(&expired, SignatureCheckResult::Invalid(why) if why.contains("expired")), "{expired:?}");
}
