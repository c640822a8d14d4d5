//! Granting a folder without one that lies in it.

use std::path::{Path, PathBuf};

/// Whether `folder` is `path` or lies above it.
#[must_use]
pub fn contains(folder: &Path, path: &Path) -> bool {
    path.starts_with(folder)
}

/// What to grant so that everything of `path` can be reached except `hidden`: the path itself, or, if `hidden` lies in
/// it, its entries one by one. Symbolic links among these are left out: a rule for a link would hold for its target.
/// Nothing is granted of a path that does not exist. `hidden` is canonical.
#[must_use]
pub fn without(path: &Path, hidden: &Path) -> Vec<PathBuf> {
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    if !contains(&path, hidden) {
        return vec![path];
    }
    let mut granted = Vec::new();
    let mut folder = path;
    // Each folder between the path and `hidden` is opened up in turn.
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
    fn entries_are_granted_one_by_one_around_a_hidden_folder() {
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
