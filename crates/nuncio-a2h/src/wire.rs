//! JSON types of A2H: names in snake case, RFC 3339 times, results in `data` and errors in `error`.

use serde::{Deserialize, Deserializer, Serialize};

pub mod agent;
pub mod artifact;
pub mod auth;
pub mod conversation;
pub mod error;
pub mod event;
pub mod frame;
pub mod keys;
pub mod message;
pub mod relation;
pub mod scope;
pub mod stream;
pub mod webhook;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataBody<T> {
    pub data: T,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
}

/// Wraps a present field, also `null`, in `Some`; with `#[serde(default)]` an absent field is `None`.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}
