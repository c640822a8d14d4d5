//! `nuncio validate`: what is wrong with a document.

use std::io::Read as _;

use anstream::println;
use anyhow::Context as _;
use nuncio_core::address;
use nuncio_skill::validate::{Fault, Kind, Report, read_json, validate_as};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{consumer, notes, wrapped};
use crate::cli::{DocumentKind, Validate};
use crate::output::{WrongUsage, cell};

mod anp;

/// No document is larger.
const MAX_BYTES: usize = 8 << 20;

/// Says everything that is wrong with a document. The status is 1 when something is.
pub(crate) async fn run(options: &Validate, json: bool) -> anyhow::Result<()> {
    let bytes = read(options, json).await?;
    let kind = match options.kind.map_or_else(|| anp::guess(&bytes), anp::kind) {
        Some(kind) => return anp::run(options, kind, &bytes, json),
        None => options.kind.and_then(kind).unwrap_or_else(|| guess(&bytes)),
    };
    let report = validate_as(kind, &bytes);
    let passes = report.valid && (report.warnings.is_empty() || !options.strict);
    if json {
        let Report { errors, warnings, .. } = &report;
        println!("{}", json!({"valid": passes, "kind": kind.name(), "errors": errors, "warnings": warnings}));
    } else {
        people(&options.document, &report, passes);
    }
    if passes { Ok(()) } else { Err(crate::output::Told.into()) }
}

async fn read(options: &Validate, json: bool) -> anyhow::Result<Vec<u8>> {
    let document = options.document.as_str();
    if document.contains("://") {
        let url = address::read(document).map_err(|why| WrongUsage(format!("{document:?} is no address: {why}")))?;
        return Ok(consumer(&options.reach, notes(json))?.download(&url, MAX_BYTES).await?.to_vec());
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) + 1;
    if document == "-" {
        std::io::stdin().take(limit).read_to_end(&mut bytes).context("standard input cannot be read")?;
    } else {
        let file = std::fs::File::open(document).with_context(|| format!("{document} cannot be read"))?;
        file.take(limit).read_to_end(&mut bytes).with_context(|| format!("{document} cannot be read"))?;
    }
    Ok(bytes)
}

fn kind(said: DocumentKind) -> Option<Kind> {
    match said {
        DocumentKind::Descriptor => Some(Kind::SkillDescriptor),
        DocumentKind::Index => Some(Kind::SkillIndex),
        DocumentKind::Request => Some(Kind::InvocationRequest),
        DocumentKind::Response => Some(Kind::InvocationResponse),
        DocumentKind::Error => Some(Kind::ErrorResponse),
        _ => None,
    }
}

/// What a document is by the fields only it has; a descriptor when nothing tells.
fn guess(bytes: &[u8]) -> Kind {
    let Ok(Value::Object(document)) = read_json(bytes, MAX_BYTES) else { return Kind::SkillDescriptor };
    let has = |name: &str| document.contains_key(name);
    match () {
        () if has("endpoint") => Kind::SkillDescriptor,
        () if has("skills") => Kind::SkillIndex,
        () if has("execution_id") => Kind::InvocationResponse,
        () if has("caller") || has("skill_id") => Kind::InvocationRequest,
        () if has("error") && document.len() == 1 => Kind::ErrorResponse,
        () => Kind::SkillDescriptor,
    }
}

fn people(document: &str, report: &Report, passes: bool) {
    verdict(document, report.kind.name(), passes);
    for fault in &report.errors {
        show(&"error:".red().bold().to_string(), fault);
    }
    for fault in &report.warnings {
        show(&"warning:".yellow().bold().to_string(), fault);
    }
}

fn verdict(document: &str, kind: &str, passes: bool) {
    let verdict = if passes { "valid".green().bold().to_string() } else { "invalid".red().bold().to_string() };
    println!("{verdict} {kind} {}", clean(document));
}

fn show(word: &str, fault: &Fault) {
    tell(word, &fault.path, &fault.message, &fault.expected, &fault.actual);
}

fn tell(word: &str, path: &str, message: &str, expected: &Value, actual: &Value) {
    let path = if path.is_empty() { "the document" } else { path };
    println!("{word} {}: {}", clean(path), clean(message));
    if !expected.is_null() || !actual.is_null() {
        let told = |value: &Value| match value {
            Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
            other => cell(other),
        };
        println!("{}", wrapped(&format!("expected {}, found {}", told(expected), told(actual)), "  ").dimmed());
    }
}
