//! `[[tool]]`: what it can do.

use std::sync::Arc;
use std::time::Duration;

use super::names::{Input, Names};
use super::reader::Table;
use super::{run, schemas};
use crate::agent::Tool;
use crate::ids::ToolName;

const DEFAULT_TIMEOUT_MS: u64 = 30_000;
const MAX_TIMEOUT_MS: u64 = 600_000;

pub(super) fn read(root: &Table<'_>, names: &Names<'_>) -> Vec<Arc<Tool>> {
    let tables = root.tables("tool", "name");
    tables.iter().filter_map(|table| tool(table, names)).map(Arc::new).collect()
}

fn tool(table: &Table<'_>, names: &Names<'_>) -> Option<Tool> {
    let name = table.name("name", ToolName::parse);
    let title = table.optional_text("title");
    let description = table.text("description");
    let scope = table.item("scope").and_then(|item| names.scope(&item));
    let input = table.required("input", r#"a JSON Schema, at least { type = "object" }"#);
    let input = input.and_then(|item| schemas::arguments(&item));
    let output = table.item("output").and_then(|item| schemas::result(&item));
    let run = table.required("run", "where it runs, such as { command = [\"date\"] }");
    let run = run.and_then(|item| item.table());
    let run = run.and_then(|run| run::read(&run, name.as_ref(), &Input::of(table), names));
    let exposed = table.flag("expose").unwrap_or(true);
    let human_authorization = table.flag("human_authorization").unwrap_or(false);
    let timeout = table.whole_number("timeout_ms", 1..=MAX_TIMEOUT_MS).unwrap_or(DEFAULT_TIMEOUT_MS);
    // For a protocol that comes later; only its shape is checked.
    table.table("skill");
    table.finish();
    Some(Tool {
        name: name?,
        title,
        description: description?,
        scope,
        input: input?,
        output,
        run: run?,
        exposed,
        human_authorization,
        timeout: Duration::from_millis(timeout),
        skill: None,
    })
}
