//! `nuncio diff`: what a change from one manifest, or one schema, to another breaks.

use std::io::Read;
use std::path::Path;

use anstream::println;
use nuncio_core::json::{self, JsonDocumentError};
use nuncio_judge::schema::ComparisonBudget;
use nuncio_judge::{ChangeJudgingPolicy, ManifestChangeVerdict, manifests, schemas};
use serde_json::Value;

use crate::cli::DiffArguments;
use crate::output::{AlreadyReportedError, WrongUsageError, wrong_usage};

mod pairs;
mod people;
mod reason;
mod rule_texts;

/// Size limit of a compared document, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Judges a change. The exit status is 1 if the change is breaking, 2 if an input could not be read.
pub(crate) fn run(options: &DiffArguments, json: bool) -> anyhow::Result<()> {
    let judge = DiffMode::of(options);
    if let Some(file) = &options.pairs {
        return pairs::run(file, judge);
    }
    let (Some(old), Some(new)) = (&options.old, &options.new) else {
        return Err(wrong_usage("give two files, or --pairs FILE"));
    };
    let files: Vec<&Path> = [old, new].into_iter().chain(&options.history).map(AsRef::as_ref).collect();
    if files.iter().filter(|file| **file == Path::new("-")).count() > 1 {
        return Err(wrong_usage("only one of the files can be standard input"));
    }
    let mut documents = files.iter().map(|file| document(file)).collect::<anyhow::Result<Vec<_>>>()?.into_iter();
    let (before, after) = (documents.next().unwrap_or_default(), documents.next().unwrap_or_default());
    let history: Vec<Value> = documents.collect();
    let judged = judge.judged(&before, &after, &history);
    if json {
        println!("{}", judged.json()?);
    } else {
        people::print(&judged, &old.display().to_string(), &new.display().to_string());
    }
    if judged.verdict.breaking { Err(AlreadyReportedError.into()) } else { Ok(()) }
}

/// A verdict, with the reason of every finding about an unreadable part.
#[derive(Debug)]
struct JudgedDiff {
    verdict: ManifestChangeVerdict,
    reasons: Vec<Option<String>>,
}

impl JudgedDiff {
    /// The verdict on a document that is not valid JSON.
    fn unreadable(why: &JsonDocumentError) -> Self {
        Self { verdict: ManifestChangeVerdict::unreadable(), reasons: vec![Some(format!("the document {why}"))] }
    }

    /// The verdict as JSON; a finding about an unreadable part gets the field `reason`.
    fn json(&self) -> serde_json::Result<String> {
        if self.reasons.iter().all(Option::is_none) {
            return serde_json::to_string(&self.verdict);
        }
        let mut output = serde_json::to_value(&self.verdict)?;
        for (index, reason) in self.reasons.iter().enumerate() {
            if let Some(reason) = reason {
                output["findings"][index]["reason"] = reason.as_str().into();
            }
        }
        Ok(output.to_string())
    }
}

/// What `nuncio diff` compares: manifests or schemas.
#[derive(Debug, Clone, Copy)]
enum DiffMode {
    Manifests(ChangeJudgingPolicy),
    Schemas,
}

impl DiffMode {
    fn of(options: &DiffArguments) -> Self {
        if options.schema {
            return Self::Schemas;
        }
        let reauth_on_widening = options.reauth_on_widening;
        Self::Manifests(ChangeJudgingPolicy { reauth_on_widening, ..ChangeJudgingPolicy::default() })
    }

    fn judged(self, old: &Value, new: &Value, history: &[Value]) -> JudgedDiff {
        let verdict = match self {
            Self::Manifests(policy) => manifests(Some(old), Some(new), history, &policy),
            Self::Schemas => schemas(old, new, ComparisonBudget::default()),
        };
        let reasons = verdict.findings.iter().map(|finding| reason::of(finding, old, new, history)).collect();
        JudgedDiff { verdict, reasons }
    }
}

fn document(file: &Path) -> anyhow::Result<Value> {
    let wrong = |why: &dyn std::fmt::Display| WrongUsageError(format!("{} cannot be read: {why}", file.display()));
    let bytes = read_up_to(file, MAX_BYTES).map_err(|why| wrong(&why))?;
    json::read(&bytes, MAX_BYTES).map_err(|why| wrong(&why).into())
}

/// Reads a file, or standard input for `-`, up to one byte more than the limit, so that a larger one is recognised.
pub(super) fn read_up_to(file: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let source: Box<dyn Read> =
        if file == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(file)?) };
    let mut bytes = Vec::new();
    source.take(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
