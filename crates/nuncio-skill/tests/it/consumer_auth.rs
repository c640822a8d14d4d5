//! Tests of the skill client's authentication: API keys, OAuth tokens, browser logins, signatures.

use std::sync::Arc;

use base64::Engine as _;
use nuncio_skill::client::oauth::{MemoryOAuthTokenStore, OAuthLoginOptions};
use nuncio_skill::client::{
    ConsumerErrorReason, InvocationProgress, ProgressCallback, SecretString, SkillCall, SkillInvocationCredential,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use url::Url;

use crate::consumer_provider::{
    ProviderRequest, TestConsumer, TestProvider, TestReply, call, descriptor, index, provider, target,
};

const CALL: &str = "POST /call";

fn with(credential: SkillInvocationCredential) -> SkillCall {
    SkillCall { credential, ..call() }
}

fn secret() -> SecretString {
    SecretString::new("hunter22")
}

/// Starts a provider whose skill requires the authentication `auth`.
async fn provider_requiring(
    auth: Value,
    odd: impl Fn(&ProviderRequest, usize) -> Option<TestReply> + Send + Sync + 'static,
) -> TestProvider {
    provider(move |request, before| {
        let mut skill = descriptor();
        skill["auth"] = auth.clone();
        odd(request, before).or_else(|| (request.line() == "GET /b.json").then(|| TestReply::json(200, &skill)))
    })
    .await
}

fn oauth2() -> Value {
    json!({"type": "oauth2", "oauth2": {
        "authorization_url": "https://login.example/authorize?tenant=1", "token_url": "https://login.example/token",
        "scopes": {"read:forecast": "Read", "book:table": "Book"},
    }})
}

#[tokio::test]
async fn api_key_is_sent_in_the_header_that_the_descriptor_declares() {
    for (header, sent_as, value) in
        [("X-Hotel-Key", "x-hotel-key", "hunter22"), ("Authorization", "authorization", "Bearer hunter22")]
    {
        let good = provider_requiring(json!({"type": "api_key", "header": header}), |_, _| None).await;
        let world = TestConsumer::new(&[("good.example", &good)]);
        world.call(&with(SkillInvocationCredential::ApiKey(secret()))).await.unwrap();
        assert_eq!(good.got(CALL)[0].header(sent_as), Some(value));
        assert_eq!(good.got("GET /status/e-1")[0].header(sent_as), Some(value), "also to know what became of it");
        assert!(good.got("GET /b.json")[0].header("authorization").is_none(), "what is public is read without");
    }
}

#[tokio::test]
async fn call_with_missing_or_wrong_kind_of_credential_fails_before_invocation() {
    let custom = json!({"type": "custom", "custom": {"instructions": "Sign it."}});
    for (auth, credential, reason) in [
        (
            json!({"type": "api_key", "header": "X-Key"}),
            SkillInvocationCredential::None,
            ConsumerErrorReason::CredentialMissing,
        ),
        (
            json!({"type": "api_key", "header": "X-Key"}),
            SkillInvocationCredential::Token(secret()),
            ConsumerErrorReason::CredentialUnfit,
        ),
        (oauth2(), SkillInvocationCredential::None, ConsumerErrorReason::CredentialMissing),
        (oauth2(), SkillInvocationCredential::ApiKey(secret()), ConsumerErrorReason::CredentialUnfit),
        (custom.clone(), SkillInvocationCredential::None, ConsumerErrorReason::CredentialMissing),
        (custom, SkillInvocationCredential::ApiKey(secret()), ConsumerErrorReason::CredentialUnfit),
    ] {
        let good = provider_requiring(auth.clone(), |_, _| None).await;
        let error = TestConsumer::new(&[("good.example", &good)]).call(&with(credential)).await.unwrap_err();
        assert_eq!((error.reason, error.code.as_str(), good.hits(CALL)), (reason, "AUTH_REQUIRED", 0));
        assert_eq!(error.details.as_ref().unwrap()["required_auth_type"], auth["type"]);
    }
}

#[tokio::test]
async fn credential_is_not_sent_to_skill_without_authentication() {
    let good = provider_requiring(json!({"type": "none"}), |_, _| None).await;
    TestConsumer::new(&[("good.example", &good)])
        .call(&with(SkillInvocationCredential::ApiKey(secret())))
        .await
        .unwrap();
    assert!(!good.got(CALL)[0].head.contains("hunter22"));
}

#[tokio::test]
async fn hidden_skill_is_found_only_with_an_api_key() {
    let hidden = provider(|request, _| {
        let knows = request.header("authorization") == Some("Bearer hunter22");
        let mut empty = index();
        empty["skills"] = json!([]);
        match request.line() {
            "GET /.well-known/skill-sharing" if !knows => Some(TestReply::json(200, &empty)),
            "GET /b.json" if !knows => Some(TestReply::text(404, "")),
            "GET /b.json" => {
                let mut skill = descriptor();
                skill["auth"] = json!({"type": "api_key", "header": "X-Key"});
                Some(TestReply::json(200, &skill))
            }
            _ => None,
        }
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &hidden)]);
    assert_eq!(world.invoke().await.unwrap_err().reason, ConsumerErrorReason::NotListed);
    assert_eq!(world.call(&with(SkillInvocationCredential::ApiKey(secret()))).await.unwrap(), json!({"text": "hi"}));
}

#[tokio::test]
async fn signature_of_custom_authentication_covers_timestamp_nonce_and_body() {
    let good = provider_requiring(json!({"type": "custom", "custom": {"instructions": "Sign it."}}), |_, _| None).await;
    TestConsumer::new(&[("good.example", &good)])
        .call(&with(SkillInvocationCredential::Signature(secret())))
        .await
        .unwrap();
    let sent = &good.got(CALL)[0];
    let (time, nonce) = (sent.header("x-signature-timestamp").unwrap(), sent.header("x-signature-nonce").unwrap());
    assert_eq!(time, "1794740400");
    assert!(nonce.len() >= 8);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"hunter22");
    let tag = ring::hmac::sign(&key, format!("{time}.{nonce}.{}", sent.body).as_bytes());
    let tag: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(sent.header("x-signature"), Some(format!("v1={tag}").as_str()));
    assert!(!sent.head.contains("hunter22") && !sent.body.contains("hunter22"));
}

/// Starts a token endpoint that issues numbered tokens.
async fn issuer() -> TestProvider {
    TestProvider::start(|request, before| match request.line() {
        "POST /token" => {
            let token = json!({"access_token": format!("token-{before}"), "token_type": "Bearer", "expires_in": 3600,
                "refresh_token": format!("refresh-{before}")});
            TestReply::json(200, &token)
        }
        _ => TestReply::text(404, ""),
    })
    .await
}

fn form(sent: &ProviderRequest) -> Value {
    let pairs = url::form_urlencoded::parse(sent.body.as_bytes());
    Value::Object(pairs.map(|(name, value)| (name.into_owned(), json!(value))).collect())
}

fn client() -> SkillInvocationCredential {
    SkillInvocationCredential::Client { id: "my app".to_owned(), secret: SecretString::new("s:1"), scopes: Vec::new() }
}

#[tokio::test]
async fn oauth_client_token_is_reused_and_replaced_after_401() {
    let refusing = provider_requiring(oauth2(), |request, _| {
        let stale = request.header("authorization") == Some("Bearer token-0");
        let first = request.line() == CALL && stale;
        first.then(|| TestReply::text(401, ""))
    });
    let (good, issuer) = (refusing.await, issuer().await);
    let world = TestConsumer::new(&[("good.example", &good), ("login.example", &issuer)]);
    world.call(&with(client())).await.unwrap();
    world.call(&with(client())).await.unwrap();
    let asked = issuer.got("POST /token");
    assert_eq!(asked.len(), 2, "one, and one more because the first was refused");
    let expected = json!({"grant_type": "client_credentials", "scope": "book:table read:forecast", "resource": "https://good.example"});
    assert_eq!(form(&asked[0]), expected);
    // Base64 of `my+app:s%3A1`.
    assert_eq!(asked[0].header("authorization"), Some("Basic bXkrYXBwOnMlM0Ex"));
    let used: Vec<_> = good.got(CALL).iter().map(|sent| sent.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(used, ["Bearer token-0", "Bearer token-1", "Bearer token-1"]);
    assert!(good.lines().iter().flat_map(|line| good.got(line)).all(|sent| !sent.head.contains("Basic")));
}

#[tokio::test]
async fn refusal_or_invalid_response_of_the_token_endpoint_fails_the_call() {
    let denial = |status: u16, body: &'static str| async move {
        let good = provider_requiring(oauth2(), |_, _| None).await;
        let issuer = TestProvider::start(move |_, _| TestReply::Whole(status, vec![], body.to_owned())).await;
        let world = TestConsumer::new(&[("good.example", &good), ("login.example", &issuer)]);
        let error = world.call(&with(client())).await.unwrap_err();
        assert_eq!((error.reason, good.hits(CALL)), (ConsumerErrorReason::TokenRefused, 0));
        error.to_string()
    };
    assert!(denial(401, r#"{"error":"invalid_client"}"#).await.contains("id and secret"));
    assert!(denial(500, "<html>").await.contains("answered 500"));
    for odd in [
        "{}",
        r#"{"access_token":"","token_type":"bearer"}"#,
        r#"{"access_token":"a b","token_type":"bearer"}"#,
        r#"{"access_token":"a\r\nx: y","token_type":"bearer"}"#,
        r#"{"access_token":"a","token_type":"mac"}"#,
    ] {
        denial(200, odd).await;
    }
}

#[tokio::test]
async fn token_request_refused_with_resource_parameter_is_repeated_without_it() {
    let good = provider_requiring(oauth2(), |_, _| None).await;
    let issuer = TestProvider::start(|request, _| {
        if request.body.contains("resource=") {
            return TestReply::json(400, &json!({"error": "invalid_target"}));
        }
        TestReply::json(200, &json!({"access_token": "t", "token_type": "bearer"}))
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good), ("login.example", &issuer)]);
    world.call(&with(client())).await.unwrap();
    assert_eq!(issuer.hits("POST /token"), 2);
}

#[tokio::test]
async fn oauth_token_of_one_endpoint_is_not_sent_to_another_endpoint() {
    let (good, issuer) = (provider_requiring(oauth2(), |_, _| None).await, issuer().await);
    let skill = json!({"url": "https://evil.example/call", "method": "POST", "status_url": "https://evil.example/status/{execution_id}"});
    let impostor = provider(move |request, _| {
        let mut copy = descriptor();
        copy["auth"] = oauth2();
        copy["endpoint"] = skill.clone();
        (request.line() == "GET /b.json").then(|| TestReply::json(200, &copy))
    })
    .await;
    // One consumer, whose token cache has the token of the first endpoint when it calls the second.
    let world = TestConsumer::new(&[("good.example", &good), ("evil.example", &impostor), ("login.example", &issuer)]);
    world.call(&with(client())).await.unwrap();
    assert_eq!(good.got(CALL)[0].header("authorization"), Some("Bearer token-0"));
    let target = nuncio_skill::client::SkillTarget::parse("https://evil.example/b.json").unwrap();
    world.consumer.invoke(&target, &with(client())).await.unwrap();
    assert_eq!(impostor.got(CALL)[0].header("authorization"), Some("Bearer token-1"), "a token of its own");
    assert_eq!(form(&issuer.got("POST /token")[1])["resource"], "https://evil.example");
    // Each endpoint keeps its token.
    world.call(&with(client())).await.unwrap();
    assert_eq!(good.got(CALL)[1].header("authorization"), Some("Bearer token-0"));
    assert_eq!(issuer.hits("POST /token"), 2);
}

/// Simulates a browser that requests the paths from `answer` at the client's loopback listener.
async fn browser(url: String, answer: fn(&Url) -> Vec<String>) {
    let url = Url::parse(&url).unwrap();
    let back = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
    let back = Url::parse(&back).unwrap();
    for path in answer(&url) {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", back.port().unwrap())).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
    }
}

fn query(url: &Url, name: &str) -> String {
    url.query_pairs().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no {name} in {url}")).1.into_owned()
}

#[tokio::test]
async fn tokens_of_a_browser_login_are_used_and_refreshed_after_expiry() {
    let (good, issuer) = (provider_requiring(oauth2(), |_, _| None).await, issuer().await);
    let world = TestConsumer::new(&[("good.example", &good), ("login.example", &issuer)]);
    let asked: Arc<std::sync::Mutex<Option<Url>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let watcher = ProgressCallback::new(move |progress| {
        if let InvocationProgress::Authorize { url } = progress {
            *seen.lock().unwrap() = Url::parse(url).ok();
            tokio::spawn(browser(url.clone(), |url| {
                let state = query(url, "state");
                let wrong = ["/favicon.ico", "/callback?code=stolen&state=wrong", "/callback?code=none"];
                let right = format!("/callback?code=c-1&state={state}");
                wrong.into_iter().map(str::to_owned).chain([right]).collect()
            }));
        }
    });
    let consumer =
        world.consumer.clone().with_tokens(Arc::new(MemoryOAuthTokenStore::default())).with_progress(watcher);
    let described = consumer.describe(&target(), &SkillInvocationCredential::None).await.unwrap();
    let login =
        OAuthLoginOptions { client_id: "app".to_owned(), client_secret: None, scopes: vec!["book:table".to_owned()] };
    consumer.login(&described, &login).await.unwrap();

    let url = asked.lock().unwrap().clone().unwrap();
    assert_eq!(url.host_str(), Some("login.example"));
    let expected = [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "app"),
        ("scope", "book:table"),
        ("code_challenge_method", "S256"),
        ("resource", "https://good.example"),
    ];
    for (name, value) in expected {
        assert_eq!(query(&url, name), value, "{name}");
    }
    let sent = form(&issuer.got("POST /token")[0]);
    assert_eq!(
        (&sent["grant_type"], &sent["code"], &sent["client_id"]),
        (&json!("authorization_code"), &json!("c-1"), &json!("app"))
    );
    assert_eq!(sent["redirect_uri"], query(&url, "redirect_uri"));
    let verifier = ring::digest::digest(&ring::digest::SHA256, sent["code_verifier"].as_str().unwrap().as_bytes());
    assert_eq!(base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(verifier), query(&url, "code_challenge"));

    let run = async || {
        let mut execution = consumer.submit(&described, &call()).await.unwrap();
        consumer.follow(&mut execution).await.unwrap()
    };
    run().await;
    assert_eq!(good.got(CALL)[0].header("authorization"), Some("Bearer token-0"), "no credential is needed any more");
    world.clock.leap(std::time::Duration::from_secs(3590));
    run().await;
    let refreshed = form(&issuer.got("POST /token")[1]);
    let expected = json!({"grant_type": "refresh_token", "refresh_token": "refresh-0", "client_id": "app", "resource": "https://good.example"});
    assert_eq!(refreshed, expected);
    assert_eq!(good.got(CALL)[1].header("authorization"), Some("Bearer token-1"));
}

#[tokio::test]
async fn denied_browser_login_fails_without_a_token_request() {
    let (good, issuer) = (provider_requiring(oauth2(), |_, _| None).await, issuer().await);
    let world = TestConsumer::new(&[("good.example", &good), ("login.example", &issuer)]);
    let watcher = ProgressCallback::new(|progress| {
        if let InvocationProgress::Authorize { url } = progress {
            tokio::spawn(browser(url.clone(), |url| {
                vec![format!("/callback?error=access_denied&state={}", query(url, "state"))]
            }));
        }
    });
    let consumer = world.consumer.clone().with_progress(watcher);
    let described = consumer.describe(&target(), &SkillInvocationCredential::None).await.unwrap();
    let error = consumer
        .login(&described, &OAuthLoginOptions { client_id: "app".to_owned(), ..OAuthLoginOptions::default() })
        .await
        .unwrap_err();
    assert_eq!(error.reason, ConsumerErrorReason::TokenRefused);
    assert!(error.message.contains("access_denied"), "{error}");
    assert!(issuer.lines().is_empty());
}
