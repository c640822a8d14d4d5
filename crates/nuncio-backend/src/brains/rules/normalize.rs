//! Normalises a user's message for matching.

use std::ops::Range;

use super::super::chunks::is_unspaced;

/// Maximum number of bytes read from a user message.
pub(super) const MAX_BYTES: usize = 4096;

#[derive(Debug, Clone)]
pub(super) struct NormalizedMessage {
    /// Message with full-width characters and curly quotes replaced and white space collapsed; case is kept.
    pub(super) text: String,
    /// The normalised text in lower case.
    pub(super) lower: String,
}

impl NormalizedMessage {
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
        // Other full-width punctuation is kept, because patterns of agent files may contain it.
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

/// Whether the part of the text is not inside a longer word. Scripts without spaces have no word boundaries.
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

pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_width_characters_and_white_space_are_normalised() {
        let reading = NormalizedMessage::of("\u{3000}\u{FF12}\u{FF10}26/12\u{FF0F}24 \n\t I’d like\u{FF1F} ");
        assert_eq!(reading.text, "2026/12/24 I'd like\u{FF1F}");
        assert_eq!(reading.lower, "2026/12/24 i'd like\u{FF1F}");
    }

    #[test]
    fn message_above_4096_bytes_is_cut_at_a_character_boundary() {
        let reading = NormalizedMessage::of(&"房".repeat(5000));
        assert_eq!(reading.text.chars().count(), MAX_BYTES / 3);
    }

    #[test]
    fn word_boundaries_apply_to_english_but_not_chinese() {
        assert!(stands_alone("book it", &(0..4)));
        assert!(!stands_alone("bookshop", &(0..4)));
        assert!(!stands_alone("ebook", &(1..5)));
        assert!(stands_alone("订203房", &(3..6)));
        assert!(stands_alone("我要预订房间", &(6..12)));
        assert!(!stands_alone("房", &(1..2)), "not a character's border");
    }
}
