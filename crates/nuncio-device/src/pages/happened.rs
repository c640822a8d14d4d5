//! Page of the audit log, which it verifies, filters by agent, outcome, scope and day, and offers for download.

use std::time::Duration;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use nuncio_core::ids::{AgentId, ScopeId};
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;
use nuncio_http::pages::sender::field;
use nuncio_http::pages::{see, written};

use super::frame::{NavEntry, PageFrame, SelectOption, SignedInForm, SignedInRequest};
use super::{DevicePages, download};
use crate::audit::{AuditChainError, AuditEntriesPage, AuditFilter, AuditedCallStatus};
use crate::error::DeviceError;

mod entry;

use entry::{AuditEntryView, DisplayNameLookup, SentencePart};

/// Audit entries per page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "happened.html")]
struct AuditLogPage {
    frame: PageFrame,
    proof: AuditLogVerificationView,
    entries: Vec<AuditEntryView>,
    /// Number of matching entries as text; `None` without a filter.
    fitting: Option<String>,
    /// Whether a query parameter was invalid and ignored.
    misread: bool,
    agents: Vec<SelectOption>,
    outcomes: Vec<SelectOption>,
    scopes: Vec<SelectOption>,
    day: String,
    offset: i32,
    /// Link to the page with older entries.
    older: Option<String>,
    /// Link to the page with the newest entries, on a page of older ones.
    newest: Option<String>,
    /// Link to the audit page without a filter.
    everything: String,
    /// Link to the newest entries with the same filter.
    fresh: String,
    export: String,
    /// Whether the arguments of calls are kept.
    keeps_arguments: bool,
}

struct AuditLogVerificationView {
    holds: bool,
    words: String,
    /// Number of the first audit entry that fails verification.
    at: Option<u64>,
}

/// `GET /happened`: page of the audit log.
pub(super) async fn list(
    State(pages): State<DevicePages>,
    RawQuery(query): RawQuery,
    visit: SignedInRequest,
) -> Response {
    let wanted = AuditLogQuery::read(query.as_deref().unwrap_or_default());
    visit.respond(page(&pages, &visit, wanted).await.map(|page| written(StatusCode::OK, &page)))
}

/// `POST /happened/arguments`: keeps the arguments of calls from now on, or stops and deletes them.
pub(super) async fn set_arguments(State(pages): State<DevicePages>, form: SignedInForm) -> Response {
    let audit = pages.device.audit();
    let set = match field(&form.sent, "keep") {
        Some("on") => audit.start_keeping_arguments(),
        _ => audit.stop_keeping_arguments(),
    };
    form.visit.respond(set.map(|()| see(&form.visit.to("/happened"))))
}

async fn page(
    pages: &DevicePages,
    visit: &SignedInRequest,
    wanted: AuditLogQuery,
) -> Result<AuditLogPage, DeviceError> {
    let AuditEntriesPage { entries, more, fitting, agents, scopes, proof } =
        pages.device.audit().page(wanted.filter.clone(), wanted.before, PAGE).await?;
    let mut names = DisplayNameLookup::new(pages, visit)?;
    let text = &visit.text.happened;
    let older = entries.last().filter(|_| more).map(|last| last.seq);
    let any = |label: &str, chosen| SelectOption { value: String::new(), label: label.to_owned(), chosen };
    let (agent, scope, status) = (&wanted.filter.agent, &wanted.filter.scope, wanted.filter.status);
    let agents = agents.into_iter().map(|id| SelectOption {
        label: names.agent_choice(&id),
        chosen: agent.as_ref() == Some(&id),
        value: id.to_string(),
    });
    let agents = std::iter::once(any(&text.any_agent, agent.is_none())).chain(agents).collect();
    let scopes = scopes.into_iter().map(|id| SelectOption {
        label: names.scope_choice(&id),
        chosen: scope.as_ref() == Some(&id),
        value: id.to_string(),
    });
    let scopes = std::iter::once(any(&text.any_scope, scope.is_none())).chain(scopes).collect();
    let outcomes = AuditedCallStatus::ALL.into_iter().map(|one| SelectOption {
        value: one.as_str().to_owned(),
        label: entry::outcome(visit.text, one).1.to_owned(),
        chosen: status == Some(one),
    });
    let outcomes = std::iter::once(any(&text.any_outcome, status.is_none())).chain(outcomes).collect();
    let words = match fitting {
        1 => text.fits_one.clone(),
        count => text.fits.replace("{count}", &count.to_string()),
    };
    Ok(AuditLogPage {
        frame: visit.frame(pages, NavEntry::Happened),
        proof: AuditLogVerificationView::new(visit, &proof),
        entries: entries.into_iter().map(|chained| AuditEntryView::new(&mut names, chained)).collect(),
        fitting: (wanted.filter != AuditFilter::default()).then_some(words),
        misread: wanted.misread,
        agents,
        outcomes,
        scopes,
        older: older.map(|seq| visit.to(&wanted.address(Some(seq)))),
        newest: wanted.before.map(|_| visit.to(&wanted.address(None))),
        everything: visit.to("/happened"),
        fresh: visit.to(&wanted.address(None)),
        export: visit.to("/happened/export"),
        keeps_arguments: pages.device.audit().keeps_arguments()?,
        day: wanted.day,
        offset: wanted.offset,
    })
}

impl AuditLogVerificationView {
    fn new(visit: &SignedInRequest, proof: &Result<u64, AuditChainError>) -> Self {
        let text = &visit.text.happened;
        let words = match proof {
            Ok(0) => text.holds_none.clone(),
            Ok(1) => text.holds_one.clone(),
            Ok(count) => text.holds.replace("{count}", &count.to_string()),
            Err(AuditChainError::InvalidEntry(number)) => text.broken_at.replace("{number}", &number.to_string()),
            Err(AuditChainError::MissingEnd { missing }) => text.broken_cut.replace("{count}", &missing.to_string()),
            Err(AuditChainError::Unreadable(why)) => text.broken_keep.replace("{why}", &plain(&why.to_string())),
        };
        let at = match proof {
            Err(AuditChainError::InvalidEntry(number)) => Some(*number),
            _ => None,
        };
        Self { holds: proof.is_ok(), words, at }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct AuditLogQuery {
    filter: AuditFilter,
    /// Number below which entries are shown.
    before: Option<u64>,
    /// Day to show, as given in the query.
    day: String,
    /// Offset of the reader's time zone from UTC, in minutes.
    offset: i32,
    /// Whether a query parameter was invalid and ignored.
    misread: bool,
}

impl AuditLogQuery {
    fn read(query: &str) -> Self {
        let mut wanted = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()) {
            let understood = match name.as_ref() {
                "agent" => into(&mut wanted.filter.agent, AgentId::parse(&value).ok()),
                "outcome" => into(&mut wanted.filter.status, AuditedCallStatus::parse(&value)),
                "scope" => into(&mut wanted.filter.scope, ScopeId::parse(&value).ok()),
                "before" => into(&mut wanted.before, value.parse().ok()),
                "day" => {
                    wanted.day = if midnight(&value).is_some() { value.into_owned() } else { String::new() };
                    !wanted.day.is_empty()
                }
                "offset" => {
                    let offset = value.parse().ok().filter(|offset: &i32| offset.abs() <= 14 * 60);
                    wanted.offset = offset.unwrap_or_default();
                    offset.is_some()
                }
                _ => true,
            };
            wanted.misread |= !understood;
        }
        if let Some(midnight) = midnight(&wanted.day) {
            let begins = Timestamp::from_millis(midnight.as_millis() - i64::from(wanted.offset) * 60_000);
            wanted.filter.from = Some(begins);
            wanted.filter.until = Some(begins.after(Duration::from_secs(24 * 3600)));
        }
        wanted
    }

    /// Path of the audit page with the same filter, for entries numbered below `before`.
    fn address(&self, before: Option<u64>) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let filter = &self.filter;
        let pairs = [
            ("agent", filter.agent.as_ref().map(ToString::to_string)),
            ("outcome", filter.status.map(|status| status.as_str().to_owned())),
            ("scope", filter.scope.as_ref().map(ToString::to_string)),
            ("day", filter.from.map(|_| self.day.clone())),
            ("offset", filter.from.map(|_| self.offset.to_string())),
            ("before", before.map(|before| before.to_string())),
        ];
        for (name, value) in pairs {
            if let Some(value) = value {
                query.append_pair(name, &value);
            }
        }
        match query.finish() {
            query if query.is_empty() => "/happened".to_owned(),
            query => format!("/happened?{query}"),
        }
    }
}

fn into<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    *place = value;
    place.is_some()
}

/// Start in UTC of a day given as `YYYY-MM-DD`.
fn midnight(day: &str) -> Option<Timestamp> {
    let is_day = day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_day.then(|| Timestamp::try_from(format!("{day}T00:00:00Z")).ok())?
}

/// `GET /happened/export`: the whole audit log as JSON lines, for download.
pub(super) async fn export(State(pages): State<DevicePages>, visit: SignedInRequest) -> Response {
    let now = pages.device.context().now().to_string();
    let name = format!("what-happened-{}.ndjson", now.get(..10).unwrap_or_default());
    visit.respond(pages.device.audit().lines().await.map(|lines| download(lines, "application/x-ndjson", &name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_filter_query_is_parsed_with_time_zone_and_written_back_unchanged() {
        let address = "agent=agt_1&outcome=denied&scope=filesystem%3Aread&day=2026-03-01&offset=60&before=9";
        let wanted = AuditLogQuery::read(address);
        assert!(!wanted.misread && wanted.filter != AuditFilter::default());
        assert_eq!(wanted.address(Some(9)), format!("/happened?{address}"));
        let from = wanted.filter.from.unwrap();
        assert_eq!(from.to_string(), "2026-02-28T23:00:00.000Z", "the reader is an hour ahead");
        assert_eq!(wanted.filter.until.unwrap().to_string(), "2026-03-01T23:00:00.000Z");
        let nothing = AuditLogQuery::read("agent=&outcome=&scope=&day=&offset=&lang=zh-CN");
        assert!(nothing == AuditLogQuery::default() && nothing.address(None) == "/happened");
    }

    #[test]
    fn invalid_audit_filter_parameter_is_ignored_and_flagged() {
        let long = format!("agent={}", "x".repeat(10_000));
        for query in [
            "agent=%3Cscript%3E",
            "agent=agt_1%20x",
            "outcome=OK",
            "scope=%E2%80%AEread",
            "day=2026-02-30",
            "day=20260230",
            "day=2026-2-3T00",
            "day=%EF%BC%92026-01-01",
            "offset=100000",
            "offset=-99999999999999999999",
            "before=-1",
            "before=18446744073709551616",
            "agent=%FF%FE",
            long.as_str(),
        ] {
            let wanted = AuditLogQuery::read(query);
            assert!(wanted.misread, "{query}");
            assert_eq!(wanted.filter, AuditFilter::default(), "{query}");
        }
    }
}
