//! Authentication and authorization (§7, §8.3.2, §8.3.3): declared key headers, and 401 and 403 that say what is
//! missing.

use serde_json::json;

use super::wire::{ALL, SkillServerUnderTest, invocation};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    auth_none_needs_no_credential,
    auth_missing_is_401,
    auth_wrong_is_401,
    auth_401_names_the_scheme,
    auth_401_has_a_challenge,
    auth_key_in_the_named_header,
    auth_header_names_have_no_case,
    auth_key_in_another_header_is_401,
    auth_bearer_key,
    auth_key_in_the_body,
    auth_header_goes_before_body,
    auth_without_scope_is_403,
    auth_public_with_key_needs_no_scope,
    auth_comes_before_faults,
    auth_caller_id_in_body_is_not_trusted,
];

/// Skills that require an API key, each with its key header.
const KEYED_SKILLS: [(&str, &str); 2] = [("probe/keyed", "X-API-Key"), ("probe/restricted", "X-Probe-Key")];

async fn auth_none_needs_no_credential(api: &SkillServerUnderTest) -> CheckVerdict {
    api.invoke(ALL, json!({ "text": "x" })).await?.status(202).map(drop)
}

async fn auth_missing_is_401(api: &SkillServerUnderTest) -> CheckVerdict {
    for skill in ["probe/keyed", "probe/restricted", "probe/signed", "probe/signed-public"] {
        api.invoke(skill, json!({ "text": "x" })).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    Ok(())
}

async fn auth_wrong_is_401(api: &SkillServerUnderTest) -> CheckVerdict {
    for (skill, header) in KEYED_SKILLS {
        for key in ["nk_wrong", "", "Bearer x"] {
            api.invoke_with(skill, &invocation(skill, json!({ "text": "x" })), &[(header, key)])
                .await?
                .refused_as(401, "AUTH_REQUIRED")?;
        }
        let bearer = [("authorization", "Bearer nk_wrong")];
        let error = api
            .invoke_with(skill, &invocation(skill, json!({ "text": "x" })), &bearer)
            .await?
            .refused_as(401, "AUTH_REQUIRED")?;
        equal("details.required_auth_type", json!("api_key"), error["details"]["required_auth_type"].clone())?;
    }
    Ok(())
}

async fn auth_401_names_the_scheme(api: &SkillServerUnderTest) -> CheckVerdict {
    for (skill, header) in KEYED_SKILLS {
        let error = api.invoke(skill, json!({ "text": "x" })).await?.refused_as(401, "AUTH_REQUIRED")?;
        equal("details", json!({ "required_auth_type": "api_key", "header": header }), error["details"].clone())?;
        equal("retry", json!({ "suggested_delay_ms": 0, "max_attempts": 1 }), error["retry"].clone())?;
    }
    let error = api.invoke("probe/signed", json!({ "text": "x" })).await?.refused_as(401, "AUTH_REQUIRED")?;
    equal("details.required_auth_type", json!("custom"), error["details"]["required_auth_type"].clone())
}

async fn auth_401_has_a_challenge(api: &SkillServerUnderTest) -> CheckVerdict {
    for skill in ["probe/keyed", "probe/restricted", "probe/signed"] {
        let reply = api.invoke(skill, json!({ "text": "x" })).await?;
        ensure(!reply.header("www-authenticate").is_empty(), || format!("{skill}: expected WWW-Authenticate"))?;
    }
    Ok(())
}

async fn auth_key_in_the_named_header(api: &SkillServerUnderTest) -> CheckVerdict {
    let (_, key) = api.key()?;
    for (skill, header) in KEYED_SKILLS {
        api.invoke_with(skill, &invocation(skill, json!({ "text": "x" })), &[(header, key)]).await?.status(202)?;
    }
    Ok(())
}

async fn auth_header_names_have_no_case(api: &SkillServerUnderTest) -> CheckVerdict {
    let (_, key) = api.key()?;
    for header in ["x-probe-key", "X-PROBE-KEY"] {
        let body = invocation("probe/restricted", json!({ "text": "x" }));
        api.invoke_with("probe/restricted", &body, &[(header, key)]).await?.status(202)?;
    }
    Ok(())
}

async fn auth_key_in_another_header_is_401(api: &SkillServerUnderTest) -> CheckVerdict {
    let (_, key) = api.key()?;
    let body = invocation("probe/keyed", json!({ "text": "x" }));
    for header in ["x-probe-key", "x-key", "cookie"] {
        api.invoke_with("probe/keyed", &body, &[(header, key)]).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    Ok(())
}

async fn auth_bearer_key(api: &SkillServerUnderTest) -> CheckVerdict {
    let bearer = format!("Bearer {}", api.key()?.1);
    for (skill, _) in KEYED_SKILLS {
        api.invoke_with(skill, &invocation(skill, json!({ "text": "x" })), &[("authorization", &bearer)])
            .await?
            .status(202)?;
    }
    Ok(())
}

async fn auth_key_in_the_body(api: &SkillServerUnderTest) -> CheckVerdict {
    for (skill, _) in KEYED_SKILLS {
        let mut body = invocation(skill, json!({ "text": "x" }));
        body["caller"]["credentials"] = json!({ "api_key": api.key()?.1 });
        let reply = api.invoke_with(skill, &body, &[("prefer", "wait=30")]).await?;
        // The credential is removed before the skill receives the request.
        equal("output", json!({ "text": "x" }), reply.status(200)?.json()?["output"].clone())?;
        ensure(!reply.text().contains(api.key()?.1), || "expected no key in the answer".to_owned())?;
        body["caller"]["credentials"] = json!({ "api_key": "nk_wrong" });
        api.invoke_with(skill, &body, &[]).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    Ok(())
}

async fn auth_header_goes_before_body(api: &SkillServerUnderTest) -> CheckVerdict {
    for (skill, header) in KEYED_SKILLS {
        let mut body = invocation(skill, json!({ "text": "x" }));
        body["caller"]["credentials"] = json!({ "api_key": api.key()?.1 });
        api.invoke_with(skill, &body, &[(header, "nk_wrong")]).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    Ok(())
}

async fn auth_without_scope_is_403(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation("probe/restricted", json!({ "text": "x" }));
    let error =
        api.invoke_with("probe/restricted", &body, &[api.other_key()?]).await?.refused_as(403, "PERMISSION_DENIED")?;
    let details = &error["details"];
    equal("required_scopes", json!(["probe:use"]), details["required_scopes"].clone())?;
    ensure(details["granted_scopes"].is_array(), || format!("expected granted_scopes, got {details}"))
}

async fn auth_public_with_key_needs_no_scope(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation("probe/keyed", json!({ "text": "x" }));
    api.invoke_with("probe/keyed", &body, &[api.other_key()?]).await?.status(202).map(drop)
}

async fn auth_comes_before_faults(api: &SkillServerUnderTest) -> CheckVerdict {
    // An unauthenticated caller does not learn whether its body is valid.
    for body in ["{", "{}", "[]"] {
        api.post("probe/restricted", body).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    let body = invocation("probe/restricted", json!({ "text": 7 }));
    api.invoke_with("probe/restricted", &body, &[]).await?.refused_as(401, "AUTH_REQUIRED")?;
    api.invoke_with("probe/restricted", &body, &[api.other_key()?]).await?.refused_as(403, "PERMISSION_DENIED")?;
    api.invoke_with("probe/restricted", &body, &[api.key()?]).await?.refused_as(400, "VALIDATION_ERROR").map(drop)
}

async fn auth_caller_id_in_body_is_not_trusted(api: &SkillServerUnderTest) -> CheckVerdict {
    for id in ["operator", "local", "admin", "probe:use"] {
        let mut body = invocation("probe/restricted", json!({ "text": "x" }));
        body["caller"] = json!({ "id": id, "type": "user" });
        api.invoke_with("probe/restricted", &body, &[]).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    Ok(())
}
