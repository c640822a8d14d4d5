//! Inputs (§5.3, §3.5.2): validated before acceptance, completed with defaults.

use serde_json::{Value, json};

use super::wire::{ALL, SkillServerUnderTest, ended, invocation};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    invalid_inputs_are_400,
    input_faults_have_paths,
    inputs_get_their_defaults,
    inputs_reach_the_skill_unchanged,
    request_without_a_field_is_400,
    request_of_wrong_types_is_400,
    request_for_another_skill_is_400,
    request_with_repeated_keys_is_400,
    request_with_unknown_fields_is_accepted,
    request_body_other_than_object_is_400,
];

async fn invalid_inputs_are_400(api: &SkillServerUnderTest) -> CheckVerdict {
    for inputs in [
        json!({}),
        json!({ "text": 7 }),
        json!({ "text": null }),
        json!({ "text": "x", "amount": "many" }),
        json!({ "text": "x", "list": ["a", 1] }),
        json!({ "text": "x", "place": { "lat": 1 } }),
        json!({ "text": "x", "no such": true }),
    ] {
        api.invoke(ALL, inputs).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn input_faults_have_paths(api: &SkillServerUnderTest) -> CheckVerdict {
    let error = api.invoke(ALL, json!({ "text": 7, "amount": "many" })).await?.refused_as(400, "VALIDATION_ERROR")?;
    let violations = error["details"]["violations"].as_array().cloned().unwrap_or_default();
    let mut paths: Vec<_> = violations.iter().filter_map(|fault| fault["path"].as_str()).collect();
    paths.sort_unstable();
    equal("paths", vec!["/inputs/amount", "/inputs/text"], paths)?;
    for fault in &violations {
        let said = ["path", "message", "expected", "actual"].iter().all(|name| fault.get(name).is_some());
        ensure(said && fault["message"].is_string(), || format!("expected four fields, got {fault}"))?;
    }
    equal("expected", json!("number"), violations[0]["expected"].clone())
}

async fn inputs_get_their_defaults(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait(ALL, json!({ "text": "x" })).await?;
    equal("output", json!({ "text": "x", "amount": 7, "flag": false }), over["output"].clone())?;
    let over = api.invoke_and_wait(ALL, json!({ "text": "x", "amount": 0, "flag": true })).await?;
    equal("output", json!({ "text": "x", "amount": 0, "flag": true }), over["output"].clone())
}

async fn inputs_reach_the_skill_unchanged(api: &SkillServerUnderTest) -> CheckVerdict {
    for text in ["", "日本語 🏨", "a\u{0}b", "line\r\nline", "\u{202e}right to left", &"long ".repeat(20_000)] {
        let over = api.invoke_and_wait(ALL, json!({ "text": text, "amount": 9_007_199_254_740_993_i64 })).await?;
        ended(&over, "completed")?;
        equal("text", json!(text), over["output"]["text"].clone())?;
        equal("amount", json!(9_007_199_254_740_993_i64), over["output"]["amount"].clone())?;
    }
    Ok(())
}

async fn request_without_a_field_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    let whole = invocation(ALL, json!({ "text": "x" }));
    for path in ["/caller", "/skill_id", "/inputs", "/caller/id", "/caller/type"] {
        let mut body = whole.clone();
        let (above, name) = path.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(object)) = body.pointer_mut(above) {
            object.shift_remove(name);
        }
        let error = api.invoke_with(ALL, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
        let found = error["details"]["violations"][0]["path"].as_str().unwrap_or_default().to_owned();
        equal("path", path, found.as_str())?;
    }
    Ok(())
}

async fn request_of_wrong_types_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    for (name, value) in [
        ("caller", json!("me")),
        ("caller", json!({ "id": 7, "type": "service" })),
        ("caller", json!({ "id": "x", "type": ["service"] })),
        ("caller", json!({ "id": "x", "type": "service", "credentials": "secret" })),
        ("skill_id", json!(7)),
        ("inputs", json!([])),
        ("inputs", json!(null)),
        ("context", json!("now")),
        ("context", json!({ "trace_id": 7 })),
        ("context", json!({ "priority": "urgent" })),
        ("context", json!({ "timeout_ms": "1000" })),
    ] {
        let mut body = invocation(ALL, json!({ "text": "x" }));
        body[name] = value;
        api.invoke_with(ALL, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn request_for_another_skill_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    api.invoke_with(ALL, &invocation("probe/wait", json!({ "text": "x" })), &[])
        .await?
        .refused_as(400, "VALIDATION_ERROR")
        .map(drop)
}

async fn request_with_repeated_keys_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    let good = invocation(ALL, json!({ "text": "x" })).to_string();
    for body in [
        good.replace("\"text\":", "\"text\":\"y\",\"text\":"),
        good.replace("\"caller\":", "\"caller\":{},\"caller\":"),
    ] {
        api.post(ALL, body).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn request_with_unknown_fields_is_accepted(api: &SkillServerUnderTest) -> CheckVerdict {
    let mut body = invocation(ALL, json!({ "text": "x" }));
    body["new_in_1_1"] = json!({ "a": 1 });
    body["caller"]["nickname"] = json!("n");
    body["context"] = json!({ "new_in_1_1": true });
    api.invoke_with(ALL, &body, &[]).await?.status(202).map(drop)
}

async fn request_body_other_than_object_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    let bodies: [&[u8]; 9] =
        [b"", b"{", b"null", b"[]", b"7", b"\"text\"", b"{} {}", b"{\"caller\":\"\xc3\x28\"}", b"\xef\xbb\xbf{}"];
    for body in bodies {
        api.post(ALL, body.to_vec()).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = invocation(ALL, json!({ "text": "DEEP" })).to_string().replace("\"DEEP\"", &deep);
    api.post(ALL, body).await?.refused_as(400, "VALIDATION_ERROR").map(drop)
}
