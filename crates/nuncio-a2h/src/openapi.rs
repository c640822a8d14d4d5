//! OpenAPI parts of the protocol.

/// `paths`, from the server's root.
pub const PATHS: &str = include_str!("openapi/paths.json");

/// `components`.
pub const COMPONENTS: &str = include_str!("openapi/components.json");
