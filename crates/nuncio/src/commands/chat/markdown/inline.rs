//! Emphasis, code and links within a line.

use std::collections::HashSet;

use super::{BOLD, CODE, DIM, MarkdownPrinter};

const ITALIC: &str = "\u{1b}[3m";
const UNDERLINED: &str = "\u{1b}[4m";
const STRUCK: &str = "\u{1b}[9m";

/// Number of bytes that an opening mark may hold back.
pub(super) const MAX_HELD: usize = 2000;

/// Longest run of backticks that begins code. Each length that nothing closes costs one search of the line.
const MAX_CODE_RUN: usize = 8;

const MARKS: [char; 7] = ['\\', '`', '*', '_', '~', '[', '!'];

/// Marks, with their length, that nothing closes in the rest of a line. Looking for them again would take quadratic time.
type UnclosedMarks = HashSet<(char, usize)>;

/// What begins at a mark. Lengths are in bytes.
enum InlineMark<'a> {
    Text {
        text: &'a str,
        length: usize,
    },
    Code {
        text: &'a str,
        length: usize,
    },
    Styled {
        styles: &'static [&'static str],
        text: &'a str,
        length: usize,
    },
    Link {
        text: &'a str,
        url: &'a str,
        length: usize,
    },
    /// The meaning depends on text that has not arrived.
    Open,
}

impl MarkdownPrinter {
    /// Prints a part of a line, and returns the number of bytes whose meaning is known.
    pub(super) fn print_inline(&mut self, line: &str, complete: bool, out: &mut String) -> usize {
        let mut at = 0;
        let mut unclosed = UnclosedMarks::new();
        while let Some(found) = line[at..].find(MARKS) {
            self.print_text(&line[at..at + found], out);
            at += found;
            let rest = &line[at..];
            let length = match read(rest, self.before, complete || rest.len() > MAX_HELD, &mut unclosed) {
                InlineMark::Open => return at,
                InlineMark::Text { text, length } => {
                    self.print_text(text, out);
                    length
                }
                InlineMark::Code { text, length } => {
                    self.begin_style(CODE, out);
                    self.print_text(text, out);
                    self.end_style(out);
                    length
                }
                InlineMark::Styled { styles, text, length } => {
                    styles.iter().for_each(|style| self.begin_style(style, out));
                    self.print_inline(text, true, out);
                    styles.iter().for_each(|_| self.end_style(out));
                    length
                }
                InlineMark::Link { text, url, length } => {
                    self.print_link(text, url, out);
                    length
                }
            };
            at += length;
        }
        self.print_text(&line[at..], out);
        line.len()
    }

    /// Prints the text of a link and its address, since a terminal does not show where a text leads.
    fn print_link(&mut self, text: &str, url: &str, out: &mut String) {
        self.begin_style(UNDERLINED, out);
        self.print_inline(text, true, out);
        self.end_style(out);
        if url != text {
            self.print_text(" ", out);
            self.begin_style(DIM, out);
            self.print_text(&format!("({url})"), out);
            self.end_style(out);
        }
    }
}

/// Reads what begins at the mark that `rest` begins with. `before` is the character before the mark.
fn read<'a>(rest: &'a str, before: Option<char>, complete: bool, unclosed: &mut UnclosedMarks) -> InlineMark<'a> {
    let open_or = |length: usize| match complete {
        true => InlineMark::Text { text: &rest[..length], length },
        false => InlineMark::Open,
    };
    if let Some(after) = rest.strip_prefix('\\') {
        return if after.is_empty() { open_or(1) } else { escaped(rest) };
    }
    let Some(mark) = rest.chars().next() else { return InlineMark::Open };
    let run = rest.chars().take_while(|c| *c == mark).count();
    let Some(next) = rest[run..].chars().next() else {
        return open_or(rest.len());
    };
    let literal = || InlineMark::Text { text: &rest[..run], length: run };
    match mark {
        '`' if run > MAX_CODE_RUN => literal(),
        '`' => match closing(rest, mark, run, unclosed, |_, _| true) {
            // More of the mark may follow.
            Some(end) if end + run == rest.len() && !complete => InlineMark::Open,
            Some(end) => InlineMark::Code { text: rest[run..end].trim(), length: end + run },
            None => open_or(run),
        },
        '[' if run == 1 => link(rest, 1, unclosed).unwrap_or_else(|| open_or(1)),
        '!' if run == 1 && next == '[' => link(rest, 2, unclosed).unwrap_or_else(|| open_or(1)),
        '*' | '_' | '~' => {
            let inside_word = mark == '_' && before.is_some_and(char::is_alphanumeric);
            let styles: &[&str] = match (mark, run) {
                ('~', 2) => &[STRUCK],
                ('*' | '_', 1) => &[ITALIC],
                ('*' | '_', 2) => &[BOLD],
                ('*' | '_', 3) => &[BOLD, ITALIC],
                _ => return literal(),
            };
            if next.is_whitespace() || inside_word {
                return literal();
            }
            let closes = |last: char, after: Option<char>| {
                !last.is_whitespace() && (mark != '_' || !after.is_some_and(char::is_alphanumeric))
            };
            match closing(rest, mark, run, unclosed, closes) {
                // More of the mark may follow.
                Some(end) if end + run == rest.len() && !complete => InlineMark::Open,
                Some(end) => InlineMark::Styled { styles, text: &rest[run..end], length: end + run },
                None => open_or(run),
            }
        }
        _ => literal(),
    }
}

fn escaped(rest: &str) -> InlineMark<'_> {
    let length = if rest[1..].starts_with(|c: char| c.is_ascii_punctuation()) { 2 } else { 1 };
    InlineMark::Text { text: &rest[length - 1..length], length }
}

/// Position in bytes of the run of `length` marks that closes the one at the beginning; `None` if there is none.
fn closing(
    rest: &str,
    mark: char,
    length: usize,
    unclosed: &mut UnclosedMarks,
    closes: impl Fn(char, Option<char>) -> bool,
) -> Option<usize> {
    if unclosed.contains(&(mark, length)) {
        return None;
    }
    let mut at = length;
    while let Some(found) = rest[at..].find(mark) {
        let start = at + found;
        let run = rest[start..].chars().take_while(|c| *c == mark).count();
        let last = rest[..start].chars().next_back()?;
        if run == length && start > length && closes(last, rest[start + run..].chars().next()) {
            return Some(start);
        }
        at = start + run;
    }
    unclosed.insert((mark, length));
    None
}

/// Reads `[text](url)` or `![text](url)`, whose text begins at `begin`; `None` if it is not complete. If another bracket
/// or no `(` follows the text, the opening bracket is plain text.
fn link<'a>(rest: &'a str, begin: usize, unclosed: &mut UnclosedMarks) -> Option<InlineMark<'a>> {
    let middle = begin + rest[begin..].find(['[', ']'])?;
    let mut following = rest[middle..].chars();
    let (bracket, after) = (following.next()?, following.next());
    if bracket == '[' || after? != '(' {
        return Some(InlineMark::Text { text: &rest[..begin], length: begin });
    }
    if unclosed.contains(&(')', 1)) {
        return None;
    }
    let Some(end) = rest[middle + 2..].find(')').map(|end| middle + 2 + end) else {
        unclosed.insert((')', 1));
        return None;
    };
    let url = rest[middle + 2..end].split_whitespace().next().unwrap_or_default();
    Some(InlineMark::Link { text: &rest[begin..middle], url, length: end + 1 })
}
