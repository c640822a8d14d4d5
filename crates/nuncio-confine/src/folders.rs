//! Computes the paths that grant access to a folder except for a hidden folder inside it.

use std::path::{Path, PathBuf};

/// Whether `folder` equals `path` or is an ancestor of it.
#[must_use]
pub fn contains(folder: &Path, path: &Path) -> bool {
    path.starts_with(folder)
}

/// Paths to grant so that everything in `path` except `hidden` is reachable: the path itself, or its entries if
/// `hidden` is inside it. Symbolic links among the entries are skipped, because a rule for a link would apply to its
/// target. A missing path grants nothing. `hidden` must be canonical.
#[must_use]
pub fn without(path: &Path, hidden: &Path) -> Vec<PathBuf> {
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    if !contains(&path, hidden) {
        return vec![path];
    }
    let mut granted = Vec::new();
    let mut folder = path;
    // Replaces each folder between `path` and `hidden` by its entries.
    while folder != hidden {
        let mut next = None;
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let entry_path = entry.path();
            if contains(&entry_path, hidden) {
                next = Some(entry_path);
            } else if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                granted.push(entry_path);
            }
        }
        let Some(next) = next else { break };
        folder = next;
    }
    granted
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn hidden_folder_is_excluded_by_granting_its_siblings() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().canonicalize().unwrap();
        for folder in ["agent/data/keys", "agent/lib", "agent/deep/data", "other"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("agent/agent.toml"), "").unwrap();
        std::os::unix::fs::symlink(root.join("agent/data"), root.join("agent/link")).unwrap();
        let granted = |path: &str, hidden: &str| {
            let mut granted = without(&root.join(path), &root.join(hidden));
            granted.sort();
            granted.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(granted("agent", "agent/data"), ["agent/agent.toml", "agent/deep", "agent/lib"]);
        assert_eq!(granted("agent", "agent/deep/data"), ["agent/agent.toml", "agent/data", "agent/lib"]);
        assert_eq!(granted("agent/data", "agent/data"), [""; 0]);
        assert_eq!(granted("agent/link", "agent/data"), [""; 0]);
        assert_eq!(granted("other", "agent/data"), ["other"]);
        assert_eq!(granted("absent", "agent/data"), [""; 0]);
    }
}
