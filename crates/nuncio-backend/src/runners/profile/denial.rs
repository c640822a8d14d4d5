//! Recognises missing permissions in the output of a program.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use nuncio_confine::{ConfinementRules, contains};

/// Phrases in program output that show refused access, in lower case.
const SIGNS: [&str; 6] = [
    "permission denied",
    "eacces",
    "operation not permitted",
    "eperm",
    "permissionerror",
    // SQLite does not report the cause.
    "unable to open database file",
];

/// What interpreters print when they cannot list the folder of a program to find its own modules, in lower case.
const MISSING_MODULE: [&str; 2] = ["no module named", "cannot find module"];

/// Sentence that names the refused resource and the setting to change; `None` if the text shows no refusal.
pub(super) fn find(text: &str, reach: &ConfinementRules) -> Option<String> {
    let shows = |text: &str, signs: &[&str]| {
        let lower = text.to_lowercase();
        signs.iter().any(|sign| lower.contains(sign))
    };
    if !shows(text, &SIGNS) {
        // Some interpreters report an unreadable file as missing.
        let is_missing = shows(text, &["cannot find module", "no such file"]);
        let is_unreadable = |path: &PathBuf| path.exists() && !reach.reads(path);
        let unread = paths(text).filter(|_| is_missing).filter(is_unreadable).find_map(|path| refused(&path, reach));
        let around_data = || reach.read.iter().chain(&reach.write).find_map(|folder| folder_around_data(folder, reach));
        let unlisted = || around_data().filter(|_| shows(text, &MISSING_MODULE)).map(beside_data);
        return unread.or_else(unlisted);
    }
    // The line that reports the refusal names the path; a traceback before it names the program's own files.
    let reports = text.lines().filter(|line| shows(line, &SIGNS));
    let named = reports.flat_map(paths).find_map(|path| refused(&path, reach));
    let unknown = || {
        "The program may lack a permission: it can access only what `allow` in the agent file lists, as \
         docs/programs.md explains."
            .to_owned()
    };
    Some(named.unwrap_or_else(unknown))
}

fn beside_data(folder: &Path) -> String {
    format!(
        "The program cannot list {folder} or reach new entries of it, because the data directory is in it: serve with \
         --data and a folder elsewhere.",
        folder = folder.display()
    )
}

fn refused(path: &Path, reach: &ConfinementRules) -> Option<String> {
    let shown = path.display();
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()) && !reach.unix {
        return Some(format!(
            "The program may not use the Unix socket {shown}: `allow = {{ unix = true }}` in the agent file permits it."
        ));
    }
    if let Some(folder) = folder_around_data(path, reach) {
        return Some(beside_data(folder));
    }
    if reach.writes(path) {
        return None;
    }
    if reach.hides(path) {
        return Some(format!("{shown} is in the data directory, which programs can never access."));
    }
    let (what, key) = if reach.reads(path) { ("change", "write") } else { ("read", "read") };
    Some(format!("The program may not {what} {shown}: list it in `allow.{key}` of the agent file to permit it."))
}

/// The allowed folder around the data directory that is out of reach itself: `path`, or the folder of a new entry.
fn folder_around_data<'p>(path: &'p Path, reach: &ConfinementRules) -> Option<&'p Path> {
    let hidden = reach.hidden.as_deref()?;
    let is_around = |folder: &Path| contains(folder, hidden) && !reach.hides(folder);
    if is_around(path) && reach.reads(path) {
        return Some(path);
    }
    path.parent().filter(|parent| is_around(parent) && reach.writes(parent) && !reach.hides(path))
}

/// Absolute paths in a text.
fn paths(text: &str) -> impl Iterator<Item = PathBuf> + '_ {
    let ends = |c: char| c.is_whitespace() || "'\"`()[]{}<>,;".contains(c);
    let words = text.split(ends).map(|word| word.trim_end_matches([':', '.', '!', '?']));
    let path = |word: &str| {
        word.find('/')
            .filter(|start| word[..*start].chars().all(|c| c == ':' || c == '='))
            .map(|start| PathBuf::from(&word[start..]))
    };
    words.filter_map(path).filter(|path| path.is_absolute() && path.components().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_path_in_program_output_gets_a_hint_about_allow_read() {
        for text in [
            "cat: /srv/notes/a.txt: Permission denied",
            "Error: EACCES: permission denied, open '/srv/notes/a.txt'",
            "PermissionError: [Errno 13] Permission denied: '/srv/notes/a.txt'",
            "open /srv/notes/a.txt: permission denied",
        ] {
            let said = find(text, &ConfinementRules::default()).unwrap();
            assert!(said.contains("may not read /srv/notes/a.txt") && said.contains("allow.read"), "{said}");
        }
    }

    #[test]
    fn refused_write_gets_a_hint_about_allow_write_or_the_data_directory() {
        let reach = ConfinementRules { read: vec!["/srv".into()], ..ConfinementRules::default() };
        let said = find("touch: cannot touch '/srv/new': Permission denied", &reach).unwrap();
        assert!(said.contains("may not change /srv/new") && said.contains("allow.write"), "{said}");
        let hidden = ConfinementRules { hidden: Some("/srv/data".into()), ..reach.clone() };
        let said = find("cat: /srv/data/secret.key: Permission denied", &hidden).unwrap();
        assert!(said.contains("in the data directory"), "{said}");
    }

    #[test]
    fn refused_folder_that_contains_the_data_directory_gets_a_hint_about_the_option_data() {
        let reach = |read: &[&str], write: &[&str]| ConfinementRules {
            read: read.iter().map(PathBuf::from).collect(),
            write: write.iter().map(PathBuf::from).collect(),
            hidden: Some("/srv/shop/nuncio-data".into()),
            ..ConfinementRules::default()
        };
        let listed = "EACCES: permission denied, scandir '/srv/shop'";
        for reach in [reach(&["/srv/shop"], &[]), reach(&[], &["/srv"])] {
            let said = find(listed, &reach).unwrap();
            assert!(said.contains("cannot list /srv/shop") && said.contains("--data"), "{said}");
        }
        let new = find("EACCES: permission denied, open '/srv/shop/new.txt'", &reach(&[], &["/srv/shop"])).unwrap();
        assert!(new.contains("new entries") && new.contains("--data"), "{new}");
        // Other refusals beside the data directory keep their own hints.
        let said = find("EACCES: permission denied, open '/srv/shop/a.txt'", &reach(&["/srv/shop"], &[])).unwrap();
        assert!(said.contains("may not change /srv/shop/a.txt"), "{said}");
        let said = find("EACCES: permission denied, open '/srv/shop/nuncio-data/x'", &reach(&["/srv/shop"], &[]));
        assert!(said.unwrap().contains("programs can never access"));
        assert!(find(listed, &reach(&[], &[])).unwrap().contains("allow.read"));
    }

    #[test]
    fn path_in_the_line_of_the_refusal_counts_and_those_of_the_traceback_do_not() {
        let reach = ConfinementRules { read: vec!["/srv/agent".into()], ..ConfinementRules::default() };
        let traceback = "Traceback (most recent call last):\n  File \"/srv/agent/brain.py\", line 3, in <module>\n";
        let said = |error: &str| find(&format!("{traceback}{error}"), &reach).unwrap();
        let absolute = said("PermissionError: [Errno 13] Permission denied: '/srv/shared/prices.csv'");
        assert!(absolute.contains("may not read /srv/shared/prices.csv"), "{absolute}");
        let relative = said("PermissionError: [Errno 13] Permission denied: 'log.txt'");
        assert!(relative.contains("may lack a permission") && !relative.contains("brain.py"), "{relative}");
    }

    #[test]
    fn module_missing_in_a_folder_around_the_data_directory_gets_a_hint_about_the_data_option() {
        let missing = "ModuleNotFoundError: No module named 'my_lib'";
        let reach = |hidden: &str| ConfinementRules {
            read: vec!["/usr".into(), "/srv/agent".into()],
            hidden: Some(hidden.into()),
            ..ConfinementRules::default()
        };
        let said = find(missing, &reach("/srv/agent/nuncio-data")).unwrap();
        assert!(said.contains("cannot list /srv/agent") && said.contains("--data"), "{said}");
        assert_eq!(find(missing, &reach("/var/nuncio")), None);
    }

    #[test]
    fn output_without_a_refused_path_gets_no_hint_or_a_general_hint() {
        assert_eq!(find("no rooms left in /srv/notes", &ConfinementRules::default()), None);
        let said =
            find("sqlite3.OperationalError: unable to open database file", &ConfinementRules::default()).unwrap();
        assert!(said.contains("may lack a permission"), "{said}");
    }
}
