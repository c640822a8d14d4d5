//! File access that the arguments of a program imply.

use std::path::Path;

use serde_json::Value;

use super::toml;

/// The section `[allow]` of an agent file for a command; empty if the command needs none. The program may change the
/// folders among its arguments, and read the folders of the files among them. A folder that contains the agent's own,
/// `folder` (absolute), is only readable, so that the program cannot change the agent file.
pub(super) fn allow_section(command: &[String], folder: &Path) -> String {
    let (mut read, mut write) = (Vec::new(), Vec::new());
    for word in command.iter().skip(1) {
        let word = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
        let path = folder.join(word);
        if !word.contains('/') || !path.exists() {
            continue;
        }
        let (path, list) = match (path.is_dir(), folder.starts_with(&path)) {
            (true, true) => (path.as_path(), &mut read),
            (true, false) => (path.as_path(), &mut write),
            (false, _) => (project_folder(&path), &mut read),
        };
        let path = path.display().to_string();
        if path != folder.display().to_string() && !list.contains(&path) {
            list.push(path);
        }
    }
    let line = |key: &str, paths: Vec<String>| match paths.is_empty() {
        true => String::new(),
        false => format!("{key} = {}\n", toml::value(&Value::from(paths))),
    };
    let lines = line("read", read) + &line("write", write);
    if lines.is_empty() { lines } else { format!("[allow]\n{lines}") }
}

/// The folder that a script file needs: the one with its installed packages, its project, or its own folder.
fn project_folder(file: &Path) -> &Path {
    let folders = || file.ancestors().skip(1);
    let installed = folders().filter(|folder| folder.ends_with("node_modules")).last().and_then(Path::parent);
    let is_project = |folder: &&Path| ["package.json", "pyproject.toml"].iter().any(|name| folder.join(name).exists());
    installed.or_else(|| folders().find(is_project)).or(file.parent()).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_agent_file_allows_the_folders_named_in_the_mcp_command() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path).display().to_string();
        std::fs::create_dir_all(at("agent")).unwrap();
        std::fs::create_dir_all(at("notes")).unwrap();
        std::fs::create_dir_all(at("server")).unwrap();
        std::fs::write(at("server/index.js"), "").unwrap();
        let allow = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            allow_section(&words, Path::new(&at("agent")))
        };
        assert_eq!(allow(&["npx", "-y", "@scope/server"]), "");
        assert_eq!(allow(&["npx", "server", &at("notes")]), format!("[allow]\nwrite = [{:?}]\n", at("notes")));
        let option = format!("--root={}", at("notes"));
        assert_eq!(allow(&["npx", "server", &option]), format!("[allow]\nwrite = [{:?}]\n", at("notes")));
        assert_eq!(allow(&["node", &at("server/index.js")]), format!("[allow]\nread = [{:?}]\n", at("server")));
        std::fs::write(at("package.json"), "").unwrap();
        assert_eq!(allow(&["node", &at("server/index.js")]), format!("[allow]\nread = [{:?}]\n", root.path()));
        assert_eq!(allow(&["npx", "server", &at("")]), format!("[allow]\nread = [{:?}]\n", at("")));
    }
}
