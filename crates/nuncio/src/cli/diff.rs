//! The flags of the command that holds two versions against each other.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Status: 0 when nothing breaks, 1 when something does, 2 when a file or a line\ncannot be read.\n\nExamples:\n  nuncio diff published.json next.json\n  nuncio diff --json old.json new.json || echo \"people must be asked again\"\n  nuncio diff --schema old.schema.json new.schema.json\n  nuncio diff --pairs changes.jsonl > verdicts.jsonl"
)]
pub(crate) struct Diff {
    /// The manifest before: a JSON file, or - for standard input; null is no manifest
    #[arg(value_name = "OLD", required_unless_present = "pairs")]
    pub(crate) old: Option<PathBuf>,
    /// The manifest after
    #[arg(value_name = "NEW", required_unless_present = "pairs")]
    pub(crate) new: Option<PathBuf>,
    /// Compare two bare JSON Schemas: what is valid under OLD and not under NEW
    #[arg(long)]
    pub(crate) schema: bool,
    /// Judge a file of lines {"old", "new", "history"?}, or - for standard input; prints one JSON verdict a line, in
    /// order. A line that cannot be read is answered with {"error": {"code", "message"}}, and the rest goes on; empty
    /// lines are left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["old", "new", "history"])]
    pub(crate) pairs: Option<PathBuf>,
    /// A manifest from before OLD, the oldest first; several by repeating
    #[arg(long, value_name = "FILE", conflicts_with = "schema")]
    pub(crate) history: Vec<PathBuf>,
    /// Count it as breaking, too, when an agent may do more than before within what was agreed to
    #[arg(long, conflicts_with = "schema")]
    pub(crate) reauth_on_widening: bool,
}
