//! Sanitises agent text for the terminal: nothing in it may move the cursor, hide a part or turn the
//! direction of a line around.

use std::borrow::Cow;

use nuncio_core::text::is_unprintable;

/// The text without what a terminal would obey.
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

/// How many columns a character takes.
pub(in crate::commands) fn columns(c: char) -> usize {
    match c {
        '\u{0300}'..='\u{036F}' | '\u{200B}'..='\u{200D}' | '\u{FE00}'..='\u{FE0F}' => 0,
        _ if is_wide(c) => 2,
        _ => 1,
    }
}

/// Whether a character takes two columns; lines may break beside it.
pub(super) fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115F}' | '\u{2E80}'..='\u{303E}' | '\u{3041}'..='\u{A4CF}' | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}' | '\u{FE30}'..='\u{FE6F}' | '\u{FF00}'..='\u{FF60}' | '\u{FFE0}'..='\u{FFE6}'
        | '\u{1F300}'..='\u{1F64F}' | '\u{1F900}'..='\u{1F9FF}' | '\u{20000}'..='\u{3FFFD}')
}

fn is_unsafe(c: char) -> bool {
    is_unprintable(c) && c != '\n' && c != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_sequences_are_escaped() {
        assert_eq!(clean("a\x1b[2Jb\x07"), "a\\u{1b}[2Jb\\u{7}");
        assert_eq!(clean("rm \u{202e}x"), "rm \\u{202e}x");
        assert_eq!(clean("a\r\nb\tü 你好"), "a\nb\tü 你好");
    }
}
