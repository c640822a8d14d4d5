//! Line wrapping of streamed text.

use super::clean::columns;

/// Wraps a stream of text at words. The last word is held back until its end is known.
#[derive(Debug)]
pub(crate) struct WordWrapper {
    /// Number of columns; `None` means that lines are not wrapped.
    width: Option<usize>,
    column: usize,
    word: String,
    word_columns: usize,
    /// Number of spaces that are printed only if more text follows on the line.
    spaces: usize,
    /// Number of spaces before the text of a wrapped line.
    indent: usize,
}

impl WordWrapper {
    pub(crate) fn new(width: Option<usize>) -> Self {
        Self {
            width: width.map(|width| width.max(20)),
            column: 0,
            word: String::new(),
            word_columns: 0,
            spaces: 0,
            indent: 0,
        }
    }

    /// Sets the number of spaces before the text of wrapped lines, from the next one on.
    pub(crate) fn set_indent(&mut self, indent: usize) {
        self.indent = self.width.map_or(0, |width| indent.min(width / 2));
    }

    /// Adds a terminal code, which takes no columns.
    pub(crate) fn style(&mut self, code: &str, out: &mut String) {
        if self.word.is_empty() && self.spaces == 0 {
            out.push_str(code);
        } else {
            self.word.push_str(code);
        }
    }

    /// Adds a piece of text, and returns the text that can be printed now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for c in piece.chars() {
            match c {
                '\n' => {
                    self.put_word(&mut out);
                    self.spaces = 0;
                    self.column = 0;
                    out.push('\n');
                }
                ' ' | '\t' => {
                    self.put_word(&mut out);
                    self.spaces += 1;
                }
                c => {
                    let columns = columns(c);
                    // Lines may break beside a wide character.
                    let is_wide = columns > 1;
                    if is_wide || self.width.is_some_and(|width| self.word_columns + columns > width) {
                        self.put_word(&mut out);
                    }
                    self.word.push(c);
                    self.word_columns += columns;
                    if is_wide {
                        self.put_word(&mut out);
                    }
                }
            }
        }
        out
    }

    /// Returns the held-back last word, and a line break if the line is not empty.
    pub(crate) fn end(&mut self) -> String {
        let mut out = String::new();
        self.put_word(&mut out);
        if self.column > 0 {
            out.push('\n');
        }
        self.column = 0;
        self.spaces = 0;
        out
    }

    fn put_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let spaces = std::mem::take(&mut self.spaces);
        let too_long = self.width.is_some_and(|width| self.column + spaces + self.word_columns > width);
        if too_long && self.column > 0 {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', self.indent));
            self.column = self.indent;
        } else {
            out.extend(std::iter::repeat_n(' ', spaces));
            self.column += spaces;
        }
        out.push_str(&self.word);
        self.column += self.word_columns;
        self.word.clear();
        self.word_columns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(width: usize, pieces: &[&str]) -> String {
        let mut wrap = WordWrapper::new(Some(width));
        let mut out: String = pieces.iter().map(|piece| wrap.push(piece)).collect();
        out.push_str(&wrap.end());
        out
    }

    #[test]
    fn text_wraps_between_words_regardless_of_how_the_stream_is_split() {
        let text = "The quick brown fox jumps over the lazy dog, twice.";
        let whole = wrapped(20, &[text]);
        assert_eq!(whole, "The quick brown fox\njumps over the lazy\ndog, twice.\n");
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(wrapped(20, &pieces.iter().map(String::as_str).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn chinese_text_wraps_between_any_two_characters_of_two_columns_each() {
        assert_eq!(wrapped(20, &["一二三四五六七八九十甲乙"]), "一二三四五六七八九十\n甲乙\n");
    }

    #[test]
    fn emoji_counts_as_two_columns_and_combining_mark_as_none() {
        assert_eq!(wrapped(20, &[&"🚀".repeat(11)]), format!("{}\n🚀\n", "🚀".repeat(10)));
        let thai = "ที่".repeat(20);
        assert_eq!(wrapped(20, &[&thai]), format!("{thai}\n"));
    }

    #[test]
    fn word_longer_than_the_line_is_split_and_line_breaks_are_kept() {
        assert_eq!(wrapped(20, &[&"x".repeat(45)]), format!("{0}\n{0}\nxxxxx\n", "x".repeat(20)));
        assert_eq!(wrapped(20, &["a\n  b\n\nc"]), "a\n  b\n\nc\n");
    }

    #[test]
    fn text_is_not_wrapped_without_a_width() {
        let mut wrap = WordWrapper::new(None);
        let long = "word ".repeat(100);
        assert_eq!(wrap.push(&long) + &wrap.end(), format!("{}\n", long.trim_end()));
    }
}
