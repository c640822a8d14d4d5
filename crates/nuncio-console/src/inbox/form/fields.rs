//! Form fields derived from a JSON Schema.

use nuncio_core::json::pointer;
use serde_json::Value;

use crate::schema::{plain_text, properties};
use crate::texts::FormTexts;

/// Prefix of the names of result fields, which distinguishes them from other form parameters.
pub(super) const PREFIX: &str = "f";
/// Length in characters up to which a text gets a one-line input.
const ONE_LINE_LENGTH: u64 = 120;
/// Number of `$ref`s that are followed in a row.
const MAX_REFERENCES: usize = 8;

pub(in crate::inbox) enum FormItem {
    Field(Box<FormField>),
    Group(FieldGroup),
}

/// The fields of an object inside the result.
pub(in crate::inbox) struct FieldGroup {
    pub(in crate::inbox) key: String,
    pub(in crate::inbox) label: String,
    pub(in crate::inbox) description: Option<String>,
    pub(in crate::inbox) required: bool,
    pub(in crate::inbox) fields: Vec<FormField>,
}

pub(in crate::inbox) struct FormField {
    pub(super) key: String,
    pub(super) pointer: String,
    pub(super) schema: Value,
    pub(super) nullable: bool,
    pub(in crate::inbox) id: String,
    pub(in crate::inbox) name: String,
    pub(in crate::inbox) label: String,
    pub(in crate::inbox) description: Option<String>,
    pub(in crate::inbox) required: bool,
    pub(in crate::inbox) control: FieldControl,
    /// The typed text; `true` for a ticked checkbox.
    pub(in crate::inbox) typed: String,
    /// The time zone of the typed time, as an offset.
    pub(in crate::inbox) zone: String,
    pub(in crate::inbox) faults: Vec<String>,
}

/// The input element of a field.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::inbox) enum FieldControl {
    Line(&'static str),
    Area,
    Number,
    Integer,
    Choice(Vec<FieldChoice>),
    /// A checkbox.
    Check,
    Date,
    Time,
    DateTime,
    /// A list of texts, one per line.
    Lines,
    Json,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::inbox) struct FieldChoice {
    pub(in crate::inbox) label: String,
    /// The value, as JSON.
    pub(in crate::inbox) value: String,
}

pub(super) fn items(schema: Option<&Value>, texts: &FormTexts) -> Vec<FormItem> {
    let text = serde_json::json!({"type": "string"});
    let root = schema.unwrap_or(&text);
    let mut builder = FieldBuilder { root, count: 0 };
    let schema = builder.resolve(root);
    if !allows(schema, "object") || !has_properties(schema) {
        return vec![FormItem::Field(builder.field(schema, "", "", true).labelled(&texts.result).into())];
    }
    properties(schema).map(|(key, inner, required)| builder.item(key, inner, required)).collect()
}

struct FieldBuilder<'a> {
    root: &'a Value,
    count: usize,
}

impl<'a> FieldBuilder<'a> {
    fn item(&mut self, key: &str, schema: &'a Value, required: bool) -> FormItem {
        let schema = self.resolve(schema);
        let object_pointer = pointer("", key);
        if !allows(schema, "object") || !has_properties(schema) {
            return FormItem::Field(self.field(schema, key, &object_pointer, required).into());
        }
        let fields = properties(schema).map(|(inner, schema, required)| {
            let schema = self.resolve(schema);
            self.field(schema, inner, &pointer(&object_pointer, inner), required)
        });
        let fields = fields.collect();
        FormItem::Group(FieldGroup {
            key: key.to_owned(),
            label: title(schema, key),
            description: description(schema),
            required,
            fields,
        })
    }

    fn field(&mut self, schema: &Value, key: &str, pointer: &str, required: bool) -> FormField {
        self.count += 1;
        let control = control(schema);
        let typed = schema.get("default").map(|default| default_text(&control, default)).unwrap_or_default();
        FormField {
            key: key.to_owned(),
            pointer: pointer.to_owned(),
            nullable: allows(schema, "null") || schema["enum"].as_array().is_some_and(|all| all.contains(&Value::Null)),
            id: format!("field-{}", self.count),
            name: format!("{PREFIX}{pointer}"),
            label: title(schema, key),
            description: description(schema),
            required,
            control,
            typed,
            zone: "Z".to_owned(),
            faults: Vec::new(),
            schema: schema.clone(),
        }
    }

    /// Resolves a local `$ref`.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            let target = schema["$ref"].as_str().and_then(|reference| self.root.pointer(reference.strip_prefix('#')?));
            match target {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

impl FormField {
    fn labelled(mut self, label: &str) -> Self {
        if self.label.is_empty() {
            label.clone_into(&mut self.label);
        }
        self
    }

    /// Whether a JSON pointer leads to this field or into it.
    pub(super) fn contains(&self, pointer: &str) -> bool {
        pointer.strip_prefix(self.pointer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(in crate::inbox) const fn kind(&self) -> &'static str {
        match self.control {
            FieldControl::Line(_) => "line",
            FieldControl::Area => "area",
            FieldControl::Number | FieldControl::Integer => "number",
            FieldControl::Choice(_) => "choice",
            FieldControl::Check => "check",
            FieldControl::Date | FieldControl::Time | FieldControl::DateTime => "time",
            FieldControl::Lines => "lines",
            FieldControl::Json => "json",
        }
    }

    pub(in crate::inbox) const fn input_type(&self) -> &'static str {
        match self.control {
            FieldControl::Line(kind) => kind,
            FieldControl::Date => "date",
            FieldControl::Time => "time",
            FieldControl::DateTime => "datetime-local",
            _ => "text",
        }
    }

    /// Whether the control has a time zone.
    pub(in crate::inbox) const fn has_zone(&self) -> bool {
        matches!(self.control, FieldControl::Time | FieldControl::DateTime)
    }

    pub(in crate::inbox) fn choices(&self) -> &[FieldChoice] {
        match &self.control {
            FieldControl::Choice(choices) => choices,
            _ => &[],
        }
    }

    pub(in crate::inbox) fn described_by(&self) -> String {
        let mut parts = Vec::new();
        if !self.faults.is_empty() {
            parts.push(format!("{}-wrong", self.id));
        }
        if self.description.is_some() {
            parts.push(format!("{}-about", self.id));
        }
        if matches!(self.control, FieldControl::Lines | FieldControl::Json) || self.has_zone() {
            parts.push(format!("{}-hint", self.id));
        }
        parts.join(" ")
    }
}

fn control(schema: &Value) -> FieldControl {
    if let Some(choices) = choices(schema) {
        return FieldControl::Choice(choices);
    }
    match kind(schema) {
        Some("string") => text_control(schema),
        Some("boolean") => FieldControl::Check,
        Some("integer") => FieldControl::Integer,
        Some("number") => FieldControl::Number,
        Some("array") if allows(&schema["items"], "string") && kind(&schema["items"]) == Some("string") => {
            FieldControl::Lines
        }
        _ => FieldControl::Json,
    }
}

fn text_control(schema: &Value) -> FieldControl {
    let short =
        schema["maxLength"].as_u64().is_some_and(|most| most <= ONE_LINE_LENGTH) || schema["pattern"].is_string();
    match schema["format"].as_str() {
        Some("date") => FieldControl::Date,
        Some("time") => FieldControl::Time,
        Some("date-time") => FieldControl::DateTime,
        Some("email" | "idn-email") => FieldControl::Line("email"),
        Some("uri" | "iri") => FieldControl::Line("url"),
        Some(_) => FieldControl::Line("text"),
        None if short => FieldControl::Line("text"),
        None => FieldControl::Area,
    }
}

/// The choices of an `enum`, a `const`, or a `oneOf` of constants with titles.
fn choices(schema: &Value) -> Option<Vec<FieldChoice>> {
    let choice = |label: String, value: &Value| FieldChoice { label, value: value.to_string() };
    if let Some(values) = schema["enum"].as_array() {
        return Some(
            values.iter().filter(|value| !value.is_null()).map(|value| choice(plain_text(value), value)).collect(),
        );
    }
    if let Some(value) = schema.get("const") {
        return Some(vec![choice(plain_text(value), value)]);
    }
    let options = schema["oneOf"].as_array().filter(|options| !options.is_empty())?;
    let option = |option: &Value| {
        let value = option.get("const")?;
        Some(choice(option["title"].as_str().map_or_else(|| plain_text(value), str::to_owned), value))
    };
    options.iter().map(option).collect()
}

/// A schema's default value as the text typed into the control.
fn default_text(control: &FieldControl, value: &Value) -> String {
    match (control, value) {
        (FieldControl::Choice(_) | FieldControl::Json, value) => value.to_string(),
        (FieldControl::Lines, Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        (_, Value::String(text)) => text.clone(),
        (_, Value::Null) => String::new(),
        (_, other) => other.to_string(),
    }
}

fn has_properties(schema: &Value) -> bool {
    schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

/// The type of a schema that allows one type, apart from null.
fn kind(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.next().filter(|_| kinds.next().is_none())
        }
        _ => None,
    }
}

fn allows(schema: &Value, wanted: &str) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == wanted,
        Value::Array(kinds) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    }
}

/// The title of a schema, or the name of the property with spaces and a capital letter.
fn title(schema: &Value, key: &str) -> String {
    if let Some(title) = schema["title"].as_str() {
        return title.to_owned();
    }
    let words = key.replace(['_', '-'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn description(schema: &Value) -> Option<String> {
    schema["description"].as_str().map(str::to_owned)
}
