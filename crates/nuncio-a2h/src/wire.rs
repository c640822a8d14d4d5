//! What travels: JSON with names in snake case, times as RFC 3339, an answer in `data`, an error in `error`.

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

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer<T> {
    /// What was asked for.
    pub data: T,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// What is on it.
    pub data: Vec<T>,
    /// Where the next one begins; none on the last.
    pub next_cursor: Option<String>,
}

/// Reads a field that is there, `null` or not. With `#[serde(default)]` one that is not there is none.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}
