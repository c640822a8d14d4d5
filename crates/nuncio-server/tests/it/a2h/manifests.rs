//! Manifests: validation rules, versions, and the effects of a change.

use std::collections::BTreeSet;

use nuncio_core::manifest::{LARGE_BYTES, MAX_BYTES};
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{A2hResponse, TestDevice};
use serde_json::{Value, json};

use super::{A2hTestServer, agent_body, seed, with_required, with_scope};

async fn agent(world: &A2hTestServer) -> (TestDevice, String) {
    let ada = world.person("ada").await;
    let (id, _) = ada.make_agent(&agent_body(&seed())).await;
    (ada, id)
}

fn of_size(bytes: usize) -> Value {
    let mut manifest = seed();
    let used = nuncio_core::digest::canonical(&manifest).len();
    let padding = bytes - used - ",\"x\":\"\"".len();
    manifest["x"] = json!("x".repeat(padding));
    assert_eq!(nuncio_core::digest::canonical(&manifest).len(), bytes);
    manifest
}

#[tokio::test]
async fn manifest_versions_increase_and_an_equal_manifest_makes_no_new_version() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let changed = ada.publish(&id, &with_required(&["mode"])).await;
    let (data, change) = (changed.data(), &changed.data()["manifest_change"]);
    assert_eq!(data["capability_manifest_version"], 2);
    assert_eq!((&change["changed"], &change["breaking"]), (&json!(true), &json!(true)));
    assert_eq!(change["scopes_requiring_reauth"], json!(["filesystem:read"]));
    assert!(change["findings"][0]["witness"].is_object(), "{change}");
    // The same manifest with other formatting makes no new version.
    let spaced =
        format!("{{\"capability_manifest\": {}}}", serde_json::to_string_pretty(&with_required(&["mode"])).unwrap());
    let path = format!("/agents/{id}");
    let again = world.server.send_text(Method::PATCH, &path, Some(&ada.token), Some(spaced), &[]).await.unwrap();
    assert_eq!(again.data()["capability_manifest_version"], 2);
    assert_eq!(again.data()["manifest_change"]["changed"], false);
    let note = json!({"capability_manifest": seed(), "change_note": "Back to one argument."});
    assert_eq!(ada.send(Method::PATCH, &path, &note).await.data()["capability_manifest_version"], 3);
    // Clearing the manifest makes a new version.
    let cleared = ada.publish(&id, &Value::Null).await;
    assert_eq!(cleared.data()["capability_manifest"], Value::Null);
    assert_eq!(cleared.data()["capability_manifest_hash"], Value::Null);
    assert_eq!(cleared.data()["capability_manifest_version"], 4);

    let first = ada.get(&format!("{path}/manifests?limit=3")).await.body;
    let versions = |page: &Value| -> Vec<u64> {
        page["data"].as_array().unwrap().iter().map(|version| version["version"].as_u64().unwrap()).collect()
    };
    assert_eq!(versions(&first), [4, 3, 2]);
    assert_eq!(first["data"][1]["change_note"], "Back to one argument.");
    assert_eq!(first["data"][2]["change"]["breaking"], true);
    let rest = ada.get(&format!("{path}/manifests?cursor={}", first["next_cursor"].as_str().unwrap())).await.body;
    assert_eq!((versions(&rest), &rest["next_cursor"]), (vec![1], &Value::Null));
    let second = ada.get(&format!("{path}/manifests/2")).await;
    assert_eq!(second.data()["capability_manifest"], with_required(&["mode"]));
    for none in ["0", "5", "x", "99999999999999999999"] {
        assert_eq!(ada.get(&format!("{path}/manifests/{none}")).await.refusal(), (404, "NOT_FOUND"), "{none}");
    }
}

#[tokio::test]
async fn manifest_dry_run_reports_effects_and_changes_nothing() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let path = format!("/agents/{id}/manifest:diff");
    let body = json!({"capability_manifest": with_scope("location:read", "high")});
    let verdict = ada.send(Method::POST, &path, &body).await.data().clone();
    let fields: BTreeSet<_> = verdict.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, BTreeSet::from(["breaking", "scopes_requiring_reauth", "findings", "notices"]));
    assert_eq!(verdict["breaking"], true);
    assert_eq!(verdict["scopes_requiring_reauth"], json!(["location:read"]));
    let same = ada.send(Method::POST, &path, &json!({"capability_manifest": seed()})).await;
    assert_eq!(same.data()["breaking"], false);
    let wrong = ada.send(Method::POST, &path, &json!({"capability_manifest": {}})).await;
    assert_eq!(wrong.refusal(), (422, "MANIFEST_INVALID"));
    assert_eq!(ada.get(&format!("/agents/{id}")).await.data()["capability_manifest_version"], 1);
}

#[tokio::test]
async fn manifest_with_an_input_schema_without_type_is_published() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let mut manifest = seed();
    manifest["tools"][0]["input_schema"].as_object_mut().unwrap().shift_remove("type");
    assert_eq!(ada.publish(&id, &manifest).await.status, 200);
    assert_eq!(ada.get(&format!("/agents/{id}")).await.data()["capability_manifest"], manifest);
}

#[tokio::test]
async fn manifest_or_account_update_with_a_stale_if_match_is_refused() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let path = format!("/agents/{id}");
    let hash = ada.get(&path).await.data()["capability_manifest_hash"].as_str().unwrap().to_owned();
    let patch = async |tag: &str, body: Value| {
        world.server.send_with(Method::PATCH, &path, &ada.token, &body, &[("if-match", tag)]).await
    };
    let body = json!({"capability_manifest": with_required(&["mode"])});
    let tag = format!("\"{hash}\"");
    assert_eq!(patch(&tag, body.clone()).await.status, 200);
    let lost = patch(&tag, json!({"capability_manifest": with_required(&["other"])})).await;
    assert_eq!(lost.refusal(), (412, "MANIFEST_STALE"));
    assert_eq!(lost.body["error"]["params"]["manifest_version"], 2);
    // `If-Match` protects the account's other fields too.
    assert_eq!(patch(&tag, json!({"display_name": "Late"})).await.status, 412);
    assert_eq!(patch(&tag, json!({"display_name": "Late", "capability_manifest": seed()})).await.status, 412);
    assert_eq!(ada.get(&path).await.data()["display_name"], "Notes");
    assert_eq!(patch("*", json!({"display_name": "In time"})).await.status, 200);
    assert_eq!(patch(&hash, body).await.refusal(), (400, "BAD_HEADER"));
    ada.publish(&id, &Value::Null).await;
    assert_eq!(patch(&tag, json!({"capability_manifest": seed()})).await.status, 412, "the manifest was removed");
    let etag = |answer: &A2hResponse| answer.headers["etag"].to_str().unwrap().to_owned();
    let bare = etag(&ada.get(&path).await);
    assert_eq!(patch(&bare, json!({"display_name": "Bare"})).await.status, 200, "{bare}");
    assert_eq!(patch(&bare, json!({"display_name": "Late"})).await.status, 412, "the name changed since");
    assert_eq!(patch("*", json!({"display_name": "Named"})).await.status, 200);
    let bare = etag(&ada.get(&path).await);
    assert_eq!(patch(&bare, json!({"capability_manifest": seed()})).await.status, 200);
    assert_eq!(patch(&bare, json!({"capability_manifest": seed()})).await.status, 412);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_concurrent_account_updates_with_the_same_if_match_succeeds() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let path = format!("/agents/{id}");
    let tag = ada.get(&path).await.headers["etag"].to_str().unwrap().to_owned();
    let requests = (0..20).map(|number| {
        let (server, token, path, tag) = (world.server.clone(), ada.token.clone(), path.clone(), tag.clone());
        tokio::spawn(async move {
            let body = json!({"display_name": format!("Name {number}")});
            server.send_with(Method::PATCH, &path, &token, &body, &[("if-match", &tag)]).await.status
        })
    });
    let mut statuses = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        statuses.push(request.await.unwrap());
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 19, "{statuses:?}");
}

#[tokio::test]
async fn stale_if_match_of_a_caller_who_is_not_the_owner_reveals_no_manifest() {
    let world = A2hTestServer::start().await;
    let (_, id) = agent(&world).await;
    let eve = world.person("eve").await;
    let body = json!({"display_name": "Mine"});
    let stale = [("if-match", "\"0\"")];
    let refused = world.server.send_with(Method::PATCH, &format!("/agents/{id}"), &eve.token, &body, &stale).await;
    assert_eq!(refused.refusal(), (403, "NOT_OWNER"));
    assert!(refused.body["error"]["params"]["manifest_hash"].is_null(), "{:?}", refused.body);
}

/// A2H §2.3 and acceptance row 1, measured on canonical bytes.
#[tokio::test]
async fn manifest_size_limit_applies_to_canonical_bytes_without_whitespace() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let path = format!("/agents/{id}");
    let too_large = ada.publish(&id, &of_size(MAX_BYTES + 1)).await;
    assert_eq!(too_large.refusal(), (413, "MANIFEST_TOO_LARGE"));
    let largest = ada.publish(&id, &of_size(MAX_BYTES)).await;
    assert_eq!(largest.data()["manifest_change"]["warnings"][0]["rule"], "large");
    let small = ada.publish(&id, &of_size(LARGE_BYTES - 1)).await;
    let rules = |reply: &Value| -> Vec<Value> {
        reply.as_array().unwrap().iter().map(|warning| warning["rule"].clone()).collect()
    };
    assert!(!rules(&small.data()["manifest_change"]["warnings"]).contains(&json!("large")));
    ada.publish(&id, &of_size(LARGE_BYTES)).await;
    // Whitespace does not count towards the limit, but has a limit of its own.
    let spaces = |count: usize| format!("{{\"capability_manifest\": {}{} }}", seed(), " ".repeat(count));
    let send = async |body: String| {
        world.server.send_text(Method::PATCH, &path, Some(&ada.token), Some(body), &[]).await.unwrap()
    };
    assert_eq!(send(spaces(2 * MAX_BYTES)).await.status, 200);
    assert_eq!(send(spaces(5 * MAX_BYTES)).await.refusal(), (413, "BODY_TOO_LARGE"));

    let metrics =
        world.gateway.raw("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let large: u64 = metrics
        .body
        .lines()
        .filter(|line| line.starts_with("nuncio_manifests_published_total") && line.contains("large=\"yes\""))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(large, 2, "{}", metrics.body);
}

#[tokio::test]
async fn manifest_with_duplicate_keys_inexact_numbers_deep_nesting_or_malformed_json_is_refused() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let path = format!("/agents/{id}");
    let manifest = seed().to_string();
    let with = |extra: &str| format!("{{\"capability_manifest\": {},{extra}}}}}", manifest.strip_suffix('}').unwrap());
    for (body, code) in [
        (with(r#""x": 9007199254740993"#), "MANIFEST_INVALID"),
        (with(r#""x": 1e400"#), "MANIFEST_INVALID"),
        (with(r#""x": 1, "x": 2"#), "MANIFEST_INVALID"),
        (with(&format!("\"x\": {}{}", "[".repeat(10_000), "]".repeat(10_000))), "MANIFEST_INVALID"),
        ("{\"capability_manifest\": {}, \"capability_manifest\": {}}".to_owned(), "BAD_REQUEST"),
        ("{\"capability_manifest\": ".to_owned(), "BAD_JSON"),
        ("\u{feff}{}".to_owned(), "BAD_JSON"),
    ] {
        let refused = world.server.send_text(Method::PATCH, &path, Some(&ada.token), Some(body.clone()), &[]).await;
        assert_eq!(refused.unwrap().refusal().1, code, "{}", &body[..body.len().min(80)]);
    }
    let untyped = world.server.send_text(Method::PATCH, &path, Some(&ada.token), None, &[]).await.unwrap();
    assert_eq!(untyped.refusal(), (415, "UNSUPPORTED_MEDIA_TYPE"));
    assert_eq!(ada.get(&path).await.data()["capability_manifest_version"], 1);
}

/// Every error code of A2H §8 that a manifest alone can cause.
#[tokio::test]
async fn every_violated_manifest_rule_gets_its_error_code() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let broken = |change: fn(&mut Value)| {
        let mut manifest = seed();
        change(&mut manifest);
        manifest
    };
    let own = json!({
        "id": "shell:exec", "label_i18n_key": "a", "description_i18n_key": "b", "sensitivity": "low",
        "label_fallback": "Run", "description_fallback": "Run programs.",
    });
    let mut below = seed();
    below["permission_scopes"].as_array_mut().unwrap().push(own.clone());
    let mut wordless = seed();
    let mut scope = own;
    scope["sensitivity"] = json!("high");
    scope.as_object_mut().unwrap().shift_remove("label_fallback");
    wordless["permission_scopes"].as_array_mut().unwrap().push(scope);
    for (manifest, code) in [
        (broken(|it| it["permission_scopes"][0]["id"] = json!("system:read")), "MANIFEST_SCOPE_RESERVED"),
        (broken(|it| it["tools"][0]["permission_scope"] = json!("x:y")), "MANIFEST_SCOPE_UNDECLARED"),
        (broken(|it| it["tools"] = json!([it["tools"][0], it["tools"][0]])), "MANIFEST_TOOL_DUPLICATE"),
        (broken(|it| it["tools"][0]["input_schema"]["type"] = json!("thing")), "MANIFEST_SCHEMA_INVALID"),
        (below, "MANIFEST_SENSITIVITY_BELOW_FLOOR"),
        (wordless, "MANIFEST_FALLBACK_MISSING"),
        (broken(|it| it["agent_version"] = json!("one")), "MANIFEST_INVALID"),
    ] {
        let refused = ada.publish(&id, &manifest).await;
        let codes: Vec<_> = refused.body["error"]["params"]["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|fault| fault["code"].as_str().unwrap().to_uppercase())
            .collect();
        assert_eq!(refused.status, 422, "{code}: {}", refused.body);
        assert!(codes.contains(&code.to_owned()), "{code}: {}", refused.body);
        assert_eq!(refused.body["error"]["i18n_key"], format!("errors.{}", refused.refusal().1.to_lowercase()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_concurrent_manifest_updates_get_versions_without_gaps() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let path = format!("/agents/{id}");
    let requests = (0..50).map(|number| {
        let (server, token, path) = (world.server.clone(), ada.token.clone(), path.clone());
        tokio::spawn(async move {
            let mut manifest = seed();
            manifest["agent_version"] = json!(format!("1.0.{}", number + 1));
            let body = json!({"capability_manifest": manifest});
            let reply = server.send(Method::PATCH, &path, Some(&token), Some(&body)).await;
            (
                reply.data()["capability_manifest_version"].as_u64().unwrap(),
                reply.data()["capability_manifest_hash"].clone(),
            )
        })
    });
    let mut given = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        given.push(request.await.unwrap());
    }
    given.sort_by_key(|(version, _)| *version);
    assert_eq!(given.iter().map(|(version, _)| *version).collect::<Vec<_>>(), (2..=51).collect::<Vec<_>>());
    let page = ada.get(&format!("{path}/manifests?limit=50")).await.body;
    let kept: Vec<_> = page["data"].as_array().unwrap().iter().rev().map(|version| version["hash"].clone()).collect();
    assert_eq!(kept, given.into_iter().map(|(_, hash)| hash).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_concurrent_manifest_updates_with_the_same_if_match_succeeds() {
    let world = A2hTestServer::start().await;
    let (ada, id) = agent(&world).await;
    let path = format!("/agents/{id}");
    let tag = format!("\"{}\"", ada.get(&path).await.data()["capability_manifest_hash"].as_str().unwrap());
    let requests = (0..20).map(|number| {
        let (server, token, path, tag) = (world.server.clone(), ada.token.clone(), path.clone(), tag.clone());
        tokio::spawn(async move {
            let mut manifest = seed();
            manifest["agent_version"] = json!(format!("1.0.{}", number + 1));
            let body = json!({"capability_manifest": manifest});
            server.send_with(Method::PATCH, &path, &token, &body, &[("if-match", &tag)]).await.status
        })
    });
    let mut statuses = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        statuses.push(request.await.unwrap());
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 19, "{statuses:?}");
}
