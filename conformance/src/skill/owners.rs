//! Ownership of executions: only the caller may read and cancel them.

use reqwest::Method;
use serde_json::json;

use super::wire::{
    ALL, SkillServerUnderTest, WAIT, ended, execution_id, fresh, invocation, result_path, status_path, with,
};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    only_the_caller_reads_an_execution,
    only_the_caller_cancels_an_execution,
    execution_of_another_caller_looks_unknown,
    execution_of_anonymous_caller_is_readable_by_id,
    idempotency_keys_of_callers_are_separate
];

async fn only_the_caller_reads_an_execution(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation("probe/keyed", json!({ "text": "x" }));
    let id = execution_id(&api.invoke_with("probe/keyed", &body, &[api.key()?]).await?)?;
    let bearer = format!("Bearer {}", api.key()?.1);
    for own in [api.key()?, ("authorization", bearer.as_str())] {
        api.get_with(&status_path(&id), &[own]).await?.status(200)?;
        api.get_with(&result_path(&id), &[own]).await?.status(200)?;
    }
    // The key header that the skill declares works too.
    let body = invocation("probe/restricted", json!({ "text": "x" }));
    let named = ("x-probe-key", api.key()?.1);
    let id = execution_id(&api.invoke_with("probe/restricted", &body, &[named]).await?)?;
    api.get_with(&status_path(&id), &[named]).await?.status(200).map(drop)
}

async fn only_the_caller_cancels_an_execution(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation(WAIT, json!({ "text": "x", "delay_ms": 2000 }));
    let id = execution_id(&api.invoke_with(WAIT, &body, &[api.key()?]).await?)?;
    for headers in [vec![], vec![api.other_key()?]] {
        for (method, path) in
            [(Method::DELETE, status_path(&id)), (Method::POST, format!("{}/cancel", status_path(&id)))]
        {
            api.call(with(api.request(method, &path), &headers)).await?.refused_as(404, "SKILL_NOT_FOUND")?;
        }
    }
    let seen = api.poll(&id, &[api.key()?]).await?;
    ended(seen.last().unwrap_or(&json!(null)), "completed")
}

async fn execution_of_another_caller_looks_unknown(api: &SkillServerUnderTest) -> CheckVerdict {
    let body = invocation("probe/keyed", json!({ "text": "x" }));
    let id = execution_id(&api.invoke_with("probe/keyed", &body, &[api.key()?]).await?)?;
    // This id has the same length and does not exist.
    let (head, tail) = id.split_at(id.len() - 8);
    let absent: String = format!("{head}{}", tail.chars().rev().collect::<String>());
    ensure(absent != id, || "expected another id".to_owned())?;
    for headers in [vec![], vec![api.other_key()?]] {
        for path in [status_path, result_path] {
            let (theirs, nobodys) =
                (api.get_with(&path(&id), &headers).await?, api.get_with(&path(&absent), &headers).await?);
            theirs.refused_as(404, "SKILL_NOT_FOUND")?;
            equal("the answer", nobodys.fingerprint(&absent), theirs.fingerprint(&id))?;
        }
    }
    Ok(())
}

async fn execution_of_anonymous_caller_is_readable_by_id(api: &SkillServerUnderTest) -> CheckVerdict {
    let id = api.accepted(ALL, json!({ "text": "x" })).await?;
    for headers in [vec![], vec![api.key()?], vec![api.other_key()?]] {
        api.get_with(&status_path(&id), &headers).await?.status(200)?;
    }
    Ok(())
}

async fn idempotency_keys_of_callers_are_separate(api: &SkillServerUnderTest) -> CheckVerdict {
    let key = fresh(api).await?;
    let body = invocation("probe/keyed", json!({ "text": "x" }));
    let mut ids = Vec::new();
    for who in [api.key()?, api.other_key()?] {
        let reply = api.invoke_with("probe/keyed", &body, &[who, ("idempotency-key", &key)]).await?;
        ids.push(execution_id(&reply)?);
    }
    ensure(ids[0] != ids[1], || "expected one caller's key to mean nothing to another".to_owned())
}
