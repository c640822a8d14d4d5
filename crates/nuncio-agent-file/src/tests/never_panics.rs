//! Property tests: any agent file is parsed or refused without a panic, and every fault points into the file.

use proptest::prelude::*;

use super::whole::HOTEL;
use crate::{AgentFileFault, STARTER, parse};

/// Fragments of agent files that are inserted at random positions.
const PIECES: &[&str] = &[
    "\n",
    "\"",
    "'",
    "\"\"\"",
    "=",
    ".",
    ",",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "{{",
    "}}",
    "{%",
    "\\",
    "\u{0}",
    "\r",
    "\u{feff}",
    "预",
    "🦀",
    "#",
    "true",
    "-1",
    "0x",
    "nan",
    "1e999",
    "2026-01-01",
    "99999999999999999999",
    "[tool]",
    "[[tool]]",
    "[agent]",
    "[[intent.slot]]",
    "[[mcp]]\n",
    "name = 1\n",
    "input = {}\n",
    "run = {}\n",
    "label = {}\n",
    "{{ secrets }}",
    "{{ secrets.X.y }}",
    "(?<a>",
    "\"$ref\" = \"#\"\n",
    "import = [1]\n",
    "[secrets]\n",
    "[agent.skill]\n",
    "[[information]]\nfile = \"../x.json\"\n",
    "[[capability]]\ntools = [1]\n",
    "[[interface]]\n",
    "anp = 1\n",
    "[tool.skill]\n",
    "skill = {}\n",
    "skill = { id = \"{provider}/..\", type = \"task\" }\n",
    "auth = { api_key = \"预\" }\n",
    "created_at = 2026-01-01\n",
    "updated_at = 07:32:00\n",
    "run = { human = true }\n",
    "run = { skill = \"a@[::1\" }\n",
    "@",
    "{provider}",
];

/// A random edit of an agent file: removes characters at a position and inserts others.
#[derive(Debug, Clone)]
struct RandomTextEdit {
    at: prop::sample::Index,
    take: usize,
    put: String,
}

fn change() -> impl Strategy<Value = RandomTextEdit> {
    let put = prop_oneof![
        4 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        2 => Just(String::new()),
    ];
    (any::<prop::sample::Index>(), 0..40_usize, put).prop_map(|(at, take, put)| RandomTextEdit { at, take, put })
}

fn changed(text: &str, changes: &[RandomTextEdit]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for change in changes {
        let start = change.at.index(text.len() + 1);
        let end = (start + change.take).min(text.len());
        text.splice(start..end, change.put.chars());
    }
    text.into_iter().collect()
}

/// Lines of the test file `hotel.toml` in random order, some repeated.
fn shuffled() -> impl Strategy<Value = String> {
    let lines: Vec<&str> = HOTEL.lines().collect();
    prop::collection::vec(prop::sample::select(lines), 0..80).prop_map(|lines| lines.join("\n"))
}

fn read_or_refused(text: &str) -> Result<(), TestCaseError> {
    let said: Vec<AgentFileFault> = match parse("agent.toml", text) {
        Ok(declared) => declared.notes,
        Err(faults) => {
            prop_assert!(!faults.0.is_empty(), "refused without a reason");
            faults.0
        }
    };
    let lines: Vec<&str> = text.split('\n').collect();
    for fault in &said {
        let line = lines.get(fault.line - 1);
        prop_assert!(line.is_some_and(|line| fault.column <= line.chars().count() + 1), "{fault}");
    }
    let places: Vec<_> = said.iter().map(|fault| (fault.line, fault.column)).collect();
    prop_assert!(places.is_sorted(), "{places:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn randomly_edited_agent_file_is_parsed_or_refused_without_panic(starter in any::<bool>(), changes in prop::collection::vec(change(), 1..6)) {
        let text = if starter { STARTER } else { HOTEL };
        read_or_refused(&changed(text, &changes))?;
    }

    #[test]
    fn shuffled_agent_file_lines_are_parsed_or_refused_without_panic(text in shuffled()) {
        read_or_refused(&text)?;
    }

    #[test]
    fn arbitrary_text_is_parsed_or_refused_as_agent_file_without_panic(text in any::<String>()) {
        read_or_refused(&text)?;
    }
}
