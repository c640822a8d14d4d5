//! Damage check of the write-ahead file. SQLite treats the first frame with a wrong checksum as the end and silently
//! drops every commit after it, so the frames are checked before SQLite opens the database.
//!
//! Format: <https://www.sqlite.org/fileformat2.html#walformat>

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use nuncio_engine::ports::store::StoreError;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// Magic number of a write-ahead file; its lowest bit says in which byte order checksums are computed.
const MAGIC: u32 = 0x377f_0682;

/// Number of commits after a bad frame that prove damage. A power failure may leave gaps in the last commit only,
/// because a further commit begins after a sync.
const COMMITS_PROVING_DAMAGE: u32 = 2;

/// Damage of a write-ahead file; `None` if it is intact or ends in an unfinished commit.
pub(super) fn damage(database: &Path) -> io::Result<Option<String>> {
    let path = beside(database);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::with_capacity(1 << 18, file);
    let mut header = [0; HEADER_BYTES];
    if !fill(&mut file, &mut header)? {
        return Ok(None);
    }
    let Some(format) = WalHeader::read(&header) else {
        return Ok(Some(format!("the header of {} is damaged, and no commit in it can be read", path.display())));
    };
    let (mut frame_header, mut page) = ([0; FRAME_HEADER_BYTES], vec![0; format.page_bytes]);
    let mut before = format.checksum;
    let (mut frames, mut damaged, mut commits_behind) = (0_u64, None, 0);
    while fill(&mut file, &mut frame_header)? && fill(&mut file, &mut page)? {
        frames += 1;
        let stored = WalChecksum(read_u32(&frame_header, 16), read_u32(&frame_header, 20));
        let salts = [read_u32(&frame_header, 8), read_u32(&frame_header, 12)];
        // Continues from the checksum stored in the previous frame, so that a damaged frame does not hide later ones.
        let sum = before.with(&frame_header[..8], format.big_endian).with(&page, format.big_endian);
        let is_whole = salts == format.salts && sum == stored;
        let ends_commit = read_u32(&frame_header, 4) != 0;
        match damaged {
            None if !is_whole => damaged = Some(frames),
            Some(_) if is_whole && ends_commit => commits_behind += 1,
            _ => {}
        }
        before = stored;
    }
    Ok(damaged.filter(|_| commits_behind >= COMMITS_PROVING_DAMAGE).map(|number| {
        format!(
            "frame {number} of {frames} in {} is damaged; {commits_behind} commits behind it would be lost",
            path.display()
        )
    }))
}

pub(super) fn unreadable(database: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("{} cannot be read: {error}", beside(database).display()))
}

fn beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Fills the buffer; false if the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

struct WalHeader {
    big_endian: bool,
    page_bytes: usize,
    salts: [u32; 2],
    checksum: WalChecksum,
}

impl WalHeader {
    fn read(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let magic = read_u32(header, 0);
        let big_endian = magic & 1 == 1;
        let checksum = WalChecksum(read_u32(header, 24), read_u32(header, 28));
        let page_bytes = read_u32(header, 8);
        let is_whole = magic & !1 == MAGIC
            && page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes)
            && WalChecksum::default().with(&header[..24], big_endian) == checksum;
        let salts = [read_u32(header, 16), read_u32(header, 20)];
        is_whole.then_some(Self { big_endian, page_bytes: usize::try_from(page_bytes).ok()?, salts, checksum })
    }
}

/// The running checksum of the header and frames of a write-ahead file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct WalChecksum(u32, u32);

impl WalChecksum {
    fn with(mut self, bytes: &[u8], big_endian: bool) -> Self {
        let (pairs, _) = bytes.as_chunks::<8>();
        for [a, b, c, d, e, f, g, h] in pairs.iter().copied() {
            let read = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
            self.0 = self.0.wrapping_add(read([a, b, c, d])).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(read([e, f, g, h])).wrapping_add(self.0);
        }
        self
    }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}
