//! Callers identified by a DID signature, and the error of each faulty signature.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use nuncio_anp::client::RequestSigner as _;
use nuncio_auth::did::HostDids as _;
use nuncio_auth::{DidAuthenticationResult, RequestHead};
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::AuthenticationMethod;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use nuncio_identity::challenge::IssuedAccessToken;
use nuncio_identity::http_signature::{SignatureParameters, sign_covering};
use nuncio_identity::legacy::{LegacyHeaderVersion, UnverifiedLegacyHeader};
use nuncio_identity::{DidAuthError, DidUrl, NewDidDocument, SignableRequest};
use nuncio_server::admin::AdminCommand;
use nuncio_server::dids::DidSubject;
use nuncio_testkit::{Gateway, ManualClock};
use serde_json::{Value, json};

use super::peer::{DidHost, DidHostReply, ForeignDid};
use super::{desk_did, desk_name, dids, rpc_status};
use crate::agents::{DESK, count, desk, runs, scope};

const ALL: &[&str] = &["@method", "@target-uri", "@authority", "content-digest"];

#[derive(Debug, Clone)]
pub(crate) struct SignedTestRequest {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn outgoing(url: &str, body: Option<&'static str>) -> FetchRequest {
    FetchRequest {
        method: "POST",
        url: url.parse().unwrap(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.map(Bytes::from),
        trust: AddressTrust::Stranger,
        timeout: Duration::from_secs(10),
        max_bytes: 10_000,
    }
}

impl SignedTestRequest {
    pub(crate) fn of(outgoing: &FetchRequest) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in &outgoing.headers {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap());
        }
        let query = outgoing.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Self {
            method: outgoing.method.parse().unwrap(),
            uri: format!("{}{query}", outgoing.url.path()).parse().unwrap(),
            headers,
            body: outgoing.body.as_deref().unwrap_or_default().to_vec(),
        }
    }

    pub(crate) async fn check(&self, gateway: &Gateway) -> DidAuthenticationResult {
        let head = RequestHead { method: &self.method, uri: &self.uri, headers: &self.headers };
        gateway.server().did_auth().check(head, &self.body).await
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.headers.insert(name, value.parse().unwrap());
    }
}

#[derive(Clone)]
pub(crate) struct SigningParameters {
    pub(crate) target: String,
    pub(crate) key_id: String,
    pub(crate) created: Timestamp,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) nonce: String,
    pub(crate) components: &'static [&'static str],
    pub(crate) body: &'static [u8],
}

impl SigningParameters {
    pub(crate) fn for_gateway(gateway: &Gateway, someone: &ForeignDid, nonce: &str) -> Self {
        let now = gateway.engine().now();
        Self {
            target: format!("{}/probe?a=1", gateway.server().url()),
            key_id: someone.key_id(),
            created: now,
            expires: Some(now.after(Duration::from_secs(300))),
            nonce: nonce.to_owned(),
            components: ALL,
            body: b"{\"a\":1}",
        }
    }

    pub(crate) fn by(&self, someone: &ForeignDid) -> SignedTestRequest {
        let Self { target, key_id, created, expires, nonce, components, body } = self;
        let none: [(&str, &str); 0] = [];
        let request = SignableRequest { method: "POST", target_uri: target, headers: &none, body };
        let options = SignatureParameters { key_id, created: *created, expires: *expires, nonce };
        let signed = sign_covering(&request, components, &someone.key, &options).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in signed.into_fields() {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let path = target.splitn(4, '/').nth(3).unwrap();
        SignedTestRequest {
            method: Method::POST,
            uri: format!("/{path}").parse().unwrap(),
            headers,
            body: body.to_vec(),
        }
    }
}

/// The gateway that callers come to, its clock, and a host of DIDs on the same machine.
pub(crate) async fn world() -> (Gateway, ManualClock, DidHost) {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).clock(&clock).dev().start().await;
    (gateway, clock, DidHost::start().await)
}

#[track_caller]
pub(crate) fn let_in(outcome: &DidAuthenticationResult, someone: &ForeignDid) -> IssuedAccessToken {
    match outcome {
        DidAuthenticationResult::Known(caller, Some(grant)) => {
            assert_eq!(caller.principal, Principal::Did(someone.did.to_string()));
            assert_eq!(caller.authentication, AuthenticationMethod::Did);
            grant.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn refused(outcome: DidAuthenticationResult) -> DidAuthError {
    match outcome {
        DidAuthenticationResult::Refused(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn did_signature_identifies_the_caller_and_is_accepted_once() {
    let (gateway, clock, peer) = world().await;
    let ada = peer.someone("ada", clock.now());
    let sent = SigningParameters::for_gateway(&gateway, &ada, "n1").by(&ada);
    let grant = let_in(&sent.check(&gateway).await, &ada);
    assert_eq!(grant.expires_in, Some(3600));
    assert_eq!(refused(sent.check(&gateway).await).error_code(), "invalid_nonce", "the nonce was already used");
    let_in(&SigningParameters::for_gateway(&gateway, &ada, "n2").by(&ada).check(&gateway).await, &ada);
    assert_eq!(peer.asked(), 1, "the document is fetched once");
}

#[tokio::test]
async fn request_without_did_credentials_is_treated_as_unsigned_not_as_an_error() {
    let (gateway, ..) = world().await;
    let mut sent = SignedTestRequest::of(&outgoing("http://localhost/probe", Some("{}")));
    assert!(matches!(sent.check(&gateway).await, DidAuthenticationResult::Absent));
    sent.set("authorization", "Basic YTpi");
    assert!(
        matches!(sent.check(&gateway).await, DidAuthenticationResult::Absent),
        "another scheme is not a DID credential"
    );
    sent.set("authorization", "Bearer nk_something");
    let fault = refused(sent.check(&gateway).await);
    assert_eq!((fault.status(), fault.error_code()), (401, "invalid_access_token"));
}

type SignatureMistakeCase = (&'static str, fn(&mut SigningParameters), fn(&mut SignedTestRequest), u16, &'static str);

#[tokio::test]
async fn every_fault_of_a_did_signature_gets_its_own_error_code() {
    let (gateway, clock, peer) = world().await;
    let ada = peer.someone("ada", clock.now());
    clock.advance(Duration::from_secs(1000));
    let same: fn(&mut SigningParameters) = |_| {};
    let sent: fn(&mut SignedTestRequest) = |_| {};
    let mistakes: Vec<SignatureMistakeCase> = vec![
        ("no method", |it| it.components = &["@target-uri", "content-digest"], sent, 401, "invalid_request"),
        ("no target", |it| it.components = &["@method", "content-digest"], sent, 401, "invalid_request"),
        ("no body", |it| it.components = &["@method", "@target-uri"], sent, 401, "invalid_content_digest"),
        ("another body", same, |it| it.body.push(b' '), 401, "invalid_content_digest"),
        ("no body at all", same, |it| it.body.clear(), 401, "invalid_content_digest"),
        ("another method", same, |it| it.method = Method::PUT, 401, "invalid_signature"),
        ("another query", same, |it| it.uri = "/probe?a=2".parse().unwrap(), 401, "invalid_signature"),
        ("another path", same, |it| it.uri = "/Probe?a=1".parse().unwrap(), 401, "invalid_signature"),
        ("another host", |it| it.target = it.target.replace("localhost", "127.0.0.1"), sent, 401, "invalid_signature"),
        (
            "old",
            |it| it.created = Timestamp::from_millis(it.created.as_millis() - 301_000),
            sent,
            401,
            "invalid_timestamp",
        ),
        (
            "future",
            |it| it.created = Timestamp::from_millis(it.created.as_millis() + 61_000),
            sent,
            401,
            "invalid_timestamp",
        ),
        (
            "over",
            |it| it.expires = Some(Timestamp::from_millis(it.created.as_millis() - 1000)),
            sent,
            401,
            "invalid_timestamp",
        ),
        ("no nonce", |it| it.nonce = String::new(), sent, 401, "invalid_nonce"),
        ("no fragment", |it| it.key_id = it.key_id.replace("#key-1", ""), sent, 401, "invalid_verification_method"),
        (
            "no such key",
            |it| it.key_id = it.key_id.replace("#key-1", "#key-2"),
            sent,
            401,
            "invalid_verification_method",
        ),
        ("no DID", |it| it.key_id = "did:web:example.com#key-1".to_owned(), sent, 401, "invalid_did"),
        ("no signature", same, |it| drop(it.headers.remove("signature")), 401, "invalid_request"),
        ("no input", same, |it| drop(it.headers.remove("signature-input")), 401, "invalid_request"),
        ("garbage", same, |it| it.set("signature-input", "sig1=garbage"), 401, "invalid_request"),
        ("no digest", same, |it| drop(it.headers.remove("content-digest")), 401, "invalid_content_digest"),
        (
            "unsigned parameters",
            same,
            |it| {
                let input = it.headers["signature-input"].to_str().unwrap().to_owned() + ";tag=\"x\"";
                it.set("signature-input", &input);
            },
            401,
            "invalid_signature",
        ),
    ];
    for (number, (name, before, after, status, word)) in mistakes.into_iter().enumerate() {
        let mut signing = SigningParameters::for_gateway(&gateway, &ada, &format!("n{number}"));
        before(&mut signing);
        let mut sent = signing.by(&ada);
        after(&mut sent);
        let fault = refused(sent.check(&gateway).await);
        assert_eq!((fault.status(), fault.error_code()), (status, word), "{name}: {fault}");
        // The response says how to sign correctly.
        let answer = gateway.server().did_auth().challenge(&fault);
        assert_eq!(answer.status().as_u16(), status, "{name}");
        let challenge = answer.headers()["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("DIDWba realm=\"localhost\""), "{challenge}");
        assert!(challenge.contains(&format!("error=\"{word}\"")), "{challenge}");
        assert_eq!(answer.headers()["accept-signature"], nuncio_identity::challenge::ACCEPT_SIGNATURE);
        assert_eq!(answer.headers()["cache-control"], "no-store");
    }
    // None of the refused requests consumed the nonce.
    let_in(&SigningParameters::for_gateway(&gateway, &ada, "n3").by(&ada).check(&gateway).await, &ada);
    // A signature at the edge of the time window is accepted.
    for (nonce, span) in [("e1", -300_000), ("e2", 60_000)] {
        let mut signing = SigningParameters::for_gateway(&gateway, &ada, nonce);
        signing.created = Timestamp::from_millis(signing.created.as_millis() + span);
        signing.expires = None;
        let_in(&signing.by(&ada).check(&gateway).await, &ada);
    }
}

#[tokio::test]
async fn only_authentication_keys_of_the_document_are_accepted() {
    let (gateway, clock, peer) = world().await;
    let (ada, eve) = (peer.someone("ada", clock.now()), peer.stranger("eve"));
    let signing = SigningParameters::for_gateway(&gateway, &ada, "n1");
    assert_eq!(
        refused(signing.by(&eve).check(&gateway).await).error_code(),
        "invalid_signature",
        "a key of another DID"
    );

    // A key of the document that is not listed for authentication is refused.
    let bob = peer.stranger("bob");
    let mut document = bob.document(clock.now());
    let spare = json!({
        "id": bob.did.url("key-2"), "type": "Multikey", "controller": bob.did.as_str(),
        "publicKeyMultibase": eve.key.public().to_multibase(),
    });
    document["verificationMethod"].as_array_mut().unwrap().push(spare);
    let document = signed_again(document, &bob, clock.now());
    peer.publish(&bob.did, DidHostReply::Document(document));
    let mut signing = SigningParameters::for_gateway(&gateway, &bob, "n1");
    signing.key_id = bob.did.url("key-2");
    let fault = refused(signing.by(&eve).check(&gateway).await);
    assert_eq!((fault.status(), fault.error_code()), (403, "invalid_verification_method"), "{fault}");
    let answer = gateway.server().did_auth().challenge(&fault);
    assert_eq!(answer.status(), 403);
    assert!(!answer.headers().contains_key("www-authenticate"));
    let_in(&SigningParameters::for_gateway(&gateway, &bob, "n2").by(&bob).check(&gateway).await, &bob);
}

fn signed_again(document: Value, owner: &ForeignDid, now: Timestamp) -> Value {
    use nuncio_identity::proof::{ProofEncoding, ProofOptions, sign};
    let Value::Object(mut document) = document else { panic!("no object") };
    let key_id = owner.key_id();
    let options = ProofOptions { verification_method: &key_id, created: now, domain: None, challenge: None };
    sign(&mut document, &owner.key, &options, ProofEncoding::Multibase);
    Value::Object(document)
}

#[tokio::test]
async fn superseded_did_is_refused_with_its_successor() {
    let (gateway, clock, peer) = world().await;
    let (old, new) = (peer.stranger("old"), peer.stranger("new"));
    let mut document = NewDidDocument::new(&old.did, clock.now());
    document.successor = Some(&new.did);
    peer.publish(&old.did, DidHostReply::Document(document.sign(&old.key)));
    let fault = refused(SigningParameters::for_gateway(&gateway, &old, "n1").by(&old).check(&gateway).await);
    assert_eq!(fault, DidAuthError::Superseded { requested: old.did, current: new.did });
    assert_eq!(fault.status(), 409);

    let gone = peer.stranger("gone");
    let mut document = gone.document(clock.now());
    document["deactivated"] = json!(true);
    peer.publish(&gone.did, DidHostReply::Document(signed_again(document, &gone, clock.now())));
    let fault = refused(SigningParameters::for_gateway(&gateway, &gone, "n1").by(&gone).check(&gateway).await);
    assert_eq!((fault.status(), fault.error_code()), (401, "invalid_did"), "{fault}");
}

#[tokio::test]
async fn legacy_didwba_header_is_accepted_once_for_its_host_and_time() {
    let (gateway, clock, peer) = world().await;
    let ada = peer.someone("ada", clock.now());
    clock.advance(Duration::from_secs(1000));
    let key_id = DidUrl::parse(&ada.key_id()).unwrap();
    let sent = |host: &str, nonce: &str, when: Timestamp, version: LegacyHeaderVersion| {
        let header = UnverifiedLegacyHeader::make(&key_id, &ada.key, host, nonce, when, version).to_header();
        let mut sent = SignedTestRequest::of(&outgoing("http://localhost/probe", Some("{}")));
        sent.set("authorization", &header);
        sent
    };
    let now = clock.now();
    let first = sent("localhost", "n1", now, LegacyHeaderVersion::V1_1);
    let_in(&first.check(&gateway).await, &ada);
    let_in(&sent("localhost", "n2", now, LegacyHeaderVersion::V1_0).check(&gateway).await, &ada);
    let minutes = |count: i64| Timestamp::from_millis(now.as_millis() + count * 60_000);
    for (name, wrong, word) in [
        ("again", first, "invalid_nonce"),
        ("for another host", sent("example.com", "n3", now, LegacyHeaderVersion::V1_1), "invalid_signature"),
        ("old", sent("localhost", "n4", minutes(-6), LegacyHeaderVersion::V1_1), "invalid_timestamp"),
        ("future", sent("localhost", "n5", minutes(2), LegacyHeaderVersion::V1_1), "invalid_timestamp"),
    ] {
        let fault = refused(wrong.check(&gateway).await);
        assert_eq!((fault.status(), fault.error_code()), (401, word), "{name}: {fault}");
    }
    let mut broken = sent("localhost", "n6", now, LegacyHeaderVersion::V1_1);
    broken.set("authorization", "DIDWba v=\"1.1\", did=\"x");
    assert_eq!(refused(broken.check(&gateway).await).error_code(), "invalid_request");
}

#[tokio::test]
async fn request_signed_before_the_server_start_is_accepted_once() {
    let (gateway, clock, peer) = world().await;
    let ada = peer.someone("ada", clock.now());
    let mut signing = SigningParameters::for_gateway(&gateway, &ada, "n1");
    signing.created = Timestamp::from_millis(signing.created.as_millis() - 1000);
    let_in(&signing.by(&ada).check(&gateway).await, &ada);
    assert_eq!(refused(signing.by(&ada).check(&gateway).await).error_code(), "invalid_nonce");
}

#[tokio::test]
async fn did_token_has_exactly_the_grants_of_the_did() {
    let clock = ManualClock::new();
    let agent = desk(&[scope("notes:write", "low"), count("scope = \"notes:write\"")]);
    let gateway = Gateway::builder().agent(DESK, &agent).clock(&clock).dev().start().await;
    gateway.key(&[]).await;
    let peer = DidHost::start().await;
    let ada = peer.someone("ada", clock.now());
    let token =
        let_in(&SigningParameters::for_gateway(&gateway, &ada, "n1").by(&ada).check(&gateway).await, &ada).access_token;

    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {}}).to_string();
    let call = async || crate::anp::post(&gateway, crate::anp::RPC, &crate::anp::bearer(&token), &body).await.status;
    assert_eq!(call().await, 200);
    assert_eq!(runs(&gateway), 0, "the tool is not granted yet");
    let principal = Principal::Did(ada.did.to_string());
    let scopes = vec![ScopeId::parse("notes:write").unwrap()];
    let given = gateway.engine().access().create_grant(
        principal,
        desk_name(),
        scopes,
        GrantTerm::UntilRevoked,
        Principal::Operator,
    );
    given.await.unwrap();
    assert_eq!(call().await, 200);
    assert_eq!(runs(&gateway), 1);
    let (status, _) = gateway.aap_with_key(&token).post("/sessions", json!({"agent": {"name": DESK}})).await;
    assert_eq!(status, 401, "AAP does not accept ANP tokens, with or without a grant");
    let records = gateway.audit().await;
    assert_eq!(records.last().unwrap().caller, Principal::Did(ada.did.to_string()));

    // Tokens of other servers and expired tokens are refused.
    let other = Gateway::builder().agent(DESK, &desk(&[])).clock(&clock).dev().start().await;
    let foreign = dids(&other).tokens().unwrap().issue(&ada.did, clock.now()).access_token;
    assert_eq!(rpc_status(&gateway, &foreign).await, 401);
    assert_eq!(rpc_status(&gateway, &token[..token.len() - 4]).await, 401);
    assert_eq!(rpc_status(&gateway, &token).await, 200);
    let mut sent = SignedTestRequest::of(&outgoing("http://localhost/probe", None));
    sent.set("authorization", &format!("Bearer {foreign}"));
    assert_eq!(refused(sent.check(&gateway).await).error_code(), "invalid_access_token");
    sent.set("authorization", &format!("bearer {token}"));
    assert!(matches!(sent.check(&gateway).await, DidAuthenticationResult::Known(_, None)));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(rpc_status(&gateway, &token).await, 401);
}

#[tokio::test]
async fn two_gateways_identify_each_other_by_did() {
    let clock = ManualClock::new();
    let gateway = async || Gateway::builder().agent(DESK, &desk(&[])).clock(&clock).dev().start().await;
    let (a, b) = (gateway().await, gateway().await);
    let did = desk_did(&a);
    let mut request = outgoing(&format!("{}/agents/desk/rpc?x=%20y", b.server().url()), Some("{\"a\":1}"));
    dids(&a).sign(&desk_name(), &mut request).unwrap();
    match SignedTestRequest::of(&request).check(&b).await {
        DidAuthenticationResult::Known(caller, Some(_)) => {
            assert_eq!(caller.principal, Principal::Did(did.to_string()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        refused(SignedTestRequest::of(&request).check(&a).await).error_code(),
        "invalid_signature",
        "the signature is only for the other server"
    );

    // The request can be signed again, with a nonce from the server.
    dids(&a)
        .signer(&DidSubject::Agent(desk_name()))
        .unwrap()
        .sign(&mut request, Some("the-servers-nonce"), &[])
        .unwrap();
    let sent = SignedTestRequest::of(&request);
    assert!(sent.headers["signature-input"].to_str().unwrap().contains("nonce=\"the-servers-nonce\""));
    assert!(matches!(sent.check(&b).await, DidAuthenticationResult::Known(..)));
    // The service signs requests with its own DID, also without a body.
    let mut request = outgoing(&format!("{}/anp", b.server().url()), None);
    dids(&a).signer(&DidSubject::Service).unwrap().sign(&mut request, None, &[]).unwrap();
    let service = dids(&a).service().unwrap().did().to_string();
    match SignedTestRequest::of(&request).check(&b).await {
        DidAuthenticationResult::Known(caller, _) => assert_eq!(caller.principal, Principal::Did(service)),
        other => panic!("{other:?}"),
    }

    // After a key rotation the old DID is refused once its document was fetched again.
    let old = dids(&a).signer(&DidSubject::Agent(desk_name())).unwrap();
    a.order(AdminCommand::DidRotate { subject: DidSubject::Agent(desk_name()) }).await.unwrap();
    clock.advance(Duration::from_secs(300));
    let mut request = outgoing(&format!("{}/anp", b.server().url()), Some("{}"));
    old.sign(&mut request, None, &[]).unwrap();
    let fault = refused(SignedTestRequest::of(&request).check(&b).await);
    assert_eq!(fault, DidAuthError::Superseded { requested: did, current: desk_did(&a) });
    dids(&a).sign(&desk_name(), &mut request).unwrap();
    assert!(matches!(SignedTestRequest::of(&request).check(&b).await, DidAuthenticationResult::Known(..)));
}

#[tokio::test]
async fn own_dids_are_resolved_without_network() {
    // No server listens at that address.
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).public_url("https://agents.example.com").start().await;
    let mut request = outgoing("https://agents.example.com/anp", Some("{}"));
    dids(&gateway).sign(&desk_name(), &mut request).unwrap();
    assert!(matches!(SignedTestRequest::of(&request).check(&gateway).await, DidAuthenticationResult::Known(..)));
}
