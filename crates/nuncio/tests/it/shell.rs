//! Shell completions and man pages, generated from the command definitions.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::process::nuncio;

#[test]
fn completion_script_of_every_supported_shell_names_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = nuncio(&["completions", shell]).run();
        assert_eq!((script.status, script.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["serve", "approve", "completions", "--public-url"] {
            assert!(script.stdout.contains(word.trim_start_matches('-')), "{shell}: no {word}");
        }
    }
    assert_eq!(nuncio(&["completions", "cmd.exe"]).run().status, Some(2));
}

#[test]
fn bash_completion_script_completes_command_names() {
    let script = nuncio(&["completions", "bash"]).run().stdout;
    let completion_request =
        "\nCOMP_WORDS=(nuncio au); COMP_CWORD=1; _nuncio nuncio au nuncio; echo \"found: ${COMPREPLY[*]}\"\n";
    for (flags, input, expected) in
        [(&["-n"][..], script.clone(), ""), (&[], script + completion_request, "found: audit\n")]
    {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile"]).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut bash = bash.stderr(Stdio::piped()).spawn().unwrap();
        bash.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let ran = bash.wait_with_output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(String::from_utf8_lossy(&ran.stdout), expected);
    }
}

#[test]
fn man_pages_are_printed_or_written_for_commands_and_subcommands() {
    let page = nuncio(&["man"]).run();
    assert_eq!(page.status, Some(0), "{page:?}");
    assert!(page.stdout.contains(".TH") && page.stdout.contains("nuncio"), "{}", page.stdout);

    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let written = nuncio(&["--json", "man", "--dir"]).arg(&pages).run().json();
    assert_eq!(written["written"], pages.to_str().unwrap());
    for name in ["nuncio.1", "nuncio-serve.1", "nuncio-key-create.1", "nuncio-man.1"] {
        let page = std::fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.starts_with('.') && page.len() > 200, "{name}");
    }
}

#[test]
fn completions_and_man_pages_are_listed_in_the_help() {
    let help = nuncio(&["--help"]).run().stdout;
    assert!(help.contains("\n  completions ") && help.contains("\n  man "), "{help}");
}
