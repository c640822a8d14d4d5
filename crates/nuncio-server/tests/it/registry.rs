//! The registry of followed hosts: mutual listings, and hosts that are invalid, failing, slow, changing or gone.

#[path = "registry/crawl_schedule.rs"]
mod crawl_schedule;
#[path = "registry/faults.rs"]
mod faults;
#[path = "registry/stub.rs"]
mod stub;

use nuncio_core::ErrorCode;
use nuncio_server::admin::{AdminCommand, ServerOrigin};
use nuncio_testkit::{Gateway, RawHttpResponse};
use serde_json::{Value, json};

use crate::agents::{DESK, desk, tool};
use stub::StubRegistryHost;

fn domain(text: &str) -> ServerOrigin {
    ServerOrigin::parse(text).unwrap()
}

async fn get(gateway: &Gateway, target: &str, headers: &str) -> RawHttpResponse {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    gateway.raw(request).await.unwrap()
}

/// Ids of the search results, in order.
async fn found(gateway: &Gateway, query: &str) -> Vec<String> {
    let answer = get(gateway, &format!("/registry/skills?{query}"), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    ids(&answer.json())
}

fn ids(page: &Value) -> Vec<String> {
    page["skills"].as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap().to_owned()).collect()
}

async fn follow(gateway: &Gateway, url: &str) -> Value {
    let answer = gateway.order(AdminCommand::RegistryFollow { domain: domain(url) }).await.unwrap();
    assert_eq!(answer["visited"], true, "{answer}");
    answer["followed"].clone()
}

/// The state of a followed host.
async fn state(gateway: &Gateway, url: &str) -> Value {
    let all = gateway.order(AdminCommand::RegistryList).await.unwrap();
    let followed = all["followed"].as_array().unwrap();
    followed.iter().find(|followed| followed["domain"] == domain(url).as_str()).cloned().unwrap_or_default()
}

fn problem(state: &Value) -> &str {
    state["problem"].as_str().unwrap_or_else(|| panic!("no problem: {state}"))
}

const SEARCH: &str = "type = \"knowledge\", name = \"Find rooms\", tags = [\"travel\", \"hotel\"]";
const BOOK: &str = "type = \"task\", name = \"预订房间\", access = \"restricted\", auth = \"api_key\"";
const AUDIT: &str = "type = \"api\", access = \"private\", auth = \"api_key\"";

fn agent_with(name: &str, skills: &[(&str, &str)]) -> String {
    let tools: Vec<_> =
        skills.iter().map(|(tool_name, skill)| tool(tool_name, "cat", &format!("skill = {{ {skill} }}"))).collect();
    desk(&tools).replace(&format!("name = \"{DESK}\""), &format!("name = \"{name}\""))
}

fn agent(name: &str) -> String {
    agent_with(name, &[("search", SEARCH), ("book", BOOK), ("audit", AUDIT)])
}

#[tokio::test]
async fn two_hosts_that_follow_each_other_list_each_others_skills() {
    let here = Gateway::builder().agent("inn", &agent("inn")).start().await;
    let there = Gateway::builder()
        .agent("villa", &agent("villa"))
        .settings(|settings| settings.provider.name = Some("Villa Ltd".to_owned()))
        .start()
        .await;
    let state = follow(&here, &there.url()).await;
    assert_eq!((&state["listed"], &state["problem"], &state["failures"]), (&json!(2), &json!(null), &json!(0)));
    follow(&there, &here.url()).await;

    let mut all = vec!["inn/book", "inn/search", "villa/book", "villa/search"];
    for gateway in [&here, &there] {
        let mut listed = found(gateway, "").await;
        listed.sort();
        assert_eq!(listed, all, "each skill is listed once, without private ones");
    }
    let of_villa = format!("127.0.0.1:{}", there.address().port());
    for (query, wanted) in [
        ("type=task", vec!["inn/book", "villa/book"]),
        ("q=ROOMS", vec!["inn/search", "villa/search"]),
        ("q=%E6%88%BF%E9%97%B4", vec!["inn/book", "villa/book"]),
        ("tag=travel&tag=hotel", vec!["inn/search", "villa/search"]),
        ("provider=villa+ltd", vec!["villa/book", "villa/search"]),
        (&format!("provider={of_villa}&type=task"), vec!["villa/book"]),
        ("q=audit", vec![]),
    ] {
        let mut listed = found(&here, query).await;
        listed.sort();
        assert_eq!(listed, wanted, "{query}");
    }

    // An entry links to the skill.
    let page = get(&here, "/registry/skills?q=villa/search", "").await.json();
    let skill = &page["skills"][0];
    assert_eq!(skill["origin"], json!(there.url()));
    assert_eq!(skill["provider"], json!({"name": "Villa Ltd"}));
    assert_eq!(skill["tags"], json!(["travel", "hotel"]));
    assert!(skill["last_seen"].as_str().unwrap().ends_with('Z'));
    let path = skill["descriptor_url"].as_str().unwrap().split_once("/skills/").unwrap().1.to_owned();
    assert_eq!(get(&there, &format!("/skills/{path}"), "").await.json()["id"], "villa/search");

    // Removed skills are dropped at the next visit.
    there.rewrite_agent("villa", &agent_with("villa", &[("search", SEARCH)]));
    nuncio_testkit::eventually("the skill is gone there", async || {
        (get(&there, "/skills/villa/book.json", "").await.status == 404).then_some(())
    })
    .await;
    follow(&here, &there.url()).await;
    all.retain(|id| *id != "villa/book");
    let mut listed = found(&here, "").await;
    listed.sort();
    assert_eq!(listed, all);
}

#[tokio::test]
async fn registry_pages_are_linked_by_cursor_and_link_header() {
    let here = Gateway::builder().agent("inn", &agent("inn")).start().await;
    let stub = StubRegistryHost::start().await;
    stub.offer(&["a", "b", "c"]);
    follow(&here, &stub.url()).await;
    let whole = found(&here, "").await;
    assert_eq!(whole.len(), 5);
    let (mut by_cursor, mut by_link) = (Vec::new(), Vec::new());
    let mut target = "/registry/skills?limit=2".to_owned();
    loop {
        let answer = get(&here, &target, "").await;
        let page = answer.json();
        by_cursor.extend(ids(&page));
        by_link.push(target.clone());
        let Some(link) = answer.header("link") else {
            assert_eq!(page.get("next_cursor"), None);
            break;
        };
        let next = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
        target = next[next.find("/registry/").unwrap()..].to_owned();
        let mut cursor = url::form_urlencoded::parse(target.split_once('?').unwrap().1.as_bytes());
        let cursor = cursor.find(|(name, _)| name == "cursor").unwrap().1;
        assert_eq!(page["next_cursor"], *cursor);
    }
    assert_eq!((by_cursor, by_link.len()), (whole, 3));
}

#[tokio::test]
async fn unchanged_registry_page_gets_304_and_an_invalid_query_an_error() {
    let here = Gateway::builder().agent("inn", &agent("inn")).clock(&nuncio_testkit::ManualClock::new()).start().await;
    let first = get(&here, "/registry/skills", "").await;
    let tag = first.header("etag").unwrap();
    let again = get(&here, "/registry/skills", &format!("If-None-Match: {tag}\r\n")).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(get(&here, "/registry/skills?q=none", &format!("If-None-Match: {tag}\r\n")).await.status, 200);

    for (query, says) in
        [("type=robot", "`type`"), ("limit=0", "`limit`"), ("limit=1001", "`limit`"), ("cursor=x", "`cursor`")]
    {
        let answer = get(&here, &format!("/registry/skills?{query}"), "").await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (400, &json!("VALIDATION_ERROR")), "{query}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    let elsewhere = get(&here, "/registry/none", "").await;
    assert_eq!((elsewhere.status, &elsewhere.json()["error"]["code"]), (404, &json!("SKILL_NOT_FOUND")));
    let wrong =
        here.raw("POST /registry/skills HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let wrong = wrong.await.unwrap();
    assert_eq!((wrong.status, &wrong.json()["error"]["code"]), (405, &json!("VALIDATION_ERROR")));
}

#[tokio::test]
async fn skill_registry_page_matches_the_openapi_document() {
    let here = Gateway::builder().agent("inn", &agent("inn")).start().await;
    let document = get(&here, "/openapi.json", "").await.json();
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/components/schemas/RegistryPage",
        "components": document["components"],
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let page = get(&here, "/registry/skills?limit=1", "").await.json();
    assert!(page["next_cursor"].is_string() && validator.is_valid(&page), "{page:#}");
    assert!(!validator.is_valid(&json!({"skills": [{"id": "x"}]})));
}

#[tokio::test]
async fn skills_of_an_unfollowed_host_are_removed_and_a_second_unfollow_fails() {
    let here = Gateway::builder().agent("inn", &agent("inn")).start().await;
    let stub = StubRegistryHost::start().await;
    stub.offer(&["a"]);
    follow(&here, &stub.url()).await;
    assert_eq!(found(&here, "q=a&tag=stub").await, ["a"]);
    here.order(AdminCommand::RegistryUnfollow { domain: domain(&stub.url()) }).await.unwrap();
    assert!(found(&here, "tag=stub").await.is_empty());
    assert_eq!(state(&here, &stub.url()).await, Value::Null);
    let again = here.order(AdminCommand::RegistryUnfollow { domain: domain(&stub.url()) }).await.unwrap_err();
    assert_eq!(again.code, ErrorCode::NotFollowed);
    assert!(again.message.contains("nuncio registry list"), "{again}");
}

#[tokio::test]
async fn registry_is_public_even_with_an_invalid_key() {
    let here = Gateway::builder().agent("inn", &agent("inn")).start().await;
    let key = here.key(&[]).await;
    for headers in ["", &format!("Authorization: Bearer {}\r\n", key.secret)] {
        let answer = get(&here, "/registry/skills", headers).await;
        assert_eq!(ids(&answer.json()), ["inn/book", "inn/search"], "private skills are listed for no caller");
        assert_eq!(answer.header("cache-control"), Some("public, max-age=60"));
    }
    for headers in ["Authorization: Bearer nk_wrong\r\n", "X-API-Key: nk_wrong\r\n"] {
        let answer = get(&here, "/registry/skills", headers).await;
        assert_eq!(ids(&answer.json()), ["inn/book", "inn/search"], "{headers}");
    }
}
