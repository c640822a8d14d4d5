//! Integration tests of the change judge, through the public interface.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/manifest_arguments.rs"]
mod manifest_arguments;
#[path = "it/manifest_judge.rs"]
mod manifest_judge;
#[path = "it/manifest_random.rs"]
mod manifest_random;
#[path = "it/schema_hostile.rs"]
mod schema_hostile;
#[path = "it/schema_maker.rs"]
mod schema_maker;
#[path = "it/schema_random.rs"]
mod schema_random;
#[path = "it/schema_table.rs"]
mod schema_table;
#[path = "it/schema_vectors.rs"]
mod schema_vectors;
#[path = "it/schema_worlds.rs"]
mod schema_worlds;
#[path = "it/validators.rs"]
mod validators;
