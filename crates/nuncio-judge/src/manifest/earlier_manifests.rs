//! Removed tools and scopes: finds the last form that each had in earlier manifests.

use serde_json::Value;

use super::read::{ManifestScopeEntry, ManifestToolEntry, ParsedManifest, UnreadableManifest};

/// Earlier manifests, parsed when first needed, newest first.
pub(super) struct EarlierManifests<'a> {
    history: &'a [Value],
    sides: Option<Vec<ParsedManifest<'a>>>,
    unread: Vec<UnreadableManifest<'a>>,
}

impl<'a> EarlierManifests<'a> {
    pub(super) fn new(history: &'a [Value]) -> Self {
        Self { history, sides: None, unread: Vec::new() }
    }

    /// The last form of a removed tool.
    pub(super) fn tool(&mut self, name: &str) -> Option<ManifestToolEntry<'a>> {
        self.sides().iter().find_map(|side| side.tool(name)).copied()
    }

    /// The last form of a removed scope.
    pub(super) fn scope(&mut self, name: &str) -> Option<ManifestScopeEntry<'a>> {
        self.sides().iter().find_map(|side| side.scope(name)).copied()
    }

    /// Earlier manifests that could not be read; empty if no removed tool or scope was looked up.
    pub(super) fn unread(self) -> Vec<UnreadableManifest<'a>> {
        self.unread
    }

    fn sides(&mut self) -> &[ParsedManifest<'a>] {
        let (history, unread) = (self.history, &mut self.unread);
        self.sides.get_or_insert_with(|| {
            let manifests = history.iter().rev().filter(|manifest| !manifest.is_null());
            manifests
                .filter_map(|manifest| ParsedManifest::read(manifest).map_err(|why| unread.push(why)).ok())
                .collect()
        })
    }
}
