//! Sanitises text of agents for the terminal: it must not move the cursor, hide text or reverse the writing direction.

use std::borrow::Cow;

use nuncio_core::text::is_unprintable;
use unicode_width::UnicodeWidthChar as _;

/// Escapes unprintable characters, such as control and direction marks, except line breaks and tabs.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out.replace("\\u{d}\n", "\n"))
}

/// Number of terminal columns of a character. A control character counts as one.
pub(crate) fn columns(c: char) -> usize {
    c.width().unwrap_or(1)
}

fn is_unsafe(c: char) -> bool {
    is_unprintable(c) && c != '\n' && c != '\t'
}

/// Makes every line break of a streamed text a line feed.
#[derive(Debug, Default)]
pub(super) struct LineBreakNormalizer {
    /// Whether the text so far ends with a carriage return, to which a line feed may belong.
    after_return: bool,
}

impl LineBreakNormalizer {
    pub(super) fn normalized(&mut self, piece: &str) -> String {
        let own = if self.after_return { piece.strip_prefix('\n').unwrap_or(piece) } else { piece };
        if !piece.is_empty() {
            self.after_return = piece.ends_with('\r');
        }
        own.replace("\r\n", "\n").replace('\r', "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_of_agent_text_are_escaped() {
        assert_eq!(clean("a\x1b[2Jb\x07"), "a\\u{1b}[2Jb\\u{7}");
        assert_eq!(clean("rm \u{202e}x"), "rm \\u{202e}x");
        assert_eq!(clean("a\r\nb\tü 你好"), "a\nb\tü 你好");
    }

    #[test]
    fn crlf_split_across_two_pieces_is_printed_as_one_line_break() {
        let mut breaks = LineBreakNormalizer::default();
        let text: String = ["a\r", "\nb\r\nc\r", "", "d\n"].map(|piece| breaks.normalized(piece)).concat();
        assert_eq!(text, "a\nb\nc\nd\n");
    }
}
