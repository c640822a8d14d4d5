//! What every page of Nuncio's stands on, whoever serves it: the console of a server, or a person's own device.
//!
//! | room | what |
//! |---|---|
//! | `language` | the languages, and which one a reader wants |
//! | `assets` | static files, compiled in, below a folder that names their content |
//! | `switches` | the switches at the top of a page, as its template shows them |
//! | `headers` | what a browser may do with a page |
//! | `answer` | a page as an answer, and the way on from a form |
//! | `sender` | whether a page of ours sent a request, its cookie, and the form it sends |
//! | `catalog` | catalogs of words, one a language, and whether they say the same things |
//!
//! The files that all pages share are in `assets/`: colours and type, the bar at the top, the switches in it.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod answer;
pub mod assets;
pub mod catalog;
pub mod headers;
mod language;
pub mod sender;
mod switches;

pub use answer::{own_path, see, written};
pub use language::Language;
pub use switches::Switches;

/// A text with its `commands` told apart from the words around them.
pub fn coded(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split('`').enumerate().map(|(place, part)| (place % 2 == 1, part))
}
