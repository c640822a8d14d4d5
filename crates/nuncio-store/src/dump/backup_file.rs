//! The format of backup files.
//!
//! A backup is a line of text, then blocks: a byte for the kind, 8 bytes of a length (little-endian), the content. The
//! first block is the header. Each table is a block with its shape, blocks of rows, and a block with their number and
//! digest. Files follow. The last block is the SHA-256 digest of everything before it, so a damaged or truncated backup
//! is never taken for a whole one.

use std::io::{self, Read, Write};

use nuncio_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::value::{decode_all, encode};
use super::{Row, TableDigest, TableHasher, TableShape};

/// First line of a backup file. The number is the version of the format.
const MAGIC: &[u8] = b"nuncio backup 1\n";
/// Beginning of the first line in every version of the format.
const ANY_MAGIC: &[u8] = b"nuncio backup ";

const HEADER: u8 = b'H';
const TABLE: u8 = b'T';
const ROWS: u8 = b'R';
const TABLE_END: u8 = b'E';
const FILE: u8 = b'F';
const END: u8 = b'Z';

/// Size at which a block of rows is written, in bytes.
const ROW_BLOCK: usize = 1 << 20;

/// Largest block that is not rows, in bytes. A row can be as large as the store allows.
const MAX_SMALL_BLOCK: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHeader {
    /// Version of Nuncio that wrote the backup.
    pub version: String,
    /// Number of the last schema migration of the store.
    pub schema: u32,
    pub created_at: Timestamp,
}

/// A file beside the store that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInBackup {
    pub name: String,
    pub content: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupFileError {
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
    #[error("it is not a backup of Nuncio")]
    Foreign,
    #[error("a newer version of Nuncio wrote it; restore it with that version")]
    Newer,
    #[error("it is damaged or incomplete: {0}")]
    Damaged(&'static str),
}

/// Writes a backup. Only a finished one can be read.
pub struct BackupWriter<W> {
    out: W,
    hash: Sha256,
    table: Option<(TableHasher, Vec<u8>)>,
}

impl<W: Write> BackupWriter<W> {
    pub fn begin(mut out: W, header: &BackupHeader) -> Result<Self, BackupFileError> {
        out.write_all(MAGIC)?;
        let mut writer = Self { out, hash: Sha256::new_with_prefix(MAGIC), table: None };
        writer.json_block(HEADER, header)?;
        Ok(writer)
    }

    pub fn begin_table(&mut self, table: &TableShape) -> Result<(), BackupFileError> {
        self.json_block(TABLE, table)?;
        self.table = Some((TableHasher::default(), Vec::new()));
        Ok(())
    }

    pub fn row(&mut self, row: &Row) -> Result<(), BackupFileError> {
        let Some((hasher, rows)) = &mut self.table else { return Err(BackupFileError::Damaged("a row has no table")) };
        hasher.add(row);
        encode(row, rows);
        if rows.len() < ROW_BLOCK {
            return Ok(());
        }
        let rows = std::mem::take(rows);
        self.block(ROWS, &rows)
    }

    pub fn end_table(&mut self) -> Result<TableDigest, BackupFileError> {
        let (hasher, rows) = self.table.take().unwrap_or_default();
        if !rows.is_empty() {
            self.block(ROWS, &rows)?;
        }
        let digest = hasher.finish();
        self.json_block(TABLE_END, &digest)?;
        Ok(digest)
    }

    pub fn file(&mut self, file: &FileInBackup) -> Result<(), BackupFileError> {
        self.json_block(FILE, file)
    }

    pub fn finish(mut self) -> Result<W, BackupFileError> {
        let digest = self.hash.clone().finalize();
        self.block(END, &digest)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn json_block(&mut self, kind: u8, content: &impl Serialize) -> Result<(), BackupFileError> {
        let content = serde_json::to_vec(content).map_err(io::Error::from)?;
        self.block(kind, &content)
    }

    fn block(&mut self, kind: u8, content: &[u8]) -> Result<(), BackupFileError> {
        let length = (content.len() as u64).to_le_bytes();
        for part in [&[kind], &length[..], content] {
            self.hash.update(part);
            self.out.write_all(part)?;
        }
        Ok(())
    }
}

/// What [`BackupReader::next_part`] returns, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupPart {
    Table(TableShape),
    Rows(Vec<Row>),
    TableEnd,
    File(FileInBackup),
    /// The backup is complete and undamaged. Nothing of it counts before this.
    End,
}

/// Reads a backup part by part and checks it on the way.
pub struct BackupReader<R> {
    input: R,
    hash: Sha256,
    header: BackupHeader,
    table: Option<(TableShape, TableHasher)>,
}

impl<R: Read> BackupReader<R> {
    pub fn open(mut input: R) -> Result<Self, BackupFileError> {
        let mut first = vec![0; MAGIC.len()];
        input.read_exact(&mut first).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => BackupFileError::Foreign,
            _ => BackupFileError::Io(error),
        })?;
        if first != MAGIC {
            return Err(if first.starts_with(ANY_MAGIC) { BackupFileError::Newer } else { BackupFileError::Foreign });
        }
        let mut hash = Sha256::new_with_prefix(MAGIC);
        let (kind, content) = read_block(&mut input, &mut hash)?;
        if kind != HEADER {
            return Err(BackupFileError::Damaged("the header is missing"));
        }
        let header = json(&content, "the header cannot be read")?;
        Ok(Self { input, hash, header, table: None })
    }

    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    pub fn next_part(&mut self) -> Result<BackupPart, BackupFileError> {
        let whole = self.hash.clone().finalize();
        let (kind, content) = read_block(&mut self.input, &mut self.hash)?;
        match (kind, self.table.take()) {
            (TABLE, None) => {
                let shape: TableShape = json(&content, "a table cannot be read")?;
                self.table = Some((shape.clone(), TableHasher::default()));
                Ok(BackupPart::Table(shape))
            }
            (ROWS, Some((shape, mut hasher))) => {
                let rows = decode_all(&content, shape.columns.len());
                let rows = rows.ok_or(BackupFileError::Damaged("a row cannot be read"))?;
                rows.iter().for_each(|row| hasher.add(row));
                self.table = Some((shape, hasher));
                Ok(BackupPart::Rows(rows))
            }
            (TABLE_END, Some((_, hasher))) => {
                let expected: TableDigest = json(&content, "the end of a table cannot be read")?;
                match hasher.finish() == expected {
                    true => Ok(BackupPart::TableEnd),
                    false => Err(BackupFileError::Damaged("the rows of a table do not match their digest")),
                }
            }
            (FILE, None) => Ok(BackupPart::File(json(&content, "a file cannot be read")?)),
            (END, None) if content == whole[..] => match self.input.read(&mut [0])? {
                0 => Ok(BackupPart::End),
                _ => Err(BackupFileError::Damaged("it continues after its end")),
            },
            (END, None) => Err(BackupFileError::Damaged("it does not match its digest")),
            _ => Err(BackupFileError::Damaged("its parts are not in order")),
        }
    }
}

fn json<T: DeserializeOwned>(content: &[u8], what: &'static str) -> Result<T, BackupFileError> {
    serde_json::from_slice(content).map_err(|_| BackupFileError::Damaged(what))
}

/// Reads one block. Memory grows with what is there, not with the length that the block names.
fn read_block(input: &mut impl Read, hash: &mut Sha256) -> Result<(u8, Vec<u8>), BackupFileError> {
    let mut head = [0; 9];
    input.read_exact(&mut head).map_err(ended)?;
    let (kind, length) = (head[0], u64::from_le_bytes(head[1..].try_into().expect("eight bytes follow the kind")));
    if kind != ROWS && length > MAX_SMALL_BLOCK {
        return Err(BackupFileError::Damaged("a part is too large"));
    }
    let mut content = Vec::new();
    input.take(length).read_to_end(&mut content)?;
    if content.len() as u64 != length {
        return Err(BackupFileError::Damaged("it ends too early"));
    }
    hash.update(head);
    hash.update(&content);
    Ok((kind, content))
}

fn ended(error: io::Error) -> BackupFileError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => BackupFileError::Damaged("it ends too early"),
        _ => BackupFileError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;

    fn table() -> TableShape {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        TableShape { name: "people".to_owned(), columns: texts(&["created_at", "name"]), key: texts(&["name"]) }
    }

    fn row(name: &str) -> Row {
        vec![Value::Integer(1), Value::Text(name.to_owned())]
    }

    fn backup() -> Vec<u8> {
        let header = BackupHeader { version: "1.0.0".to_owned(), schema: 7, created_at: Timestamp::from_millis(1_000) };
        let mut writer = BackupWriter::begin(Vec::new(), &header).unwrap();
        writer.begin_table(&table()).unwrap();
        writer.row(&row("ada")).unwrap();
        writer.row(&row("bob")).unwrap();
        writer.end_table().unwrap();
        writer.file(&FileInBackup { name: "a".to_owned(), content: "b".to_owned() }).unwrap();
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<BackupPart>, BackupFileError> {
        let mut reader = BackupReader::open(bytes)?;
        let mut parts = Vec::new();
        loop {
            match reader.next_part()? {
                BackupPart::End => return Ok(parts),
                part => parts.push(part),
            }
        }
    }

    #[test]
    fn backup_is_read_as_it_was_written() {
        let file = FileInBackup { name: "a".to_owned(), content: "b".to_owned() };
        let expected = [
            BackupPart::Table(table()),
            BackupPart::Rows(vec![row("ada"), row("bob")]),
            BackupPart::TableEnd,
            BackupPart::File(file),
        ];
        assert_eq!(read(&backup()).unwrap(), expected);
        assert_eq!(BackupReader::open(&*backup()).unwrap().header().schema, 7);
    }

    #[test]
    fn truncated_changed_or_continued_backup_is_refused() {
        let whole = backup();
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            assert!(read(&changed).is_err(), "{place}");
        }
        assert!(read(&[&whole[..], b"x"].concat()).is_err());
    }

    #[test]
    fn foreign_file_and_newer_format_have_their_own_errors() {
        assert!(matches!(read(b"SQLite format 3\0 and so on"), Err(BackupFileError::Foreign)));
        assert!(matches!(read(b""), Err(BackupFileError::Foreign)));
        assert!(matches!(read(b"nuncio backup 2\nand so on"), Err(BackupFileError::Newer)));
    }
}
