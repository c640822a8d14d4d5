//! What an agent once had: a tool or a scope that was taken out is remembered in its last form.

use serde_json::Value;

use super::read::{Scope, Side, Tool, Unread};

/// Earlier manifests, read from the newest on when something is looked for.
pub(super) struct Tombstones<'a> {
    history: &'a [Value],
    sides: Option<Vec<Side<'a>>>,
    unread: Vec<Unread<'a>>,
}

impl<'a> Tombstones<'a> {
    pub(super) fn new(history: &'a [Value]) -> Self {
        Self { history, sides: None, unread: Vec::new() }
    }

    /// The last form of a tool.
    pub(super) fn tool(&mut self, name: &str) -> Option<Tool<'a>> {
        self.sides().iter().find_map(|side| side.tool(name)).copied()
    }

    /// The last form of a scope.
    pub(super) fn scope(&mut self, name: &str) -> Option<Scope<'a>> {
        self.sides().iter().find_map(|side| side.scope(name)).copied()
    }

    /// Earlier manifests that could not be understood; none when nothing was looked for.
    pub(super) fn unread(self) -> Vec<Unread<'a>> {
        self.unread
    }

    fn sides(&mut self) -> &[Side<'a>] {
        let (history, unread) = (self.history, &mut self.unread);
        self.sides.get_or_insert_with(|| {
            let manifests = history.iter().rev().filter(|manifest| !manifest.is_null());
            manifests.filter_map(|manifest| Side::read(manifest).map_err(|why| unread.push(why)).ok()).collect()
        })
    }
}
