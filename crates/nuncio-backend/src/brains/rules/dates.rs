//! Finds dates and lengths of stay in English and Chinese messages.

use std::ops::Range;
use std::sync::LazyLock;

use jiff::Span;
use jiff::civil::Date;
use regex::{Captures, Regex};

use super::language::DialogueLanguage;
use super::normalize::{overlap, stands_alone};

/// Text in the form of a date, with its position in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DateMention {
    pub(super) part: Range<usize>,
    /// The mentioned date; `None` if the day does not exist.
    pub(super) date: Option<Date>,
}

/// Length of stay, such as `3 nights`, with its position in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StayLengthMention {
    pub(super) part: Range<usize>,
    pub(super) days: i64,
}

/// First three letters of the English month names.
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Patterns for one date, or two dates of one month, with groups `y` (optional), `m`, `d` and `e` (the second day).
/// [`stands_alone`] excludes parts of longer numbers.
static DATE_PATTERNS: LazyLock<[Regex; 5]> = LazyLock::new(|| {
    let month = "(?P<m>jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec|january|february|march|april|august|september|october|november|december)";
    let day = |name: &str| format!("(?P<{name}>[0-9]{{1,2}})(?:st|nd|rd|th)?");
    let to = "\\s*(?:-|–|~|to|till|until|and|到|至)\\s*";
    let (d, e) = (day("d"), day("e"));
    [
        r"(?P<y>[0-9]{4})(?:-(?P<m>[0-9]{1,2})-|/(?P<m2>[0-9]{1,2})/|\.(?P<m3>[0-9]{1,2})\.)(?P<d>[0-9]{1,2})".to_owned(),
        r"(?P<d>[0-9]{1,2})\.(?P<m>[0-9]{1,2})\.(?P<y>[0-9]{4})".to_owned(),
        format!(r"{d}(?:{to}(?:the )?{e})?(?: of)?[ -]{month}\b\.?(?:,?[ -]?(?P<y>[0-9]{{4}}))?"),
        format!(r"{month}\.? (?:the )?{d}(?:{to}(?:the )?{e})?(?:,? (?P<y>[0-9]{{4}}))?"),
        format!(r"(?:(?P<y>[0-9]{{4}}) ?年 ?)?(?P<m>[0-9]{{1,2}}) ?月 ?(?P<d>[0-9]{{1,2}}) ?[日号]?(?:{to}(?P<e>[0-9]{{1,2}}) ?[日号])?"),
    ]
    .map(|pattern| fixed(&format!("(?i){pattern}")))
});

static RELATIVE_DATE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| fixed("(?i)day after tomorrow|tomorrow|today|tonight|大后天|后天|明天|明晚|明日|今天|今晚|今日"));

static STAY_LENGTH_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    fixed(
        "(?i)(?P<n>[0-9]{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|[一二两三四五六七八九十]) ?(?:more )?(?P<unit>nights?|days?|weeks?|晚上?|天|夜|个?星期|周)",
    )
});

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is fixed and tested")
}

/// Dates of a text in order. A date without a year is the next such day from `today`, or from the preceding date.
pub(super) fn find(text: &str, today: Date) -> Vec<DateMention> {
    let mut found: Vec<(Range<usize>, DateExpression<'_>)> = Vec::new();
    for pattern in DATE_PATTERNS.iter() {
        found.extend(pattern.captures_iter(text).filter_map(|groups| {
            let part = groups.get(0)?.range();
            stands_alone(text, &part).then_some((part, DateExpression::Written(groups)))
        }));
    }
    found.extend(
        RELATIVE_DATE_PATTERN.find_iter(text).map(|word| (word.range(), DateExpression::Relative(word.as_str()))),
    );
    // Of overlapping matches the one that starts first counts, or the longer one.
    found.sort_by_key(|(part, _)| (part.start, std::cmp::Reverse(part.end)));

    let mut mentions: Vec<DateMention> = Vec::new();
    let mut end = 0;
    for (part, form) in found {
        if part.start < end || is_part_of_id(text, &part) {
            continue;
        }
        end = part.end;
        let since = mentions.iter().rev().find_map(|mention| mention.date).unwrap_or(today);
        mentions.extend(form.dates(today, since).into_iter().map(|date| DateMention { part: part.clone(), date }));
    }
    mentions
}

/// The length of stay in a text; `None` if there are several. Parts of dates do not count.
pub(super) fn length(text: &str, dates: &[DateMention]) -> Option<StayLengthMention> {
    let mut found = STAY_LENGTH_PATTERN.captures_iter(text).filter_map(|groups| {
        let part = groups.get(0)?.range();
        let apart = stands_alone(text, &part) && !dates.iter().any(|date| overlap(&date.part, &part));
        let n = groups.name("n")?.as_str().to_lowercase();
        let count = match n.as_str() {
            "a" | "an" => 1,
            other => super::numbers::find(other).first()?.value,
        };
        let unit = groups.name("unit")?.as_str().to_lowercase();
        let weeks = unit.starts_with("week") || unit.ends_with("星期") || unit == "周";
        apart.then_some(StayLengthMention { part, days: if weeks { count.checked_mul(7)? } else { count } })
    });
    let first = found.next();
    if found.next().is_some() { None } else { first }
}

/// Adds days to a date; `None` if the result is out of range.
pub(super) fn later(date: Date, days: i64) -> Option<Date> {
    date.checked_add(Span::new().try_days(days).ok()?).ok()
}

/// Formats a date for display, such as `24 December 2026` or `2026年12月24日`.
pub(super) fn format_date(date: Date, language: DialogueLanguage) -> String {
    match language {
        DialogueLanguage::Chinese => format!("{}年{}月{}日", date.year(), date.month(), date.day()),
        DialogueLanguage::English => date.strftime("%-d %B %-Y").to_string(),
    }
}

/// Whether the part is the end of an id or a longer number, as in `R-2026-12-24`.
fn is_part_of_id(text: &str, part: &Range<usize>) -> bool {
    let mut before = text[..part.start].chars().rev();
    matches!((before.next(), before.next()), (Some('-' | '/' | '.'), Some(sign)) if sign.is_ascii_alphanumeric())
}

enum DateExpression<'t> {
    Written(Captures<'t>),
    Relative(&'t str),
}

impl DateExpression<'_> {
    fn dates(&self, today: Date, since: Date) -> Vec<Option<Date>> {
        let groups = match self {
            Self::Relative(word) => return vec![later(today, days_ahead(word))],
            Self::Written(groups) => groups,
        };
        let month =
            ["m", "m2", "m3"].iter().find_map(|name| groups.name(name)).and_then(|month| month_number(month.as_str()));
        let number = |name| groups.name(name).and_then(|group| group.as_str().parse::<i16>().ok());
        let day = |name| number(name).and_then(|day| i8::try_from(day).ok());
        let first = month.zip(day("d")).and_then(|(month, day)| resolve(number("y"), month, day, since));
        let mut dates = vec![first];
        if groups.name("e").is_some() {
            let since = first.unwrap_or(since);
            dates.push(month.zip(day("e")).and_then(|(month, day)| resolve(number("y"), month, day, since)));
        }
        dates
    }
}

fn resolve(year: Option<i16>, month: i8, day: i8, since: Date) -> Option<Date> {
    if let Some(year) = year {
        return Date::new(year, month, day).ok();
    }
    // The next 29 February may be eight years away.
    (0..=8).filter_map(|years| Date::new(since.year().checked_add(years)?, month, day).ok()).find(|date| *date >= since)
}

fn month_number(text: &str) -> Option<i8> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let text = text.to_lowercase();
    let at = MONTHS.iter().position(|month| text.starts_with(month))?;
    i8::try_from(at + 1).ok()
}

fn days_ahead(word: &str) -> i64 {
    match word.to_lowercase().as_str() {
        "today" | "tonight" | "今天" | "今晚" | "今日" => 0,
        "tomorrow" | "明天" | "明晚" | "明日" => 1,
        "大后天" => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests;
