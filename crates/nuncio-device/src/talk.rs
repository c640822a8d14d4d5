//! What a person and an agent say to each other. A sealed message is opened once and never again, so what was opened is
//! kept here: in order, for each agent, sealed at rest like everything the device keeps, and on disk before the message
//! counts as taken.
//!
//! | room | what |
//! |---|---|
//! | `kept` | the records: where a line stands, how many there are, which go |
//! | `sending` | what the person says: once, however often it is said |
//! | `heard` | what comes: words, what cannot be shown, what was not opened |
//! | `live` | answers while they are being written |

use std::fmt;
use std::str::FromStr;

use nuncio_core::Code;
use nuncio_core::bundle::SealMode;
use nuncio_core::ids::{ClientMessageId, DeviceId};
use nuncio_core::text::is_unprintable;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

mod heard;
mod kept;
mod live;
mod sending;

pub(crate) use live::Writing;
pub use live::{Growing, Live, LiveNews};

/// How many lines of a conversation are kept; the oldest go.
pub const MAX_LINES: u64 = 2000;

/// How many bytes of words of a conversation are kept; the oldest lines go.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The longest text, in bytes. Sealed, it is well below what a relay takes; of a longer one that comes the beginning is
/// kept.
pub const MAX_TEXT: usize = 64 * 1024;

/// How many messages to one agent may be on their way, or have failed, at once.
pub const MAX_UNSENT: usize = 100;

/// Where a line stands among all of its agent: later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which conversation with that agent, from zero: a relay that lost everything begins a new one.
    pub part: u32,
    /// The line's number there, as the relay counts.
    pub seq: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:016}", self.part, self.seq)
    }
}

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (part, seq) = text.split_once('-').ok_or(NoPlace)?;
        Ok(Self { part: part.parse().map_err(|_| NoPlace)?, seq: seq.parse().map_err(|_| NoPlace)? })
    }
}

/// A text that names no place of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it names no place in a conversation")]
pub struct NoPlace;

/// One line of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it stands; none while it is on its way.
    pub place: Option<Place>,
    /// This device's name for what its person said on it.
    pub client_id: Option<ClientMessageId>,
    /// Whether the person said it, on this device or another.
    pub mine: bool,
    /// On which device it was sealed; not known of what was not opened.
    pub device: Option<DeviceId>,
    /// What it says.
    pub said: Said,
    /// When it came to the relay; on its way, when it was said.
    pub at: Timestamp,
    /// How far it has got.
    pub state: State,
    /// Whether its keys give forward secrecy; not known of what was not opened or is on its way.
    pub mode: Option<SealMode>,
    /// Whether the line before it of the same agent was sealed with other keys.
    pub new_keys: bool,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Said {
    /// Words, without anything that is no character to be seen.
    Text {
        /// They.
        text: String,
        /// Whether there was more than is kept.
        #[serde(default)]
        cut: bool,
    },
    /// Something that is no words.
    Other,
    /// A message that was not opened.
    Refused {
        /// The kind of reason.
        why: Unopened,
        /// The reason, for people.
        because: String,
    },
    /// Somebody with whom the person does not deal wrote. Nothing of it is kept.
    Stranger,
}

/// Why a message was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unopened {
    /// Its keys are not the ones that are known, and nobody said yes to them.
    Untrusted,
    /// It was changed on its way, re-labelled or made up.
    Changed,
    /// It was not sealed to this device.
    NotForUs,
    /// It was sealed worse than the two can.
    Weaker,
    /// The session it was sealed in is lost; the next message begins a new one.
    Lost,
}

/// How far a line has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// The relay has it.
    Sent,
    /// It is on its way, also over a restart, for a day.
    Sending,
    /// It did not get through, and is not tried again by itself.
    Failed {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        why: String,
    },
}

/// Some lines, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lines {
    /// They.
    pub lines: Vec<Line>,
    /// Whether there are older ones.
    pub more: bool,
}

/// A stranger's words, or the person's: lines stay lines, and nothing is left that changes what others look like.
/// Whether some of it was left out because it is too long.
fn words(text: &str) -> (String, bool) {
    let mut words = String::with_capacity(text.len().min(MAX_TEXT));
    for c in text.replace("\r\n", "\n").chars() {
        if words.len() + c.len_utf8() > MAX_TEXT {
            return (words, true);
        }
        match c {
            '\n' | '\t' => words.push(c),
            '\r' => words.push('\n'),
            c if is_unprintable(c) => words.push(' '),
            c => words.push(c),
        }
    }
    (words, false)
}

#[cfg(test)]
mod tests;
