//! The `[allow]` section: files and sockets that the agent's programs may use beyond the common set.

use super::external::ExternalTarget;
use super::reader::TomlTableReader;
use nuncio_core::agent::ProgramAccess;

pub(super) fn read(root: &TomlTableReader<'_>) -> ProgramAccess {
    let Some(table) = root.table("allow") else { return ProgramAccess::default() };
    let read = paths(&table, "read");
    let write = paths(&table, "write");
    let unix = table.flag("unix").unwrap_or(false);
    table.finish();
    ProgramAccess { read, write, unix }
}

fn paths(table: &TomlTableReader<'_>, key: &'static str) -> Vec<String> {
    let Some(item) = table.item(key) else { return Vec::new() };
    let Some(paths) = item.distinct_texts() else { return Vec::new() };
    for path in paths.iter().filter(|path| path.contains('\0') || path.starts_with('~') && !is_home(path)) {
        item.position.fault(
            format!("{path:?} is not a path"),
            "allowed: a path from the agent file's folder, from / or from ~/",
        );
    }
    for (path, entry) in paths.iter().zip(item.list("a list of paths").into_iter().flatten()) {
        entry.position.refer_to(ExternalTarget::AllowedPath(path.clone()));
    }
    paths
}

fn is_home(path: &str) -> bool {
    path == "~" || path.starts_with("~/")
}
