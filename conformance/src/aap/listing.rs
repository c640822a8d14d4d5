//! `GET /sessions`: paging.

use serde_json::{Value, json};

use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal, fail};

checks![
    list_shape,
    list_pages_cover_everything,
    list_last_page_has_no_next,
    list_newest_first,
    list_fifty_a_page,
    list_bad_cursor_is_400,
];

/// Number of sessions that the check creates, more than fit on one page.
const SESSION_COUNT: usize = 52;

async fn list_shape(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.any_session().await?;
    let listed = every_session(api).await?;
    let entry = listed.iter().find(|entry| entry["sessionId"] == session.as_str());
    let entry = entry.ok_or_else(|| fail("expected the new session in the list, got it missing"))?;
    equal("entry", &api.read_session(&session).await?, entry)
}

async fn list_pages_cover_everything(api: &AapServerUnderTest) -> CheckVerdict {
    let made = make(api, SESSION_COUNT).await?;
    let listed = every_session(api).await?;
    for session in &made {
        let times = listed.iter().filter(|entry| entry["sessionId"] == session.as_str()).count();
        equal("times a session is listed", 1, times)?;
    }
    Ok(())
}

async fn list_last_page_has_no_next(api: &AapServerUnderTest) -> CheckVerdict {
    api.any_session().await?;
    let mut after = None;
    for _ in 0..MAX_PAGES {
        let body = page(api, after.as_deref()).await?;
        match body.get("next") {
            None => return Ok(()),
            Some(Value::String(next)) if !next.is_empty() => after = Some(next.clone()),
            Some(other) => {
                return Err(fail(format!("expected `next` to be a cursor or absent, got {other}")));
            }
        }
    }
    Err(fail(format!("expected a last page, got none among {MAX_PAGES}")))
}

async fn list_newest_first(api: &AapServerUnderTest) -> CheckVerdict {
    let mut made = make(api, 3).await?;
    made.reverse();
    let listed = every_session(api).await?;
    let ours: Vec<&str> = listed
        .iter()
        .filter_map(|entry| entry["sessionId"].as_str())
        .filter(|id| made.iter().any(|mine| mine == id))
        .collect();
    equal("order", made, ours)
}

async fn list_fifty_a_page(api: &AapServerUnderTest) -> CheckVerdict {
    make(api, SESSION_COUNT).await?;
    let first = page(api, None).await?;
    equal("sessions on the first page", Some(50), first["sessions"].as_array().map(Vec::len))?;
    ensure(first["next"].is_string(), || "expected `next` on a full page, got none".to_owned())
}

async fn list_bad_cursor_is_400(api: &AapServerUnderTest) -> CheckVerdict {
    for cursor in ["not-a-cursor", "%00%ff", "999999999999999999999999"] {
        api.get(&format!("/sessions?after={cursor}")).await?.refused(400)?;
    }
    Ok(())
}

/// Maximum number of pages to read.
const MAX_PAGES: usize = 400;

/// Reads all pages of `GET /sessions`.
pub(super) async fn every_session(api: &AapServerUnderTest) -> Result<Vec<Value>, CheckStopReason> {
    let mut sessions = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let body = page(api, after.as_deref()).await?;
        sessions.extend(body["sessions"].as_array().cloned().unwrap_or_default());
        match body["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(sessions),
        }
    }
    Err(fail(format!("expected a last page, got none among {MAX_PAGES}")))
}

async fn page(api: &AapServerUnderTest, after: Option<&str>) -> Result<Value, CheckStopReason> {
    let mut request = api.request(reqwest::Method::GET, "/sessions");
    if let Some(after) = after {
        request = request.query(&[("after", after)]);
    }
    let body = api.call(request).await?.status(200)?.json()?;
    ensure(body["sessions"].is_array(), || format!("expected `sessions` to be an array, got {}", body["sessions"]))?;
    Ok(body)
}

async fn make(api: &AapServerUnderTest, count: usize) -> Result<Vec<String>, CheckStopReason> {
    let body = json!({ "agent": { "name": api.any_agent()? } });
    let mut made = Vec::with_capacity(count);
    for _ in 0..count {
        made.push(api.create(&body).await?);
    }
    Ok(made)
}
