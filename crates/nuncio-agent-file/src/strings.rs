//! Positions inside TOML strings, whose text in the file differs from their value where they have escapes.

/// Offset in a TOML string as written, for a byte offset in its value. `raw` begins with the opening quote.
pub(super) fn raw_offset(raw: &str, value: &str, offset: usize) -> usize {
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| raw.starts_with(quotes));
    let Some(quotes) = quotes else { return 0 };
    let (is_literal, is_multiline) = (quotes.starts_with('\''), quotes.len() == 3);
    let mut raw_at = quotes.len();
    if is_multiline {
        // The line break after the opening quotes does not belong to the value.
        let rest = &raw[raw_at..];
        raw_at += if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    }
    let mut value_at = 0;
    while value_at < offset {
        let rest = &raw[raw_at..];
        let Some(first) = rest.chars().next() else { break };
        let (written, meant) = match first {
            '\\' if !is_literal => escape(rest),
            '\r' if !value[value_at..].starts_with('\r') => (1, 0),
            other => (other.len_utf8(), other.len_utf8()),
        };
        raw_at += written;
        value_at += meant;
        if !value.is_char_boundary(value_at) {
            break;
        }
    }
    raw_at
}

/// Lengths of an escape sequence in the file and in the value, in bytes.
fn escape(rest: &str) -> (usize, usize) {
    let hex = |digits: usize| {
        let code = rest.get(2..2 + digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        (2 + digits, code.and_then(char::from_u32).map_or(1, char::len_utf8))
    };
    match rest[1..].chars().next() {
        Some('u') => hex(4),
        Some('U') => hex(8),
        Some('x') => hex(2),
        // A backslash at the end of a line removes all white space up to the next text.
        Some(space) if space.is_whitespace() => (rest.len() - rest[1..].trim_start().len(), 0),
        Some(_) => (2, 1),
        None => (1, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    /// The rest of the file at the position of `word` in the value of `a`.
    fn found(file: &str, word: &str) -> String {
        let table = DeTable::parse(file).unwrap();
        let item = table.get_ref().get("a").unwrap();
        let (start, value) = (item.span().start, item.get_ref().as_str().unwrap());
        let at = raw_offset(&file[start..], value, value.find(word).unwrap());
        file[start + at..].chars().take(word.chars().count()).collect()
    }

    #[test]
    fn offset_in_a_value_gives_the_offset_in_the_file_for_every_kind_of_string() {
        for file in [
            "a = \"x \\\" \\u00e9 \\U0001F600 \\t 预 word\"",
            "a = 'x \\ 预 word'",
            "a = \"\"\"\nx \\\n   \\n y \"\" word\"\"\"",
            "a = '''\r\nx\r\n word'''",
            "a = \"\"\"\r\nx\r\n\r\n word\"\"\"",
            "a = \"word\"",
        ] {
            assert_eq!(found(file, "word"), "word", "{file}");
        }
    }
}
