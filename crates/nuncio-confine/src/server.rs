//! Readable paths for programs of a server: system folders, and the installations of the program and its interpreter.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::contains;

/// System folders and files without secrets. `/etc` and `/proc` are not included as a whole, because they also contain
/// private keys and command lines of other processes.
const SYSTEM_FOLDERS: &[&str] = &[
    "/opt",
    "/libx32",
    "/run/current-system",
    "/etc/passwd",
    "/etc/group",
    "/etc/hostname",
    "/etc/host.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/networks",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/timezone",
    "/etc/locale.conf",
    "/etc/locale.alias",
    "/etc/default/locale",
    "/etc/fonts",
    "/etc/magic",
    "/etc/terminfo",
    "/etc/inputrc",
    "/etc/npmrc",
    "/etc/pip.conf",
    "/etc/uv",
    "/etc/python3",
    "/etc/gitconfig",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/environment",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/full",
];

/// Folders of system packages, readable anyway; a program in them needs no further grant.
const PACKAGE_FOLDERS: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix/store", "/gnu/store"];

/// Folders below the home folder whose `bin` and `lib` many programs share; they may also contain unrelated secrets.
const SHARED_HOME_FOLDERS: [&str; 3] = ["", ".local", ".cargo"];

/// Launcher programs, each with the interpreter that it starts.
const LAUNCHERS: [(&str, &str); 7] = [
    ("uv", "python3"),
    ("uvx", "python3"),
    ("pipx", "python3"),
    ("poetry", "python3"),
    ("npx", "node"),
    ("npm", "node"),
    ("pnpm", "node"),
];

/// Limit of the chain from a program to its interpreter, to that interpreter's own interpreter, and so on.
const MAX_INTERPRETERS: usize = 4;

/// System folders that every program of a server may read.
pub fn server_folders() -> impl Iterator<Item = PathBuf> {
    SYSTEM_FOLDERS.iter().map(PathBuf::from)
}

/// Paths that a program and its interpreters need at run time; none for a program that is not found, and none in the
/// folders of system packages. `path` is the variable `PATH` for names without a slash; `home` is the home folder.
#[must_use]
pub fn installation(program: &Path, path: Option<&OsStr>, home: Option<&Path>) -> Vec<PathBuf> {
    let home = home.and_then(|home| home.canonicalize().ok());
    let (mut folders, mut pending) = (Vec::new(), vec![program.to_owned()]);
    for _ in 0..MAX_INTERPRETERS {
        let Some(found) = pending.pop().and_then(|program| find(&program, path)) else { break };
        folders.extend(folders_of(&found, home.as_deref()));
        let name = found.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let launched = LAUNCHERS.iter().find(|(launcher, _)| *launcher == name);
        match launched {
            Some((_, interpreter)) => pending.push(PathBuf::from(interpreter)),
            None => pending.extend(interpreter(&found)),
        }
        if matches!(name, "uv" | "uvx")
            && let Some(home) = &home
        {
            folders.push(home.join(".local/share/uv/python"));
        }
    }
    folders.sort();
    folders.dedup();
    folders
}

fn find(program: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return program.is_file().then(|| program.to_owned());
    }
    std::env::split_paths(path?).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// Installation folders of a program: of its path as given, and of the file that a link resolves to.
fn folders_of(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let named = program
        .parent()
        .and_then(|folder| folder.canonicalize().ok())
        .zip(program.file_name())
        .map(|(folder, name)| folder.join(name));
    let files = [named, program.canonicalize().ok()];
    files.into_iter().flatten().flat_map(|file| prefix(&file, home)).collect()
}

/// Paths to grant for a program file: the parent of its `bin` folder, or its own folder; fewer if that is shared.
fn prefix(file: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(folder) = file.parent() else { return Vec::new() };
    if PACKAGE_FOLDERS.iter().any(|installed| contains(Path::new(installed), folder)) {
        return Vec::new();
    }
    let in_bin = matches!(folder.file_name().and_then(OsStr::to_str), Some("bin" | "shims"));
    let Some(prefix) = (if in_bin { folder.parent() } else { Some(folder) }) else { return vec![file.to_owned()] };
    let is_shared = home.is_some_and(|home| SHARED_HOME_FOLDERS.iter().any(|shared| prefix == home.join(shared)));
    let is_wide = prefix.parent().is_none() || home.is_some_and(|home| contains(prefix, home));
    let is_temporary = prefix == std::env::temp_dir();
    match (is_shared && in_bin, is_shared || is_wide || is_temporary) {
        (true, _) => {
            let beside = ["lib", "lib64", "libexec"].map(|name| prefix.join(name));
            [folder.to_owned()].into_iter().chain(beside).collect()
        }
        (false, true) => vec![file.to_owned()],
        (false, false) => vec![prefix.to_owned()],
    }
}

/// Interpreter in the first line of a script: `#!/usr/bin/env node`, `#!/home/ada/venv/bin/python`.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut first = [0; 256];
    let read = File::open(script).and_then(|mut file| file.read(&mut first)).ok()?;
    let line = std::str::from_utf8(first[..read].split(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let program = words.next()?;
    if !program.ends_with("/env") {
        return Some(PathBuf::from(program));
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct TestHomeFolder(tempfile::TempDir);

    impl TestHomeFolder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap().join("ada")
        }

        fn file(&self, path: &str, text: &str) -> PathBuf {
            let file = self.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            file
        }

        fn installation(&self, program: &str, path: &[&str]) -> Vec<String> {
            let path = std::env::join_paths(path.iter().map(|folder| self.path().join(folder))).unwrap();
            let home = self.path();
            let folders = installation(Path::new(program), Some(&path), Some(&home));
            folders.iter().map(|folder| folder.strip_prefix(&home).unwrap().display().to_string()).collect()
        }
    }

    #[test]
    fn npx_of_a_version_manager_grants_the_folders_of_node_and_npm() {
        let home = TestHomeFolder::new();
        home.file(".nvm/v22/bin/node", "\x7fELF");
        let script = home.file(".nvm/v22/lib/node_modules/npm/bin/npx-cli.js", "#!/usr/bin/env node\n");
        std::os::unix::fs::symlink(script, home.path().join(".nvm/v22/bin/npx")).unwrap();
        let folders = home.installation("npx", &[".nvm/v22/bin"]);
        assert_eq!(folders, [".nvm/v22", ".nvm/v22/lib/node_modules/npm"]);
    }

    #[test]
    fn script_in_virtual_environment_grants_the_environment_and_its_interpreter() {
        let home = TestHomeFolder::new();
        let python = home.file(".local/share/uv/python/3.13/bin/python3", "\x7fELF");
        home.file("venv/pyvenv.cfg", "");
        let line = format!("#!{}\n", home.path().join("venv/bin/python").display());
        home.file("venv/bin/tool", &line);
        std::os::unix::fs::symlink(python, home.path().join("venv/bin/python")).unwrap();
        assert_eq!(home.installation("tool", &["venv/bin"]), [".local/share/uv/python/3.13", "venv"]);
    }

    #[test]
    fn program_in_shared_home_folder_does_not_grant_the_whole_folder() {
        let home = TestHomeFolder::new();
        home.file(".local/bin/uvx", "\x7fELF");
        home.file(".local/share/keyrings/login", "secret");
        let folders = home.installation("uvx", &[".local/bin"]);
        assert!(!folders.iter().any(|folder| folder == ".local" || folder == ".local/share"), "{folders:?}");
        assert!(folders.contains(&".local/bin".to_owned()), "{folders:?}");
        home.file("tool", "\x7fELF");
        assert_eq!(home.installation(home.path().join("tool").to_str().unwrap(), &[]), ["tool"]);
        assert_eq!(home.installation("absent", &[".local/bin"]), [""; 0]);
    }
}
