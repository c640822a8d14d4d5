//! Finds whole numbers in a message: digits and small number words.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Match, Regex};

use super::super::chunks::is_han;
use super::normalize::stands_alone;

/// A number in a message and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberMention {
    pub(super) part: Range<usize>,
    pub(super) value: i64,
    /// Whether the number is not a count of something like nights or rooms.
    pub(super) is_free: bool,
}

const NUMBER_WORDS: [&str; 13] =
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// Words after a number that show that it counts nights, rooms, money or the like, not guests.
const UNIT_WORDS: [&str; 21] = [
    "night", "nights", "day", "days", "week", "weeks", "month", "months", "hour", "hours", "room", "rooms", "bed",
    "beds", "am", "pm", "euro", "euros", "eur", "usd", "of",
];

static NUMBER_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let words = NUMBER_WORDS.join("|");
    let pattern = format!("(?i)[0-9]+|{words}|十[一二]?|[一二两三四五六七八九]");
    Regex::new(&pattern).expect("the pattern is fixed and tested")
});

/// Numbers of a text in order.
pub(super) fn find(text: &str) -> Vec<NumberMention> {
    let mention = |found: Match<'_>| {
        let part = found.range();
        if !stands_alone(text, &part) || is_fraction(text, &part) {
            return None;
        }
        Some(NumberMention { value: value(found.as_str())?, is_free: is_free(text, &part), part })
    };
    NUMBER_PATTERN.find_iter(text).filter_map(mention).collect()
}

fn value(text: &str) -> Option<i64> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    if let Some(at) = NUMBER_WORDS.iter().position(|word| word.eq_ignore_ascii_case(text)) {
        return i64::try_from(at).ok();
    }
    let digit = |sign: char| "零一二三四五六七八九".chars().position(|known| known == sign);
    match text.strip_prefix('十') {
        Some("") => Some(10),
        Some(rest) => rest.chars().next().and_then(digit).and_then(|ones| i64::try_from(10 + ones).ok()),
        None if text == "两" => Some(2),
        None => text.chars().next().and_then(digit).and_then(|value| i64::try_from(value).ok()),
    }
}

/// Whether the digits are part of `1.5`, `room-203` or `24/12`.
fn is_fraction(text: &str, part: &Range<usize>) -> bool {
    let joins = |sign: char| matches!(sign, '.' | ',' | '-' | '/' | ':' | '#' | '_');
    let mut before = text[..part.start].chars().rev();
    let mut after = text[part.end..].chars();
    let glued =
        |a: Option<char>, b: Option<char>| a.is_some_and(joins) && b.is_some_and(|sign| sign.is_ascii_alphanumeric());
    glued(before.next(), before.next()) || glued(after.next(), after.next())
}

/// Whether the number is not a count of something like nights or rooms. Chinese needs more than a list, because its
/// numerals are parts of other words.
fn is_free(text: &str, part: &Range<usize>) -> bool {
    let before = text[..part.start].trim_end();
    let after = text[part.end..].trim_start();
    if before.ends_with(['第', '$', '€', '£', '¥']) || after.starts_with(['%', '€', '元', '$']) {
        return false;
    }
    if after.starts_with(is_han) || text[part.clone()].starts_with(is_han) {
        return counts_people(after);
    }
    !UNIT_WORDS.contains(&following_word(text, part).as_str())
}

/// Whether the text after a Chinese numeral shows that people are counted, or that the numeral stands alone.
fn counts_people(after: &str) -> bool {
    const PEOPLE_UNITS: [&str; 9] = ["人", "位", "名", "口", "个人", "个大", "个成", "个客", "个小"];
    let next = after.chars().next();
    next.is_none_or(|sign| !sign.is_alphanumeric()) || PEOPLE_UNITS.iter().any(|word| after.starts_with(word))
}

/// Word that follows a part of the text, in lower case.
pub(super) fn following_word(text: &str, part: &Range<usize>) -> String {
    let after = text.get(part.end..).unwrap_or_default().trim_start();
    after.chars().take_while(|sign| sign.is_alphabetic()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<i64> {
        find(text).iter().map(|number| number.value).collect()
    }

    fn free(text: &str) -> Vec<i64> {
        find(text).iter().filter(|number| number.is_free).map(|number| number.value).collect()
    }

    #[test]
    fn digits_and_english_or_chinese_number_words_are_recognised() {
        assert_eq!(values("2 guests and Three more"), [2, 3]);
        assert_eq!(values("twelve"), [12]);
        assert_eq!(values("十一个人,两位"), [11, 2]);
        assert_eq!(values("someone, often, weight"), [0; 0]);
        assert_eq!(values("99999999999999999999"), [0; 0], "too large for anything");
    }

    #[test]
    fn digits_inside_other_tokens_are_ignored() {
        assert_eq!(values("room-203, 1.5, 24/12, GH-7K3QXM, a1"), [0; 0]);
        assert_eq!(values("2, or 3."), [2, 3]);
        assert_eq!(values("有2位客人"), [2]);
    }

    #[test]
    fn number_of_rooms_or_nights_is_not_taken_as_number_of_guests() {
        assert_eq!(free("one room for 3 nights for two"), [2]);
        assert_eq!(free("帮我查一下,订一个房间,住三晚,两个人"), [2]);
        assert_eq!(free("第一次来,3位"), [3]);
        assert_eq!(free("两个大人"), [2]);
        assert_eq!(free("三"), [3]);
    }
}
