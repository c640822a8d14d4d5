//! Times as people read them: the remaining time, and the date.

use nuncio_core::time::Timestamp;

use crate::texts::InboxTexts;

pub(super) struct DisplayTime {
    pub(super) exact: String,
    /// Date and time in UTC; a script replaces it with the reader's local time.
    pub(super) absolute: String,
    /// The remaining time, such as "in 25 min".
    pub(super) relative: Option<String>,
    /// Whether less than [`SOON_SECONDS`] remain.
    pub(super) soon: bool,
}

const SOON_SECONDS: u64 = 15 * 60;

impl DisplayTime {
    pub(super) fn due(at: Timestamp, now: Timestamp, texts: &InboxTexts) -> Self {
        let seconds = now.until(at).as_secs();
        let relative = if at <= now { texts.late.clone() } else { remaining(seconds, texts) };
        Self { relative: Some(relative), soon: seconds < SOON_SECONDS, ..Self::at(at) }
    }

    pub(super) fn at(at: Timestamp) -> Self {
        let exact = at.to_string();
        let absolute = format!("{} UTC", exact.replacen('T', " ", 1).get(..16).unwrap_or(&exact));
        Self { exact, absolute, relative: None, soon: false }
    }
}

fn remaining(seconds: u64, texts: &InboxTexts) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let span = match (days, hours, minutes) {
        (0, 0, 0) => return texts.soon.clone(),
        (0, 0, _) => &texts.minutes,
        (0, ..) => &texts.hours,
        _ => &texts.days,
    };
    let parts = [("{days}", days), ("{hours}", hours), ("{minutes}", minutes)];
    let span =
        parts.iter().fold(span.clone(), |span, (placeholder, number)| span.replace(placeholder, &number.to_string()));
    texts.within.replace("{span}", &span)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nuncio_http::pages::Language;

    use super::*;
    use crate::texts::Texts;

    #[test]
    fn remaining_time_is_displayed_in_english_and_chinese() {
        let now = Timestamp::from_millis(1_794_740_400_000);
        let display = |language: Language, seconds: u64| {
            let time = DisplayTime::due(now.after(Duration::from_secs(seconds)), now, &Texts::of(language).inbox);
            (time.relative.unwrap(), time.absolute)
        };
        let at = |relative: &str, absolute: &str| (relative.to_owned(), absolute.to_owned());
        assert_eq!(display(Language::English, 1500), at("in 25 min", "2026-11-15 11:25 UTC"));
        assert_eq!(display(Language::English, 7500), at("in 2 h 5 min", "2026-11-15 13:05 UTC"));
        assert_eq!(display(Language::Chinese, 90_000), at("1 天 1 小时后", "2026-11-16 12:00 UTC"));
        assert_eq!(display(Language::English, 5).0, "in less than a minute");
        assert_eq!(display(Language::English, 0).0, "overdue");
    }
}
