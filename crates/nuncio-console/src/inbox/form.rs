//! The form of a task: its fields come from the schema of the result, and the typed text is converted to the result.
//!
//! Texts, choices, numbers, booleans, dates, times and lists of texts have their own controls; an object becomes a
//! group of fields, one level deep. Everything else is typed as JSON. An invalid form is shown again with its text.

use nuncio_core::schema::{Schema, SchemaViolation};
use serde_json::{Map, Value};

use crate::texts::FormTexts;

mod faults;
mod fields;
mod read;

pub(super) use fields::{FieldControl, FieldGroup, FormField, FormItem};

pub(super) type PostedFields = [(String, String)];

pub(super) struct TaskForm {
    pub(super) items: Vec<FormItem>,
    /// Schema violations of the whole result, which belong to no field.
    pub(super) faults: Vec<String>,
    schema: Option<Value>,
}

impl TaskForm {
    /// The empty form for a task's result. Without a schema the result is one text.
    pub(super) fn of(schema: Option<&Value>, texts: &FormTexts) -> Self {
        Self { items: fields::items(schema, texts), faults: Vec::new(), schema: schema.cloned() }
    }

    /// Puts posted text into the fields. A field that was not sent stays empty.
    pub(super) fn fill(&mut self, posted: &PostedFields) {
        for field in self.fields_mut() {
            field.fill(posted);
        }
    }

    /// Whether a request has any field of a task form.
    pub(super) fn is_in(posted: &PostedFields) -> bool {
        posted.iter().any(|(name, _)| name.starts_with(fields::PREFIX))
    }

    /// The result; `None` if it is invalid, and then the faults are on the fields and the form.
    pub(super) fn result(&mut self, texts: &FormTexts) -> Option<Value> {
        let value = self.value(texts);
        let misread = self.fields().any(|field| !field.faults.is_empty());
        if let Some(faults) = self.check(&value, texts) {
            for fault in faults {
                self.add_fault(&value, &fault, misread, texts);
            }
        }
        let wrong = misread || !self.faults.is_empty() || self.problems().next().is_some();
        (!wrong).then_some(value)
    }

    /// The fields with faults, in display order.
    pub(super) fn problems(&self) -> impl Iterator<Item = &FormField> {
        self.fields().filter(|field| !field.faults.is_empty())
    }

    /// All fields, in display order.
    pub(super) fn fields(&self) -> impl Iterator<Item = &FormField> {
        self.items.iter().flat_map(|item| match item {
            FormItem::Field(field) => std::slice::from_ref(&**field),
            FormItem::Group(group) => &group.fields,
        })
    }

    fn fields_mut(&mut self) -> impl Iterator<Item = &mut FormField> {
        self.items.iter_mut().flat_map(|item| match item {
            FormItem::Field(field) => std::slice::from_mut(&mut **field),
            FormItem::Group(group) => group.fields.as_mut_slice(),
        })
    }

    fn value(&mut self, texts: &FormTexts) -> Value {
        let mut result = Map::new();
        for item in &mut self.items {
            match item {
                FormItem::Field(field) if field.pointer.is_empty() => {
                    return field.read(texts).unwrap_or(Value::Null);
                }
                FormItem::Field(field) => result.extend(field.read(texts).map(|value| (field.key.clone(), value))),
                FormItem::Group(group) => result.extend(group.read(texts).map(|value| (group.key.clone(), value))),
            }
        }
        Value::Object(result)
    }

    fn check(&self, value: &Value, texts: &FormTexts) -> Option<Vec<SchemaViolation>> {
        let schema = self.schema.clone()?;
        match Schema::compile(schema) {
            Ok(schema) => schema.check(value).err(),
            Err(error) => {
                let message = texts.schema_broken.replace("{why}", &error.to_string());
                Some(vec![SchemaViolation { pointer: String::new(), message }])
            }
        }
    }

    /// Adds a schema violation to the field it belongs to. If a field could not be parsed, violations of the whole
    /// result and of that field are left out, because they only follow from it.
    fn add_fault(&mut self, value: &Value, fault: &SchemaViolation, misread: bool, texts: &FormTexts) {
        let owner =
            self.fields_mut().filter(|field| field.contains(&fault.pointer)).max_by_key(|field| field.pointer.len());
        match owner {
            Some(field) if field.pointer.is_empty() && misread => {}
            Some(field) if field.faults.is_empty() || !misread => {
                field.faults.push(faults::describe(&field.schema, value.pointer(&fault.pointer), fault, texts));
            }
            None if !misread => self.faults.push(fault.to_string()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
