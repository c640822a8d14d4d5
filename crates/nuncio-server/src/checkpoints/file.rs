//! The file of checkpoints: one JSON object per line, only ever appended to or replaced as a whole.

use std::fs;
use std::io::{self, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use nuncio_core::ErrorCode;
use nuncio_engine::record::AuditCheckpoint;

use super::CHECKPOINTS_FILE;
use crate::data::{PrivateFiles, private};
use crate::error::OperatorError;

/// Start of every line of the checkpoint file.
const LINE_START: &[u8] = b"{\"seq\":";

#[derive(Debug)]
pub(super) struct AuditCheckpointFile {
    folder: PrivateFiles,
    path: PathBuf,
}

impl AuditCheckpointFile {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: PrivateFiles::new(folder), path: folder.join(CHECKPOINTS_FILE) }
    }

    /// All checkpoints in the file. An incomplete last line was torn by a crash or a full disk and is left out.
    pub(super) fn read(&self) -> Result<Vec<AuditCheckpoint>, OperatorError> {
        let bytes = self.bytes().map_err(|error| self.failed(&error))?;
        let whole = &bytes[..whole_lines(&bytes)];
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .enumerate()
            .map(|(index, line)| {
                parse(line).map_err(|error| {
                    let message = format!(
                        "{}, line {}: {error}; if the file was not changed on purpose, remove this line",
                        self.path.display(),
                        index + 1
                    );
                    OperatorError::new(ErrorCode::AuditBroken, message)
                })
            })
            .collect()
    }

    /// Appends a line after the last complete one, replacing a torn tail. A line that cannot be written completely
    /// leaves nothing behind.
    pub(super) fn append(&self, checkpoint: &AuditCheckpoint) -> Result<(), OperatorError> {
        self.try_append(&line(checkpoint)).map_err(|error| self.failed(&error))
    }

    fn try_append(&self, line: &[u8]) -> io::Result<()> {
        let bytes = self.bytes()?;
        let end = whole_lines(&bytes);
        let mut file = private().create(true).truncate(false).open(&self.path)?;
        if end < bytes.len() {
            let torn = bytes.len() - end;
            tracing::warn!(file = %self.path.display(), bytes = torn, "an incomplete checkpoint line was removed");
            file.set_len(end as u64)?;
        }
        file.seek(SeekFrom::Start(end as u64))?;
        let written = file.write_all(line).and_then(|()| file.sync_all());
        if written.is_err() {
            file.set_len(end as u64)?;
        }
        written
    }

    /// Replaces all lines of the file. After a crash the file holds either the old lines or the new ones.
    pub(super) fn replace(&self, checkpoints: &[AuditCheckpoint]) -> Result<(), OperatorError> {
        self.folder.write(CHECKPOINTS_FILE, &checkpoints.iter().flat_map(line).collect::<Vec<_>>())
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    fn failed(&self, error: &io::Error) -> OperatorError {
        self.folder.broken(CHECKPOINTS_FILE, &error.to_string())
    }
}

fn line(checkpoint: &AuditCheckpoint) -> Vec<u8> {
    let mut line = serde_json::to_vec(checkpoint).expect("a checkpoint is JSON");
    line.push(b'\n');
    line
}

/// Length of the file up to the end of its last complete line.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// Parses a line. Earlier versions appended behind a torn line without cutting it off, so a whole checkpoint at the
/// end of a line is accepted; its signature is checked like any other.
fn parse(line: &[u8]) -> Result<AuditCheckpoint, serde_json::Error> {
    serde_json::from_slice(line).or_else(|error| {
        let mut starts = line.windows(LINE_START.len()).enumerate().filter(|(_, window)| *window == LINE_START);
        starts.next_back().map_or(Err(error), |(start, _)| serde_json::from_slice(&line[start..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::audit::{AuditChainHead, AuditChainId, ChainHead};
    use nuncio_core::digest::Digest;
    use nuncio_core::time::Timestamp;
    use ring::signature::Ed25519KeyPair;

    fn checkpoint(seq: u64) -> AuditCheckpoint {
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let head = AuditChainHead { chain: AuditChainId::MAIN, head: ChainHead { seq, hash: Digest::ZERO } };
        AuditCheckpoint::sign(head, Timestamp::from_millis(0), &key)
    }

    fn numbers(file: &AuditCheckpointFile) -> Vec<u64> {
        file.read().unwrap().iter().map(|checkpoint| checkpoint.seq).collect()
    }

    #[test]
    fn torn_last_checkpoint_line_is_ignored_and_truncated_by_the_next_append() {
        let folder = tempfile::tempdir().unwrap();
        let file = AuditCheckpointFile::new(folder.path());
        file.append(&checkpoint(1)).unwrap();
        let whole = fs::read(&file.path).unwrap();
        for cut in 1..whole.len() {
            fs::write(&file.path, [&whole[..], &whole[..cut]].concat()).unwrap();
            assert_eq!(numbers(&file), [1], "{cut} bytes of a second line");
            file.append(&checkpoint(2)).unwrap();
            assert_eq!(numbers(&file), [1, 2], "{cut} bytes of a second line");
        }
    }

    #[test]
    fn checkpoint_behind_a_torn_line_is_read_and_other_text_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = AuditCheckpointFile::new(folder.path());
        let (torn, whole) = (line(&checkpoint(1)), line(&checkpoint(2)));
        for cut in 1..torn.len() - 1 {
            fs::write(&file.path, [&torn[..cut], &whole[..]].concat()).unwrap();
            assert_eq!(numbers(&file), [2], "{cut} bytes of the first line");
        }
        fs::write(&file.path, [&whole[..], b"nonsense\n"].concat()).unwrap();
        let error = file.read().unwrap_err();
        assert_eq!(error.code, ErrorCode::AuditBroken);
        assert!(error.message.contains("line 2"), "{}", error.message);
    }

    #[test]
    fn replaced_checkpoint_file_holds_the_given_lines_and_accepts_appends() {
        let folder = tempfile::tempdir().unwrap();
        let file = AuditCheckpointFile::new(folder.path());
        (1..=5).for_each(|seq| file.append(&checkpoint(seq)).unwrap());
        file.replace(&[checkpoint(4), checkpoint(5)]).unwrap();
        file.append(&checkpoint(6)).unwrap();
        assert_eq!(numbers(&file), [4, 5, 6]);
    }
}
