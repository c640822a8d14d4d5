//! Markdown in the terminal: headings, lists, quotes, code, emphasis and links, printed while the text arrives.
//!
//! A line is printed as far as its meaning is known. An opening mark is held back until its closing mark or the end of
//! the line, so a mark that is never closed is printed as it is.

use super::wrap::WordWrapper;

mod inline;

const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const CODE: &str = "\u{1b}[36m";
const RESET: &str = "\u{1b}[0m";

/// Prints Markdown text as a stream, in time linear in the text. The text must be free of control characters.
#[derive(Debug)]
pub(crate) struct MarkdownPrinter {
    wrap: WordWrapper,
    /// The part of the current line that is not printed yet.
    held: String,
    /// The last printed character of the line.
    before: Option<char>,
    /// Whether the beginning of the line was printed, so that no block mark can follow.
    in_line: bool,
    /// Terminal codes to repeat after a reset.
    styles: Vec<&'static str>,
    /// The mark that ends the current code block; `None` outside of code blocks.
    fence: Option<&'static str>,
}

impl MarkdownPrinter {
    pub(crate) fn new(width: Option<usize>) -> Self {
        Self {
            wrap: WordWrapper::new(width),
            held: String::new(),
            before: None,
            in_line: false,
            styles: Vec::new(),
            fence: None,
        }
    }

    /// Adds a piece of text, and returns what can be printed now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        let mut rest = piece;
        while let Some((head, tail)) = rest.split_once('\n') {
            self.held.push_str(head);
            self.end_line(&mut out);
            rest = tail;
        }
        self.held.push_str(rest);
        self.print_known(false, &mut out);
        out
    }

    /// Returns the rest of the text, and a line break if the line is not empty.
    pub(crate) fn end(&mut self) -> String {
        let mut out = String::new();
        if !self.held.is_empty() || self.in_line {
            self.end_line(&mut out);
        }
        out.push_str(&self.wrap.end());
        self.fence = None;
        out
    }

    fn end_line(&mut self, out: &mut String) {
        if let Some(fence) = self.fence {
            let line = std::mem::take(&mut self.held);
            if line.trim() == fence {
                self.fence = None;
            } else {
                // Lines of code are not wrapped, so that they can be copied.
                out.extend(["    ", CODE, &line, RESET, "\n"]);
            }
            return;
        }
        if !self.in_line
            && let Some(fence) = opening_fence(&self.held)
        {
            self.fence = Some(fence);
            self.held.clear();
            return;
        }
        self.print_known(true, out);
        while !self.styles.is_empty() {
            self.end_style(out);
        }
        out.push_str(&self.wrap.push("\n"));
        self.wrap.set_indent(0);
        self.in_line = false;
        self.before = None;
    }

    /// Prints the held text as far as its meaning is known; all of it if the line is complete.
    fn print_known(&mut self, complete: bool, out: &mut String) {
        if self.fence.is_some() || self.held.is_empty() {
            return;
        }
        if !self.in_line {
            if !complete && self.held.len() <= inline::MAX_HELD && may_be_mark(&self.held) {
                return;
            }
            self.begin_line(complete, out);
            self.in_line = true;
        }
        let held = std::mem::take(&mut self.held);
        let printed = self.print_inline(&held, complete, out);
        self.held = held[printed..].to_owned();
    }

    /// Prints the mark of a heading, list item, quote or rule in place of its Markdown.
    fn begin_line(&mut self, complete: bool, out: &mut String) {
        let line = std::mem::take(&mut self.held);
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let (mark, rest) = text.split_once(' ').unwrap_or((text, ""));
        let hashes = mark.len();
        if (1..=6).contains(&hashes) && mark.bytes().all(|byte| byte == b'#') {
            self.begin_style(BOLD, out);
            self.held = rest.trim_start().to_owned();
        } else if complete && is_rule(text) {
            out.push_str(&self.wrap.push(&"─".repeat(20)));
        } else if mark == ">" {
            self.begin_style(DIM, out);
            self.begin_item(indent, "│", rest, out);
        } else if matches!(mark, "-" | "*" | "+") && text.len() > 1 {
            self.begin_item(indent, "•", rest, out);
        } else if is_number(mark) && text.len() > mark.len() {
            self.begin_item(indent, mark, rest, out);
        } else {
            self.held = line;
        }
    }

    fn begin_item(&mut self, indent: usize, mark: &str, rest: &str, out: &mut String) {
        out.push_str(&self.wrap.push(&format!("{}{mark} ", " ".repeat(indent))));
        self.wrap.set_indent(indent + mark.chars().count() + 1);
        self.held = rest.to_owned();
    }

    fn begin_style(&mut self, style: &'static str, out: &mut String) {
        self.wrap.style(style, out);
        self.styles.push(style);
    }

    fn end_style(&mut self, out: &mut String) {
        self.styles.pop();
        self.wrap.style(RESET, out);
        for style in &self.styles {
            self.wrap.style(style, out);
        }
    }

    fn print_text(&mut self, text: &str, out: &mut String) {
        out.push_str(&self.wrap.push(text));
        self.before = text.chars().next_back().or(self.before);
    }
}

/// Whether the beginning of a line may become a block mark with the next characters.
fn may_be_mark(line: &str) -> bool {
    let text = line.trim_start();
    opening_fence(text).is_some() || text.chars().all(|c| c.is_ascii_digit() || " #>*-+_`~.)".contains(c))
}

fn opening_fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|fence| {
        let rest = line.trim_start().strip_prefix(fence);
        rest.is_some_and(|rest| !rest.contains(&fence[..1]))
    })
}

fn is_rule(text: &str) -> bool {
    let marks: String = text.split_whitespace().collect();
    marks.len() >= 3 && ["-", "*", "_"].iter().any(|mark| marks.replace(mark, "").is_empty())
}

/// Whether a text is the mark of an ordered list, such as `12.`.
fn is_number(mark: &str) -> bool {
    let digits = mark.strip_suffix(['.', ')']).unwrap_or_default();
    (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints a text in one piece and character by character, which must give the same.
    fn printed(width: usize, text: &str) -> String {
        let mut whole = MarkdownPrinter::new(Some(width));
        let at_once = whole.push(text) + &whole.end();
        let mut pieces = MarkdownPrinter::new(Some(width));
        let mut streamed: String = text.chars().map(|c| pieces.push(&c.to_string())).collect();
        streamed.push_str(&pieces.end());
        assert_eq!(streamed, at_once, "{text:?}");
        at_once.replace(BOLD, "<b>").replace(DIM, "<d>").replace(CODE, "<c>").replace(RESET, "</>")
    }

    #[test]
    fn headings_lists_quotes_and_rules_are_printed_without_their_marks() {
        let text = "# Rooms\n- one\n  * two\n12. twelve\n> said\n---\nplain\n";
        let expected = "<b>Rooms</>\n• one\n  • two\n12. twelve\n<d>│ said</>\n────────────────────\nplain\n";
        assert_eq!(printed(40, text), expected);
    }

    #[test]
    fn list_items_wrap_below_their_text() {
        assert_eq!(printed(20, "- alpha beta gamma delta"), "• alpha beta gamma\n  delta\n");
    }

    #[test]
    fn code_blocks_are_printed_verbatim_and_are_not_wrapped() {
        let code = "let a_b = *p; // a line that is longer than the terminal";
        assert_eq!(
            printed(20, &format!("```rust\n{code}\n\n# no\n```\nafter")),
            format!("    <c>{code}</>\n    <c></>\n    <c># no</>\nafter\n")
        );
        assert_eq!(printed(20, "```\nopen"), "    <c>open</>\n");
    }

    #[test]
    fn emphasis_code_and_links_are_styled() {
        assert_eq!(printed(80, "a **b c** d"), "a <b>b c</> d\n");
        assert_eq!(printed(80, "a `b*c*` d"), "a <c>b*c*</> d\n");
        assert_eq!(printed(80, "**b `c` d**"), "<b>b <c>c</><b> d</>\n");
        assert_eq!(printed(80, "*i* _i_ ~~s~~"), "\u{1b}[3mi</> \u{1b}[3mi</> \u{1b}[9ms</>\n");
        assert_eq!(
            printed(80, "see [the page](https://a.b) now"),
            "see \u{1b}[4mthe page</> <d>(https://a.b)</> now\n"
        );
        assert_eq!(printed(80, "![A cat](https://a.b/c.png)"), "\u{1b}[4mA cat</> <d>(https://a.b/c.png)</>\n");
    }

    #[test]
    fn marks_that_are_not_markdown_are_printed_unchanged() {
        for text in [
            "2 * 3 * 4",
            "a snake_case_name",
            "5 *stars",
            "**open",
            "`open",
            "[open",
            "[a] b",
            "a\\b",
            "#tag",
            "1.5 GB",
            "~a~",
            "!",
        ] {
            assert_eq!(printed(80, text), format!("{}\n", text.trim_end()), "{text:?}");
        }
        assert_eq!(printed(80, "\\*a\\*"), "*a*\n");
        assert_eq!(printed(80, "你好**世界**！"), "你好<b>世界</>！\n");
    }

    /// A printer whose time grows with the square of a line would take hours for these lines.
    #[test]
    fn long_line_of_unclosed_markdown_marks_is_printed_unchanged() {
        const LENGTH: usize = 400_000;
        let marks = ["**a ", "_a ", "*a **b ***c ", "[a](b ", "[a ", "![a](", "~~a ", "[", "#"];
        let mut lines: Vec<_> = marks.iter().map(|mark| mark.repeat(LENGTH / mark.len())).collect();
        lines.push((1..900).map(|run| "`".repeat(run) + "a").collect());
        for line in lines {
            let mut printer = MarkdownPrinter::new(None);
            let at_once = printer.push(&line) + &printer.end();
            let pieces = line.as_bytes().chunks(1000).map(|piece| str::from_utf8(piece).unwrap());
            let mut streamed: String = pieces.map(|piece| printer.push(piece)).collect();
            streamed.push_str(&printer.end());
            for printed in [at_once, streamed] {
                assert!(printed.trim_end() == line.trim_end(), "{}", &line[..20]);
            }
        }
    }

    #[test]
    fn text_before_an_open_mark_is_printed_at_once() {
        let mut printer = MarkdownPrinter::new(None);
        assert_eq!(printer.push("Hello dear **guest"), "Hello dear");
        assert_eq!(printer.push("** and"), format!(" {BOLD}guest{RESET}"));
        assert_eq!(printer.end(), " and\n");
    }
}
