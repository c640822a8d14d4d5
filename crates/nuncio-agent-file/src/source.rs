//! The text of an agent file and the faults found in it.

use std::cell::RefCell;

use super::external::{AgentFilePosition, ExternalReference, ExternalTarget};
use super::fault::{AgentFileFault, AgentFileFaults};
use super::strings::raw_offset;

/// An agent file being parsed. Faults are collected, so that parsing continues after one.
pub(super) struct AgentFileSource<'a> {
    file: &'a str,
    text: &'a str,
    line_starts: Vec<usize>,
    faults: RefCell<Vec<AgentFileFault>>,
    notes: RefCell<Vec<AgentFileFault>>,
    references: RefCell<Vec<ExternalReference>>,
}

/// A position in the agent file with the key it belongs to.
#[derive(Clone)]
pub(super) struct FilePosition<'a> {
    source: &'a AgentFileSource<'a>,
    offset: usize,
    key: String,
    /// Path of the key as the reference writes it: without the names and numbers of sections, and with `*` for a name
    /// of the author's.
    path: String,
}

impl<'a> AgentFileSource<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            file,
            text,
            line_starts: std::iter::once(0).chain(after_newlines).collect(),
            faults: RefCell::default(),
            notes: RefCell::default(),
            references: RefCell::default(),
        }
    }

    pub(super) fn root(&'a self) -> FilePosition<'a> {
        self.position(0)
    }

    /// A position in the agent file without a key.
    pub(super) fn position(&'a self, offset: usize) -> FilePosition<'a> {
        FilePosition { source: self, offset, key: String::new(), path: String::new() }
    }

    pub(super) fn has_faults(&self) -> bool {
        !self.faults.borrow().is_empty()
    }

    pub(super) fn into_faults(self) -> AgentFileFaults {
        AgentFileFaults(in_order(self.faults.into_inner()))
    }

    pub(super) fn into_notes(self) -> Vec<AgentFileFault> {
        in_order(self.notes.into_inner())
    }

    /// The references to programs, variables and files, in the order in which they were read.
    pub(super) fn references(&self) -> Vec<ExternalReference> {
        self.references.borrow().clone()
    }

    /// Line and column of a byte offset, both starting at 1.
    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

impl<'a> FilePosition<'a> {
    /// Reports an error at this position; an empty `help` is left out.
    pub(super) fn fault(&self, found: impl Into<String>, help: impl Into<String>) {
        let fault = self.describe(found.into(), help.into());
        self.source.faults.borrow_mut().push(fault);
    }

    /// Reports an error at this position and returns `None`.
    pub(super) fn reject<T>(&self, found: impl Into<String>, help: impl Into<String>) -> Option<T> {
        self.fault(found, help);
        None
    }

    /// Reports a warning at this position.
    pub(super) fn note(&self, found: impl Into<String>, help: impl Into<String>) {
        let note = self.describe(found.into(), help.into());
        self.source.notes.borrow_mut().push(note);
    }

    /// Records that the agent needs something outside its file.
    pub(super) fn refer_to(&self, target: ExternalTarget) {
        let reference = ExternalReference { position: self.to_owned_position(), target };
        self.source.references.borrow_mut().push(reference);
    }

    pub(super) fn to_owned_position(&self) -> AgentFilePosition {
        let (line, column) = self.source.line_and_column(self.offset);
        AgentFilePosition { file: self.source.file.to_owned(), line, column, key: self.key.clone() }
    }

    /// The position of a key inside the key at this position.
    pub(super) fn inside(&self, offset: usize, key: &str) -> Self {
        Self { offset, key: below(&self.key, key), path: below(&self.path, key), source: self.source }
    }

    /// The position of a key that is a name of the author's, inside the key at this position.
    pub(super) fn entry(&self, offset: usize, key: &str) -> Self {
        Self { offset, key: below(&self.key, key), path: below(&self.path, "*"), source: self.source }
    }

    /// The same position, for a key that is missing inside the key at this position.
    pub(super) fn here(&self, key: &str) -> Self {
        self.inside(self.offset, key)
    }

    /// The position of an item of the list at this position.
    pub(super) fn numbered(&self, offset: usize, index: usize) -> Self {
        let key = format!("{}[{index}]", self.key);
        Self { offset, key, ..self.clone() }
    }

    /// The position of a table in the array at this position, identified by its name.
    pub(super) fn named(&self, offset: usize, name: &str) -> Self {
        let key = format!("{} {:?}", self.key, cut(name));
        Self { offset, key, ..self.clone() }
    }

    /// Path of the key in the reference.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The position of a byte offset in `value`, the value of the string at this position.
    pub(super) fn in_text(&self, value: &str, offset: usize) -> Self {
        let raw = self.source.text.get(self.offset..).unwrap_or_default();
        Self { offset: self.offset + raw_offset(raw, value, offset), ..self.clone() }
    }

    pub(super) fn line(&self) -> usize {
        self.source.line_and_column(self.offset).0
    }

    fn describe(&self, found: String, help: String) -> AgentFileFault {
        let (line, column) = self.source.line_and_column(self.offset);
        let help = Some(help).filter(|help| !help.is_empty());
        AgentFileFault { file: self.source.file.to_owned(), line, column, key: self.key.clone(), found, help }
    }
}

fn below(outer: &str, key: &str) -> String {
    if outer.is_empty() { key.to_owned() } else { format!("{outer}.{key}") }
}

/// Shortens a text of the agent file for a message.
pub(super) fn cut(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 80;
    let mut shown: String = text.chars().take(MAX_SHOWN_CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn in_order(mut faults: Vec<AgentFileFault>) -> Vec<AgentFileFault> {
    faults.sort_by_key(|fault| (fault.line, fault.column));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_offset_gives_line_and_column_in_characters_counted_from_one() {
        let source = AgentFileSource::new("f", "a\r\n预b\n");
        assert_eq!(source.line_and_column(0), (1, 1));
        assert_eq!(source.line_and_column(3), (2, 1));
        assert_eq!(source.line_and_column(6), (2, 2));
        assert_eq!(source.line_and_column(8), (3, 1));
        // An offset past the end or inside a character gives a nearby position, not a panic.
        assert_eq!(source.line_and_column(99), (3, 1));
        assert_eq!(source.line_and_column(4), (2, 1));
    }
}
