//! Typed values, and their encoding in digests and backup files.

/// A value of a column. Flags are integers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

/// The values of a row in the order of [`TableShape::columns`](super::TableShape).
pub type Row = Vec<Value>;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const TEXT: u8 = 2;
const BLOB: u8 = 3;

impl Value {
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Approximate size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Null | Self::Integer(_) => 16,
            Self::Text(text) => 16 + text.len(),
            Self::Blob(bytes) => 16 + bytes.len(),
        }
    }
}

/// Appends a row: a byte for the type of each value, then 8 bytes of an integer, or 8 bytes of a length and the content.
/// Numbers are little-endian.
pub(super) fn encode(row: &Row, out: &mut Vec<u8>) {
    for value in row {
        match value {
            Value::Null => out.push(NULL),
            Value::Integer(number) => {
                out.push(INTEGER);
                out.extend(number.to_le_bytes());
            }
            Value::Text(text) => encode_content(TEXT, text.as_bytes(), out),
            Value::Blob(content) => encode_content(BLOB, content, out),
        }
    }
}

fn encode_content(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend((content.len() as u64).to_le_bytes());
    out.extend(content);
}

/// Reads rows of `columns` values each until the end of `bytes`; `None` if they are not encoded rows.
pub(super) fn decode_all(mut bytes: &[u8], columns: usize) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    while !bytes.is_empty() && columns > 0 {
        rows.push((0..columns).map(|_| decode(&mut bytes)).collect::<Option<Row>>()?);
    }
    bytes.is_empty().then_some(rows)
}

fn decode(bytes: &mut &[u8]) -> Option<Value> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    match *kind {
        NULL => Some(Value::Null),
        INTEGER => Some(Value::Integer(i64::from_le_bytes(take_number(bytes)?))),
        TEXT => String::from_utf8(take_content(bytes)?.to_vec()).ok().map(Value::Text),
        BLOB => take_content(bytes).map(|content| Value::Blob(content.to_vec())),
        _ => None,
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<[u8; 8]> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*number)
}

fn take_content<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(u64::from_le_bytes(take_number(bytes)?)).ok()?;
    let (content, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        vec![
            vec![Value::Null, Value::Integer(i64::MIN), Value::Text("é".into()), Value::Blob(vec![0, 255])],
            vec![Value::Integer(-1), Value::Null, Value::Text(String::new()), Value::Blob(Vec::new())],
        ]
    }

    #[test]
    fn rows_round_trip() {
        let mut bytes = Vec::new();
        rows().iter().for_each(|row| encode(row, &mut bytes));
        assert_eq!(decode_all(&bytes, 4), Some(rows()));
    }

    #[test]
    fn truncated_or_changed_rows_are_refused_or_read_as_other_rows() {
        let mut bytes = Vec::new();
        rows().iter().for_each(|row| encode(row, &mut bytes));
        for end in 1..bytes.len() {
            assert!(decode_all(&bytes[..end], 4).is_none_or(|read| read == rows()[..1]), "{end}");
        }
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x80;
            assert_ne!(decode_all(&changed, 4), Some(rows()), "{place}");
        }
        assert_eq!(decode_all(&[TEXT, 255, 255, 255, 255, 255, 255, 255, 255], 1), None);
        assert_eq!(decode_all(&[TEXT, 1, 0, 0, 0, 0, 0, 0, 0, 0xff], 1), None, "not UTF-8");
    }
}
