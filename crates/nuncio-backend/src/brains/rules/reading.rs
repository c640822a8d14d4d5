//! A user's message as it is read: short, in plain signs, one space at a time.

use std::ops::Range;

use super::super::words::is_unspaced;

/// How many bytes of a message are read.
pub(super) const MAX_BYTES: usize = 4096;

/// A message made easy to search. Case is kept.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// With full-width letters, digits and curly quotes made plain, and space collapsed.
    pub(super) text: String,
    /// The same in lower case.
    pub(super) lower: String,
}

impl Reading {
    pub(super) fn of(message: &str) -> Self {
        let message = &message[..message.floor_char_boundary(MAX_BYTES)];
        let mut text = String::with_capacity(message.len());
        for sign in message.chars().map(plain) {
            if sign.is_whitespace() {
                if !text.is_empty() && !text.ends_with(' ') {
                    text.push(' ');
                }
            } else {
                text.push(sign);
            }
        }
        text.truncate(text.trim_end().len());
        let lower = text.to_lowercase();
        Self { text, lower }
    }
}

fn plain(sign: char) -> char {
    match sign {
        '\u{3000}' => ' ',
        '‘' | '’' => '\'',
        '“' | '”' => '"',
        // Punctuation other than what joins the parts of a date stays as patterns will have it.
        '\u{FF10}'..='\u{FF19}'
        | '\u{FF21}'..='\u{FF3A}'
        | '\u{FF41}'..='\u{FF5A}'
        | '\u{FF0D}'
        | '\u{FF0E}'
        | '\u{FF0F}'
        | '\u{FF5E}' => char::from_u32(u32::from(sign) - 0xFEE0).unwrap_or(sign),
        other => other,
    }
}

/// Whether the part of `text` is no mere part of a longer word. Scripts without spaces have no
/// words to be part of.
pub(super) fn stands_alone(text: &str, part: &Range<usize>) -> bool {
    let (Some(found), Some(before), Some(after)) =
        (text.get(part.clone()), text.get(..part.start), text.get(part.end..))
    else {
        return false;
    };
    let joined = |a: Option<char>, b: Option<char>| a.is_some_and(in_word) && b.is_some_and(in_word);
    !joined(before.chars().next_back(), found.chars().next())
        && !joined(found.chars().next_back(), after.chars().next())
}

fn in_word(sign: char) -> bool {
    sign.is_alphanumeric() && !is_unspaced(sign)
}

/// Whether two parts of a text share a byte.
pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_width_signs_and_wild_space_are_made_plain() {
        let reading = Reading::of("\u{3000}\u{FF12}\u{FF10}26/12\u{FF0F}24 \n\t I’d like\u{FF1F} ");
        assert_eq!(reading.text, "2026/12/24 I'd like\u{FF1F}");
        assert_eq!(reading.lower, "2026/12/24 i'd like\u{FF1F}");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let reading = Reading::of(&"房".repeat(5000));
        assert_eq!(reading.text.chars().count(), MAX_BYTES / 3);
    }

    #[test]
    fn words_stand_alone_and_chinese_needs_not() {
        assert!(stands_alone("book it", &(0..4)));
        assert!(!stands_alone("bookshop", &(0..4)));
        assert!(!stands_alone("ebook", &(1..5)));
        assert!(stands_alone("订203房", &(3..6)));
        assert!(stands_alone("我要预订房间", &(6..12)));
        assert!(!stands_alone("房", &(1..2)), "not a character's border");
    }
}
