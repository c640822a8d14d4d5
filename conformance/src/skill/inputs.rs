//! Inputs (§5.3, §3.5.2): validated before acceptance, completed with defaults.

use serde_json::{Value, json};

use super::wire::{ALL, Api, ended, wish};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    inputs_that_do_not_fit_are_400,
    inputs_faults_have_places,
    inputs_get_their_defaults,
    inputs_survive_as_they_are,
    request_without_a_field_is_400,
    request_of_wrong_types_is_400,
    request_for_another_skill_is_400,
    request_with_repeated_keys_is_400,
    request_with_more_fields_is_fine,
    request_body_that_is_no_object_is_400,
];

async fn inputs_that_do_not_fit_are_400(api: &Api) -> CheckVerdict {
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

async fn inputs_faults_have_places(api: &Api) -> CheckVerdict {
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

async fn inputs_get_their_defaults(api: &Api) -> CheckVerdict {
    let over = api.done(ALL, json!({ "text": "x" })).await?;
    equal("output", json!({ "text": "x", "amount": 7, "flag": false }), over["output"].clone())?;
    let over = api.done(ALL, json!({ "text": "x", "amount": 0, "flag": true })).await?;
    equal("output", json!({ "text": "x", "amount": 0, "flag": true }), over["output"].clone())
}

async fn inputs_survive_as_they_are(api: &Api) -> CheckVerdict {
    for text in ["", "日本語 🏨", "a\u{0}b", "line\r\nline", "\u{202e}right to left", &"long ".repeat(20_000)] {
        let over = api.done(ALL, json!({ "text": text, "amount": 9_007_199_254_740_993_i64 })).await?;
        ended(&over, "completed")?;
        equal("text", json!(text), over["output"]["text"].clone())?;
        equal("amount", json!(9_007_199_254_740_993_i64), over["output"]["amount"].clone())?;
    }
    Ok(())
}

async fn request_without_a_field_is_400(api: &Api) -> CheckVerdict {
    let whole = wish(ALL, json!({ "text": "x" }));
    for path in ["/caller", "/skill_id", "/inputs", "/caller/id", "/caller/type"] {
        let mut body = whole.clone();
        let (above, name) = path.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(object)) = body.pointer_mut(above) {
            object.remove(name);
        }
        let error = api.invoke_with(ALL, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
        let found = error["details"]["violations"][0]["path"].as_str().unwrap_or_default().to_owned();
        equal("path", path, found.as_str())?;
    }
    Ok(())
}

async fn request_of_wrong_types_is_400(api: &Api) -> CheckVerdict {
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
        let mut body = wish(ALL, json!({ "text": "x" }));
        body[name] = value;
        api.invoke_with(ALL, &body, &[]).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn request_for_another_skill_is_400(api: &Api) -> CheckVerdict {
    api.invoke_with(ALL, &wish("probe/wait", json!({ "text": "x" })), &[])
        .await?
        .refused_as(400, "VALIDATION_ERROR")
        .map(drop)
}

async fn request_with_repeated_keys_is_400(api: &Api) -> CheckVerdict {
    let good = wish(ALL, json!({ "text": "x" })).to_string();
    for body in [
        good.replace("\"text\":", "\"text\":\"y\",\"text\":"),
        good.replace("\"caller\":", "\"caller\":{},\"caller\":"),
    ] {
        api.post(ALL, body).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn request_with_more_fields_is_fine(api: &Api) -> CheckVerdict {
    let mut body = wish(ALL, json!({ "text": "x" }));
    body["new_in_1_1"] = json!({ "a": 1 });
    body["caller"]["nickname"] = json!("n");
    body["context"] = json!({ "new_in_1_1": true });
    api.invoke_with(ALL, &body, &[]).await?.status(202).map(drop)
}

async fn request_body_that_is_no_object_is_400(api: &Api) -> CheckVerdict {
    let bodies: [&[u8]; 9] =
        [b"", b"{", b"null", b"[]", b"7", b"\"text\"", b"{} {}", b"{\"caller\":\"\xc3\x28\"}", b"\xef\xbb\xbf{}"];
    for body in bodies {
        api.post(ALL, body.to_vec()).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = wish(ALL, json!({ "text": "DEEP" })).to_string().replace("\"DEEP\"", &deep);
    api.post(ALL, body).await?.refused_as(400, "VALIDATION_ERROR").map(drop)
}
