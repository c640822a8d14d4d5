//! OpenAPI paths and components of AAP, written by hand. Tests of the server compare them with the routes and their
//! responses.

/// OpenAPI `paths`, relative to AAP's base.
pub const PATHS: &str = include_str!("openapi/paths.json");

/// OpenAPI `components`.
pub const COMPONENTS: &str = include_str!("openapi/components.json");
