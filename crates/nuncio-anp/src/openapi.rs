//! The ANP part of the server's OpenAPI document.

pub const PATHS: &str = include_str!("openapi/paths.json");

/// ANP adds no components.
pub const COMPONENTS: &str = "{}";
