//! `nuncio diff`: what a change from one manifest, or one schema, to another breaks.

use std::io::Read as _;
use std::path::Path;

use anstream::println;
use nuncio_core::json;
use nuncio_core::judge::schema::Budget;
use nuncio_core::judge::{ChangePolicy, Verdict, manifests, schemas};
use serde_json::Value;

use crate::cli::Diff;
use crate::output::{Told, WrongUsage};

mod pairs;
mod people;
mod words;

/// No document is larger.
const MAX_BYTES: usize = 8 << 20;

/// Judges a change. The status is 1 when it breaks something, 2 when there was something that could not be read.
pub(crate) fn run(options: &Diff, json: bool) -> anyhow::Result<()> {
    let judge = Judge::of(options);
    if let Some(file) = &options.pairs {
        return pairs::run(file, judge);
    }
    let (Some(old), Some(new)) = (&options.old, &options.new) else {
        return Err(WrongUsage("give two files, or --pairs FILE".to_owned()).into());
    };
    let files: Vec<&Path> = [old, new].into_iter().chain(&options.history).map(AsRef::as_ref).collect();
    if files.iter().filter(|file| **file == Path::new("-")).count() > 1 {
        return Err(WrongUsage("only one of the files can be standard input".to_owned()).into());
    }
    let mut documents = files.iter().map(|file| document(file)).collect::<anyhow::Result<Vec<_>>>()?.into_iter();
    let (before, after) = (documents.next().unwrap_or_default(), documents.next().unwrap_or_default());
    let history: Vec<Value> = documents.collect();
    let verdict = judge.verdict(&before, &after, &history);
    if json {
        println!("{}", serde_json::to_string(&verdict)?);
    } else {
        people::tell(&verdict, &old.display().to_string(), &new.display().to_string());
    }
    if verdict.breaking { Err(Told.into()) } else { Ok(()) }
}

/// How to judge.
#[derive(Debug, Clone, Copy)]
enum Judge {
    Manifests(ChangePolicy),
    Schemas,
}

impl Judge {
    fn of(options: &Diff) -> Self {
        if options.schema {
            return Self::Schemas;
        }
        let reauth_on_widening = options.reauth_on_widening;
        Self::Manifests(ChangePolicy { reauth_on_widening, ..ChangePolicy::default() })
    }

    fn verdict(self, old: &Value, new: &Value, history: &[Value]) -> Verdict {
        match self {
            Self::Manifests(policy) => manifests(Some(old), Some(new), history, &policy),
            Self::Schemas => schemas(old, new, Budget::default()),
        }
    }
}

fn document(file: &Path) -> anyhow::Result<Value> {
    let wrong = |why: &dyn std::fmt::Display| WrongUsage(format!("{} cannot be read: {why}", file.display()));
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) + 1;
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|why| wrong(&why))?;
    json::read(&bytes, MAX_BYTES).map_err(|why| wrong(&why).into())
}
