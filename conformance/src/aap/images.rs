//! Image URLs: some are accepted, others are refused before the turn starts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::script::{pick, script, text};
use super::tools::with_pick;
use super::wire::AapServerUnderTest;
use crate::verdict::{CheckVerdict, equal};

checks![
    image_https_accepted,
    image_data_accepted,
    image_kept_in_history,
    image_plain_http_refused,
    image_other_schemes_refused,
    image_bad_base64_refused,
    image_other_types_refused,
    image_without_url_refused,
    image_in_tool_result,
    image_in_seed_checked,
];

const ONE_PIXEL_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn pixel() -> String {
    format!("data:image/png;base64,{ONE_PIXEL_PNG}")
}

/// User message with an image at `url` and a script.
fn showing(url: &Value) -> Value {
    json!({ "role": "user", "content": [
        { "type": "image", "url": url },
        { "type": "text", "text": script(&[vec![text("seen")]]) },
    ] })
}

async fn accepted(api: &AapServerUnderTest, url: &str) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let answer = api.ask(&session, &json!({ "messages": [showing(&json!(url))] })).await?;
    equal("text", "seen", answer.text().as_str())
}

/// Checks that the image is refused with 400 in every stream mode and that nothing is stored.
async fn refused(api: &AapServerUnderTest, url: &Value) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    for mode in ["none", "delta", "message"] {
        let body = json!({ "messages": [showing(url)], "stream": mode });
        api.post_turn(&session, &body).await?.refused(400)?;
    }
    equal("history", Vec::<Value>::new(), api.history(&session, "full").await?)
}

async fn image_https_accepted(api: &AapServerUnderTest) -> CheckVerdict {
    accepted(api, "https://images.example/room.png").await
}

async fn image_data_accepted(api: &AapServerUnderTest) -> CheckVerdict {
    accepted(api, &pixel()).await
}

async fn image_kept_in_history(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let message = showing(&json!(pixel()));
    api.ask(&session, &json!({ "messages": [message.clone()] })).await?;
    equal("stored", Some(&message), api.history(&session, "full").await?.first())
}

async fn image_plain_http_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, &json!("http://images.example/room.png")).await?;
    refused(api, &json!("HTTP://images.example/room.png")).await
}

async fn image_other_schemes_refused(api: &AapServerUnderTest) -> CheckVerdict {
    for url in [
        "file:///etc/passwd",
        "ftp://images.example/room.png",
        "javascript:alert(1)",
        "//images.example/room.png",
        "room.png",
        "https://",
        "",
    ] {
        refused(api, &json!(url)).await?;
    }
    Ok(())
}

async fn image_bad_base64_refused(api: &AapServerUnderTest) -> CheckVerdict {
    for url in [
        "data:image/png;base64,@@@@".to_owned(),
        format!("data:image/png;base64,{}", &ONE_PIXEL_PNG[..ONE_PIXEL_PNG.len() - 3]),
        format!("data:image/png,{ONE_PIXEL_PNG}"),
        "data:image/png;base64,".to_owned(),
        "data:".to_owned(),
    ] {
        refused(api, &json!(url)).await?;
    }
    Ok(())
}

async fn image_other_types_refused(api: &AapServerUnderTest) -> CheckVerdict {
    for (kind, bytes) in [("text/plain", "hello"), ("text/html", "<p>hello"), ("application/pdf", "%PDF-1.7")] {
        refused(api, &json!(format!("data:{kind};base64,{}", BASE64_STANDARD.encode(bytes)))).await?;
    }
    Ok(())
}

async fn image_without_url_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, &Value::Null).await?;
    refused(api, &json!(7)).await
}

async fn image_in_tool_result(api: &AapServerUnderTest) -> CheckVerdict {
    let session = with_pick(api, json!([])).await?;
    let asked = api.run_script(&session, &[vec![pick("c1")], vec![text("seen")]]).await?;
    equal("stopReason", "tool_use", asked.stop())?;
    let showing = |url: &str| {
        let content = json!([{ "type": "image", "url": url }]);
        json!({ "messages": [{ "role": "tool", "toolCallId": "c1", "content": content }] })
    };
    api.post_turn(&session, &showing("http://images.example/room.png")).await?.refused(400)?;
    equal("text", "seen", api.ask(&session, &showing(&pixel())).await?.text().as_str())
}

async fn image_in_seed_checked(api: &AapServerUnderTest) -> CheckVerdict {
    let body = |url: &str| json!({ "agent": { "name": "script" }, "messages": [showing(&json!(url))] });
    api.post("/sessions", &body("http://images.example/room.png")).await?.refused(400)?;
    api.create(&body(&pixel())).await.map(drop)
}
