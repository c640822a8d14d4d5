//! Section "Who may use what".

use anyhow::ensure;
use serde_json::json;

use crate::{Attack, Pace, Target, http_client};

pub(crate) const ATTACKS: &[Attack] = &[Attack {
    name: "request_without_key_is_refused_once_keys_exist",
    before: "401",
    pace: Pace::Quick,
    run: |target| Box::pin(request_without_key_is_refused_once_keys_exist(target)),
}];

async fn request_without_key_is_refused_once_keys_exist(target: Target) -> anyhow::Result<String> {
    let server = target.server().start()?;
    server.create_key(&[])?;
    let session = json!({"agent": {"name": "desk"}});
    let post = http_client().post(format!("{}/aap/sessions", server.url())).json(&session);
    let status = post.send().await?.status();
    ensure!(status == 401, "AAP answered {status}");
    Ok("401".to_owned())
}
