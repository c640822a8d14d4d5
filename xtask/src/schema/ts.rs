//! Generates `schema.ts` (TypeScript).

use std::fmt::Write as _;

use nuncio_skill::schema::model::{FieldDependencyRule, ObjectDefinition, ValueShape};
use nuncio_skill::schema::{CATALOGUE, EnumDefinition, PublishedSchemaDefinition};

const HEAD: &str = "\
// Skill Sharing Protocol 1.0. Written from the same source as schema.json and equal to it in meaning.
// Objects are open: a document may have fields that are not listed here.
";

pub(super) fn text() -> String {
    let mut out = HEAD.to_owned();
    for one in CATALOGUE.iter() {
        out.push('\n');
        match one {
            PublishedSchemaDefinition::Object(definition, rules) => interface(&mut out, definition, rules),
            PublishedSchemaDefinition::Enum(words) => union(&mut out, words),
        }
    }
    out
}

fn interface(out: &mut String, definition: &ObjectDefinition, rules: &[FieldDependencyRule]) {
    let mut lines = vec![definition.doc.clone()];
    lines.extend(rules.iter().map(rule_text));
    comment(out, "", &lines);
    let _ = writeln!(out, "export interface {} {}", definition.name, body(definition, ""));
}

/// Text of a rule for a comment, since an interface cannot express it.
pub(super) fn rule_text(rule: &FieldDependencyRule) -> String {
    let quoted = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.replace('/', "."))).collect();
        match names.as_slice() {
            [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
            few => few.concat(),
        }
    };
    let when = rule.is.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(" or ");
    let mut wants = Vec::new();
    if !rule.requires.is_empty() {
        wants.push(format!("{} must be there", quoted(rule.requires)));
    }
    if !rule.forbids.is_empty() {
        wants.push(format!("{} must not be there", quoted(rule.forbids)));
    }
    format!("When `{}` is {when}, {}.", rule.field, wants.join(" and "))
}

fn union(out: &mut String, definition: &EnumDefinition) {
    let EnumDefinition { name, doc, values, docs } = definition;
    let mut lines = vec![(*doc).to_owned()];
    lines.extend(values.iter().zip(docs).map(|(value, doc)| format!("- `\"{value}\"`: {doc}")));
    comment(out, "", &lines);
    let list = values.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>();
    let _ = writeln!(out, "export type {name} = {};", list.join(" | "));
}

fn body(definition: &ObjectDefinition, indent: &str) -> String {
    let inner = format!("{indent}  ");
    let mut out = "{\n".to_owned();
    for field in &definition.fields {
        comment(&mut out, &inner, std::slice::from_ref(&field.doc));
        let mark = if field.required { "" } else { "?" };
        let _ = writeln!(out, "{inner}{}{mark}: {};", field.name, type_of(&field.shape, &inner));
    }
    out.push_str(indent);
    out.push('}');
    out
}

/// TypeScript type of a shape; `indent` prefixes the lines of nested types.
pub(super) fn type_of(shape: &ValueShape, indent: &str) -> String {
    match shape {
        ValueShape::Text => "string".to_owned(),
        ValueShape::Number => "number".to_owned(),
        ValueShape::Boolean => "boolean".to_owned(),
        ValueShape::Enum(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | "),
        ValueShape::List(item) => match &**item {
            ValueShape::Enum(_) => format!("({})[]", type_of(item, indent)),
            _ => format!("{}[]", type_of(item, indent)),
        },
        ValueShape::Record(item) => format!("Record<string, {}>", type_of(item, indent)),
        ValueShape::Unknown => "unknown".to_owned(),
        ValueShape::Reference(name) => (*name).to_owned(),
        ValueShape::Nested(definition) => body(definition, indent),
    }
}

fn comment(out: &mut String, indent: &str, lines: &[String]) {
    if let [line] = lines {
        let _ = writeln!(out, "{indent}/** {line} */");
        return;
    }
    let _ = writeln!(out, "{indent}/**");
    for line in lines {
        let _ = writeln!(out, "{indent} * {line}");
    }
    let _ = writeln!(out, "{indent} */");
}
