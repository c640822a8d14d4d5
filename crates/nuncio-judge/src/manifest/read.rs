//! Reads the parts of a manifest that the judge needs. Anything ambiguous is an error.

use std::collections::HashMap;

use serde_json::{Map, Value};

use nuncio_core::agent::Sensitivity;

pub(super) struct ParsedManifest<'a> {
    pub(super) root: &'a Map<String, Value>,
    pub(super) tools: Vec<ManifestToolEntry<'a>>,
    pub(super) scopes: Vec<ManifestScopeEntry<'a>>,
    tool_by_name: HashMap<&'a str, usize>,
    scope_by_name: HashMap<&'a str, usize>,
}

/// A tool of a manifest with its JSON pointer.
#[derive(Clone, Copy)]
pub(super) struct ManifestToolEntry<'a> {
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) scope: &'a str,
    pub(super) input: &'a Value,
    pub(super) fields: &'a Map<String, Value>,
}

/// A scope of a manifest with its JSON pointer.
#[derive(Clone, Copy)]
pub(super) struct ManifestScopeEntry<'a> {
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) sensitivity: Sensitivity,
    pub(super) fields: &'a Map<String, Value>,
}

/// Reason and location of a fault that makes a manifest unreadable for the judge.
#[derive(Clone)]
pub(super) struct UnreadableManifest<'a> {
    pub(super) location: String,
    pub(super) found: &'a Value,
}

impl<'a> ParsedManifest<'a> {
    pub(super) fn read(manifest: &'a Value) -> Result<Self, UnreadableManifest<'a>> {
        let Some(root) = manifest.as_object() else {
            return Err(UnreadableManifest { location: String::new(), found: manifest });
        };
        let mut side = Self {
            root,
            tools: Vec::new(),
            scopes: Vec::new(),
            tool_by_name: HashMap::new(),
            scope_by_name: HashMap::new(),
        };
        for (index, value) in list(root, "tools")?.iter().enumerate() {
            let unread = || UnreadableManifest { location: format!("/tools/{index}"), found: value };
            let tool = ManifestToolEntry::read(index, value).ok_or_else(unread)?;
            if side.tool_by_name.insert(tool.name, index).is_some() {
                return Err(unread());
            }
            side.tools.push(tool);
        }
        for (index, value) in list(root, "permission_scopes")?.iter().enumerate() {
            let unread = || UnreadableManifest { location: format!("/permission_scopes/{index}"), found: value };
            let scope = ManifestScopeEntry::read(index, value).ok_or_else(unread)?;
            if side.scope_by_name.insert(scope.name, index).is_some() {
                return Err(unread());
            }
            side.scopes.push(scope);
        }
        Ok(side)
    }

    pub(super) fn tool(&self, name: &str) -> Option<&ManifestToolEntry<'a>> {
        self.tool_by_name.get(name).map(|index| &self.tools[*index])
    }

    pub(super) fn scope(&self, name: &str) -> Option<&ManifestScopeEntry<'a>> {
        self.scope_by_name.get(name).map(|index| &self.scopes[*index])
    }
}

/// Reads an optional list of the manifest.
fn list<'a>(root: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], UnreadableManifest<'a>> {
    match root.get(name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(found) => Err(UnreadableManifest { location: format!("/{name}"), found }),
    }
}

impl<'a> ManifestToolEntry<'a> {
    fn read(index: usize, value: &'a Value) -> Option<Self> {
        let fields = value.as_object()?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let input = fields.get("input_schema").filter(|input| input.is_object() || input.is_boolean())?;
        Some(Self { index, name: text("name")?, scope: text("permission_scope")?, input, fields })
    }

    pub(super) fn pointer(&self) -> String {
        format!("/tools/{}", self.index)
    }
}

impl<'a> ManifestScopeEntry<'a> {
    fn read(index: usize, value: &'a Value) -> Option<Self> {
        let fields = value.as_object()?;
        let sensitivity = fields.get("sensitivity").and_then(Value::as_str).and_then(Sensitivity::parse)?;
        Some(Self { index, name: fields.get("id")?.as_str()?, sensitivity, fields })
    }

    pub(super) fn pointer(&self) -> String {
        format!("/permission_scopes/{}", self.index)
    }
}

/// All scopes that a possibly invalid manifest declares or that its tools use.
pub(super) fn scope_names(manifest: &Value) -> impl Iterator<Item = &str> {
    let parts = |list: &'static str, name: &'static str| {
        let items = manifest.get(list).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(move |item| item.get(name)?.as_str())
    };
    parts("permission_scopes", "id").chain(parts("tools", "permission_scope"))
}
