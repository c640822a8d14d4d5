//! The flags of `nuncio diff`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Status: 0 if nothing breaks, 1 if something does, 2 if a file or a line\ncannot be read.\n\nExamples:\n  nuncio diff published.json next.json\n  nuncio diff --json old.json new.json || echo \"people must be asked again\"\n  nuncio diff --schema old.schema.json new.schema.json\n  nuncio diff --pairs changes.jsonl > verdicts.jsonl"
)]
pub(crate) struct DiffArguments {
    /// The earlier manifest: a JSON file, or - for standard input; null means no manifest
    #[arg(value_name = "OLD", required_unless_present = "pairs")]
    pub(crate) old: Option<PathBuf>,
    /// The new manifest, as a JSON file
    #[arg(value_name = "NEW", required_unless_present = "pairs")]
    pub(crate) new: Option<PathBuf>,
    /// Compare two bare JSON Schemas: find values that are valid under OLD and not under NEW
    #[arg(long)]
    pub(crate) schema: bool,
    /// Judge a file of lines {"old", "new", "history"?}, or - for standard input; prints one JSON verdict per line, in
    /// order. An unreadable line is answered with {"error": {"code", "message"}}, and the following lines are still
    /// judged; empty lines are skipped
    #[arg(long, value_name = "FILE", conflicts_with_all = ["old", "new", "history"])]
    pub(crate) pairs: Option<PathBuf>,
    /// A manifest from before OLD, the oldest first (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with = "schema")]
    pub(crate) history: Vec<PathBuf>,
    /// Also count a change as breaking if it lets an agent do more within the granted permissions
    #[arg(long, conflicts_with = "schema")]
    pub(crate) reauth_on_widening: bool,
}
