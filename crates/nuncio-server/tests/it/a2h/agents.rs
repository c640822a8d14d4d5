//! External agents: their accounts, their tokens, and search.

use nuncio_testkit::Method;
use serde_json::{Value, json};

use super::{A2hTestServer, agent_body, seed, with_required};

#[tokio::test]
async fn created_agent_has_its_manifest_and_is_publicly_readable() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let made = ada.send(Method::POST, "/agents", &agent_body(&seed())).await;
    assert_eq!(made.status, 201);
    let data = made.data();
    let (id, token) = (data["id"].as_str().unwrap(), data["token"].as_str().unwrap());
    assert_eq!(made.headers["location"], format!("/a2h/agents/{id}"));
    assert!(token.starts_with("hsk_") && token.len() == 44, "{token}");
    assert_eq!((&data["capability_manifest_version"], &data["connection_mode"]), (&json!(1), &json!("websocket")));

    // An unidentified caller sees only the public fields.
    let shown = world.server.send(Method::GET, &format!("/agents/{id}"), None, None).await;
    let hash = shown.data()["capability_manifest_hash"].as_str().unwrap().to_owned();
    assert_eq!(shown.data()["capability_manifest"], seed());
    assert!(shown.headers["etag"].to_str().unwrap().starts_with(&format!("\"{hash}.")), "{shown:?}");
    assert_eq!(shown.data()["owner"], json!({"type": "user", "user_id": "ada"}));
    assert!(shown.data().get("token").is_none() && shown.data().get("token_prefix").is_none());
    assert_eq!(ada.get(&format!("/agents/{id}")).await.data()["token_prefix"], json!(&token[..12]));
    // The hash is SHA-256 over the canonical JSON of RFC 8785.
    let canonical = nuncio_core::digest::canonical(&seed());
    assert_eq!(hash, nuncio_core::digest::Digest::of_bytes(&canonical).to_string());
}

#[tokio::test]
async fn unchanged_documents_are_answered_with_304() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (id, _) = ada.make_agent(&agent_body(&seed())).await;
    let path = format!("/agents/{id}");
    let read = async |path: &str, token: Option<&str>, tag: &str| {
        world.server.send_text(Method::GET, path, token, None, &[("if-none-match", tag)]).await.unwrap()
    };
    for path in [path.as_str(), &format!("{path}/manifests/1"), "/scopes"] {
        let first = world.server.send(Method::GET, path, None, None).await;
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        let again = read(path, None, &tag).await;
        assert_eq!(again.status, 304, "{path}");
        for name in ["etag", "cache-control", "vary"] {
            assert_eq!(again.headers[name], first.headers[name], "{path} {name}");
        }
        assert_eq!(read(path, None, &format!("\"other\", W/{tag}")).await.status, 304, "{path}");
        assert_eq!(read(path, None, "\"other\"").await.body, first.body, "{path}");
    }
    // The owner sees more than others, and every change of the account counts.
    let public = world.server.send(Method::GET, &path, None, None).await;
    let tag = public.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(read(&path, Some(&ada.token), &tag).await.status, 200);
    let changed = ada.send(Method::PATCH, &path, &json!({"display_name": "Notes 2"})).await;
    assert_eq!(read(&path, None, &tag).await.data()["display_name"], "Notes 2");
    let own = changed.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(read(&path, Some(&ada.token), &own).await.status, 304);
    // The same tag serves a conditional change.
    let body = json!({"capability_manifest": with_required(&["mode"])});
    let patch = async || world.server.send_with(Method::PATCH, &path, &ada.token, &body, &[("if-match", &own)]).await;
    assert_eq!(patch().await.status, 200);
    assert_eq!(patch().await.refusal(), (412, "MANIFEST_STALE"));
    assert_eq!(read(&path, Some(&ada.token), &own).await.status, 200);
}

#[tokio::test]
async fn errors_are_in_the_language_that_the_request_accepts() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let refused = async |path: &str, token: Option<&str>, language: &str| {
        world.server.send_text(Method::GET, path, token, None, &[("accept-language", language)]).await.unwrap()
    };
    // Errors of a route, of authentication, and for an unknown path.
    for (path, token) in [
        ("/h2a/relations/rel_none", Some(ada.token.as_str())),
        ("/users/me", Some("hsk_wrong")),
        ("/nowhere", Some(ada.token.as_str())),
    ] {
        let english = refused(path, token, "en, zh;q=0.5").await;
        let chinese = refused(path, token, "zh-CN,zh;q=0.9,en;q=0.8").await;
        assert_eq!(chinese.status, english.status, "{path}");
        assert_eq!(english.headers["content-language"], "en", "{path}");
        assert_eq!(chinese.headers["content-language"], "zh-CN", "{path}");
        let (english, chinese) = (&english.body["error"], &chinese.body["error"]);
        for same in ["code", "i18n_key"] {
            assert_eq!(chinese[same], english[same], "{path}");
        }
        assert!(english["message"].as_str().unwrap().is_ascii(), "{english}");
        let message = chinese["message"].as_str().unwrap();
        assert!(message.chars().any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter)), "{message}");
        assert_eq!(chinese["params"]["detail"], english["message"], "the params contain the English message");
    }
    let other = refused("/users/me", None, "de").await;
    assert_eq!(other.headers["content-language"], "en");
}

#[tokio::test]
async fn invalid_manifest_is_refused_with_every_fault_and_creates_no_agent() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let mut wrong = seed();
    wrong["schema_version"] = json!("2.0");
    wrong["tools"][0]["name"] = json!("Read-File");
    wrong["tools"][0]["permission_scope"] = json!("shell:exec");
    let refused = ada.send(Method::POST, "/agents", &agent_body(&wrong)).await;
    assert_eq!(refused.refusal(), (422, "MANIFEST_INVALID"));
    let error = &refused.body["error"];
    assert_eq!(error["i18n_key"], "errors.manifest_invalid");
    // Every fault is reported, each with its JSON pointer and its rule.
    let places: Vec<_> = error["params"]["errors"].as_array().unwrap().iter().map(|fault| &fault["pointer"]).collect();
    assert_eq!(places, ["/schema_version", "/tools/0/name", "/tools/0/permission_scope"]);
    assert!(error["params"]["errors"][0]["rule"].is_string());
    assert_eq!(ada.get("/agents?owner=me").await.body, json!({"data": [], "next_cursor": null}));
}

#[tokio::test]
async fn only_people_create_agents_and_only_owners_change_them() {
    let world = A2hTestServer::start().await;
    let (ada, bob) = (world.person("ada").await, world.person("bob").await);
    let (id, token) = ada.make_agent(&agent_body(&seed())).await;
    let path = format!("/agents/{id}");
    let body = json!({"capability_manifest": with_required(&["mode"])});
    let patch = async |token: Option<&str>| world.server.send(Method::PATCH, &path, token, Some(&body)).await;
    assert_eq!(patch(Some(&bob.token)).await.refusal(), (403, "NOT_OWNER"));
    // The agent's own token is refused, here and for every other change.
    assert_eq!(patch(Some(&token)).await.refusal(), (403, "NOT_OWNER"));
    for (method, path) in [
        (Method::POST, format!("{path}/token:rotate")),
        (Method::DELETE, format!("{path}/token")),
        (Method::POST, format!("{path}/manifest:diff")),
    ] {
        for other in [&token, &bob.token] {
            let refused = world.server.send(method.clone(), &path, Some(other), Some(&body)).await;
            assert_eq!(refused.refusal(), (403, "NOT_OWNER"), "{path}");
        }
    }
    let made = world.server.send(Method::POST, "/agents", Some(&token), Some(&agent_body(&seed()))).await;
    assert_eq!(made.refusal(), (403, "NOT_OWNER"));
    // A local caller without a token owns no agent.
    assert_eq!(patch(None).await.refusal(), (403, "NOT_OWNER"));
    let made = world.server.send(Method::POST, "/agents", None, Some(&agent_body(&seed()))).await;
    assert_eq!(made.refusal(), (401, "UNAUTHORIZED"));
    assert_eq!(ada.get(&path).await.data()["capability_manifest_version"], 1);
}

#[tokio::test]
async fn rotated_or_revoked_agent_token_is_refused() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (id, first) = ada.make_agent(&json!({"display_name": "Hidden"})).await;
    let path = format!("/agents/{id}");
    let own = format!("{path}/messages/poll?wait=0");
    let read = async |token: &str| world.server.send(Method::GET, &own, Some(token), None).await.status;
    assert_eq!(read(&first).await, 200);
    let rotated = ada.send(Method::POST, &format!("{path}/token:rotate"), &json!({})).await;
    let second = rotated.data()["token"].as_str().unwrap().to_owned();
    assert_eq!((read(&first).await, read(&second).await), (401, 200));
    let revoked = world.server.send(Method::DELETE, &format!("{path}/token"), Some(&ada.token), None).await;
    assert!(revoked.data().get("token_prefix").is_none());
    assert_eq!(read(&second).await, 401);
    let shown = world.server.send(Method::GET, &path, Some(&second), None).await;
    assert_eq!(shown.status, 200, "its description is public, whatever token is sent with it");
}

#[tokio::test]
async fn public_agents_are_found_by_text_search_in_pages_and_private_ones_are_not() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    for name in ["Notes one", "Notes two", "Notes three"] {
        ada.make_agent(&json!({"display_name": name, "public": true, "capability_manifest": seed()})).await;
    }
    let (hidden, _) = ada.make_agent(&json!({"display_name": "Notes hidden"})).await;
    let find = async |query: &str| world.server.send(Method::GET, &format!("/agents?{query}"), None, None).await.body;
    let mut found = Vec::new();
    let mut query = "q=notes&limit=2".to_owned();
    loop {
        let page = find(&query).await;
        let names = page["data"].as_array().unwrap().iter().map(|agent| agent["display_name"].clone());
        found.extend(names);
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        assert_eq!(found.len() % 2, 0);
        query = format!("q=notes&limit=2&cursor={cursor}");
    }
    found.sort_by_key(Value::to_string);
    assert_eq!(found, ["Notes one", "Notes three", "Notes two"]);
    // The search covers the scopes of tools too.
    assert_eq!(find("q=filesystem:read%20two").await["data"].as_array().unwrap().len(), 1);
    assert_eq!(find("q=nothing").await["data"], json!([]));
    assert_eq!(ada.get("/agents?owner=me").await.body["data"].as_array().unwrap().len(), 4);
    // A private agent is not found by search, but readable by its id.
    let bob = world.person("bob").await;
    assert_eq!(bob.get(&format!("/agents/{hidden}")).await.status, 200);
    world.gateway.key(&[]).await;
    let stranger = world.server.send(Method::GET, &format!("/agents/{hidden}"), None, None).await;
    let nobody = world.server.send(Method::GET, "/agents/agt_none", None, None).await;
    assert_eq!(stranger.body, nobody.body);
    assert_eq!(stranger.refusal(), (401, "UNAUTHORIZED"));
    assert_eq!(bob.get("/agents/agt_none").await.refusal(), (404, "UNKNOWN_AGENT"));
    for (query, code) in [("limit=0", "BAD_REQUEST"), ("limit=1000", "BAD_REQUEST"), ("cursor=%00", "BAD_CURSOR")] {
        assert_eq!(find(query).await["error"]["code"], code, "{query}");
    }
}

#[tokio::test]
async fn agent_account_patch_sets_or_clears_fields_and_an_invalid_one_changes_nothing() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let (id, _) = ada.make_agent(&json!({"display_name": "Notes", "description": "Keeps notes."})).await;
    let path = format!("/agents/{id}");
    let change = async |body: Value| ada.send(Method::PATCH, &path, &body).await;
    let data =
        change(json!({"webhook_url": "https://a.example/hook", "health_check_url": "https://a.example/up"})).await;
    let data = data.data().clone();
    assert_eq!((&data["connection_mode"], &data["webhook_url"]), (&json!("webhook"), &json!("https://a.example/hook")));
    assert_eq!(data["description"], "Keeps notes.");
    let data = change(json!({"description": null, "connection_mode": "websocket", "health_check_url": null})).await;
    let data = data.data().clone();
    assert_eq!((&data["description"], &data["connection_mode"]), (&Value::Null, &json!("websocket")));
    assert!(data.get("health_check_url").is_none() && data.get("webhook_url").is_none());
    for (bad, word) in [
        (json!({"display_name": ""}), "display_name"),
        (json!({"display_name": "a\u{202e}b"}), "U+202E"),
        (json!({"webhook_url": "http://a.example/"}), "webhook_url"),
        (json!({"webhook_url": "https://u:p@a.example/"}), "webhook_url"),
        (json!({"connection_mode": "polling"}), "polling"),
        (json!({"manifest": {}}), "manifest"),
        (json!({"change_note": "why"}), "change_note"),
        (json!({}), "nothing"),
        (json!([]), "a list"),
    ] {
        let refused = change(bad.clone()).await;
        assert_eq!(refused.refusal(), (400, "BAD_REQUEST"), "{bad}");
        assert!(refused.body["error"]["message"].as_str().unwrap().contains(word), "{bad}: {}", refused.body);
    }
    // An invalid manifest with a valid name changes neither of them.
    let both = change(json!({"display_name": "Other", "capability_manifest": {}})).await;
    assert_eq!(both.status, 422);
    assert_eq!(ada.get(&path).await.data()["display_name"], "Notes");
}
