//! Signed requests with the reference `custom` scheme (§7.2.3), `hmac-sha256-v1`.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Method;
use ring::{hmac, rand};
use serde_json::json;

use super::wire::{
    HttpReply, SkillServerUnderTest, WELL_KNOWN, descriptor_path, execution_id, ids, invocation, invoke_path,
    status_path, with,
};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal, fail, skip};

checks![
    signature_is_accepted,
    signature_of_another_body_is_401,
    signature_replayed_is_401,
    signature_with_wrong_time_is_401,
    signature_with_missing_headers_is_401,
    signing_secret_is_not_accepted_as_key,
    signature_reads_own_execution,
    signature_shows_private_skills,
];

struct SkillSignatureHeaders {
    signature: String,
    timestamp: String,
    nonce: String,
}

impl SkillSignatureHeaders {
    fn headers(&self) -> [(&str, &str); 4] {
        [
            ("x-signature", &self.signature),
            ("x-signature-timestamp", &self.timestamp),
            ("x-signature-nonce", &self.nonce),
            ("content-type", "application/json"),
        ]
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Signs a body with version 1 and a timestamp `from_now` seconds away.
fn sign(api: &SkillServerUnderTest, body: &str, from_now: i64) -> Result<SkillSignatureHeaders, CheckStopReason> {
    make(api, "v1", from_now, |timestamp, nonce| format!("{timestamp}.{nonce}.{body}"))
}

/// Signs a GET request with version 2, which covers method and target.
fn sign_get(api: &SkillServerUnderTest, path: &str) -> Result<SkillSignatureHeaders, CheckStopReason> {
    make(api, "v2", 0, |timestamp, nonce| format!("{timestamp}\n{nonce}\nGET\n{path}\n"))
}

#[expect(clippy::disallowed_methods, reason = "a stranger has no clock but the machine's")]
fn make(
    api: &SkillServerUnderTest,
    version: &str,
    from_now: i64,
    message: impl FnOnce(&str, &str) -> String,
) -> Result<SkillSignatureHeaders, CheckStopReason> {
    let secret = api.target.secret.as_deref().ok_or_else(|| skip("no secret was given"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| fail("the clock is before 1970"))?;
    let timestamp = now.as_secs().saturating_add_signed(from_now).to_string();
    let random = rand::generate::<[u8; 16]>(&rand::SystemRandom::new()).map_err(|_| fail("no random numbers"))?;
    let nonce = hex(&random.expose());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, message(&timestamp, &nonce).as_bytes());
    Ok(SkillSignatureHeaders { signature: format!("{version}={}", hex(tag.as_ref())), timestamp, nonce })
}

fn body(skill: &str) -> String {
    invocation(skill, json!({ "text": "signed" })).to_string()
}

async fn post(
    api: &SkillServerUnderTest,
    skill: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> Result<HttpReply, CheckStopReason> {
    api.call(with(api.request(Method::POST, &invoke_path(skill)).body(body.to_owned()), headers)).await
}

const SIGNED_SKILL: &str = "probe/signed";

async fn signature_is_accepted(api: &SkillServerUnderTest) -> CheckVerdict {
    for skill in [SIGNED_SKILL, "probe/signed-public", "probe/signed-private"] {
        let body = body(skill);
        post(api, skill, &body, &sign(api, &body, 0)?.headers()).await?.status(202)?;
    }
    Ok(())
}

async fn signature_of_another_body_is_401(api: &SkillServerUnderTest) -> CheckVerdict {
    let good = body(SIGNED_SKILL);
    for other in [good.replace("signed\"", "forged\""), format!("{good} "), String::new()] {
        post(api, SIGNED_SKILL, &other, &sign(api, &good, 0)?.headers()).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    Ok(())
}

async fn signature_replayed_is_401(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = body(SIGNED_SKILL);
    let signed = sign(api, &body, 0)?;
    post(api, SIGNED_SKILL, &body, &signed.headers()).await?.status(202)?;
    post(api, SIGNED_SKILL, &body, &signed.headers()).await?.refused_as(401, "AUTH_REQUIRED").map(drop)
}

async fn signature_with_wrong_time_is_401(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = body(SIGNED_SKILL);
    for from_now in [-3600, 3600] {
        post(api, SIGNED_SKILL, &body, &sign(api, &body, from_now)?.headers())
            .await?
            .refused_as(401, "AUTH_REQUIRED")?;
    }
    Ok(())
}

async fn signature_with_missing_headers_is_401(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = body(SIGNED_SKILL);
    for left_out in 0..3 {
        let signed = sign(api, &body, 0)?;
        let headers: Vec<_> =
            signed.headers().into_iter().enumerate().filter(|(n, _)| *n != left_out).map(|(_, h)| h).collect();
        post(api, SIGNED_SKILL, &body, &headers).await?.refused_as(401, "AUTH_REQUIRED")?;
    }
    for signature in ["", "v1=", "v2=00", "v3=00", "v1=zz", "v1=00"] {
        let mut signed = sign(api, &body, 0)?;
        signature.clone_into(&mut signed.signature);
        let error = post(api, SIGNED_SKILL, &body, &signed.headers()).await?.refused_as(401, "AUTH_REQUIRED")?;
        equal("details.required_auth_type", json!("custom"), error["details"]["required_auth_type"].clone())?;
    }
    Ok(())
}

async fn signing_secret_is_not_accepted_as_key(api: &SkillServerUnderTest) -> CheckVerdict {
    let secret = api.target.secret.as_deref().unwrap_or_default();
    let body = body("probe/keyed");
    let headers = [("content-type", "application/json"), ("x-api-key", secret)];
    post(api, "probe/keyed", &body, &headers).await?.refused_as(401, "AUTH_REQUIRED")?;
    let signed = sign(api, &body, 0)?;
    post(api, "probe/keyed", &body, &signed.headers()).await?.refused_as(401, "AUTH_REQUIRED").map(drop)
}

async fn signature_reads_own_execution(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = body(SIGNED_SKILL);
    let id = execution_id(&post(api, SIGNED_SKILL, &body, &sign(api, &body, 0)?.headers()).await?)?;
    api.get_with(&status_path(&id), &sign_get(api, &status_path(&id))?.headers()[..3]).await?.status(200)?;
    let by_version_1 = api.get_with(&status_path(&id), &sign(api, "", 0)?.headers()[..3]).await?;
    ensure(by_version_1.code == 401, || format!("expected 401 for version 1, got {}", by_version_1.code))?;
    api.get(&status_path(&id)).await?.refused_as(404, "SKILL_NOT_FOUND")?;
    api.get_with(&status_path(&id), &[api.key()?]).await?.refused_as(404, "SKILL_NOT_FOUND").map(drop)
}

async fn signature_shows_private_skills(api: &SkillServerUnderTest) -> CheckVerdict {
    let index = api.get_with(WELL_KNOWN, &sign_get(api, WELL_KNOWN)?.headers()[..3]).await?.status(200)?.json()?;
    ensure(ids(&index).contains(&"probe/signed-private"), || format!("expected it, got {:?}", ids(&index)))?;
    let path = descriptor_path("probe/signed-private");
    api.get_with(&path, &sign_get(api, &path)?.headers()[..3]).await?.status(200).map(drop)
}
