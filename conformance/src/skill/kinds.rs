//! The four capability types (§3.4.1): found, described and invoked in the same way.

use serde_json::json;

use super::form::CAPABILITIES;
use super::wire::{SkillServerUnderTest, ended, status_path};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![skills_of_every_type_are_invoked_alike, agent_skill_returns_its_text, human_task_is_polled_like_other_skills];

async fn skills_of_every_type_are_invoked_alike(api: &SkillServerUnderTest) -> CheckVerdict {
    let mut seen = Vec::new();
    for skill in ["probe/all", "probe/delete", "probe/get", "probe/put"] {
        let descriptor = api.descriptor(skill).await?;
        seen.push(descriptor["capability_type"].as_str().unwrap_or_default().to_owned());
        ended(&api.invoke_and_wait(skill, json!({ "text": "x" })).await?, "completed")?;
    }
    for kind in CAPABILITIES {
        ensure(seen.iter().any(|seen| seen == kind), || format!("expected one of kind {kind}, got {seen:?}"))?;
    }
    Ok(())
}

async fn agent_skill_returns_its_text(api: &SkillServerUnderTest) -> CheckVerdict {
    let over = api.invoke_and_wait("probe/ask", json!({ "text": "hello" })).await?;
    ended(&over, "completed")?;
    equal("output", json!({ "text": "You said: hello" }), over["output"].clone())?;
    for inputs in [json!({}), json!({ "text": "" }), json!({ "text": 7 }), json!({ "text": "x", "more": 1 })] {
        api.invoke("probe/ask", inputs).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn human_task_is_polled_like_other_skills(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted("probe/person", json!({ "text": "carry it" })).await?;
    let reply = api.get_with(&status_path(&id), &[("prefer", "wait=1")]).await?;
    let seen = reply.status(200)?.json()?;
    ended(&seen, "running")?;
    ensure(!reply.header("retry-after").is_empty(), || "expected Retry-After".to_owned())?;
    api.call(api.request(reqwest::Method::DELETE, &status_path(&id))).await?.status(202).map(drop)
}
