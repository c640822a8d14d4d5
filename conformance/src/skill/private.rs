//! Private skills are indistinguishable from missing ones for callers without access: in documents, responses and
//! error details (§3.4.2, §4.4, §7.3).

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use super::wire::{SkillServerUnderTest, descriptor_path, invocation, invoke_path, with};
use crate::verdict::{CheckStopReason, CheckVerdict, equal};

checks![
    private_descriptor_shown,
    private_descriptor_hidden,
    private_invoke_hidden,
    private_skill_is_invoked_by_authorized_callers
];

/// Private skills, each with an id of the same length that does not exist.
const PRIVATE_AND_MISSING_SKILLS: [(&str, &str); 2] =
    [("probe/private", "probe/priva-x"), ("probe/signed-private", "probe/signed-priva-x")];

async fn private_descriptor_shown(api: &SkillServerUnderTest) -> CheckVerdict {
    for (private, _) in PRIVATE_AND_MISSING_SKILLS {
        let reply = api.get_with(&descriptor_path(private), &[api.key()?]).await?;
        let descriptor = reply.status(200)?.json()?;
        equal("access", json!("private"), descriptor["access"].clone())?;
        equal("cache-control", "private, no-store", reply.header("cache-control"))?;
    }
    Ok(())
}

/// Header sets of callers without access to the private skills.
fn strangers(api: &SkillServerUnderTest) -> Result<Vec<Vec<(&'static str, &str)>>, CheckStopReason> {
    let signature = [("x-signature", "v1=00"), ("x-signature-timestamp", "1"), ("x-signature-nonce", "12345678")];
    Ok(vec![
        vec![],
        vec![api.other_key()?],
        vec![("x-api-key", "nk_wrong")],
        vec![("authorization", "Bearer nk_wrong")],
        vec![("authorization", "Basic bm9ib2R5Og==")],
        signature.to_vec(),
    ])
}

async fn private_descriptor_hidden(api: &SkillServerUnderTest) -> CheckVerdict {
    for (private, unknown) in PRIVATE_AND_MISSING_SKILLS {
        for headers in strangers(api)? {
            for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
                let ask = |id| api.call(with(api.request(method.clone(), &descriptor_path(id)), &headers));
                let (hidden, absent) = (ask(private).await?, ask(unknown).await?);
                equal(&hidden.asked, absent.fingerprint(unknown), hidden.fingerprint(private))?;
            }
        }
        api.get(&descriptor_path(private)).await?.refused_as(404, "SKILL_NOT_FOUND")?;
    }
    Ok(())
}

/// Method, content type, body and additional headers of a request.
type PrivateSkillRequestCase<'a> = (Method, &'a str, String, &'a [(&'a str, &'a str)]);

async fn private_invoke_hidden(api: &SkillServerUnderTest) -> CheckVerdict {
    let json = "application/json";
    for (private, unknown) in PRIVATE_AND_MISSING_SKILLS {
        for headers in strangers(api)? {
            let good = invocation("ID", json!({ "text": "hello" })).to_string();
            let cases: [PrivateSkillRequestCase<'_>; 14] = [
                (Method::POST, json, good.clone(), &[]),
                (Method::POST, json, good.clone(), &[("prefer", "wait=1")]),
                (Method::POST, json, good.clone(), &[("idempotency-key", "")]),
                (Method::POST, json, good.clone(), &[("x-skill-priority", "no such")]),
                (Method::POST, json, good.replace("hello", &"x".repeat(2 << 20)), &[]),
                (Method::POST, json, good.replace("\"text\"", "\"other\""), &[]),
                (Method::POST, json, "{".to_owned(), &[]),
                (Method::POST, json, String::new(), &[]),
                (Method::POST, "text/plain", good.clone(), &[]),
                (Method::PUT, json, good.clone(), &[]),
                (Method::GET, json, String::new(), &[]),
                (Method::DELETE, json, String::new(), &[]),
                (Method::PATCH, json, good.clone(), &[]),
                (Method::OPTIONS, json, String::new(), &[]),
            ];
            for (method, kind, body, more) in cases {
                let ask = |id: &str| {
                    let request = api.request(method.clone(), &invoke_path(id)).header(CONTENT_TYPE, kind);
                    api.call(with(with(request.body(body.replace("ID", id)), &headers), more))
                };
                let (hidden, absent) = (ask(private).await?, ask(unknown).await?);
                equal(
                    &format!("{} with {headers:?} {more:?}", hidden.asked),
                    absent.fingerprint(unknown),
                    hidden.fingerprint(private),
                )?;
            }
        }
        api.invoke(private, json!({ "text": "hello" })).await?.refused_as(404, "SKILL_NOT_FOUND")?;
    }
    Ok(())
}

async fn private_skill_is_invoked_by_authorized_callers(api: &SkillServerUnderTest) -> CheckVerdict {
    let (private, _) = PRIVATE_AND_MISSING_SKILLS[0];
    let reply = api
        .invoke_with(private, &invocation(private, json!({ "text": "hello" })), &[api.key()?, ("prefer", "wait=30")])
        .await?;
    let execution = reply.status(200)?.json()?;
    equal("output", json!({ "text": "hello" }), execution["output"].clone())
}
