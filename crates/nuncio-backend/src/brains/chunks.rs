//! Splits text into chunks for streaming.

/// Chunks of `text` by `\S+\s*|\s+`: each word with the white space after it.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    pieces(text, |_| false)
}

/// As [`words`], but scripts without spaces are split after each character.
pub(super) fn syllables(text: &str) -> impl Iterator<Item = &str> {
    pieces(text, is_unspaced)
}

/// Whether the character belongs to a script without spaces between words.
pub(super) fn is_unspaced(c: char) -> bool {
    is_han(c) || matches!(c, '\u{3040}'..='\u{30FF}' | '\u{AC00}'..='\u{D7AF}' | '\u{0E00}'..='\u{0E7F}')
}

pub(super) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{323AF}')
}

fn pieces(text: &str, ends: fn(char) -> bool) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = piece_end(rest, ends)?;
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// End of the first chunk: before a word that follows white space, or after a character for which `ends` is true
/// unless punctuation or white space follows.
fn piece_end(text: &str, ends: fn(char) -> bool) -> Option<usize> {
    let mut characters = text.char_indices();
    let (_, mut last) = characters.next()?;
    for (at, next) in characters {
        let word_begins = is_space(last) && !is_space(next);
        let cut = ends(last) && (next.is_alphanumeric());
        if word_begins || cut {
            return Some(at);
        }
        last = next;
    }
    Some(text.len())
}

/// White space as defined by `\s` in ECMAScript.
fn is_space(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{FEFF}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        words(text).collect()
    }

    #[test]
    fn text_is_split_into_words_with_their_trailing_space() {
        assert_eq!(cut("Hello  big world\n"), ["Hello  ", "big ", "world\n"]);
        assert_eq!(cut(""), [""; 0]);
        assert_eq!(cut("one"), ["one"]);
        assert_eq!(cut("你好,世界"), ["你好,世界"]);
    }

    #[test]
    fn leading_space_is_a_separate_chunk() {
        assert_eq!(cut("  a b"), ["  ", "a ", "b"]);
        assert_eq!(cut(" \n\t"), [" \n\t"]);
    }

    #[test]
    fn chinese_text_is_split_after_each_character() {
        let pieces: Vec<&str> = syllables("房间 room-203。好的,OK").collect();
        assert_eq!(pieces, ["房", "间 ", "room-203。好", "的,OK"]);
    }

    #[test]
    fn chunks_joined_together_equal_the_text() {
        for text in [" a  b ", "\u{FEFF}x\u{85}y", "价格:€109/晚\n再见", "\u{1F600} smile"] {
            assert_eq!(words(text).collect::<String>(), text);
            assert_eq!(syllables(text).collect::<String>(), text);
        }
    }
}
