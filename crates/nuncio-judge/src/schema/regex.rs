//! Regular expressions as automata over characters, to compare the texts that they match.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{self, Ast, Visitor};
use regex_syntax::hir::translate::Translator;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::node::DotMeaning;

/// Limit of automaton states; a larger expression counts as not understood.
const MAX_STATES: usize = 4_000;

/// A nondeterministic automaton that accepts a text if some part of it matches.
pub(crate) struct RegexAutomaton {
    states: Vec<AutomatonState>,
    start: u32,
}

enum AutomatonState {
    /// A state of the automaton that consumes one character of these ranges.
    Take(Box<[(char, char)]>, u32),
    Split(Vec<u32>),
    AtStart(u32),
    AtEnd(u32),
    Accept,
}

/// Positions of the dots in a regular expression.
struct DotPositions(Vec<(usize, usize)>);

impl Visitor for DotPositions {
    type Output = Vec<(usize, usize)>;
    type Err = ();

    fn finish(self) -> Result<Self::Output, ()> {
        Ok(self.0)
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), ()> {
        if let Ast::Dot(span) = ast {
            self.0.push((span.start.offset, span.end.offset));
        }
        Ok(())
    }
}

/// State of a search in a text: the active automaton states before transitions without a character.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum AutomatonRunState {
    /// A match was found, so the rest of the text is not examined.
    Matched,
    At {
        states: Box<[u32]>,
        start: bool,
    },
}

impl RegexAutomaton {
    /// Parses an expression as JSON Schema does (ECMA-262, as far as it is regular).
    pub(crate) fn parse(text: &str, dot: DotMeaning) -> Option<Self> {
        let translated = jsonschema_regex::to_rust_regex(text).ok()?;
        let mut ast = Parser::new().parse(&translated).ok()?;
        let mut source = translated.into_owned();
        if dot == DotMeaning::NotLineTerminator {
            let dots = ast::visit(&ast, DotPositions(Vec::new())).ok()?;
            if !dots.is_empty() {
                for (start, end) in dots.into_iter().rev() {
                    source.replace_range(start..end, r"[^\n\r\x{2028}\x{2029}]");
                }
                ast = Parser::new().parse(&source).ok()?;
            }
        }
        let hir = Translator::new().translate(&source, &ast).ok()?;
        let mut automaton = Self { states: vec![AutomatonState::Accept], start: 0 };
        automaton.start = automaton.build(&hir, 0)?;
        Some(automaton)
    }

    fn push(&mut self, state: AutomatonState) -> Option<u32> {
        if self.states.len() >= MAX_STATES {
            return None;
        }
        self.states.push(state);
        u32::try_from(self.states.len() - 1).ok()
    }

    /// Adds automaton states that match `hir` and continue at `next`; returns the first of them.
    fn build(&mut self, hir: &Hir, next: u32) -> Option<u32> {
        match hir.kind() {
            HirKind::Empty => Some(next),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                text.chars()
                    .rev()
                    .try_fold(next, |next, char| self.push(AutomatonState::Take([(char, char)].into(), next)))
            }
            HirKind::Class(Class::Unicode(class)) => {
                let ranges: Vec<(char, char)> =
                    class.ranges().iter().map(|range| (range.start(), range.end())).collect();
                self.push(AutomatonState::Take(ranges.into(), next))
            }
            HirKind::Class(Class::Bytes(class)) => {
                let ranges: Vec<(char, char)> =
                    class.ranges().iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect();
                if !class.is_ascii() {
                    return None;
                }
                self.push(AutomatonState::Take(ranges.into(), next))
            }
            HirKind::Look(Look::Start) => self.push(AutomatonState::AtStart(next)),
            HirKind::Look(Look::End) => self.push(AutomatonState::AtEnd(next)),
            HirKind::Look(_) => None,
            HirKind::Capture(capture) => self.build(&capture.sub, next),
            HirKind::Concat(parts) => parts.iter().rev().try_fold(next, |next, part| self.build(part, next)),
            HirKind::Alternation(parts) => {
                let starts = parts.iter().map(|part| self.build(part, next)).collect::<Option<Vec<_>>>()?;
                self.push(AutomatonState::Split(starts))
            }
            HirKind::Repetition(repetition) => {
                let mut from = match repetition.max {
                    None => {
                        let again = self.push(AutomatonState::Split(vec![next]))?;
                        let body = self.build(&repetition.sub, again)?;
                        if let AutomatonState::Split(ways) = &mut self.states[again as usize] {
                            ways.push(body);
                        }
                        again
                    }
                    Some(max) => {
                        let mut from = next;
                        for _ in repetition.min..max {
                            let body = self.build(&repetition.sub, from)?;
                            // A repetition that stops here leads directly to the end.
                            from = self.push(AutomatonState::Split(vec![body, next]))?;
                        }
                        from
                    }
                };
                for _ in 0..repetition.min {
                    let before = self.states.len();
                    from = self.build(&repetition.sub, from)?;
                    if self.states.len() == before {
                        // An empty part stays empty however often it is repeated.
                        break;
                    }
                }
                Some(from)
            }
        }
    }

    /// Appends the characters at which some range begins or ends. Characters between two boundaries behave alike.
    pub(crate) fn boundaries(&self, into: &mut Vec<u32>) {
        for state in &self.states {
            if let AutomatonState::Take(ranges, _) = state {
                for (first, last) in ranges {
                    into.push(u32::from(*first));
                    into.push(u32::from(*last) + 1);
                }
            }
        }
    }

    pub(crate) fn begin(&self) -> AutomatonRunState {
        AutomatonRunState::At { states: Box::new([]), start: true }
    }

    /// Automaton states reachable without a character; `None` once one of them accepts.
    fn closure(&self, states: &[u32], start: bool, end: bool) -> Option<Vec<u32>> {
        let mut seen = vec![false; self.states.len()];
        let mut takes = Vec::new();
        // A search may begin at any position.
        let mut left: Vec<u32> = states.iter().copied().chain([self.start]).collect();
        while let Some(index) = left.pop() {
            if std::mem::replace(&mut seen[index as usize], true) {
                continue;
            }
            match &self.states[index as usize] {
                AutomatonState::Accept => return None,
                AutomatonState::Take(..) => takes.push(index),
                AutomatonState::Split(ways) => left.extend(ways),
                AutomatonState::AtStart(next) if start => left.push(*next),
                AutomatonState::AtEnd(next) if end => left.push(*next),
                AutomatonState::AtStart(_) | AutomatonState::AtEnd(_) => {}
            }
        }
        Some(takes)
    }

    pub(crate) fn step(&self, position: &AutomatonRunState, char: char) -> AutomatonRunState {
        let AutomatonRunState::At { states, start } = position else { return AutomatonRunState::Matched };
        let Some(takes) = self.closure(states, *start, false) else { return AutomatonRunState::Matched };
        let mut next: Vec<u32> = takes
            .into_iter()
            .filter_map(|index| match &self.states[index as usize] {
                AutomatonState::Take(ranges, next) => {
                    let taken = ranges
                        .binary_search_by(|(first, last)| {
                            if *last < char {
                                std::cmp::Ordering::Less
                            } else if *first > char {
                                std::cmp::Ordering::Greater
                            } else {
                                std::cmp::Ordering::Equal
                            }
                        })
                        .is_ok();
                    taken.then_some(*next)
                }
                _ => None,
            })
            .collect();
        next.sort_unstable();
        next.dedup();
        AutomatonRunState::At { states: next.into(), start: false }
    }

    /// Whether a text that ends at this position matches.
    pub(crate) fn accepts(&self, position: &AutomatonRunState) -> bool {
        match position {
            AutomatonRunState::Matched => true,
            AutomatonRunState::At { states, start } => self.closure(states, *start, true).is_none(),
        }
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        let mut position = self.begin();
        for char in text.chars() {
            position = self.step(&position, char);
            if position == AutomatonRunState::Matched {
                return true;
            }
        }
        self.accepts(&position)
    }

    /// Number of automaton states, which is the cost of one step.
    pub(crate) fn size(&self) -> usize {
        self.states.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regex_automaton_matches_the_same_texts_as_the_regex_crate() {
        let texts = ["", "a", "b", "ab", "aab", "abc", "x1", "1", "12", "a\nb", "\n", "é", "aé9_", "foo", "xfoo", " "];
        let patterns = [
            "a*",
            "^a*$",
            "^a+b?$",
            "b$",
            "^$",
            "",
            "a|b",
            "^(a|b)+$",
            "[0-9]{2}",
            "^.{1,2}$",
            "^[^a]",
            "\\d",
            "\\w+$",
            "\\s",
            "^foo$|^x",
            "(^a)|(b$)",
            "^(?:ab){0,2}$",
            "a{0}",
            "()*",
            "(a?){3}$",
            "^(a|)*b$",
            "é",
            "^\\cJ$",
        ];
        for pattern in patterns {
            let ours = RegexAutomaton::parse(pattern, DotMeaning::NotLineFeed).unwrap_or_else(|| panic!("{pattern}"));
            let theirs = regex::Regex::new(&jsonschema_regex::to_rust_regex(pattern).unwrap()).unwrap();
            for text in texts {
                assert_eq!(ours.is_match(text), theirs.is_match(text), "{pattern} on {text:?}");
            }
        }
    }

    #[test]
    fn regex_that_is_invalid_huge_or_needs_lookaround_or_backreference_is_not_parsed() {
        for pattern in ["(?=x)x", "(a)\\1", "a{100000}", "\\bx", "("] {
            assert!(RegexAutomaton::parse(pattern, DotMeaning::NotLineFeed).is_none(), "{pattern}");
        }
    }

    #[test]
    fn regex_dot_excludes_carriage_return_only_with_line_terminator_option() {
        assert!(RegexAutomaton::parse("^.$", DotMeaning::NotLineFeed).unwrap().is_match("\r"));
        assert!(!RegexAutomaton::parse("^.$", DotMeaning::NotLineTerminator).unwrap().is_match("\r"));
    }
}
