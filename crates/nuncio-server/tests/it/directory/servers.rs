//! Servers that register their agents with a directory on another server, and searches there.

use nuncio_core::ids::AgentName;
use nuncio_engine::follow::ServerOrigin;
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::{Gateway, ManualClock, eventually};
use serde_json::{Value, json};
use std::time::Duration;

use super::{PATH, SenderCredential, entries, found, get, item, names, register};
use crate::agents::{DESK, desk, tool};
use crate::dids::dids;

/// An agent file with one tool, whose capability has the given tags.
fn agent(name: &str, about: &str, tags: &str) -> String {
    let head = format!("name = \"{name}\"\ndescription = \"{about}\"");
    let whole = desk(&[
        tool("book", "cat", ""),
        format!(
            "[[capability]]\nid = \"cap.{name}.book\"\nname = \"Book\"\ndescription = \"Books.\"\ntags = [{tags}]\ntools = [\"book\"]\n"
        ),
    ]);
    whole.replace(&format!("name = \"{DESK}\""), &head)
}

fn hidden(name: &str) -> String {
    agent(name, "Nobody must know.", "\"secret.thing\"").replace("[allow]", "anp = { listed = false }\n[allow]")
}

async fn registering(with: &Gateway, name: &str, text: &str) -> Gateway {
    let directory = ServerOrigin::parse(&with.server().url()).unwrap();
    let hidden_name = format!("{name}-hidden");
    Gateway::builder()
        .agent(name, text)
        .agent(&hidden_name, &hidden(&hidden_name))
        .settings(|settings| settings.registry.register = vec![directory])
        .dev()
        .start()
        .await
}

async fn told(gateway: &Gateway) -> Vec<Value> {
    gateway.order(AdminCommand::RegistryAgents).await.unwrap()["elsewhere"].as_array().unwrap().clone()
}

#[tokio::test]
async fn agents_that_two_servers_register_at_a_third_are_found_there() {
    let directory =
        Gateway::builder().agent("guide", &agent("guide", "Knows all.", "\"city.guide\"")).dev().start().await;
    // A key exists, so that local callers need a credential.
    directory.key(&[]).await;
    let inn = registering(&directory, "inn", &agent("inn", "Rooms in town.", "\"hotel.booking.create\"")).await;
    let villa =
        registering(&directory, "villa", &agent("villa", "别墅 by the sea.", "\"hotel.search\", \"sea\"")).await;
    eventually("both are listed", async || (found(&directory, "").await.len() == 3).then_some(())).await;

    let mut all = found(&directory, "").await;
    all.sort();
    assert_eq!(all, ["guide", "inn", "villa"], "own agents are listed, hidden ones are not");
    for (query, wanted) in [
        ("q=ROOMS+town", vec!["inn"]),
        ("q=%E5%88%AB%E5%A2%85", vec!["villa"]),
        ("tag=hotel", vec!["inn", "villa"]),
        ("tag=hotel.booking&q=rooms", vec!["inn"]),
        ("tag=Hotel.Search&tag=sea", vec!["villa"]),
        ("tag=hot", vec![]),
        ("capability=cap.inn.book", vec!["inn"]),
        ("capability=cap.guide.book", vec!["guide"]),
        ("capability=cap.inn.book&capability=cap.villa.book", vec![]),
        ("q=nobody+must", vec![]),
        ("tag=secret", vec![]),
    ] {
        let mut listed = found(&directory, query).await;
        listed.sort();
        assert_eq!(listed, wanted, "{query}");
    }
    for hidden in ["inn-hidden", "villa-hidden"] {
        assert_eq!(item(&directory, hidden).await, Value::Null);
    }
    assert_eq!(found(&inn, "").await, ["inn"], "a server lists its own public agents");

    // A search result links to the agent and lists the verified facts.
    let shown = item(&directory, "inn").await;
    let inn_did = dids(&inn).agent(&AgentName::parse("inn").unwrap()).unwrap().did().to_string();
    assert_eq!(shown["@id"], json!(format!("{}/agents/inn/ad.json", inn.server().url())));
    assert_eq!(
        (&shown["did"], &shown["standing"], &shown["@type"]),
        (&json!(inn_did), &json!("listed"), &json!("ad:AgentDescription"))
    );
    assert_eq!(shown["verified"]["what"], json!(["did", "service", "proof", "domain", "address"]));
    let entry = entries(&directory).await.into_iter().find(|entry| entry["name"] == "inn").unwrap();
    assert_eq!((&entry["by"], &entry["id"]), (&json!(inn_did), &shown["id"]), "it registered itself");
    assert_eq!(shown.get("by"), None, "only the operator sees who registered an entry");

    // The registering server knows its status; its hidden agent was not registered.
    let told = eventually("it knows", async || {
        let told = told(&inn).await;
        (told.len() == 1 && told[0]["registered"].is_string()).then_some(told)
    })
    .await;
    assert_eq!((&told[0]["agent"], &told[0]["id"], &told[0]["problem"]), (&json!("inn"), &shown["id"], &Value::Null));
    drop(villa);
}

#[tokio::test]
async fn directory_pages_follow_each_other_without_gaps_and_have_etags() {
    let gateway = Gateway::builder();
    let gateway =
        ["a", "b", "c", "d", "e"].iter().fold(gateway, |it, name| it.agent(name, &agent(name, "Is.", "\"x\"")));
    let gateway = gateway.dev().start().await;
    let (mut target, mut seen, mut pages) = (format!("{PATH}?limit=2&tag=x"), Vec::new(), 0);
    loop {
        let answer = get(&gateway, &target, "").await;
        let page = answer.json();
        assert_eq!(page["@type"], "CollectionPage");
        assert_eq!(page["url"], json!(format!("{}{}", gateway.server().url(), target.replace("https", "http"))));
        seen.extend(names(&page));
        pages += 1;
        let tag = answer.header("etag").unwrap().to_owned();
        assert_eq!(get(&gateway, &target, &format!("If-None-Match: {tag}\r\n")).await.status, 304);
        let Some(next) = page["next"].as_str() else {
            assert_eq!(answer.header("link"), None);
            break;
        };
        assert_eq!(answer.header("link"), Some(format!("<{next}>; rel=\"next\"").as_str()));
        target = next.strip_prefix(&gateway.server().url()).unwrap().to_owned();
    }
    assert_eq!((seen.join(""), pages), ("abcde".to_owned(), 3));
    for (query, said) in [
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("cursor=nowhere", "cursor"),
        (&format!("q={}", "x".repeat(501)), "q"),
        (&"tag=x&".repeat(21), "tag"),
    ] {
        let answer = get(&gateway, &format!("{PATH}?{query}"), "").await;
        assert_eq!(answer.status, 400, "{query}");
        let error = &answer.json()["error"];
        assert!(error["code"] == "bad_request" && error["message"].as_str().unwrap().contains(said), "{error}");
    }
}

#[tokio::test]
async fn directory_listing_survives_a_restart() {
    let directory = Gateway::builder().dev().agent("guide", &agent("guide", "Knows.", "\"x\"")).start().await;
    let inn = Gateway::builder().agent("inn", &agent("inn", "Rooms.", "\"hotel\"")).dev().start().await;
    let url = format!("{}/agents/inn/ad.json", inn.server().url());
    assert_eq!(
        register(&directory, &SenderCredential::Nobody, &url).await.status,
        201,
        "a local caller may register on an open server"
    );
    let before = item(&directory, "inn").await;
    // The server of the agent is down.
    inn.stop().await;
    let (port, data) = (directory.address().port(), directory.stop().await);
    let again =
        Gateway::builder().dev().agent("guide", &agent("guide", "Knows.", "\"x\"")).data(data).port(port).start().await;
    assert_eq!(item(&again, "inn").await, before, "the entry keeps its checks and times");
    // A removed agent stays removed after a restart.
    again.order(AdminCommand::RegistryRemove { which: url }).await.unwrap();
    let data = again.stop().await;
    let third =
        Gateway::builder().dev().agent("guide", &agent("guide", "Knows.", "\"x\"")).data(data).port(port).start().await;
    assert_eq!(found(&third, "").await, ["guide"]);
}

#[tokio::test]
async fn registration_at_an_unreachable_directory_is_retried_and_kept_up_to_date() {
    let clock = ManualClock::new();
    let pause = Duration::from_secs(30);
    // A free port without a server.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let inn = Gateway::builder()
        .agent("inn", &agent("inn", "Rooms in town.", "\"hotel\""))
        .settings(|settings| {
            settings.registry.register = vec![ServerOrigin::parse(&format!("localhost:{port}")).unwrap()];
        })
        .clock(&clock)
        .dev()
        .start()
        .await;
    let state = eventually("it was tried", async || told(&inn).await.pop().filter(|told| told["failures"] == 1)).await;
    assert!(state["problem"].as_str().unwrap().contains("cannot be reached"), "{state}");
    assert_eq!(state["registered"], Value::Null);

    let directory = Gateway::builder()
        .agent("guide", &agent("guide", "Knows.", "\"x\""))
        .clock(&clock)
        .port(port)
        .dev()
        .start()
        .await;
    clock.wait_for_sleeper(pause).await;
    clock.advance(pause);
    eventually("it is listed", async || (found(&directory, "").await.len() == 2).then_some(())).await;

    // A changed description changes the search result.
    inn.rewrite_agent("inn", &agent("inn", "Rooms on the hill.", "\"hill\""));
    eventually("the change is found", async || {
        // Polling of agent files and registration follow the clock.
        clock.advance(Duration::from_secs(1));
        (found(&directory, "q=hill").await == ["inn"]).then_some(())
    })
    .await;
    assert_eq!(entries(&directory).await.len(), 1);
    // A rotated key makes a new DID, which the directory lists.
    let rotated = inn.order(AdminCommand::DidRotate {
        subject: nuncio_server::dids::DidSubject::Agent(AgentName::parse("inn").unwrap()),
    });
    rotated.await.unwrap();
    let did = dids(&inn).agent(&AgentName::parse("inn").unwrap()).unwrap().did().to_string();
    eventually("the new DID is found", async || {
        clock.advance(Duration::from_secs(1));
        (item(&directory, "inn").await["did"] == json!(did)).then_some(())
    })
    .await;
    assert_eq!(entries(&directory).await.len(), 1, "it is the same entry");
}

#[tokio::test]
async fn directory_description_names_the_registration_endpoint_unless_closed() {
    let directory = Gateway::builder().agent("guide", &agent("guide", "Knows.", "\"x\"")).dev().start().await;
    let answer = get(&directory, "/registry/ad.json", "").await;
    assert_eq!(answer.status, 200);
    let description = answer.json();
    let report = nuncio_anp::validate::check(nuncio_anp::validate::AnpDocumentType::AgentDescription, &description);
    assert!(report.valid && report.warnings.is_empty(), "{report:?}");
    assert_eq!(description["did"], json!(dids(&directory).service().unwrap().did().to_string()));
    let interfaces = description["interfaces"].as_array().unwrap();
    let endpoint = json!(format!("{}{PATH}", directory.server().url()));
    let register = interfaces.iter().find(|it| it["profile"] == "nuncio.directory.v1").unwrap();
    assert_eq!((&register["type"], &register["endpoint"]), (&json!("StructuredInterface"), &endpoint));

    let closed = Gateway::builder()
        .agent("guide", &agent("guide", "Knows.", "\"x\""))
        .settings(|settings| settings.registry.accept = nuncio_anp::directory::RegistrationPolicy::Nobody)
        .dev()
        .start()
        .await;
    let description = get(&closed, "/registry/ad.json", "").await.json();
    assert!(description["interfaces"].as_array().unwrap().iter().all(|it| it.get("profile").is_none()));
    let inn = registering(&closed, "inn", &agent("inn", "Rooms.", "\"hotel\"")).await;
    let state = eventually("it was tried", async || told(&inn).await.pop().filter(|told| told["failures"] == 1)).await;
    assert!(state["problem"].as_str().unwrap().contains("names no endpoint for registrations"), "{state}");
}
