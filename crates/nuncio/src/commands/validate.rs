//! `nuncio validate`: validates a protocol document.

use std::io::Read as _;

use anstream::println;
use anyhow::Context as _;
use nuncio_core::address;
use nuncio_core::report::DocumentFault;
use nuncio_skill::validate::{SkillDocumentType, ValidationReport, validate_as};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{consumer, print_notes, wrapped};
use crate::cli::{DocumentKind, Validate};
use crate::output::WrongUsage;

mod anp;

/// Size limit of a validated document, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Prints every fault of a document. The exit status is 1 if there is one.
pub(crate) async fn run(options: &Validate, json: bool) -> anyhow::Result<()> {
    let bytes = read(options, json).await?;
    let (kind, errors, warnings) = match options.kind.map_or_else(|| anp::detect(&bytes), anp::kind) {
        Some(kind) => anp::check(kind, &bytes),
        None => {
            let kind = options.kind.and_then(skill_kind).unwrap_or_else(|| detect_skill_kind(&bytes));
            let ValidationReport { errors, warnings, .. } = validate_as(kind, &bytes);
            (kind.as_str(), errors, warnings)
        }
    };
    let passes = errors.is_empty() && (warnings.is_empty() || !options.strict);
    if json {
        println!("{}", json!({"valid": passes, "kind": kind, "errors": errors, "warnings": warnings}));
    } else {
        let verdict = if passes { "valid".green().bold().to_string() } else { "invalid".red().bold().to_string() };
        println!("{verdict} {kind} {}", clean(&options.document));
        errors.iter().for_each(|fault| print_fault(&"error:".red().bold().to_string(), fault));
        warnings.iter().for_each(|fault| print_fault(&"warning:".yellow().bold().to_string(), fault));
    }
    if passes { Ok(()) } else { Err(crate::output::AlreadyReported.into()) }
}

async fn read(options: &Validate, json: bool) -> anyhow::Result<Vec<u8>> {
    let document = options.document.as_str();
    if document.contains("://") {
        let url = address::read(document).map_err(|why| WrongUsage(format!("{document:?} is no address: {why}")))?;
        return Ok(consumer(&options.outbound, print_notes(json))?.download(&url, MAX_BYTES).await?.to_vec());
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

fn skill_kind(kind: DocumentKind) -> Option<SkillDocumentType> {
    match kind {
        DocumentKind::Descriptor => Some(SkillDocumentType::SkillDescriptor),
        DocumentKind::Index => Some(SkillDocumentType::SkillIndex),
        DocumentKind::Request => Some(SkillDocumentType::InvocationRequest),
        DocumentKind::Response => Some(SkillDocumentType::InvocationResponse),
        DocumentKind::Error => Some(SkillDocumentType::ErrorResponse),
        _ => None,
    }
}

/// Detects the kind of a document by its fields; a descriptor by default.
fn detect_skill_kind(bytes: &[u8]) -> SkillDocumentType {
    let Ok(Value::Object(document)) = nuncio_core::json::read(bytes, MAX_BYTES) else {
        return SkillDocumentType::SkillDescriptor;
    };
    let has = |name: &str| document.contains_key(name);
    match () {
        () if has("endpoint") => SkillDocumentType::SkillDescriptor,
        () if has("skills") => SkillDocumentType::SkillIndex,
        () if has("execution_id") => SkillDocumentType::InvocationResponse,
        () if has("caller") || has("skill_id") => SkillDocumentType::InvocationRequest,
        () if has("error") && document.len() == 1 => SkillDocumentType::ErrorResponse,
        () => SkillDocumentType::SkillDescriptor,
    }
}

fn print_fault(label: &str, fault: &DocumentFault) {
    let path = if fault.path.is_empty() { "the document" } else { &fault.path };
    println!("{label} {}: {}", clean(path), clean(&fault.message));
    if let Some(found) = fault.found() {
        println!("{}", wrapped(&found, "  ").dimmed());
    }
}
