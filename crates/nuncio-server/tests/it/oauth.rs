//! Valid and forged access tokens of a real OpenID provider, which also rotates its keys, revokes a token or does not
//! answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nuncio_auth::settings::IssuerSetting;
use nuncio_auth::{TokenCheckResult, TrustedIssuers};
use nuncio_core::ErrorCode;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use nuncio_server::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock, RawHttpResponse, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::agents::{DESK, call_once, count, desk, messages, result_of, runs, scope, tool};

#[path = "oauth/admission.rs"]
mod admission;

const NOT_GRANTED: &str = "Tool call denied: the scope notes:write has not been granted; an operator of the server \
    can grant it with `nuncio grant create`";
const JWT: &str = "https://api.example/RS256";
const OPAQUE: &str = "https://api.example/opaque";

/// The OpenID provider in its own process, which ends with the test.
struct OidcProviderProcess {
    url: String,
    _process: Child,
}

impl OidcProviderProcess {
    async fn start() -> Self {
        let provider = std::env::var_os("NUNCIO_TEST_OIDC_PROVIDER").expect(
            "NUNCIO_TEST_OIDC_PROVIDER must name lib/index.js of the npm package oidc-provider: run `cargo xtask test`",
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/issuer.mjs");
        let mut process = Command::new("node")
            .arg(script)
            .env("NUNCIO_TEST_OIDC_PROVIDER", provider)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("node starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        assert!(line.starts_with("http://127.0.0.1:"), "the provider did not start: {line:?}");
        Self { url: line.trim().to_owned(), _process: process }
    }

    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> RawHttpResponse {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let request =
            format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        RawHttpResponse::read(stream).await.unwrap()
    }

    async fn form(&self, path: &str, form: &str) -> Value {
        // booker:booker-secret
        let headers =
            "Authorization: Basic Ym9va2VyOmJvb2tlci1zZWNyZXQ=\r\nContent-Type: application/x-www-form-urlencoded\r\n";
        let answer = self.send("POST", path, headers, form).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap_or_default()
    }

    /// A token that the provider issues for this audience.
    async fn token(&self, audience: &str, scope: &str) -> String {
        let form = format!("grant_type=client_credentials&scope={scope}&resource={audience}");
        self.form("/token", &form).await["access_token"].as_str().unwrap().to_owned()
    }

    /// A token that the provider would not issue, signed with this kind of key.
    async fn forge(&self, key: &str, header: Value, claims: Value) -> String {
        let body = json!({"key": key, "header": header, "claims": self.claims(claims)}).to_string();
        self.send("POST", "/test/forge", "", &body).await.body
    }

    /// Valid claims with some changed; `null` removes a claim.
    fn claims(&self, changes: Value) -> Value {
        let now = SystemClock.now().as_millis() / 1000;
        let mut claims = json!({
            "iss": self.url, "sub": "booker", "client_id": "booker", "aud": JWT, "iat": now, "exp": now + 300,
            "scope": "notes:write",
        });
        let Value::Object(changes) = changes else { panic!("changes must be an object") };
        for (name, value) in changes {
            claims[name] = value;
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        claims
    }

    async fn tell(&self, what: &str) {
        assert_eq!(self.send("POST", &format!("/test/{what}"), "", "").await.status, 200);
    }

    /// Number of requests to a path of the provider.
    async fn asked(&self, path: &str) -> u64 {
        let answer = self.send("GET", "/test/asked", "", "").await;
        let asked: BTreeMap<String, u64> = serde_json::from_str(&answer.body).unwrap();
        asked.get(path).copied().unwrap_or_default()
    }

    fn setting(&self, more: &str) -> IssuerSetting {
        let text = format!("url = \"{}\"\naudience = [\"{JWT}\", \"{OPAQUE}\"]\n{more}", self.url);
        toml::from_str(&text).unwrap()
    }

    fn booker(&self) -> Principal {
        Principal::OAuth { issuer: self.url.clone(), subject: "booker".to_owned() }
    }
}

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.advance(clock.now().until(SystemClock.now()));
    clock
}

fn builder(setting: IssuerSetting) -> GatewayBuilder {
    let agent = desk(&[
        scope("notes:read", "low"),
        scope("notes:write", "medium"),
        tool("read", "printf read", "scope = \"notes:read\""),
        count("scope = \"notes:write\""),
    ]);
    Gateway::builder().agent(DESK, &agent).settings(|settings| settings.issuer.push(setting))
}

/// A gateway that trusts the issuer, and has a key so that local requests need a credential.
async fn start(setting: IssuerSetting, clock: &ManualClock) -> Gateway {
    let gateway = builder(setting).clock(clock).start().await;
    gateway.key(&[]).await;
    gateway
}

async fn status(gateway: &Gateway, token: &str) -> (u16, String) {
    let (status, body) = gateway.aap_with_key(token).get("/sessions").await;
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

fn unauthorized() -> (u16, String) {
    (401, ErrorCode::Unauthorized.to_string())
}

fn unavailable() -> (u16, String) {
    (503, ErrorCode::IssuerUnavailable.to_string())
}

fn welcome() -> (u16, String) {
    (200, String::new())
}

async fn counted(gateway: &Gateway, token: &str) -> Value {
    let aap = gateway.aap_with_key(token);
    let session = aap.session(DESK, &[("count", true)]).await;
    let answer = aap.play(&session, call_once("c1", "count", json!({}))).await;
    result_of(messages(&answer), "c1").clone()
}

#[tokio::test]
async fn token_acts_for_its_subject_with_its_scopes() {
    let issuer = OidcProviderProcess::start().await;
    let gateway = start(issuer.setting(""), &clock()).await;
    let (writer, reader) = (issuer.token(JWT, "notes:write").await, issuer.token(JWT, "notes:read").await);
    assert_eq!(counted(&gateway, &writer).await, "counted");
    assert_eq!(gateway.audit().await.pop().unwrap().caller, issuer.booker());
    assert_eq!(counted(&gateway, &reader).await, NOT_GRANTED);
    assert_eq!(runs(&gateway), 1);

    // Both tokens have the same subject, so they share sessions and grants.
    let made = gateway.aap_with_key(&writer).get("/sessions").await.1;
    assert_eq!(gateway.aap_with_key(&reader).get("/sessions").await.1, made);
    let (agent, scopes) = (AgentName::parse(DESK).unwrap(), vec![ScopeId::parse("notes:write").unwrap()]);
    let grant =
        gateway.engine().access().create_grant(issuer.booker(), agent, scopes, GrantTerm::Once, Principal::Operator);
    grant.await.unwrap();
    assert_eq!(counted(&gateway, &reader).await, "counted");
    assert_eq!(issuer.asked("/jwks").await, 1, "its keys are fetched once");
    assert_eq!(gateway.key(&[]).await.aap.get("/sessions").await.0, 200, "API keys still work");
}

#[tokio::test]
async fn signature_algorithm_is_accepted_only_if_the_issuer_setting_allows_it() {
    let issuer = OidcProviderProcess::start().await;
    let audiences: Vec<_> =
        ["RS256", "PS256", "ES256", "ES384", "EdDSA"].iter().map(|it| format!("https://api.example/{it}")).collect();
    let allow = |algorithms: &str| -> IssuerSetting {
        let text = format!("url = \"{}\"\naudience = {audiences:?}\n{algorithms}", issuer.url);
        toml::from_str(&text).unwrap()
    };
    let usual = start(allow(""), &clock()).await;
    let all = start(allow("algorithms = [\"RS256\", \"PS256\", \"ES256\", \"ES384\", \"EdDSA\"]"), &clock()).await;
    let other = start(allow("algorithms = [\"RS512\"]"), &clock()).await;
    for audience in &audiences {
        let token = issuer.token(audience, "notes:read").await;
        assert_eq!(status(&all, &token).await, welcome(), "{audience}");
        assert_eq!(status(&other, &token).await, unauthorized(), "{audience}");
        let is_usual = !audience.ends_with("PS256") && !audience.ends_with("ES384");
        assert_eq!(status(&usual, &token).await, if is_usual { welcome() } else { unauthorized() }, "{audience}");
    }
}

#[tokio::test]
async fn invalid_token_is_refused_and_never_treated_as_anonymous() {
    let issuer = OidcProviderProcess::start().await;
    // The server is open to everyone, so only the invalid token causes the refusal.
    let gateway = builder(issuer.setting("")).clock(&clock()).open_to_anyone().start().await;
    assert_eq!(gateway.aap().get("/sessions").await.0, 200);
    let now = SystemClock.now().as_millis() / 1000;
    let plain = issuer.forge("own", json!({}), json!({})).await;
    assert_eq!(status(&gateway, &plain).await, welcome(), "the unchanged token is accepted");

    let id_token = json!({"typ": "JWT"});
    let by_its_own_key = [
        (json!({}), json!({"exp": now - 61}), "expired"),
        (json!({}), json!({"exp": null}), "without an end"),
        (json!({}), json!({"nbf": now + 100}), "not yet"),
        (json!({}), json!({"iat": now + 100}), "from the future"),
        (json!({}), json!({"aud": "https://other.example"}), "another audience"),
        (json!({}), json!({"aud": null}), "no audience"),
        (json!({}), json!({"aud": format!("{JWT}/")}), "a similar audience"),
        (json!({}), json!({"iss": "https://other.example"}), "another issuer"),
        (json!({}), json!({"iss": format!("{}/", issuer.url)}), "a similar issuer"),
        (json!({}), json!({"iss": null}), "no issuer"),
        (json!({}), json!({"sub": null, "client_id": null}), "nobody"),
        (json!({}), json!({"cnf": {"jkt": "x"}}), "bound to another key"),
        (id_token.clone(), json!({"nonce": "n", "aud": JWT}), "an ID token"),
        (json!({"typ": "logout+jwt"}), json!({}), "a logout token"),
        (json!({"crit": ["exp"]}), json!({}), "critical extensions"),
        (json!({"kid": "nobody's"}), json!({}), "an unknown key"),
        (json!({"alg": "PS256"}), json!({}), "an algorithm that is not allowed"),
        (json!({"alg": "ES256", "kid": "RS256-1"}), json!({}), "an algorithm that is not the key's"),
    ];
    for (header, claims, what) in by_its_own_key {
        let token = issuer.forge("own", header, claims).await;
        assert_eq!(status(&gateway, &token).await, unauthorized(), "{what}");
    }
    let by_others = [
        ("none", json!({"alg": "none"}), "alg none without a signature"),
        ("none", json!({}), "no signature"),
        ("public", json!({"alg": "HS256"}), "the public key as a shared secret"),
        ("public", json!({"alg": "HS256", "kid": null}), "the public key as a shared secret, unnamed"),
        ("public", json!({}), "an HMAC declared as RSA"),
        ("foreign", json!({}), "a foreign key under this key's id"),
        ("foreign", json!({"kid": null}), "another's key"),
        (
            "foreign",
            json!({"jwk": {"kty": "RSA"}, "jku": "https://other.example/jwks"}),
            "a foreign key named in the header",
        ),
    ];
    for (key, header, what) in by_others {
        let token = issuer.forge(key, header, json!({})).await;
        assert_eq!(status(&gateway, &token).await, unauthorized(), "{what}");
    }
    let (head, rest) = plain.split_once('.').unwrap();
    let (claims, signature) = rest.split_once('.').unwrap();
    let other = issuer.forge("own", json!({}), json!({"sub": "root"})).await;
    let other = other.split('.').nth(1).unwrap();
    for garbage in [
        "garbage",
        "nk_garbage",
        "a.b.c",
        "...",
        &format!("{head}.{other}.{signature}"),
        &format!("{head}.{claims}."),
        &format!("{head}.{claims}"),
        &format!("{plain}="),
        &format!("{plain}.{plain}"),
        &"x".repeat(17_000),
    ] {
        assert_eq!(status(&gateway, garbage).await, unauthorized(), "{garbage}");
        assert_eq!(
            gateway.aap_with_key(garbage).get("/sessions").await.0,
            401,
            "the caller does not count as anonymous"
        );
    }
    assert!(issuer.asked("/jwks").await <= 2, "invalid tokens do not cause further requests for keys");
    assert_eq!(runs(&gateway), 0);
}

#[tokio::test]
async fn cached_token_is_refused_after_its_expiry() {
    let (issuer, clock) = (OidcProviderProcess::start().await, clock());
    let gateway = start(issuer.setting("leeway_seconds = 10"), &clock).await;
    let token = issuer.token(JWT, "notes:read").await;
    assert_eq!(status(&gateway, &token).await, welcome());
    clock.advance(Duration::from_secs(305));
    assert_eq!(status(&gateway, &token).await, welcome(), "clocks differ");
    clock.advance(Duration::from_secs(10));
    assert_eq!(status(&gateway, &token).await, unauthorized());
}

#[tokio::test]
async fn unknown_key_id_triggers_a_limited_key_fetch_that_drops_old_keys() {
    let (issuer, clock) = (OidcProviderProcess::start().await, clock());
    let gateway = start(issuer.setting(""), &clock).await;
    let old = issuer.token(JWT, "notes:read").await;
    assert_eq!(status(&gateway, &old).await, welcome());
    issuer.tell("rotate").await;
    let new = issuer.token(JWT, "notes:read").await;
    // The keys were just fetched, so an unknown key id causes no further fetch.
    for _ in 0..20 {
        assert_eq!(status(&gateway, &new).await, unauthorized());
    }
    assert_eq!(issuer.asked("/jwks").await, 1);
    assert_eq!(status(&gateway, &old).await, welcome(), "the withdrawal of its key is not known yet");

    clock.advance(Duration::from_secs(30));
    // All waiting checks share one request.
    let waiting = (0..20).map(|_| status(&gateway, &new));
    for answer in futures_util::future::join_all(waiting).await {
        assert_eq!(answer, welcome());
    }
    assert_eq!(issuer.asked("/jwks").await, 2);
    assert_eq!(status(&gateway, &old).await, unauthorized());
    for number in 0..20 {
        let unknown = issuer.forge("own", json!({"kid": format!("key {number}")}), json!({})).await;
        assert_eq!(status(&gateway, &unknown).await, unauthorized());
    }
    assert_eq!(issuer.asked("/jwks").await, 2);
}

#[tokio::test]
async fn token_of_a_withdrawn_issuer_key_is_refused_after_the_next_key_refresh() {
    let (issuer, clock) = (OidcProviderProcess::start().await, clock());
    let gateway = start(issuer.setting(""), &clock).await;
    let later = SystemClock.now().as_millis() / 1000 + 3600;
    let token = issuer.forge("own", json!({}), json!({"exp": later})).await;
    assert_eq!(status(&gateway, &token).await, welcome());
    issuer.tell("rotate").await;
    clock.advance(Duration::from_secs(600));
    assert_eq!(status(&gateway, &token).await, unauthorized());
}

#[tokio::test]
async fn unreachable_issuer_makes_new_tokens_unverifiable_not_invalid() {
    let (issuer, clock) = (OidcProviderProcess::start().await, clock());
    let gateway = start(issuer.setting(""), &clock).await;
    let later = SystemClock.now().as_millis() / 1000 + 24 * 3600;
    let [one, two, three] =
        ["one", "two", "three"].map(|sub| issuer.forge("own", json!({}), json!({"sub": sub, "exp": later})));
    let (one, two, three) = (one.await, two.await, three.await);

    issuer.tell("down").await;
    assert_eq!(status(&gateway, &one).await, unavailable());
    let response = gateway.aap_with_key(&one).request(nuncio_testkit::Method::GET, "/sessions").send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "5");
    assert_eq!(status(&gateway, "garbage").await, unauthorized(), "a malformed token is refused without the issuer");
    issuer.tell("up").await;
    assert_eq!(status(&gateway, &one).await, unavailable(), "the issuer is not asked at every request");
    clock.advance(Duration::from_secs(5));
    assert_eq!(status(&gateway, &one).await, welcome());

    // Cached keys are used while the issuer is unreachable.
    issuer.tell("down").await;
    clock.advance(Duration::from_secs(1800));
    assert_eq!(status(&gateway, &one).await, welcome());
    assert_eq!(status(&gateway, &two).await, welcome());
    let unknown = issuer.forge("own", json!({"kid": "new"}), json!({"exp": later})).await;
    assert_eq!(status(&gateway, &unknown).await, unavailable(), "the unknown key may be a new key of the issuer");
    clock.advance(Duration::from_secs(1800));
    for token in [&one, &three] {
        assert_eq!(status(&gateway, token).await, unavailable(), "the cached keys may have been withdrawn");
    }
}

#[tokio::test]
async fn clients_that_disconnect_do_not_cause_repeated_issuer_requests() {
    let issuer = OidcProviderProcess::start().await;
    let gateway = start(issuer.setting(""), &clock()).await;
    let token = issuer.token(JWT, "notes:read").await;
    issuer.tell("hold").await;
    let head = format!("GET /aap/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    let metadata = "/.well-known/oauth-authorization-server";
    for _ in 0..5 {
        let mut hasty = TcpStream::connect(gateway.address()).await.unwrap();
        hasty.write_all(head.as_bytes()).await.unwrap();
        eventually("the issuer is asked", async || (issuer.asked(metadata).await > 0).then_some(())).await;
        drop(hasty);
    }
    let (patient, ()) = tokio::join!(status(&gateway, &token), issuer.tell("go"));
    assert_eq!(patient, welcome());
    assert_eq!((issuer.asked(metadata).await, issuer.asked("/jwks").await), (1, 1));
}

#[tokio::test]
async fn concurrent_introspections_are_limited_even_if_clients_disconnect() {
    // A server that accepts connections and never responds.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "secret").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let text = format!(
        "url = \"{url}\"\naudience = \"x\"\nintrospection = {{ url = \"{url}/ask\", client_id = \"x\", client_secret_file = {file:?} }}"
    );
    let fetch = GuardedFetch::new(AllowedAddresses::parse([]).unwrap(), false, None).unwrap();
    let setting = toml::from_str(&text).unwrap();
    let issuers = Arc::new(TrustedIssuers::open(&[setting], Arc::new(fetch), Arc::new(SystemClock)).unwrap());
    let ask = |number: usize| {
        let issuers = Arc::clone(&issuers);
        tokio::spawn(async move { issuers.check(&format!("opaque-{number}")).await })
    };
    let mut waiting = Vec::new();
    for number in 0..32 {
        let asking = ask(number);
        waiting.push(silent.accept().await.unwrap());
        // A client that disconnects does not free its slot.
        asking.abort();
    }
    let one_more = ask(32).await.unwrap();
    assert!(matches!(&one_more, TokenCheckResult::Unverifiable(why) if why.contains("too many")), "{one_more:?}");
}

#[tokio::test]
async fn metadata_naming_another_issuer_is_refused() {
    let issuer = OidcProviderProcess::start().await;
    let alias = issuer.url.replace("127.0.0.1", "localhost");
    let setting = IssuerSetting { url: alias.clone().try_into().unwrap(), ..issuer.setting("") };
    let gateway = start(setting, &clock()).await;
    let token = issuer.forge("own", json!({}), json!({"iss": alias})).await;
    assert_eq!(status(&gateway, &token).await, unavailable());
    assert_eq!(issuer.asked("/jwks").await, 0);
}

fn asking(issuer: &OidcProviderProcess, folder: &tempfile::TempDir, secret: &str) -> IssuerSetting {
    let file = folder.path().join("secret");
    std::fs::write(&file, secret).unwrap();
    issuer.setting(&format!("introspection = {{ client_id = \"nuncio\", client_secret_file = {file:?} }}"))
}

#[tokio::test]
async fn opaque_token_is_introspected_and_the_result_cached_for_a_minute() {
    let (issuer, clock, folder) = (OidcProviderProcess::start().await, clock(), tempfile::tempdir().unwrap());
    let gateway = start(asking(&issuer, &folder, "asks +/= much\n"), &clock).await;
    let token = issuer.token(OPAQUE, "notes:write").await;
    assert_eq!(counted(&gateway, &token).await, "counted");
    assert_eq!(gateway.audit().await.pop().unwrap().caller, issuer.booker());
    let reader = issuer.token(OPAQUE, "notes:read").await;
    assert_eq!(counted(&gateway, &reader).await, NOT_GRANTED);
    assert_eq!(issuer.asked("/token/introspection").await, 2, "once a token");

    issuer.form("/token/revocation", &format!("token={token}")).await;
    assert_eq!(status(&gateway, &token).await, welcome(), "the issuer's answer is cached for a minute");
    clock.advance(Duration::from_secs(60));
    assert_eq!(status(&gateway, &token).await, unauthorized());
    assert_eq!(status(&gateway, &reader).await, welcome(), "other tokens are not affected");
    let asked = issuer.asked("/token/introspection").await;
    for _ in 0..10 {
        assert_eq!(status(&gateway, &token).await, unauthorized());
    }
    assert_eq!(
        issuer.asked("/token/introspection").await,
        asked,
        "the issuer is not asked again about an unknown token"
    );

    let elsewhere = start(
        IssuerSetting {
            audience: toml::from_str::<AudienceSetting>("audience = \"x\"").unwrap().audience,
            ..asking(&issuer, &folder, "asks +/= much")
        },
        &clock,
    )
    .await;
    assert_eq!(status(&elsewhere, &reader).await, unauthorized(), "the token has another audience");
}

#[derive(serde::Deserialize)]
struct AudienceSetting {
    audience: nuncio_auth::settings::AcceptedAudiences,
}

#[tokio::test]
async fn opaque_token_is_invalid_without_introspection_and_unverifiable_if_it_fails() {
    let (issuer, clock, folder) = (OidcProviderProcess::start().await, clock(), tempfile::tempdir().unwrap());
    let token = issuer.token(OPAQUE, "notes:write").await;
    let without = start(issuer.setting(""), &clock).await;
    assert_eq!(status(&without, &token).await, unauthorized());
    let mistaken = start(asking(&issuer, &folder, "wrong"), &clock).await;
    assert_eq!(status(&mistaken, &token).await, unavailable());
    issuer.tell("down").await;
    let down = start(asking(&issuer, &folder, "asks +/= much"), &clock).await;
    assert_eq!(status(&down, &token).await, unavailable());
    for own in ["nk_unknown", "nsk_unknown"] {
        assert_eq!(status(&down, own).await, unauthorized(), "API keys are not sent to an issuer");
    }
    let missing = IssuerSetting { introspection: asking(&issuer, &folder, "x").introspection, ..issuer.setting("") };
    std::fs::remove_file(folder.path().join("secret")).unwrap();
    let refused = builder(missing).try_start().await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ConfigInvalid);
    assert!(refused.message.contains("cannot be read"), "{refused}");
}

#[tokio::test]
async fn issuer_token_on_a_loopback_server_without_keys_identifies_its_subject() {
    let issuer = OidcProviderProcess::start().await;
    let gateway = builder(issuer.setting("")).clock(&clock()).start().await;
    let reader = issuer.token(JWT, "notes:read").await;
    assert_eq!(counted(&gateway, &reader).await, NOT_GRANTED, "a caller with a token counts as its subject");
    assert_eq!(gateway.audit().await.pop().unwrap().caller, issuer.booker());
    assert_eq!(status(&gateway, "garbage").await, unauthorized());
    assert_eq!(status(&gateway, "nk_any").await, unauthorized(), "an API key is refused although none exists");
    assert_eq!(counted(&gateway, "").await, "counted", "a request without a token counts as local");
    assert_eq!(gateway.aap().get("/sessions").await.0, 200);
    assert_eq!(gateway.audit().await.pop().unwrap().caller, Principal::Local);
}

#[tokio::test]
async fn protected_resource_metadata_names_the_issuers() {
    let issuer = OidcProviderProcess::start().await;
    let gateway = start(issuer.setting(""), &clock()).await;
    let ask = async |gateway: &Gateway, host: &str| {
        let path = "/.well-known/oauth-protected-resource";
        gateway.raw(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await.unwrap()
    };
    let told = ask(&gateway, "agents.example").await;
    assert_eq!(told.status, 200);
    let document = json!({
        "resource": gateway.server().url(),
        "authorization_servers": [issuer.url],
        "scopes_supported": ["notes:read", "notes:write"],
        "bearer_methods_supported": ["header"],
    });
    assert_eq!(told.json(), document);
    let without = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    assert_eq!(ask(&without, "localhost").await.status, 404);
}
