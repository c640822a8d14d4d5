//! Every command in the documents runs, in order and as it stands there. Only placeholders, ports and addresses are
//! replaced. A command that no test can run is left out with a reason.

use std::fs;

#[path = "documents/commands.rs"]
mod commands;
#[path = "documents/consuming.rs"]
mod consuming;
#[path = "documents/device.rs"]
mod device;
#[path = "documents/document_run.rs"]
mod document_run;
#[path = "documents/getting_started.rs"]
mod getting_started;
#[path = "documents/operating.rs"]
mod operating;
#[path = "documents/readme.rs"]
mod readme;
#[path = "documents/shell.rs"]
mod shell;
#[path = "documents/short.rs"]
mod short;

use commands::{commands, path_of, read, without_words};
use document_run::DocumentRun;

/// Runs the commands of a document.
type DocumentRunFn = fn(&mut DocumentRun);

macro_rules! documents {
    ($($test:ident: $document:literal => $walk:path,)*) => {
        const DOCUMENTS: &[&str] = &[$($document),*];
        $(
            #[test]
            fn $test() {
                let walk: DocumentRunFn = $walk;
                let mut run = DocumentRun::of($document);
                walk(&mut run);
                run.finish();
            }
        )*
    };
}

documents! {
    commands_of_the_readme_run: "README.md" => readme::run,
    commands_of_the_chinese_readme_run: "README.zh-CN.md" => readme::run,
    commands_of_a2h_run: "docs/a2h.md" => short::a2h,
    commands_of_the_agent_file_reference_run: "docs/agent-file.md" => short::agent_file,
    commands_of_anp_run: "docs/anp.md" => consuming::anp,
    commands_of_bring_your_agent_run: "docs/bring-your-agent.md" => short::bring_your_agent,
    commands_of_chat_run: "docs/chat.md" => short::chat,
    commands_of_the_change_judge_run: "docs/change-judge.md" => short::change_judge,
    commands_of_consuming_run: "docs/consuming.md" => consuming::consuming,
    commands_of_device_run: "docs/device.md" => device::run,
    commands_of_getting_started_run: "docs/getting-started.md" => getting_started::run,
    commands_of_the_chinese_getting_started_run: "docs/zh-CN/getting-started.md" => getting_started::run,
    commands_of_operating_run: "docs/operating.md" => operating::run,
    commands_of_registry_run: "docs/registry.md" => consuming::registry,
}

/// The documents of a folder, as paths from the root of the repository.
fn documents_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(path_of(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut documents: Vec<_> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")).collect();
    documents.sort();
    documents
}

#[test]
fn every_document_with_commands_has_a_test_that_runs_them() {
    let untested = documents_in("docs").into_iter().chain(documents_in("docs/decisions"));
    let untested = untested.filter(|document| !DOCUMENTS.contains(&document.as_str()));
    let untested: Vec<_> = untested.filter(|document| !commands(&read(document)).is_empty()).collect();
    assert!(untested.is_empty(), "no test runs the commands of {untested:?}");
}

#[test]
fn no_document_shows_a_command_in_an_indented_block() {
    // Only fenced blocks are run.
    let documents = documents_in("docs").into_iter().chain(documents_in("docs/zh-CN"));
    for document in documents.chain(["README.md", "README.zh-CN.md"].map(str::to_owned)) {
        let text = read(&document);
        let unfenced = text.split("\n```").step_by(2).flat_map(str::lines);
        let indented: Vec<_> = unfenced.filter(|line| line.starts_with("    ") && line.contains("nuncio ")).collect();
        assert!(indented.is_empty(), "{document}: {indented:?}");
    }
}

#[test]
fn chinese_documents_have_the_same_commands_as_the_english_ones() {
    let pairs = documents_in("docs/zh-CN").into_iter().map(|chinese| (chinese.replace("zh-CN/", ""), chinese));
    for (english, chinese) in pairs.chain([("README.md".to_owned(), "README.zh-CN.md".to_owned())]) {
        let [english_commands, chinese_commands] = [&english, &chinese].map(|document| {
            commands(&read(document)).iter().map(|command| without_words(&command.text)).collect::<Vec<_>>()
        });
        assert_eq!(english_commands, chinese_commands, "{english} and {chinese}");
    }
}
