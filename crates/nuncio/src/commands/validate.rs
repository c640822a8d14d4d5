//! `nuncio validate`: validates a protocol document.

use std::path::Path;

use anstream::println;
use anyhow::Context as _;
use nuncio_anp::validate::{AnpDocumentType, AnpValidationReport};
use nuncio_core::address;
use nuncio_core::report::DocumentFault;
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use nuncio_skill::validate::{SkillDocumentType, ValidationReport, validate_as};
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::chat::clean::clean;
use super::consumer::{consumer, print_notes, wrapped};
use super::diff::read_up_to;
use crate::cli::{ValidateArguments, ValidatedDocumentKind};
use crate::output::WrongUsageError;

mod did_document;

/// Size limit of a validated document, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Prints every fault of a document. The exit status is 1 if the document has an error.
pub(crate) async fn run(options: &ValidateArguments, json: bool) -> anyhow::Result<()> {
    let bytes = read(options, json).await?;
    let (kind, errors, warnings) = match options.kind.map_or_else(|| detect(&bytes), DocumentValidatorKind::from) {
        DocumentValidatorKind::Skill(kind) => {
            let ValidationReport { errors, warnings, .. } = validate_as(kind, &bytes);
            (kind.as_str(), errors, warnings)
        }
        DocumentValidatorKind::Anp(kind) => {
            let AnpValidationReport { errors, warnings, .. } = nuncio_anp::validate::validate(kind, &bytes);
            (kind.as_str(), errors, warnings)
        }
        DocumentValidatorKind::Did => {
            let (errors, warnings) = did_document::check(&bytes, SystemClock.now());
            ("DID document", errors, warnings)
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
    if passes { Ok(()) } else { Err(crate::output::AlreadyReportedError.into()) }
}

async fn read(options: &ValidateArguments, json: bool) -> anyhow::Result<Vec<u8>> {
    let document = options.document.as_str();
    if document.contains("://") {
        let url =
            address::read(document).map_err(|why| WrongUsageError(format!("{document:?} is not an address: {why}")))?;
        return Ok(consumer(&options.outbound, print_notes(json))?.download(&url, MAX_BYTES).await?.to_vec());
    }
    let name = if document == "-" { "standard input" } else { document };
    read_up_to(Path::new(document), MAX_BYTES).with_context(|| format!("{name} cannot be read"))
}

enum DocumentValidatorKind {
    Skill(SkillDocumentType),
    Anp(AnpDocumentType),
    Did,
}

impl From<ValidatedDocumentKind> for DocumentValidatorKind {
    fn from(kind: ValidatedDocumentKind) -> Self {
        match kind {
            ValidatedDocumentKind::Descriptor => Self::Skill(SkillDocumentType::SkillDescriptor),
            ValidatedDocumentKind::Index => Self::Skill(SkillDocumentType::SkillIndex),
            ValidatedDocumentKind::Request => Self::Skill(SkillDocumentType::InvocationRequest),
            ValidatedDocumentKind::Response => Self::Skill(SkillDocumentType::InvocationResponse),
            ValidatedDocumentKind::Error => Self::Skill(SkillDocumentType::ErrorResponse),
            ValidatedDocumentKind::AgentDescription => Self::Anp(AnpDocumentType::AgentDescription),
            ValidatedDocumentKind::Openrpc => Self::Anp(AnpDocumentType::OpenRpc),
            ValidatedDocumentKind::Product => Self::Anp(AnpDocumentType::Product),
            ValidatedDocumentKind::AgentList => Self::Anp(AnpDocumentType::CollectionPage),
            ValidatedDocumentKind::DidDocument => Self::Did,
        }
    }
}

/// Detects the kind of a document by its fields; a skill descriptor by default.
fn detect(bytes: &[u8]) -> DocumentValidatorKind {
    let document = nuncio_core::json::read(bytes, MAX_BYTES).unwrap_or_default();
    let has = |name: &str| document.get(name).is_some();
    if has("verificationMethod") || document["id"].as_str().is_some_and(|id| id.starts_with("did:")) {
        return DocumentValidatorKind::Did;
    }
    if let Some(kind) = AnpDocumentType::of(&document) {
        return DocumentValidatorKind::Anp(kind);
    }
    DocumentValidatorKind::Skill(match () {
        () if has("endpoint") => SkillDocumentType::SkillDescriptor,
        () if has("skills") => SkillDocumentType::SkillIndex,
        () if has("execution_id") => SkillDocumentType::InvocationResponse,
        () if has("caller") || has("skill_id") => SkillDocumentType::InvocationRequest,
        () if document.as_object().is_some_and(|fields| fields.len() == 1) && has("error") => {
            SkillDocumentType::ErrorResponse
        }
        () => SkillDocumentType::SkillDescriptor,
    })
}

fn print_fault(label: &str, fault: &DocumentFault) {
    let path = if fault.path.is_empty() { "the document" } else { &fault.path };
    println!("{label} {}: {}", clean(path), clean(&fault.message));
    if let Some(found) = fault.found() {
        println!("{}", wrapped(&found, "  ").dimmed());
    }
}
