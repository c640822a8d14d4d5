//! View of the manifest difference since the last consent, with old and new values.

use nuncio_core::text::plain;
use serde_json::Value;

use crate::change::ChangesSinceConsent;
use crate::consent::AccessRequest;
use crate::pages::frame::SignedInRequest;
use crate::pages::wording;
use crate::prompt::readable;

const MAX_VALUE_CHARS: usize = 600;

pub(super) struct ChangesSinceConsentView {
    pub(super) since: u64,
    pub(super) note: Option<String>,
    pub(super) breaking: Vec<ManifestChangeRow>,
    pub(super) others: Vec<ManifestChangeRow>,
    /// Labels of granted scopes that stay usable until new consent.
    pub(super) keeps: Vec<String>,
    /// Labels of scopes that are suspended until new consent.
    pub(super) waits: Vec<String>,
    /// Whether the earlier manifest is available for comparison.
    pub(super) comparable: bool,
}

pub(super) struct ManifestChangeRow {
    pub(super) words: String,
    pub(super) about: String,
    pub(super) was: Option<String>,
    pub(super) now: Option<String>,
}

impl ChangesSinceConsentView {
    pub(super) fn new(visit: &SignedInRequest, ask: &AccessRequest, changed: &ChangesSinceConsent) -> Self {
        let language = visit.language.tag();
        let label = |id: &str| {
            let scope = ask.scopes.iter().find(|scope| scope.id.as_str() == id);
            scope.and_then(|scope| scope.texts.label.in_language(language)).unwrap_or(id).to_owned()
        };
        let verdict = changed.verdict.as_ref();
        let about = |tool: Option<&str>, scope: Option<&str>| {
            let parts = [tool.map(plain), scope.map(|id| plain(&label(id)))];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
        };
        let explanation = |rule: &str| visit.text.rule.get(rule).cloned().unwrap_or_else(|| rule.to_owned());
        let shortened = |value: &Value| wording::shortened(&readable(value), MAX_VALUE_CHARS);
        // Findings and notices are different types with the same fields.
        macro_rules! row {
            ($change:expr) => {
                ManifestChangeRow {
                    words: explanation($change.rule.as_str()),
                    about: about($change.tool.as_deref(), $change.scope.as_deref()),
                    was: $change.old.as_ref().map(shortened),
                    now: $change.new.as_ref().map(shortened),
                }
            };
        }
        let suspended = ask.scopes.iter().filter(|scope| scope.suspended);
        Self {
            since: changed.since_version,
            note: changed.note.clone(),
            breaking: verdict.iter().flat_map(|verdict| verdict.findings.iter().map(|finding| row!(finding))).collect(),
            others: verdict.iter().flat_map(|verdict| verdict.notices.iter().map(|notice| row!(notice))).collect(),
            keeps: changed.keeps.iter().map(|scope| label(scope.as_str())).collect(),
            waits: suspended.map(|scope| label(scope.id.as_str())).collect(),
            comparable: verdict.is_some(),
        }
    }
}
