//! One of the two compared schemas as a document: its resources, anchors, and the resolution of references.

use std::borrow::Cow;
use std::cell::OnceCell;

use nuncio_core::json::pointer;
use nuncio_core::schema::keywords::{LIST, NAMED, ONE};
use serde_json::Value;
use url::Url;

use crate::{HashMap, HashSet};

/// Base URI of a schema document without `$id`.
const NOWHERE: &str = "json-schema:///";

/// Whether a keyword's value is an object of schemas, including `dependencies` of an earlier draft.
pub(crate) fn is_map(keyword: &str) -> bool {
    NAMED.contains(&keyword) || keyword == "dependencies"
}

pub(crate) struct SchemaDocument<'a> {
    pub(crate) root: &'a Value,
    /// Pointer of each schema resource by its URI.
    resources: HashMap<String, String>,
    /// Pointer and URI of each schema resource below the root.
    nested: Vec<(String, Url)>,
    /// Base URI of the document, computed when first needed.
    base: OnceCell<Option<Url>>,
    /// Pointer of each anchor by its resource's pointer and its name.
    anchors: HashMap<(String, String), String>,
}

/// The result of resolving a reference.
pub(crate) enum SchemaReferenceTarget<'a> {
    /// A reference to a schema in the same document, with its pointer.
    Here(String, &'a Value),
    /// A reference to another document, with its URI.
    Elsewhere(String),
}

impl<'a> SchemaDocument<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        let mut document = Self {
            root,
            resources: HashMap::default(),
            nested: Vec::new(),
            base: OnceCell::new(),
            anchors: HashMap::default(),
        };
        if names_anything(root) {
            let base = document.base().cloned();
            document.index(root, "", base.as_ref(), "");
        }
        document
    }

    fn base(&self) -> Option<&Url> {
        let base = || {
            let nowhere = Url::parse(NOWHERE).ok()?;
            let named = self.root.get("$id").and_then(Value::as_str).and_then(|id| nowhere.join(id).ok());
            Some(named.unwrap_or(nowhere))
        };
        self.base.get_or_init(base).as_ref()
    }

    fn index(&mut self, schema: &'a Value, location: &str, base: Option<&Url>, resource: &str) {
        let Value::Object(map) = schema else { return };
        let mut own = None;
        if !location.is_empty()
            && let Some(url) = map.get("$id").and_then(Value::as_str).and_then(|id| base?.join(id).ok())
        {
            self.resources.insert(address(&url), location.to_owned());
            self.nested.push((location.to_owned(), url.clone()));
            own = Some((url, location));
        }
        let (base, resource) = own.as_ref().map_or((base, resource), |(url, location)| (Some(url), *location));
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = map.get(keyword).and_then(Value::as_str) {
                self.anchors.insert((resource.to_owned(), name.to_owned()), location.to_owned());
            }
        }
        for (keyword, value) in map {
            let at = pointer(location, keyword);
            match value {
                Value::Object(members) if is_map(keyword) => {
                    for (name, member) in members {
                        self.index(member, &pointer(&at, name), base, resource);
                    }
                }
                Value::Array(members) if LIST.contains(&keyword.as_str()) => {
                    for (position, member) in members.iter().enumerate() {
                        self.index(member, &format!("{at}/{position}"), base, resource);
                    }
                }
                Value::Object(_) if ONE.contains(&keyword.as_str()) => self.index(value, &at, base, resource),
                _ => {}
            }
        }
    }

    /// Whether parts of the document have an `$id` of their own.
    pub(crate) fn is_compound(&self) -> bool {
        !self.nested.is_empty()
    }

    /// Resolves a reference that is written at `location`.
    pub(crate) fn resolve(&self, reference: &str, location: SchemaLocation<'_>) -> Option<SchemaReferenceTarget<'a>> {
        if let Some(fragment) = reference.strip_prefix('#').filter(|_| !self.is_compound()) {
            return self.inside("", fragment);
        }
        let location = location.text();
        let base = self
            .nested
            .iter()
            .filter(|(root, _)| {
                location.strip_prefix(root.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|(root, _)| root.len())
            .map_or_else(|| self.base(), |(_, url)| Some(url))?;
        // A reference that is only a fragment stays in its schema resource, for every base URI.
        let url = base.join(reference).ok()?;
        let at = address(&url);
        let whole = || self.base().filter(|base| address(base) == at).map(|_| "");
        match self.resources.get(&at).map(String::as_str).or_else(whole) {
            Some(resource) => self.inside(resource, url.fragment().unwrap_or_default()),
            None => Some(SchemaReferenceTarget::Elsewhere(url.to_string())),
        }
    }

    /// Resolves a fragment of a reference within a schema resource.
    fn inside(&self, resource: &str, fragment: &str) -> Option<SchemaReferenceTarget<'a>> {
        let fragment = decode_fragment(fragment)?;
        let location = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{resource}{fragment}")
        } else {
            self.anchors.get(&(resource.to_owned(), fragment))?.clone()
        };
        let schema = self.root.pointer(&location)?;
        Some(SchemaReferenceTarget::Here(location, schema))
    }
}

/// Whether any part of the schema has a keyword that names it, such as `$id` or `$anchor`.
fn names_anything(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(names_anything),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| matches!(key.as_str(), "$id" | "$anchor" | "$dynamicAnchor") || names_anything(value)),
        _ => false,
    }
}

/// A location in a schema, formatted as a JSON pointer only when needed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SchemaLocation<'p> {
    At(&'p str),
    Named(&'p SchemaLocation<'p>, &'p str),
    Numbered(&'p SchemaLocation<'p>, usize),
}

impl<'p> SchemaLocation<'p> {
    pub(crate) const ROOT: Self = Self::At("");

    pub(crate) fn text(&self) -> Cow<'p, str> {
        match *self {
            Self::At(text) => Cow::Borrowed(text),
            Self::Named(outer, name) => Cow::Owned(pointer(&outer.text(), name)),
            Self::Numbered(outer, index) => Cow::Owned(format!("{}/{index}", outer.text())),
        }
    }
}

/// Whether both documents have the same schema at `location`, including the schemas it refers to.
pub(crate) fn is_same_schema(old: &SchemaDocument<'_>, new: &SchemaDocument<'_>, location: &str) -> bool {
    let same_base = old.root.get("$id") == new.root.get("$id") || old.base() == new.base();
    let mut seen = HashSet::default();
    let mut left = vec![location.to_owned()];
    while let Some(location) = left.pop() {
        if seen.len() > 64 || old.is_compound() || new.is_compound() || !same_base {
            return false;
        }
        if !seen.insert(location.clone()) {
            continue;
        }
        let (Some(before), Some(after)) = (old.root.pointer(&location), new.root.pointer(&location)) else {
            return false;
        };
        if before != after {
            return false;
        }
        let mut references = Vec::new();
        collect_references(before, &mut references);
        for reference in references {
            match (old.resolve(reference, SchemaLocation::ROOT), new.resolve(reference, SchemaLocation::ROOT)) {
                (Some(SchemaReferenceTarget::Here(before, _)), Some(SchemaReferenceTarget::Here(after, _)))
                    if before == after =>
                {
                    left.push(before);
                }
                (Some(SchemaReferenceTarget::Elsewhere(before)), Some(SchemaReferenceTarget::Elsewhere(after)))
                    if before == after => {}
                _ => return false,
            }
        }
    }
    true
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        Value::Object(map) => {
            for (key, item) in map {
                match item {
                    Value::String(text) if matches!(key.as_str(), "$ref" | "$dynamicRef") => found.push(text),
                    _ => collect_references(item, found),
                }
            }
        }
        _ => {}
    }
}

fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}

/// Decodes percent escapes in the fragment of a reference; `None` if one is malformed.
pub(crate) fn decode_fragment(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
