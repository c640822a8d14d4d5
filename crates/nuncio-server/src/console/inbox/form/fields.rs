//! Form fields derived from a JSON Schema.

use nuncio_core::json::pointer;
use serde_json::Value;

use crate::console::texts::FormTexts;

/// Prefix of the names of result fields, which distinguishes them from other form parameters.
pub(super) const PREFIX: &str = "f";
/// A text of at most so many characters needs only one line.
const ONE_LINE: u64 = 120;
/// How many references are followed.
const HOPS: usize = 8;

pub(in crate::console) enum FormItem {
    Field(Field),
    /// Several that belong together.
    Group(FieldGroup),
}

/// Fields that make one object.
pub(in crate::console) struct FieldGroup {
    pub(in crate::console) key: String,
    pub(in crate::console) label: String,
    pub(in crate::console) description: Option<String>,
    pub(in crate::console) required: bool,
    pub(in crate::console) fields: Vec<Field>,
}

pub(in crate::console) struct Field {
    pub(super) key: String,
    pub(super) pointer: String,
    pub(super) schema: Value,
    pub(super) nullable: bool,
    pub(in crate::console) id: String,
    pub(in crate::console) name: String,
    pub(in crate::console) label: String,
    pub(in crate::console) description: Option<String>,
    pub(in crate::console) required: bool,
    pub(in crate::console) control: Control,
    /// The typed text; `true` for a ticked box.
    pub(in crate::console) typed: String,
    /// The time zone of the typed time, as an offset.
    pub(in crate::console) zone: String,
    pub(in crate::console) faults: Vec<String>,
}

/// How a field is filled in.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::console) enum Control {
    Line(&'static str),
    Area,
    Number,
    Integer,
    Choice(Vec<Choice>),
    /// Yes or no.
    Check,
    Date,
    Time,
    Moment,
    /// A list of texts, one a line.
    Lines,
    Json,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::console) struct Choice {
    pub(in crate::console) label: String,
    /// The value, as JSON.
    pub(in crate::console) value: String,
}

pub(super) fn items(schema: Option<&Value>, texts: &FormTexts) -> Vec<FormItem> {
    let mut made = FieldBuilder { root: schema.unwrap_or(&Value::Null), count: 0 };
    let Some(schema) = schema else {
        let text = serde_json::json!({"type": "string"});
        return vec![FormItem::Field(made.field(&text, "", "", true).labelled(&texts.result))];
    };
    let schema = made.resolve(schema);
    if !is(schema, "object") || !has_properties(schema) {
        return vec![FormItem::Field(made.field(schema, "", "", true).labelled(&texts.result))];
    }
    properties(schema).map(|(key, inner, required)| made.item(key, inner, required)).collect()
}

struct FieldBuilder<'a> {
    root: &'a Value,
    count: usize,
}

impl<'a> FieldBuilder<'a> {
    fn item(&mut self, key: &str, schema: &'a Value, required: bool) -> FormItem {
        let schema = self.resolve(schema);
        let place = pointer("", key);
        if !is(schema, "object") || !has_properties(schema) {
            return FormItem::Field(self.field(schema, key, &place, required));
        }
        let fields = properties(schema).map(|(inner, schema, required)| {
            let schema = self.resolve(schema);
            self.field(schema, inner, &pointer(&place, inner), required)
        });
        let fields = fields.collect();
        FormItem::Group(FieldGroup {
            key: key.to_owned(),
            label: title(schema, key),
            description: about(schema),
            required,
            fields,
        })
    }

    fn field(&mut self, schema: &Value, key: &str, pointer: &str, required: bool) -> Field {
        self.count += 1;
        let control = control(schema);
        let typed = schema.get("default").map(|default| typed(&control, default)).unwrap_or_default();
        Field {
            key: key.to_owned(),
            pointer: pointer.to_owned(),
            nullable: is(schema, "null") || schema["enum"].as_array().is_some_and(|all| all.contains(&Value::Null)),
            id: format!("field-{}", self.count),
            name: format!("{PREFIX}{pointer}"),
            label: title(schema, key),
            description: about(schema),
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
        for _ in 0..HOPS {
            let target = schema["$ref"].as_str().and_then(|place| self.root.pointer(place.strip_prefix('#')?));
            match target {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

impl Field {
    fn labelled(mut self, label: &str) -> Self {
        if self.label.is_empty() {
            label.clone_into(&mut self.label);
        }
        self
    }

    /// Whether a place in the result is this field's, or inside it.
    pub(super) fn holds(&self, pointer: &str) -> bool {
        pointer.strip_prefix(self.pointer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(in crate::console) const fn kind(&self) -> &'static str {
        match self.control {
            Control::Line(_) => "line",
            Control::Area => "area",
            Control::Number | Control::Integer => "number",
            Control::Choice(_) => "choice",
            Control::Check => "check",
            Control::Date | Control::Time | Control::Moment => "time",
            Control::Lines => "lines",
            Control::Json => "json",
        }
    }

    pub(in crate::console) const fn input_type(&self) -> &'static str {
        match self.control {
            Control::Line(kind) => kind,
            Control::Date => "date",
            Control::Time => "time",
            Control::Moment => "datetime-local",
            _ => "text",
        }
    }

    /// Whether the control has a time zone.
    pub(in crate::console) const fn has_zone(&self) -> bool {
        matches!(self.control, Control::Time | Control::Moment)
    }

    pub(in crate::console) fn choices(&self) -> &[Choice] {
        match &self.control {
            Control::Choice(choices) => choices,
            _ => &[],
        }
    }

    pub(in crate::console) fn described_by(&self) -> String {
        let mut parts = Vec::new();
        if !self.faults.is_empty() {
            parts.push(format!("{}-wrong", self.id));
        }
        if self.description.is_some() {
            parts.push(format!("{}-about", self.id));
        }
        if matches!(self.control, Control::Lines | Control::Json) || self.has_zone() {
            parts.push(format!("{}-hint", self.id));
        }
        parts.join(" ")
    }
}

fn control(schema: &Value) -> Control {
    if let Some(choices) = choices(schema) {
        return Control::Choice(choices);
    }
    match kind(schema) {
        Some("string") => text(schema),
        Some("boolean") => Control::Check,
        Some("integer") => Control::Integer,
        Some("number") => Control::Number,
        Some("array") if is(&schema["items"], "string") && kind(&schema["items"]) == Some("string") => Control::Lines,
        _ => Control::Json,
    }
}

fn text(schema: &Value) -> Control {
    let short = schema["maxLength"].as_u64().is_some_and(|most| most <= ONE_LINE) || schema["pattern"].is_string();
    match schema["format"].as_str() {
        Some("date") => Control::Date,
        Some("time") => Control::Time,
        Some("date-time") => Control::Moment,
        Some("email" | "idn-email") => Control::Line("email"),
        Some("uri" | "iri") => Control::Line("url"),
        Some(_) => Control::Line("text"),
        None if short => Control::Line("text"),
        None => Control::Area,
    }
}

/// `enum`, `const`, or a `oneOf` of constants with titles.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let choice = |label: String, value: &Value| Choice { label, value: value.to_string() };
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.iter().filter(|value| !value.is_null()).map(|value| choice(plain(value), value)).collect());
    }
    if let Some(value) = schema.get("const") {
        return Some(vec![choice(plain(value), value)]);
    }
    let options = schema["oneOf"].as_array().filter(|options| !options.is_empty())?;
    let option = |option: &Value| {
        let value = option.get("const")?;
        Some(choice(option["title"].as_str().map_or_else(|| plain(value), str::to_owned), value))
    };
    options.iter().map(option).collect()
}

fn typed(control: &Control, value: &Value) -> String {
    match (control, value) {
        (Control::Choice(_) | Control::Json, value) => value.to_string(),
        (Control::Lines, Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Null) => String::new(),
        (_, other) => other.to_string(),
    }
}

/// The properties: those that must be there first, in the author's order, then the rest.
fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value, bool)> {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |name: &str| required.iter().position(|it| *it == name);
    let mut all: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
    all.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    let all: Vec<_> = all.into_iter().map(|(name, inner)| (name.as_str(), inner, place(name).is_some())).collect();
    all.into_iter()
}

fn has_properties(schema: &Value) -> bool {
    schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

/// The one type a schema asks for beside null.
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

fn is(schema: &Value, wanted: &str) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == wanted,
        Value::Array(kinds) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    }
}

/// A title, or the property's name as words.
fn title(schema: &Value, key: &str) -> String {
    if let Some(title) = schema["title"].as_str() {
        return title.to_owned();
    }
    let words = key.replace(['_', '-'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn about(schema: &Value) -> Option<String> {
    schema["description"].as_str().map(str::to_owned)
}
