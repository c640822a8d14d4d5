//! Public documents: the list of agents, their descriptions and interfaces.

use nuncio_core::time::Timestamp;
use nuncio_identity::proof::{AcceptedProofForms, DescriptionProofRules, UnverifiedProof, verify_description};
use nuncio_identity::{DidUrl, VerifyingKey};
use nuncio_server::admin::AdminCommand;
use nuncio_server::dids::DidSubject;
use nuncio_testkit::{Gateway, eventually};
use serde_json::{Value, json};

use super::agent;
use crate::agents::{DESK, desk, tool};
use crate::dids::{desk_did, desk_name, document, get};

const AD: &str = "/agents/desk/ad.json";

async fn start() -> Gateway {
    let gateway = Gateway::builder().agent(DESK, &agent()).start().await;
    // Documents are public even if the server requires credentials.
    gateway.key(&[]).await;
    gateway
}

async fn read(gateway: &Gateway, path: &str) -> Value {
    let answer = get(gateway, path, "localhost", "").await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// Reads the agent's description, whose proof must be valid.
async fn proved(gateway: &Gateway) -> Value {
    let ad = read(gateway, AD).await;
    let did = desk_did(gateway);
    assert_eq!(ad["did"], did.as_str());
    let own = document(gateway, &did).await;
    let whole = ad.as_object().unwrap();
    let proof = UnverifiedProof::read(whole).unwrap();
    let method = DidUrl::parse(ad["proof"]["verificationMethod"].as_str().unwrap()).unwrap();
    assert!(own.document().may_assert(&method));
    let key: &VerifyingKey = own.document().verifying_key(&method).unwrap();
    let now = Timestamp::from_millis(1_900_000_000_000);
    proof.verify(whole, key, now).unwrap();
    let port = gateway.address().port();
    assert_eq!(ad["proof"]["domain"], format!("localhost:{port}"));
    assert!(ad["proof"]["challenge"].is_string());
    let mut other = whole.clone();
    other.insert("name".to_owned(), json!("another"));
    assert!(UnverifiedProof::read(&other).unwrap().verify(&other, key, now).is_err());
    ad
}

#[tokio::test]
async fn agent_list_is_paged_and_omits_unlisted_agents() {
    let mut builder = Gateway::builder();
    for number in 0..101 {
        let text = desk(&[]).replace("\"desk\"", &format!("\"desk-{number:03}\""));
        builder = builder.agent(&format!("desk-{number:03}"), &text);
    }
    let hidden =
        "[agent]\nname = \"hidden\"\nversion = \"1.0.0\"\nanp = { listed = false }\n[brain]\nkind = \"script\"\n";
    let gateway = builder.agent("hidden", hidden).start().await;
    let base = gateway.server().url();
    let path = "/.well-known/agent-descriptions";
    let first = read(&gateway, path).await;
    assert_eq!(first["items"].as_array().unwrap().len(), 100);
    assert_eq!(first["url"], format!("{base}{path}"));
    assert_eq!(first["next"], format!("{base}{path}?page=2"));
    assert_eq!(first["items"][0]["@id"], format!("{base}/agents/desk-000/ad.json"));
    let last = read(&gateway, &format!("{path}?page=2")).await;
    assert_eq!(last["items"].as_array().unwrap().len(), 1);
    assert_eq!(last.get("next"), None);
    assert!(!first.to_string().contains("hidden") && !last.to_string().contains("hidden"));
    assert_eq!(read(&gateway, "/agents/hidden/ad.json").await["name"], "hidden");
    for (query, status) in [
        ("page=3", 404),
        ("page=0", 404),
        ("page=x", 400),
        ("page=-1", 400),
        ("page=99999999999999999999", 400),
        ("page=18446744073709551615", 404),
    ] {
        let answer = get(&gateway, &format!("{path}?{query}"), "localhost", "").await;
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.json()["error"]["message"].is_string(), "{query}");
    }
}

#[tokio::test]
async fn agent_description_is_signed_and_changes_only_with_the_agent_or_its_key() {
    let gateway = start().await;
    let ad = proved(&gateway).await;
    assert_eq!(ad["type"], "AgentDescription");
    let first = get(&gateway, AD, "localhost", "").await;
    let again = get(&gateway, AD, "127.0.0.1", "Authorization: Bearer nonsense\r\nAccept: text/html\r\n").await;
    assert_eq!((again.status, &again.body), (200, &first.body), "the same for everyone");
    let tag = first.header("etag").unwrap();
    let same = get(&gateway, AD, "localhost", &format!("If-None-Match: {tag}\r\n")).await;
    assert_eq!((same.status, same.body.as_str()), (304, ""));

    // A changed agent file changes the description.
    gateway.rewrite_agent(DESK, &desk(&[tool("brand_new", "printf x", "")]));
    let changed = eventually("the agent is read again", async || {
        let answer = get(&gateway, AD, "localhost", &format!("If-None-Match: {tag}\r\n")).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(changed.body.contains("brand_new") && !changed.body.contains("careful"));
    proved(&gateway).await;
    let tools = read(&gateway, "/agents/desk/interfaces/tools.json").await;
    assert!(tools.to_string().contains("brand_new"));
    assert_eq!(get(&gateway, "/agents/desk/interfaces/authorized.json", "localhost", "").await.status, 404);

    // A rotated key changes the proof at once.
    gateway.order(AdminCommand::DidRotate { subject: DidSubject::Agent(desk_name()) }).await.unwrap();
    let rotated = proved(&gateway).await;
    assert_ne!(rotated["did"], ad["did"]);
    assert_ne!(get(&gateway, AD, "localhost", "").await.header("etag"), changed.header("etag"));
}

#[tokio::test]
async fn literal_proof_of_anp_07_is_written_on_request() {
    let gateway = start().await;
    let usual = read(&gateway, AD).await;
    let literal = read(&gateway, &format!("{AD}?proof=literal")).await;
    assert_eq!(read(&gateway, &format!("{AD}?proof=data_integrity")).await, usual);
    assert_eq!((&literal["name"], &literal["did"]), (&usual["name"], &usual["did"]));
    let own = document(&gateway, &desk_did(&gateway)).await;
    let whole = literal.as_object().unwrap();
    let rules = DescriptionProofRules::at(Timestamp::from_millis(1_900_000_000_000));
    assert!(verify_description(whole, &own, &rules).is_err());
    let rules = DescriptionProofRules { forms: AcceptedProofForms::WithLiteral, ..rules };
    verify_description(whole, &own, &rules).unwrap();
    let wrong = get(&gateway, &format!("{AD}?proof=other"), "localhost", "").await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("proof must be data_integrity or literal"), "{wrong:?}");
}

#[tokio::test]
async fn interface_documents_list_exactly_the_exposed_tools() {
    let gateway = start().await;
    let names = async |set: &str| {
        let document = read(&gateway, &format!("/agents/desk/interfaces/{set}.json")).await;
        assert_eq!(document["servers"][0]["url"], format!("{}/agents/desk/rpc", gateway.server().url()));
        let methods = document["methods"].as_array().unwrap().iter();
        let mut names: Vec<_> = methods.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("tools").await, ["breaks", "chat", "count", "echo", "held", "sized", "strict"]);
    assert_eq!(names("authorized").await, ["careful", "danger"]);
    for path in [
        "/agents/desk/interfaces/secret.json",
        "/agents/desk/interfaces/tools",
        "/agents/desk/interfaces/..%2Ftools.json",
        "/agents/nobody/interfaces/tools.json",
        "/agents/nobody/ad.json",
        "/agents/%FF/ad.json",
        "/agents/desk/ad.json/",
    ] {
        let answer = get(&gateway, path, "localhost", "").await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
    let ad = read(&gateway, AD).await.to_string();
    assert!(!ad.contains("secret"), "hidden tools are not described: {ad}");
}
