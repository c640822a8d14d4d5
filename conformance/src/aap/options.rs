//! Session options and the redaction of secrets.

use serde_json::{Value, json};

use super::listing::every_session;
use super::script::{play, text, user};
use super::wire::{AapServerUnderTest, SCRIPT};
use crate::verdict::{CheckVerdict, equal, lacks};

checks![
    option_shown_as_set,
    option_secret_never_in_clear,
    option_secret_placeholder,
    option_placeholder_means_unchanged,
    option_unknown_refused,
    option_select_outside_list_refused,
    option_not_text_refused,
    option_refused_in_turn_changes_nothing,
];

const SECRET_OPTION_VALUE: &str = "sk-conformance-7f3a91c2";

async fn option_shown_as_set(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "options": { "language": "de", "model": "large" } })).await?;
    let options = &api.read_session(&session).await?["agent"]["options"];
    equal("language", &json!("de"), &options["language"])?;
    equal("model", &json!("large"), &options["model"])
}

async fn option_secret_never_in_clear(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "options": { "apiKey": SECRET_OPTION_VALUE } })).await?;
    let later = format!("{SECRET_OPTION_VALUE}-later");
    let body = json!({
        "messages": [play(&[vec![text("hello")]])],
        "agent": { "options": { "apiKey": later } },
    });
    let answer = api.post_turn(&session, &body).await?;
    lacks("the turn", SECRET_OPTION_VALUE, &answer.text())?;
    for path in ["", "/history?type=full", "/history?type=compacted"] {
        let reply = api.get(&format!("/sessions/{session}{path}")).await?;
        lacks(&reply.asked, SECRET_OPTION_VALUE, &reply.status(200)?.text())?;
    }
    lacks("GET /sessions", SECRET_OPTION_VALUE, &json!(every_session(api).await?).to_string())
}

async fn option_secret_placeholder(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "options": { "apiKey": SECRET_OPTION_VALUE } })).await?;
    equal("apiKey", &json!("***"), &api.read_session(&session).await?["agent"]["options"]["apiKey"])?;
    let listed = every_session(api).await?;
    let entry = listed.iter().find(|entry| entry["sessionId"] == session.as_str());
    equal("apiKey in the list", Some(&json!("***")), entry.map(|entry| &entry["agent"]["options"]["apiKey"]))
}

async fn option_placeholder_means_unchanged(api: &AapServerUnderTest) -> CheckVerdict {
    // A black-box check sees only that the placeholder is accepted and the option stays set; the server's own tests
    // check that the value is unchanged.
    let session = api.session(json!({ "options": { "apiKey": SECRET_OPTION_VALUE } })).await?;
    let echoed = api.read_session(&session).await?["agent"]["options"].clone();
    let body = json!({ "messages": [play(&[vec![text("hello")]])], "agent": { "options": echoed } });
    api.ask(&session, &body).await?;
    equal("apiKey", &json!("***"), &api.read_session(&session).await?["agent"]["options"]["apiKey"])
}

async fn option_unknown_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, json!({ "colour": "blue" })).await
}

async fn option_select_outside_list_refused(api: &AapServerUnderTest) -> CheckVerdict {
    refused(api, json!({ "model": "enormous" })).await
}

async fn option_not_text_refused(api: &AapServerUnderTest) -> CheckVerdict {
    for value in [json!(1), json!(true), json!(null), json!(["de"]), json!({ "code": "de" })] {
        refused(api, json!({ "language": value })).await?;
    }
    refused(api, json!(["language"])).await?;
    refused(api, json!("language")).await
}

/// Checks that the options are refused for a new session and in a turn.
async fn refused(api: &AapServerUnderTest, options: Value) -> CheckVerdict {
    let body = json!({ "agent": { "name": SCRIPT, "options": options } });
    api.post("/sessions", &body).await?.refused(400)?;
    let session = api.session(json!({})).await?;
    let body = json!({ "messages": [user("hello")], "agent": { "options": options } });
    api.post_turn(&session, &body).await?.refused(400)
}

async fn option_refused_in_turn_changes_nothing(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({ "options": { "language": "de" } })).await?;
    let before = api.read_session(&session).await?;
    let body = json!({
        "messages": [play(&[vec![text("hello")]])],
        "agent": { "options": { "language": "fr", "model": "enormous" }, "tools": [{ "name": "add" }] },
    });
    api.post_turn(&session, &body).await?.refused(400)?;
    equal("session", &before, &api.read_session(&session).await?)?;
    equal("history", Vec::<Value>::new(), api.history(&session, "full").await?)
}
