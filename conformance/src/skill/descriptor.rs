//! Descriptors (§3): every field of the specified tables.

use reqwest::Method;
use serde_json::{Value, json};

use super::form::{self, ACCESS, AUTH, CAPABILITIES, METHODS, one_of_words, text, time, url, version};
use super::wire::{ALL, SkillServerUnderTest, descriptor_path};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal};

checks![
    descriptor_required_fields,
    descriptor_enums,
    descriptor_versions,
    descriptor_provider,
    descriptor_endpoint,
    descriptor_templates,
    descriptor_parameters,
    descriptor_output,
    descriptor_auth,
    descriptor_optional_fields,
    descriptor_unknown_is_404,
    descriptor_head_and_caching,
    descriptor_other_methods_are_405,
    descriptor_by_escaped_id,
    descriptor_has_every_declared_field,
    descriptor_of_each_auth,
    descriptor_methods_declared,
    descriptor_of_an_agent,
];

/// Descriptors of all public skills.
async fn all(api: &SkillServerUnderTest) -> Result<Vec<Value>, CheckStopReason> {
    let mut all = Vec::new();
    for entry in api.entries() {
        all.push(api.get(text(entry, "descriptor_url")?).await?.status(200)?.json()?);
    }
    Ok(all)
}

async fn descriptor_required_fields(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        for name in ["id", "name", "version", "capability_type", "description", "access"] {
            text(&descriptor, name)?;
        }
        for name in ["protocol", "provider", "endpoint", "output", "auth"] {
            ensure(descriptor[name].is_object(), || format!("{}: expected `{name}`", descriptor["id"]))?;
        }
        ensure(descriptor["inputs"].is_array(), || format!("{}: expected `inputs`", descriptor["id"]))?;
    }
    Ok(())
}

async fn descriptor_enums(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        one_of_words(&descriptor, "capability_type", &CAPABILITIES)?;
        one_of_words(&descriptor, "access", &ACCESS)?;
        one_of_words(&descriptor["auth"], "type", &AUTH)?;
        one_of_words(&descriptor["endpoint"], "method", &METHODS)?;
    }
    Ok(())
}

async fn descriptor_versions(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        version(&descriptor, "version")?;
        version(&descriptor["protocol"], "version")?;
        form::optional_text(&descriptor["protocol"], "changelog_url")?;
    }
    Ok(())
}

async fn descriptor_provider(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        text(&descriptor["provider"], "name")?;
        form::optional_text(&descriptor["provider"], "url")?;
        form::optional_text(&descriptor["provider"], "contact")?;
    }
    Ok(())
}

async fn descriptor_endpoint(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        let endpoint = &descriptor["endpoint"];
        url(endpoint, "url")?;
        form::optional_text(endpoint, "content_type")?;
        form::optional_number(endpoint, "timeout_ms")?;
        if let Some(retry) = endpoint.get("retry") {
            ensure(retry["max_attempts"].is_number() && retry["backoff_ms"].is_number(), || {
                format!("expected both numbers, got {retry}")
            })?;
        }
    }
    Ok(())
}

async fn descriptor_templates(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        for name in ["status_url", "result_url"] {
            url(&descriptor["endpoint"], name)?;
            let template = text(&descriptor["endpoint"], name)?;
            ensure(template.contains("{execution_id}"), || {
                format!("{name}: expected {{execution_id}}, got {template}")
            })?;
        }
    }
    Ok(())
}

fn parameter(parameter: &Value) -> CheckVerdict {
    for name in ["name", "type", "description"] {
        text(parameter, name)?;
    }
    ensure(parameter["required"].is_boolean(), || format!("expected `required`, got {parameter}"))?;
    let schema = parameter.get("schema");
    ensure(schema.is_none_or(Value::is_object), || format!("expected `schema` as an object, got {parameter}"))
}

async fn descriptor_parameters(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        descriptor["inputs"].as_array().into_iter().flatten().try_for_each(parameter)?;
    }
    Ok(())
}

async fn descriptor_output(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        let output = &descriptor["output"];
        text(output, "content_type")?;
        form::optional_text(output, "description")?;
        ensure(output.get("schema").is_none_or(Value::is_object), || format!("expected an object, got {output}"))?;
    }
    Ok(())
}

async fn descriptor_auth(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        let auth = &descriptor["auth"];
        match auth["type"].as_str() {
            Some("api_key") => text(auth, "header").map(drop)?,
            Some("oauth2") => {
                url(&auth["oauth2"], "authorization_url")?;
                url(&auth["oauth2"], "token_url")?;
                let scopes = auth["oauth2"]["scopes"].as_object();
                ensure(scopes.is_some_and(|scopes| scopes.values().all(Value::is_string)), || {
                    format!("expected scopes with their descriptions, got {auth}")
                })?;
            }
            Some("custom") => {
                text(&auth["custom"], "instructions")?;
                auth["custom"]["parameters"].as_array().into_iter().flatten().try_for_each(parameter)?;
            }
            _ => {}
        }
    }
    Ok(())
}

async fn descriptor_optional_fields(api: &SkillServerUnderTest) -> CheckVerdict {
    for descriptor in all(api).await? {
        let tags =
            descriptor.get("tags").map(|tags| tags.as_array().is_some_and(|tags| tags.iter().all(Value::is_string)));
        ensure(tags != Some(false), || format!("expected `tags` as texts, got {}", descriptor["tags"]))?;
        if descriptor.get("documentation_url").is_some() {
            url(&descriptor, "documentation_url")?;
        }
        for name in ["created_at", "updated_at"] {
            if descriptor.get(name).is_some() {
                time(&descriptor, name)?;
            }
        }
    }
    Ok(())
}

async fn descriptor_unknown_is_404(api: &SkillServerUnderTest) -> CheckVerdict {
    for id in ["nobody/nothing", "nothing", "probe/all/more", "PROBE/ALL", "..", "%00", "%ff", "a%2F..%2Fb"] {
        api.get(&descriptor_path(id)).await?.refused_as(404, "SKILL_NOT_FOUND")?;
    }
    let error = api.get(&descriptor_path("nobody/nothing")).await?.envelope()?;
    equal("details.skill_id", "nobody/nothing", error["details"]["skill_id"].as_str().unwrap_or_default())
}

async fn descriptor_head_and_caching(api: &SkillServerUnderTest) -> CheckVerdict {
    let Some(entry) = api.entries().first() else { return Ok(()) };
    let path = text(entry, "descriptor_url")?;
    let (get, head) = (api.get(path).await?, api.call(api.request(Method::HEAD, path)).await?);
    equal("body of HEAD", 0, head.status(200)?.body.len())?;
    let tag = get.header("etag");
    equal("etag of HEAD", tag, head.header("etag"))?;
    ensure(get.header("cache-control").contains("max-age="), || "expected how long it keeps".to_owned())?;
    api.get_with(path, &[("if-none-match", tag)]).await?.status(304).map(drop)
}

async fn descriptor_other_methods_are_405(api: &SkillServerUnderTest) -> CheckVerdict {
    let Some(entry) = api.entries().first() else { return Ok(()) };
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let reply = api.call(api.request(method, text(entry, "descriptor_url")?)).await?;
        reply.refused_as(405, "VALIDATION_ERROR")?;
        ensure(reply.header("allow").contains("GET"), || {
            format!("expected Allow with GET, got {}", reply.header("allow"))
        })?;
    }
    Ok(())
}

async fn descriptor_by_escaped_id(api: &SkillServerUnderTest) -> CheckVerdict {
    for entry in api.entries() {
        let id = text(entry, "id")?;
        let escaped = api.get(&descriptor_path(&id.replace('/', "%2F"))).await?.status(200)?.json()?;
        equal("id", id, escaped["id"].as_str().unwrap_or_default())?;
    }
    Ok(())
}

async fn descriptor_has_every_declared_field(api: &SkillServerUnderTest) -> CheckVerdict {
    let found = api.descriptor(ALL).await?;
    for (name, value) in [
        ("protocol", json!({ "version": "1.0.0" })),
        ("id", json!(ALL)),
        ("name", json!("All fields")),
        ("version", json!("2.1.0")),
        ("capability_type", json!("plugin")),
        ("description", json!("Returns its inputs.")),
        ("access", json!("public")),
        ("auth", json!({ "type": "none" })),
        ("tags", json!(["probe", "all"])),
        ("documentation_url", json!("https://probe.example/docs")),
    ] {
        equal(name, &value, &found[name])?;
    }
    equal("provider.name", "Probe Works", found["provider"]["name"].as_str().unwrap_or_default())?;
    equal("retry", json!({ "max_attempts": 3, "backoff_ms": 1000 }), found["endpoint"]["retry"].clone())?;
    equal("content_type", "application/json", found["endpoint"]["content_type"].as_str().unwrap_or_default())?;
    equal("timeout_ms", Some(30_000), found["endpoint"]["timeout_ms"].as_u64())?;
    ensure(time(&found, "created_at")?.starts_with("2025-01-15T08:00:00"), || format!("got {}", found["created_at"]))?;
    ensure(time(&found, "updated_at")?.starts_with("2025-06-20T14:30:00"), || format!("got {}", found["updated_at"]))?;
    equal("output.schema", json!(["text", "amount", "flag"]), found["output"]["schema"]["required"].clone())?;
    let inputs = found["inputs"].as_array().cloned().unwrap_or_default();
    let of = |name: &str| inputs.iter().find(|input| input["name"] == name).cloned().unwrap_or_default();
    for (name, kind, required) in [
        ("text", "string", true),
        ("amount", "number", false),
        ("flag", "boolean", false),
        ("list", "array", false),
        ("place", "object", false),
    ] {
        equal(
            name,
            (kind, Some(required)),
            (of(name)["type"].as_str().unwrap_or_default(), of(name)["required"].as_bool()),
        )?;
    }
    equal("default of amount", json!(7), of("amount")["default"].clone())?;
    equal("default of flag", json!(false), of("flag")["default"].clone())?;
    ensure(of("text").get("default").is_none(), || "expected no default of text".to_owned())?;
    equal("schema of list", json!("string"), of("list")["schema"]["items"]["type"].clone())?;
    equal("schema of place", json!(["lat", "lon"]), of("place")["schema"]["required"].clone())
}

async fn descriptor_of_each_auth(api: &SkillServerUnderTest) -> CheckVerdict {
    let auth = |descriptor: Value| descriptor["auth"].clone();
    equal("none", json!({ "type": "none" }), auth(api.descriptor(ALL).await?))?;
    let keyed = auth(api.descriptor("probe/keyed").await?);
    equal("api_key", (json!("api_key"), json!("X-API-Key")), (keyed["type"].clone(), keyed["header"].clone()))?;
    let named = auth(api.descriptor("probe/restricted").await?);
    equal("header", json!("X-Probe-Key"), named["header"].clone())?;
    let signed = auth(api.descriptor("probe/signed").await?);
    equal("custom", json!("custom"), signed["type"].clone())?;
    text(&signed["custom"], "instructions").map(drop)
}

async fn descriptor_methods_declared(api: &SkillServerUnderTest) -> CheckVerdict {
    for (skill, method) in [(ALL, "POST"), ("probe/get", "GET"), ("probe/put", "PUT"), ("probe/delete", "DELETE")] {
        equal(skill, json!(method), api.descriptor(skill).await?["endpoint"]["method"].clone())?;
    }
    Ok(())
}

async fn descriptor_of_an_agent(api: &SkillServerUnderTest) -> CheckVerdict {
    let found = api.descriptor("probe/ask").await?;
    let inputs = found["inputs"].as_array().cloned().unwrap_or_default();
    equal("inputs", 1, inputs.len())?;
    equal("input", json!("text"), inputs[0]["name"].clone())?;
    equal("output", json!(["text"]), found["output"]["schema"]["required"].clone())
}
