//! One module per fuzz target: `run` takes any bytes, `seeds` returns the seed inputs.

pub mod agent_file;
pub mod cursors;
pub mod did_document;
pub mod envelope;
pub mod event_stream;
pub mod http_signature;
pub mod json_rpc;
pub mod manifest;
pub mod schema_judge;
pub mod structured_fields;
