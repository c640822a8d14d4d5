//! Common parts of all web pages: those of a server's console and those of a device.
//!
//! | module | contents |
//! |---|---|
//! | `language` | languages and the choice of one |
//! | `assets` | static files in a versioned folder |
//! | `switches` | switches for language and theme |
//! | `headers` | security headers |
//! | `answer` | page responses and redirects |
//! | `sender` | origin checks, cookies and forms |
//! | `catalog` | text catalogs |
//! | `contract` | checks of assets and catalogs, for tests |
//!
//! Files that all pages share are in `assets/`: colours and fonts, the top bar and its switches.

mod answer;
pub mod assets;
pub mod catalog;
pub mod contract;
pub mod headers;
mod language;
pub mod sender;
mod switches;

pub use answer::{own_path, see, written};
pub use language::Language;
pub use switches::LanguageThemeSwitches;

/// Splits a text at backquotes; the flag marks the parts that are code.
pub fn coded(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part))
}
