//! `nuncio diff --pairs`: one verdict per line, in order, for files of any length.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read as _, Write as _};
use std::path::Path;

use nuncio_core::json::JsonDocumentError;
use nuncio_core::{ErrorCode, json};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{DiffMode, JudgedDiff, MAX_BYTES};
use crate::output::{AlreadyReportedError, UnreadableInputReportedError, WrongUsageError};

/// Answers every line. An unreadable line is answered with an error and sets the exit status.
pub(super) fn run(file: &Path, judge: DiffMode) -> anyhow::Result<()> {
    let wrong = |why: std::io::Error| WrongUsageError(format!("{} cannot be read: {why}", file.display()));
    let mut lines: BufReader<Box<dyn std::io::Read>> = if file == Path::new("-") {
        BufReader::new(Box::new(std::io::stdin()))
    } else {
        BufReader::new(Box::new(File::open(file).map_err(wrong)?))
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut breaking, mut unreadable) = (false, false);
    while let Some(line) = next(&mut lines).map_err(wrong)? {
        let answered = match answer(&line, judge) {
            None => continue,
            Some(Ok(judged)) => {
                breaking |= judged.verdict.breaking;
                judged.json()?
            }
            Some(Err((code, message))) => {
                unreadable = true;
                json!({"error": {"code": code, "message": message}}).to_string()
            }
        };
        let written = writeln!(out, "{answered}");
        // A caller that sends one line at a time waits for each answer, so output is flushed when no input is buffered.
        let written = written.and_then(|()| if lines.buffer().is_empty() { out.flush() } else { Ok(()) });
        match written {
            Err(why) if why.kind() == ErrorKind::BrokenPipe => break,
            other => other?,
        }
    }
    match out.flush() {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => return Err(why.into()),
        _ => {}
    }
    match (unreadable, breaking) {
        (true, _) => Err(UnreadableInputReportedError.into()),
        (false, true) => Err(AlreadyReportedError.into()),
        (false, false) => Ok(()),
    }
}

/// The next line; `None` at the end. Only the beginning of an overlong line is kept.
fn next(lines: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) + 1;
    if lines.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() > MAX_BYTES && !line.ends_with(b"\n") {
        lines.skip_until(b'\n')?;
    }
    Ok(Some(line))
}

/// The answer to an input line; `None` for an empty one.
fn answer(line: &[u8], judge: DiffMode) -> Option<Result<JudgedDiff, (ErrorCode, String)>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    if line.len() > MAX_BYTES {
        let message = format!("the line must not have more than {MAX_BYTES} bytes");
        return Some(Err((ErrorCode::BodyTooLarge, message)));
    }
    Some(UnparsedDiffPair::read(line).map(|pair| pair.judged(judge)))
}

/// An input line whose manifests or schemas are not parsed yet.
struct UnparsedDiffPair<'a> {
    old: &'a RawValue,
    new: &'a RawValue,
    history: Vec<&'a RawValue>,
}

impl<'a> UnparsedDiffPair<'a> {
    fn read(line: &'a [u8]) -> Result<Self, (ErrorCode, String)> {
        let wrong = |what: &str| (ErrorCode::BadRequest, what.to_owned());
        let line: &RawValue = serde_json::from_slice(line)
            .map_err(|why| (ErrorCode::BadJson, format!("the line must be JSON: {why}")))?;
        let pair: BTreeMap<String, &RawValue> = serde_json::from_str(line.get())
            .map_err(|_| wrong("the line must be an object {\"old\", \"new\", \"history\"?}"))?;
        let field = |name: &str| pair.get(name).copied();
        let history = match field("history").map(RawValue::get) {
            None | Some("null") => Vec::new(),
            Some(list) => serde_json::from_str(list)
                .map_err(|_| wrong("\"history\" must be a list of manifests, the oldest first"))?,
        };
        Ok(Self {
            old: field("old").ok_or_else(|| wrong("the line has no \"old\"; null says that there was none"))?,
            new: field("new").ok_or_else(|| wrong("the line has no \"new\"; null means that there is none"))?,
            history,
        })
    }

    /// Judges the pair. A value that cannot be represented exactly, such as an overlong number, counts as breaking.
    fn judged(&self, judge: DiffMode) -> JudgedDiff {
        let history: Result<Vec<Value>, JsonDocumentError> = self.history.iter().map(|past| document(past)).collect();
        match (document(self.old), document(self.new), history) {
            (Ok(old), Ok(new), Ok(history)) => judge.judged(&old, &new, &history),
            (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => JudgedDiff::unreadable(&why),
        }
    }
}

fn document(raw: &RawValue) -> Result<Value, JsonDocumentError> {
    match json::read(raw.get().as_bytes(), MAX_BYTES) {
        // A document that is too deep is a finding of the judge, not an error.
        Err(JsonDocumentError::TooDeep) => serde_json::from_str(raw.get()).map_err(|_| JsonDocumentError::TooDeep),
        read => read,
    }
}
