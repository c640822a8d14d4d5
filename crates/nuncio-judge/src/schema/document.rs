//! One of the two schemas as a document: its resources, anchors, and the resolution of references.

use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::Value;
use url::Url;

use crate::{HashMap, HashSet};

/// Base URI of a document without `$id`.
const NOWHERE: &str = "json-schema:///";

/// Keywords whose value is a schema.
pub(crate) const ONE: &[&str] = &[
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
pub(crate) const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
pub(crate) const MAP: &[&str] =
    &["$defs", "definitions", "dependentSchemas", "patternProperties", "properties", "dependencies"];

pub(crate) struct SchemaDocument<'a> {
    pub(crate) root: &'a Value,
    /// Pointer of each resource by its URI.
    resources: HashMap<String, String>,
    /// Pointer and URI of each resource below the root.
    nested: Vec<(String, Url)>,
    /// Base URI of the document, computed when first needed.
    base: OnceCell<Option<Url>>,
    /// Pointer of each anchor by its resource's pointer and its name.
    anchors: HashMap<(String, String), String>,
}

/// The result of resolving a reference.
pub(crate) enum ReferenceTarget<'a> {
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
            document.index(root, &mut String::new(), base.as_ref(), "");
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

    fn index(&mut self, schema: &'a Value, place: &mut String, base: Option<&Url>, resource: &str) {
        let Value::Object(map) = schema else { return };
        let mut own = None;
        if !place.is_empty()
            && let Some(url) = map.get("$id").and_then(Value::as_str).and_then(|id| base?.join(id).ok())
        {
            self.resources.insert(address(&url), place.clone());
            self.nested.push((place.clone(), url.clone()));
            own = Some((url, place.clone()));
        }
        let (base, resource) = own.as_ref().map_or((base, resource), |(url, place)| (Some(url), place.as_str()));
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = map.get(keyword).and_then(Value::as_str) {
                self.anchors.insert((resource.to_owned(), name.to_owned()), place.clone());
            }
        }
        for (keyword, value) in map {
            let length = place.len();
            match value {
                Value::Object(members) if MAP.contains(&keyword.as_str()) => {
                    for (name, member) in members {
                        push(place, keyword);
                        push(place, name);
                        self.index(member, place, base, resource);
                        place.truncate(length);
                    }
                }
                Value::Array(members) if LIST.contains(&keyword.as_str()) => {
                    for (position, member) in members.iter().enumerate() {
                        push(place, keyword);
                        push(place, &position.to_string());
                        self.index(member, place, base, resource);
                        place.truncate(length);
                    }
                }
                Value::Object(_) if ONE.contains(&keyword.as_str()) => {
                    push(place, keyword);
                    self.index(value, place, base, resource);
                    place.truncate(length);
                }
                _ => {}
            }
        }
    }

    /// Whether parts of the document have an `$id` of their own.
    pub(crate) fn is_compound(&self) -> bool {
        !self.nested.is_empty()
    }

    /// Resolves a reference that is written at the location `place`.
    pub(crate) fn resolve(&self, reference: &str, place: SchemaLocation<'_>) -> Option<ReferenceTarget<'a>> {
        if let Some(fragment) = reference.strip_prefix('#').filter(|_| !self.is_compound()) {
            return self.inside("", fragment);
        }
        let place = place.text();
        let base = self
            .nested
            .iter()
            .filter(|(root, _)| {
                place.strip_prefix(root.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|(root, _)| root.len())
            .map_or_else(|| self.base(), |(_, url)| Some(url))?;
        // A reference that is only a fragment stays in its resource, whatever the base URI.
        let url = base.join(reference).ok()?;
        let at = address(&url);
        let whole = || self.base().filter(|base| address(base) == at).map(|_| "");
        match self.resources.get(&at).map(String::as_str).or_else(whole) {
            Some(resource) => self.inside(resource, url.fragment().unwrap_or_default()),
            None => Some(ReferenceTarget::Elsewhere(url.to_string())),
        }
    }

    /// Resolves a fragment within a resource.
    fn inside(&self, resource: &str, fragment: &str) -> Option<ReferenceTarget<'a>> {
        let fragment = decoded(fragment)?;
        let place = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{resource}{fragment}")
        } else {
            self.anchors.get(&(resource.to_owned(), fragment))?.clone()
        };
        let schema = self.root.pointer(&place)?;
        Some(ReferenceTarget::Here(place, schema))
    }
}

/// Whether any part has a keyword that names it, such as `$id` or `$anchor`.
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
            Self::Named(outer, name) => Cow::Owned(join(&outer.text(), name)),
            Self::Numbered(outer, index) => Cow::Owned(format!("{}/{index}", outer.text())),
        }
    }
}

/// Whether both documents have the same schema at `place`, including what it refers to.
pub(crate) fn says_the_same(old: &SchemaDocument<'_>, new: &SchemaDocument<'_>, place: &str) -> bool {
    let same_base = old.root.get("$id") == new.root.get("$id") || old.base() == new.base();
    let mut seen = HashSet::default();
    let mut left = vec![place.to_owned()];
    while let Some(place) = left.pop() {
        if seen.len() > 64 || old.is_compound() || new.is_compound() || !same_base {
            return false;
        }
        if !seen.insert(place.clone()) {
            continue;
        }
        let (Some(before), Some(after)) = (old.root.pointer(&place), new.root.pointer(&place)) else { return false };
        if before != after {
            return false;
        }
        let mut references = Vec::new();
        collect_references(before, &mut references);
        for reference in references {
            match (old.resolve(reference, SchemaLocation::ROOT), new.resolve(reference, SchemaLocation::ROOT)) {
                (Some(ReferenceTarget::Here(before, _)), Some(ReferenceTarget::Here(after, _))) if before == after => {
                    left.push(before);
                }
                (Some(ReferenceTarget::Elsewhere(before)), Some(ReferenceTarget::Elsewhere(after)))
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

fn decoded(fragment: &str) -> Option<String> {
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

/// Appends a segment to a JSON pointer.
pub(crate) fn push(place: &mut String, step: &str) {
    place.push('/');
    for char in step.chars() {
        match char {
            '~' => place.push_str("~0"),
            '/' => place.push_str("~1"),
            other => place.push(other),
        }
    }
}

pub(crate) fn join(place: &str, step: &str) -> String {
    let mut longer = place.to_owned();
    push(&mut longer, step);
    longer
}
