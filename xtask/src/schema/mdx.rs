//! Generates `schema.mdx`, the human-readable reference.

use std::fmt::Write as _;

use nuncio_skill::schema::model::{FieldDependencyRule, ObjectDefinition, ValueShape};
use nuncio_skill::schema::{CATALOGUE, EnumDefinition, PublishedSchemaDefinition};

use super::ts;

const HEAD: &str = "\
---
title: Schema reference
description: Every definition of the Skill Sharing Protocol 1.0
---

The same definitions as `schema.json` (JSON Schema 2020-12) and `schema.ts` (TypeScript). A valid document has every
required field; it may have fields that are not listed here, and readers keep them.
";

pub(super) fn text() -> String {
    let mut out = HEAD.to_owned();
    for (place, one) in CATALOGUE.iter().enumerate() {
        let root = if place == 0 { " This is the root of the schema." } else { "" };
        match one {
            PublishedSchemaDefinition::Object(definition, rules) => object(&mut out, definition, rules, root),
            PublishedSchemaDefinition::Enum(words) => list(&mut out, words),
        }
    }
    out
}

fn object(out: &mut String, definition: &ObjectDefinition, rules: &[FieldDependencyRule], root: &str) {
    let _ = write!(out, "\n## {}\n\n{}{root}\n\n", definition.name, definition.doc);
    out.push_str("| field | type | required | description |\n|---|---|---|---|\n");
    rows(out, definition, "");
    if !rules.is_empty() {
        out.push('\n');
        for rule in rules {
            let _ = writeln!(out, "- {}", ts::rule_text(rule));
        }
    }
}

/// Writes one table row per field; fields of nested objects follow with their path.
fn rows(out: &mut String, definition: &ObjectDefinition, above: &str) {
    for field in &definition.fields {
        let required = if field.required { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "| `{above}{}` | {} | {required} | {} |",
            field.name,
            type_cell(&field.shape),
            field.doc.replace('|', "\\|")
        );
        if let ValueShape::Nested(inner) = &field.shape {
            rows(out, inner, &format!("{above}{}.", field.name));
        }
    }
}

fn type_cell(shape: &ValueShape) -> String {
    match shape {
        ValueShape::Nested(_) => "`object`".to_owned(),
        ValueShape::Reference(name) => link(name, ""),
        ValueShape::List(item) => match &**item {
            ValueShape::Reference(name) => link(name, "[]"),
            ValueShape::Nested(_) => "`object[]`".to_owned(),
            _ => format!("`{}`", ts::type_of(shape, "")),
        },
        _ => format!("`{}`", ts::type_of(shape, "").replace('|', "\\|")),
    }
}

fn link(name: &str, suffix: &str) -> String {
    format!("[`{name}{suffix}`](#{})", name.to_lowercase())
}

fn list(out: &mut String, definition: &EnumDefinition) {
    let EnumDefinition { name, doc, values, docs } = definition;
    let _ = write!(out, "\n## {name}\n\n{doc}\n\n| value | description |\n|---|---|\n");
    for (value, doc) in values.iter().zip(docs) {
        let _ = writeln!(out, "| `\"{value}\"` | {doc} |");
    }
}
