//! Invalid credentials: where they are refused, and where they are ignored.

use nuncio_identity::challenge::IssuedAccessToken;
use nuncio_server::settings::LoopbackAccess;
use nuncio_testkit::{Gateway, RawHttpResponse};
use serde_json::json;

use crate::agents::{DESK, desk, echo, tool};
use crate::anp::{RPC, bearer, post, signed, world, world_with};

const JWT: &str = "Authorization: Bearer eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhZGEifQ.c2ln\r\n";
const X_SIGNATURE: &str = "X-Signature: v1=00\r\nX-Signature-Timestamp: 1\r\nX-Signature-Nonce: 12345678\r\n";
const HTTP_SIGNATURE: &str = "Signature-Input: sig1=(\"@method\")\r\nSignature: sig1=:AAAA:\r\n";

fn skilled() -> String {
    let skill = "skill = { type = \"task\", access = \"public\", auth = \"none\" }";
    desk(&[echo(), tool("search", "printf found", skill)])
}

async fn send(gateway: &Gateway, line: &str, headers: &str, body: &str) -> RawHttpResponse {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    gateway.raw(request).await.unwrap()
}

#[tokio::test]
async fn public_documents_ignore_invalid_credentials() {
    let gateway = Gateway::builder().agent(DESK, &skilled()).start().await;
    let didwba = "Authorization: DIDWba did=\"did:wba:x\", nonce=\"a\"\r\n";
    let wrong = [
        "Authorization: Bearer nk_wrong\r\n",
        "Authorization: Bearer hsk_wrong\r\n",
        "Authorization: Basic Og==\r\n",
        "X-API-Key: nk_wrong\r\n",
        didwba,
        JWT,
        X_SIGNATURE,
        HTTP_SIGNATURE,
        "Signature: sig1=:AAAA:\r\n",
    ];
    let paths = [
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/aap/meta",
        "/.well-known/did.json",
        "/.well-known/jwks.json",
        "/.well-known/skill-sharing",
        "/.well-known/agent-descriptions",
        "/registry/skills",
        "/registry/agents",
        "/skills/desk/search.json",
        "/agents/desk/ad.json",
        "/agents/desk/interfaces/tools.json",
        "/a2h/agents",
        "/a2h/scopes",
    ];
    for keys in [false, true] {
        if keys {
            gateway.key(&[]).await;
        }
        for path in paths {
            for headers in wrong {
                let answer = send(&gateway, &format!("GET {path}"), headers, "").await;
                assert_eq!(answer.status, 200, "{path} with {headers:?}, keys: {keys}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn invalid_credential_beside_ignored_text_is_refused_on_an_open_server() {
    let gateway = Gateway::builder().agent(DESK, &skilled()).start().await;
    let session = json!({"agent": {"name": DESK}}).to_string();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {}}).to_string();
    let invoke = json!({"caller": {"id": "a", "type": "service"}, "skill_id": "desk/search", "inputs": {}}).to_string();
    let requests = [
        ("POST /aap/sessions", session.as_str()),
        ("POST /agents/desk/rpc", &call),
        ("POST /anp", &call),
        ("POST /registry/agents", "{}"),
        ("POST /skills/desk/search/invoke", &invoke),
        ("GET /metrics", ""),
    ];
    // AAP clients must send some credential; an ignored one does not hide another credential beside it.
    let filler = "Authorization: Bearer anything\r\n";
    let wrong = [
        "X-API-Key: nk_wrong\r\n",
        "X-API-Key: hsk_wrong\r\n",
        X_SIGNATURE,
        HTTP_SIGNATURE,
        "Signature: sig1=:AAAA:\r\n",
    ];
    for (line, body) in requests {
        for headers in wrong {
            for headers in [headers.to_owned(), format!("{filler}{headers}")] {
                let answer = send(&gateway, line, &headers, body).await;
                assert_eq!(answer.status, 401, "{line} with {headers:?}: {answer:?}");
            }
        }
        let answer = send(&gateway, line, filler, body).await;
        assert_ne!(answer.status, 401, "{line}: {answer:?}");
    }
}

#[tokio::test]
async fn did_token_is_refused_by_the_agent_directory() {
    let world = world().await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "no_such_method", "params": {}}).to_string();
    let earned = post(&world.gateway, RPC, &signed(&world.gateway, &world.ada, RPC, &call), &call).await;
    let token = IssuedAccessToken::read(earned.header("authentication-info").unwrap()).unwrap().access_token;
    assert_eq!(post(&world.gateway, RPC, &bearer(&token), &call).await.status, 200);
    let body = json!({"url": "http://localhost:1/ad.json"}).to_string();
    let header = format!("Authorization: Bearer {token}\r\n");
    for line in ["POST /registry/agents", "DELETE /registry/agents/reg_1"] {
        let refused = send(&world.gateway, line, &header, &body).await;
        assert_eq!(refused.status, 401, "{line}: {refused:?}");
        assert!(refused.header("www-authenticate").is_some(), "{refused:?}");
    }
}

#[tokio::test]
async fn get_request_with_a_version_1_signature_is_refused_naming_version_2() {
    let skill =
        |auth: &str| format!("skill = {{ type = \"task\", access = \"public\", auth = \"{auth}\", method = \"GET\" }}");
    let tools = ["none", "custom", "api_key"].map(|auth| tool(&format!("by_{auth}"), "printf found", &skill(auth)));
    let gateway = Gateway::builder().agent(DESK, &desk(&tools)).start().await;
    gateway.key(&[]).await;
    for auth in ["none", "custom", "api_key"] {
        let line = format!("GET /skills/desk/by_{auth}/invoke?a=1");
        let refused = send(&gateway, &line, X_SIGNATURE.replace("00", &"0".repeat(64)).as_str(), "").await;
        assert_eq!(refused.status, 401, "{line}: {refused:?}");
        assert!(refused.body.contains("v2="), "{line}: {refused:?}");
    }
    let unsigned = send(&gateway, "GET /skills/desk/by_custom/invoke?a=1", "", "").await;
    let challenge = unsigned.header("www-authenticate").unwrap();
    assert!(unsigned.status == 401 && challenge.contains("hmac-sha256-v2"), "{unsigned:?}");
}

#[tokio::test]
async fn did_signatures_over_the_rate_limit_are_refused_without_a_lookup() {
    let world = world_with(|builder| builder.settings(|settings| settings.limits.requests_per_minute = 3)).await;
    let body = json!({"agent": {"name": DESK}}).to_string();
    let mut statuses = Vec::new();
    for number in 0..6 {
        // Each request is signed by another DID, whose document would have to be fetched.
        let stranger = world.peer.stranger(&format!("stranger-{number}"));
        let headers = signed(&world.gateway, &stranger, "/aap/sessions", &body);
        statuses.push(post(&world.gateway, "/aap/sessions", &headers, &body).await.status);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429, 429]);
    assert_eq!(world.peer.asked(), 3);
}

#[tokio::test]
async fn forwarded_request_to_an_open_server_is_served_with_a_key_in_header_body_or_cookie() {
    let skill = "skill = { type = \"task\", access = \"public\", auth = { api_key = \"X-Shop-Key\" } }";
    let agent = desk(&[tool("shop", "printf sold", skill)]);
    let builder = Gateway::builder().agent(DESK, &agent);
    let gateway = builder.settings(|settings| settings.access.loopback = Some(LoopbackAccess::Open)).start().await;
    let key = gateway.key(&[]).await.secret;
    let via = "Via: 1.1 proxy\r\nHost: agents.example\r\n";
    let invoke = json!({"caller": {"id": "a", "type": "service"}, "skill_id": "desk/shop", "inputs": {}});
    let mut inside = invoke.clone();
    inside["caller"]["credentials"] = json!({"api_key": key});
    let line = "POST /skills/desk/shop/invoke";
    let (by_header, invoke) = (format!("{via}X-Shop-Key: {key}\r\n"), invoke.to_string());
    assert_eq!(forwarded(&gateway, line, via, &invoke).await.status, 401);
    assert_eq!(forwarded(&gateway, line, &by_header, &invoke).await.status, 202);
    assert_eq!(forwarded(&gateway, line, via, &inside.to_string()).await.status, 202);
    let form = format!("{via}Sec-Fetch-Site: same-origin\r\n");
    let signed_in = forwarded(&gateway, "POST /console/sign-in", &form, &format!("key={key}")).await;
    let cookie = signed_in.header("set-cookie").unwrap().split(';').next().unwrap();
    let with_cookie = format!("{form}Cookie: {cookie}\r\n");
    assert_eq!(forwarded(&gateway, "GET /console/tasks", &with_cookie, "").await.status, 200);
    assert_eq!(forwarded(&gateway, "GET /console/tasks", &form, "").await.status, 303);
}

/// Sends a request whose `Host` is among `headers`.
async fn forwarded(gateway: &Gateway, line: &str, headers: &str, body: &str) -> RawHttpResponse {
    let media = if body.starts_with('{') { "application/json" } else { "application/x-www-form-urlencoded" };
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nConnection: close\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    gateway.raw(request).await.unwrap()
}
