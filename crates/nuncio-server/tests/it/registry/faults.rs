//! Hosts with invalid indexes or descriptors: which skills are listed, and which faults are reported.

use nuncio_testkit::Gateway;
use serde_json::{Value, json};

use crate::agents::{DESK, desk};

use super::stub::{INDEX, StubRegistryHost, StubReply, descriptor_path, index};
use super::{follow, found, problem};

async fn gateway() -> Gateway {
    Gateway::builder().agent(DESK, &desk(&[])).start().await
}

/// A gateway, and a host that offers the skill `good`.
async fn start() -> (Gateway, StubRegistryHost) {
    let stub = StubRegistryHost::start().await;
    stub.offer(&["good"]);
    (gateway().await, stub)
}

/// The reported reason why a skill is not listed.
fn why<'a>(state: &'a Value, id: &str) -> &'a str {
    let unlisted = state["unlisted"].as_array().unwrap();
    let found = unlisted.iter().find(|unlisted| unlisted["id"] == id);
    found.unwrap_or_else(|| panic!("{id} is not among the unlisted: {state}"))["why"].as_str().unwrap()
}

#[tokio::test]
async fn private_skills_are_not_listed_and_those_private_in_the_index_are_not_fetched() {
    let (here, stub) = start().await;
    stub.document(&descriptor_path("hidden"), &stub.descriptor("hidden"));
    let mut hidden = stub.entry("hidden");
    hidden["access"] = json!("private");
    // This skill is marked private only in its descriptor.
    let mut secret = stub.descriptor("secret");
    secret["access"] = json!("private");
    stub.document(&descriptor_path("secret"), &secret);
    stub.index(&[stub.entry("good"), hidden, stub.entry("secret")]);
    let state = follow(&here, &stub.url()).await;
    assert_eq!(found(&here, "").await, ["good"]);
    assert_eq!(stub.targets(), [INDEX, "/d/good.json", "/d/secret.json"]);
    assert!(why(&state, "secret").contains("private"), "{state}");
    assert!(!state.to_string().contains("hidden"), "{state}");
}

#[tokio::test]
async fn skill_with_a_missing_or_invalid_descriptor_is_not_listed_and_the_reason_is_reported() {
    let (here, stub) = start().await;
    let ids = ["good", "other", "broken", "gone", "newer", "text"];
    stub.offer(&ids);
    stub.document(&descriptor_path("other"), &stub.descriptor("somebody-else"));
    let mut broken = stub.descriptor("broken");
    broken["capability_type"] = json!("robot");
    stub.document(&descriptor_path("broken"), &broken);
    stub.status(&descriptor_path("gone"), 410, "");
    let mut newer = stub.descriptor("newer");
    newer["protocol"]["version"] = json!("2.0.0");
    stub.document(&descriptor_path("newer"), &newer);
    stub.status(&descriptor_path("text"), 200, "");
    let state = follow(&here, &stub.url()).await;
    assert_eq!(found(&here, "").await, ["good"]);
    for (id, says) in [
        ("other", "belongs to another skill, \"somebody-else\""),
        ("broken", "/capability_type"),
        ("gone", "answered 410"),
        ("newer", "2.0.0 is not compatible"),
        ("text", "not a valid SkillDescriptor"),
    ] {
        assert!(why(&state, id).contains(says), "{id}: {}", why(&state, id));
    }
    assert!(problem(&state).starts_with("5 skills are not listed"), "{state}");
    assert_eq!(state["listed"], 1);
}

#[tokio::test]
async fn listing_takes_fields_from_the_descriptor_not_the_index_entry() {
    let (here, stub) = start().await;
    let mut descriptor = stub.descriptor("good");
    descriptor["version"] = json!("2.3.4");
    descriptor["capability_type"] = json!("task");
    stub.document(&descriptor_path("good"), &descriptor);
    follow(&here, &stub.url()).await;
    assert!(found(&here, "type=api").await.is_empty());
    let page = super::get(&here, "/registry/skills?type=task", "").await.json();
    assert_eq!(page["skills"][0]["version"], "2.3.4");
}

#[tokio::test]
async fn index_links_to_other_hosts_are_ignored() {
    let (here, stub, victim) = {
        let (here, stub) = start().await;
        (here, stub, StubRegistryHost::start().await)
    };
    victim.offer(&["far"]);
    stub.index(&[stub.entry("good"), victim.entry("far")]);
    let state = follow(&here, &stub.url()).await;
    assert_eq!(found(&here, "").await, ["good"]);
    assert!(why(&state, "far").contains(&format!("is neither on {} nor below it", stub.url())), "{state}");
    // Redirects and page links to other hosts are not followed either.
    stub.status(&descriptor_path("good"), 302, &format!("Location: {}/d/far.json\r\n", victim.url()));
    let mut changed = stub.entry("good");
    changed["version"] = json!("1.0.1");
    stub.index(&[changed]);
    let state = follow(&here, &stub.url()).await;
    assert!(why(&state, "good").contains("answered 302; redirects are not followed"), "{state}");
    stub.status(INDEX, 307, &format!("Location: {}{INDEX}\r\n", victim.url()));
    assert!(problem(&follow(&here, &stub.url()).await).contains("redirects are not followed"));
    let headers = format!("Link: <{}{INDEX}>; rel=\"next\"\r\n", victim.url());
    let body = index(&[stub.entry("good")]).to_string();
    stub.reply(INDEX, StubReply::Json { status: 200, etag: None, headers, body });
    assert!(problem(&follow(&here, &stub.url()).await).contains("another host"));
    assert_eq!(victim.asked_so_far(), 0);
}

#[tokio::test]
async fn invalid_index_keeps_the_previous_listing() {
    let (here, stub) = start().await;
    follow(&here, &stub.url()).await;
    let twice = vec![stub.entry("good"), stub.entry("new"), stub.entry("new")];
    let mut unversioned = index(&[stub.entry("good"), stub.entry("new")]);
    unversioned["protocol"]["version"] = json!("1");
    let mut newer = unversioned.clone();
    newer["protocol"]["version"] = json!("2.0.0");
    stub.document(&descriptor_path("new"), &stub.descriptor("new"));
    for (document, says) in [
        (index(&twice), "not a valid SkillIndex"),
        (unversioned, "/protocol/version"),
        (newer, "2.0.0 is not compatible"),
        (json!([]), "not a valid SkillIndex"),
    ] {
        stub.document(INDEX, &document);
        let state = follow(&here, &stub.url()).await;
        assert!(problem(&state).contains(says), "{says}: {state}");
        assert_eq!(found(&here, "").await, ["good"], "{says}");
    }
    let state = follow(&here, &stub.url()).await;
    assert_eq!(state["failures"], 5);
}

#[tokio::test]
async fn index_with_repeated_ids_or_endless_pages_is_refused() {
    let (here, stub) = start().await;
    let page = |next: &str| StubReply::Json {
        status: 200,
        etag: None,
        headers: format!("Link: <{next}>; rel=\"next\"\r\n"),
        body: index(&[stub.entry("good")]).to_string(),
    };
    stub.reply(INDEX, page("?p=2"));
    stub.document(&format!("{INDEX}?p=2"), &index(&[stub.entry("good")]));
    assert!(problem(&follow(&here, &stub.url()).await).contains("the id \"good\" twice"));
    stub.reply(INDEX, page(INDEX));
    assert!(problem(&follow(&here, &stub.url()).await).contains("has no end"));
    assert!(found(&here, "").await.is_empty());
}

#[tokio::test]
async fn endless_index_or_descriptor_response_is_refused_at_its_size_limit() {
    let (here, stub) = start().await;
    stub.reply(&descriptor_path("good"), StubReply::Endless);
    let state = follow(&here, &stub.url()).await;
    assert!(why(&state, "good").contains("more than 1048576 bytes"), "{state}");
    stub.reply(INDEX, StubReply::Endless);
    assert!(problem(&follow(&here, &stub.url()).await).contains("more than 8388608 bytes"));
}

#[tokio::test]
async fn only_ten_thousand_skills_of_a_host_are_kept() {
    let (here, stub) = start().await;
    let entry = |number: usize| {
        let mut entry = stub.entry(&format!("s{number}"));
        entry["descriptor_url"] = json!("https://elsewhere.example/s.json");
        entry
    };
    let mut entries = vec![stub.entry("good")];
    entries.extend((0..10_000).map(entry));
    stub.index(&entries);
    let state = follow(&here, &stub.url()).await;
    assert_eq!(problem(&state), "only the first 10000 skills are listed");
    assert_eq!((state["listed"].clone(), state["unlisted"].as_array().unwrap().len()), (json!(1), 100));
    assert_eq!(found(&here, "").await, ["good"]);
}

#[tokio::test]
async fn skills_of_a_host_whose_index_is_missing_are_removed() {
    let (here, stub) = start().await;
    follow(&here, &stub.url()).await;
    assert_eq!(found(&here, "").await, ["good"]);
    stub.status(INDEX, 404, "");
    let state = follow(&here, &stub.url()).await;
    assert!(problem(&state).contains("answered 404"), "{state}");
    assert!(found(&here, "").await.is_empty());
    // An unreachable host keeps its listing.
    stub.offer(&["good"]);
    follow(&here, &stub.url()).await;
    stub.reply(INDEX, StubReply::Endless);
    follow(&here, &stub.url()).await;
    assert_eq!(found(&here, "").await, ["good"]);
}

#[tokio::test]
async fn unavailable_descriptor_is_fetched_at_the_next_visit() {
    let (here, stub) = start().await;
    stub.offer(&["a", "b", "c", "d", "e"]);
    for id in ["b", "c", "d"] {
        stub.status(&descriptor_path(id), 500, "");
    }
    let state = follow(&here, &stub.url()).await;
    assert_eq!(stub.targets(), [INDEX, "/d/a.json", "/d/b.json", "/d/c.json", "/d/d.json"], "three are enough");
    assert!(problem(&state).starts_with("descriptors cannot be read"), "{state}");
    assert_eq!(found(&here, "").await, ["a"]);
    stub.offer(&["a", "b", "c", "d", "e"]);
    follow(&here, &stub.url()).await;
    assert_eq!(stub.targets(), [INDEX, "/d/b.json", "/d/c.json", "/d/d.json", "/d/e.json"]);
    assert_eq!(found(&here, "").await, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn followed_host_must_be_public_and_use_https() {
    let here = gateway().await;
    for (domain, says) in [
        ("https://10.0.0.1", "are not allowed"),
        ("http://93.184.216.34", "only https: is accepted"),
        ("https://169.254.169.254", "are not allowed"),
    ] {
        let state = follow(&here, domain).await;
        assert!(problem(&state).contains(says), "{state}");
    }
}
