//! The settings section `[retention]`.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

/// Ages after which data is deleted. Data without a setting is never deleted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Days without a turn after which a session is deleted.
    pub sessions_days: Option<NonZeroU32>,
    /// Days after which an audit record is deleted.
    pub audit_days: Option<NonZeroU32>,
}

pub(crate) fn days(days: NonZeroU32) -> Duration {
    Duration::from_secs(u64::from(days.get()) * 24 * 3600)
}
