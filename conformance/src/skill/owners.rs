//! Ownership of executions: only the caller may read and cancel them.

use reqwest::Method;
use serde_json::json;

use super::wire::{ALL, Api, WAIT, ended, execution_id, fresh, result_path, status_path, wish, with};
use crate::verdict::{CheckVerdict, ensure, equal};

checks![
    owners_alone_read,
    owners_alone_cancel,
    owners_others_cannot_tell,
    owners_nobodys_by_id,
    owners_keys_are_their_own
];

async fn owners_alone_read(api: &Api) -> CheckVerdict {
    let body = wish("probe/keyed", json!({ "text": "x" }));
    let id = execution_id(&api.invoke_with("probe/keyed", &body, &[api.key()?]).await?)?;
    let bearer = format!("Bearer {}", api.key()?.1);
    for own in [api.key()?, ("authorization", bearer.as_str())] {
        api.get_with(&status_path(&id), &[own]).await?.status(200)?;
        api.get_with(&result_path(&id), &[own]).await?.status(200)?;
    }
    // The header of the skill's own scheme works too.
    let body = wish("probe/restricted", json!({ "text": "x" }));
    let named = ("x-probe-key", api.key()?.1);
    let id = execution_id(&api.invoke_with("probe/restricted", &body, &[named]).await?)?;
    api.get_with(&status_path(&id), &[named]).await?.status(200).map(drop)
}

async fn owners_alone_cancel(api: &Api) -> CheckVerdict {
    let body = wish(WAIT, json!({ "text": "x", "delay_ms": 2000 }));
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

async fn owners_others_cannot_tell(api: &Api) -> CheckVerdict {
    let body = wish("probe/keyed", json!({ "text": "x" }));
    let id = execution_id(&api.invoke_with("probe/keyed", &body, &[api.key()?]).await?)?;
    // An unknown id of the same length.
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

async fn owners_nobodys_by_id(api: &Api) -> CheckVerdict {
    let id = api.accepted(ALL, json!({ "text": "x" })).await?;
    for headers in [vec![], vec![api.key()?], vec![api.other_key()?]] {
        api.get_with(&status_path(&id), &headers).await?.status(200)?;
    }
    Ok(())
}

async fn owners_keys_are_their_own(api: &Api) -> CheckVerdict {
    let key = fresh(api).await?;
    let body = wish("probe/keyed", json!({ "text": "x" }));
    let mut ids = Vec::new();
    for who in [api.key()?, api.other_key()?] {
        let reply = api.invoke_with("probe/keyed", &body, &[who, ("idempotency-key", &key)]).await?;
        ids.push(execution_id(&reply)?);
    }
    ensure(ids[0] != ids[1], || "expected one caller's key to mean nothing to another".to_owned())
}
