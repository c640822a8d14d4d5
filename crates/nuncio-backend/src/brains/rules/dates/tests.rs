use jiff::civil::date;
use proptest::prelude::*;

use super::*;

fn found(text: &str) -> Vec<String> {
    let mentions = find(text, date(2026, 11, 15));
    mentions.iter().map(|mention| mention.date.map_or("none".into(), |date| date.to_string())).collect()
}

#[test]
fn english_chinese_and_relative_date_formats_are_recognised() {
    for text in [
        "2026-12-24",
        "from 2026/12/24",
        "2026.12.24.",
        "24.12.2026",
        "on 24 December 2026",
        "24th of December, 2026",
        "Dec 24, 2026",
        "December the 24th",
        "24 dec",
        "24-Dec-2026",
        "2026年12月24日",
        "12月24日",
        "12月24号",
        "从2026-12-24入住",
        "12 月 24 日",
    ] {
        assert_eq!(found(text), ["2026-12-24"], "{text}");
    }
    assert_eq!(found("today or tomorrow or the day after tomorrow"), ["2026-11-15", "2026-11-16", "2026-11-17"]);
    assert_eq!(found("今天明天后天大后天"), ["2026-11-15", "2026-11-16", "2026-11-17", "2026-11-18"]);
}

#[test]
fn date_range_gives_first_and_last_date() {
    for text in [
        "24 to 26 December 2026",
        "from the 24th until 26th of December",
        "December 24-26, 2026",
        "12月24日到26日",
        "12月24-26号",
        "2026年12月24日至26日",
        "2026-12-24 to 2026-12-26",
        "2026-12-24~2026-12-26",
        "从12月24日住到12月26日",
    ] {
        assert_eq!(found(text), ["2026-12-24", "2026-12-26"], "{text}");
    }
}

#[test]
fn date_without_year_is_the_next_occurrence() {
    assert_eq!(found("3 March"), ["2027-03-03"]);
    assert_eq!(found("15 November"), ["2026-11-15"]);
    assert_eq!(found("30 December to 2 January"), ["2026-12-30", "2027-01-02"]);
    assert_eq!(found("29 February"), ["2028-02-29"]);
}

#[test]
fn nonexistent_dates_have_no_value_and_ids_are_not_dates() {
    assert_eq!(found("2026-02-30, 40 December, 13月1日"), ["none", "none", "none"]);
    assert_eq!(found("R-2026-12-24 and 12026-12-24 and room 203 for 2, maybe, 5 marches"), [""; 0]);
}

#[test]
fn length_of_stay_is_read_in_days_unless_ambiguous() {
    for (text, days) in [
        ("for 3 nights", Some(3)),
        ("a week", Some(7)),
        ("two weeks", Some(14)),
        ("住三晚", Some(3)),
        ("两个星期", Some(14)),
        ("5天", Some(5)),
        ("one night", Some(1)),
        ("今天", None),
        ("2 nights or 3 nights", None),
        ("fortnight", None),
        ("tonight", None),
    ] {
        let dates = find(text, date(2026, 11, 15));
        assert_eq!(length(text, &dates).map(|length| length.days), days, "{text}");
    }
}

#[test]
fn dates_are_formatted_in_english_and_chinese() {
    assert_eq!(format_date(date(2026, 12, 24), DialogueLanguage::English), "24 December 2026");
    assert_eq!(format_date(date(2026, 12, 24), DialogueLanguage::Chinese), "2026年12月24日");
}

proptest! {
    #[test]
    fn date_search_in_arbitrary_text_never_panics(text in "(?s).{0,60}", dated in "[0-9/.年月日a-z -]{0,40}") {
        for text in [text, dated] {
            let dates = find(&text, Date::MAX);
            length(&text, &dates);
        }
    }
}
