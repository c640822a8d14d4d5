//! File access that the arguments of a program imply.

use std::path::Path;

use serde_json::Value;

use super::toml;

/// The files that the programs of a generated agent may reach besides the agent's own folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GeneratedAgentFileAccess {
    read: Vec<String>,
    write: Vec<String>,
    /// Folders among the command's arguments that are only readable, each with the reason.
    read_only: Vec<(String, &'static str)>,
}

impl GeneratedAgentFileAccess {
    /// What a command needs: its program may change the folders among its arguments if `changes` is set, and read the
    /// folders of the files among them. A folder that contains the agent's own, `folder` (absolute), is only readable,
    /// so that the program cannot change the agent file.
    pub(super) fn of(command: &[String], folder: &Path, changes: bool) -> Self {
        let mut access = Self::default();
        for word in command.iter().skip(1) {
            let word = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
            let path = folder.join(word);
            if !word.contains('/') || !path.exists() {
                continue;
            }
            let (path, why_read_only) = match (path.is_dir(), folder.starts_with(&path), changes) {
                (true, true, _) => (path.as_path(), Some("agent.toml is in it")),
                (true, false, true) => {
                    push_new(&mut access.write, path.display().to_string());
                    continue;
                }
                (true, false, false) => (path.as_path(), Some("no tool that changes something was taken over")),
                (false, ..) => (project_folder(&path), None),
            };
            let shown = path.display().to_string();
            if let Some(why) = why_read_only {
                push_new(&mut access.read_only, (shown.clone(), why));
            }
            // The programs of an agent can read its folder anyway.
            if path != folder {
                push_new(&mut access.read, shown);
            }
        }
        access
    }

    /// The section `[allow]` of the agent file; empty if the command needs none.
    pub(super) fn section(&self) -> String {
        let line = |key: &str, paths: &[String]| match paths.is_empty() {
            true => String::new(),
            false => format!("{key} = {}\n", toml::value(&Value::from(paths))),
        };
        let lines = line("read", &self.read) + &line("write", &self.write);
        if lines.is_empty() { lines } else { format!("[allow]\n{lines}") }
    }

    /// What the agent's tools may do with the folders among the command's arguments, a sentence each. `data` is the
    /// data directory (absolute) that `nuncio serve` would use from here.
    pub(super) fn sentences(&self, data: &Path) -> Vec<String> {
        let read_only = self
            .read_only
            .iter()
            .map(|(path, why)| format!("The agent's tools can read {path} and change nothing there, because {why}."));
        let is_explained = |path: &&String| self.read_only.iter().any(|(explained, _)| explained == *path);
        // Folders of the scripts among the arguments.
        let read = self.read.iter().filter(|path| !is_explained(path));
        let read = read.map(|path| format!("The agent's tools can read files in {path}."));
        let write = self.write.iter().map(|path| format!("The agent's tools can read and change files in {path}."));
        let shared = self.read_only.iter().map(|(path, _)| path).chain(&self.read).chain(&self.write);
        let around_data = shared.filter(|path| data.starts_with(path)).map(|path| {
            format!(
                "The data directory {} would be in {path}, and tools could not list that folder: serve with --data and \
                 a folder elsewhere.",
                data.display()
            )
        });
        let mut sentences: Vec<_> = read_only.chain(read).chain(write).collect();
        if !sentences.is_empty() {
            sentences.push("The section [allow] in agent.toml changes this.".to_owned());
        }
        around_data.for_each(|sentence| push_new(&mut sentences, sentence));
        sentences
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
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
        let access = |words: &[&str], changes: bool| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            GeneratedAgentFileAccess::of(&words, Path::new(&at("agent")), changes)
        };
        let allow = |words: &[&str]| access(words, true).section();
        assert_eq!(allow(&["npx", "-y", "@scope/server"]), "");
        assert_eq!(allow(&["npx", "server", &at("notes")]), format!("[allow]\nwrite = [{:?}]\n", at("notes")));
        let option = format!("--root={}", at("notes"));
        assert_eq!(allow(&["npx", "server", &option]), format!("[allow]\nwrite = [{:?}]\n", at("notes")));
        assert_eq!(allow(&["node", &at("server/index.js")]), format!("[allow]\nread = [{:?}]\n", at("server")));
        std::fs::write(at("package.json"), "").unwrap();
        assert_eq!(allow(&["node", &at("server/index.js")]), format!("[allow]\nread = [{:?}]\n", root.path()));
        assert_eq!(allow(&["npx", "server", &at("")]), format!("[allow]\nread = [{:?}]\n", at("")));
        let read_only = access(&["npx", "server", &at("notes")], false).section();
        assert_eq!(read_only, format!("[allow]\nread = [{:?}]\n", at("notes")));
    }

    #[test]
    fn sentences_say_which_folders_are_read_only_and_that_data_is_kept_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path).display().to_string();
        std::fs::create_dir_all(at("agent")).unwrap();
        std::fs::create_dir_all(at("notes")).unwrap();
        let sentences = |word: &str, changes: bool, data: &str| {
            let words = ["npx".to_owned(), "server".to_owned(), word.to_owned()];
            GeneratedAgentFileAccess::of(&words, Path::new(&at("agent")), changes)
                .sentences(Path::new(&at(data)))
                .join("\n")
        };
        let shared = root.path().display().to_string();
        let around = sentences(&shared, true, "nuncio-data");
        assert!(around.contains("change nothing there, because agent.toml is in it"), "{around}");
        assert!(around.contains("--data"), "{around}");
        let notes = sentences(&at("notes"), true, "nuncio-data");
        assert!(notes.contains("can read and change files") && !notes.contains("--data"), "{notes}");
        let notes = sentences(&at("notes"), false, "nuncio-data");
        assert!(notes.contains("because no tool that changes something was taken over"), "{notes}");
        assert!(sentences(&at("agent"), true, "nuncio-data").contains("because agent.toml is in it"));
        assert_eq!(sentences("-y", true, "nuncio-data"), "");
        // The server of a script can read the folder around it.
        std::fs::write(at("server.py"), "").unwrap();
        let script = sentences(&at("server.py"), true, "nuncio-data");
        assert!(script.contains(&format!("The agent's tools can read files in {shared}.\n")), "{script}");
        assert_eq!(script.matches("--data").count(), 1, "{script}");
        std::fs::write(at("agent/server.py"), "").unwrap();
        assert_eq!(
            sentences(&at("agent/server.py"), true, "nuncio-data"),
            "",
            "programs can read their agent's folder"
        );
    }
}
