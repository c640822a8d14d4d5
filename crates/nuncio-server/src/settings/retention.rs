//! `[retention]`

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

/// How long things are kept. What is not set is kept for ever.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// After how many days without a turn a session is deleted.
    pub sessions_days: Option<NonZeroU32>,
    /// After how many days an audit record is deleted.
    pub audit_days: Option<NonZeroU32>,
}

pub(crate) fn days(days: NonZeroU32) -> Duration {
    Duration::from_secs(u64::from(days.get()) * 24 * 3600)
}
