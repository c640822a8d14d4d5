//! AAP's part of the server's OpenAPI document. Written by hand; the server's tests hold it against
//! the routes and against what they really answer.

/// `paths`, relative to AAP's base.
pub const PATHS: &str = include_str!("openapi/paths.json");

/// `components`.
pub const COMPONENTS: &str = include_str!("openapi/components.json");
