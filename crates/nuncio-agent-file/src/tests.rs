//! Tests of agent files: valid files, and the exact faults and warnings for others.

use super::{AgentFileFaults, ParsedAgentFile, parse};

mod backends;
mod brain;
mod brains;
mod document;
mod never_panics;
mod notes;
mod published;
mod runners;
mod settings;
mod skills;
mod templates;
mod tools;
mod whole;

/// First three lines of most tested agent files, so that the tested part begins at line 4.
const AGENT: &str = "[agent]\nname = \"a\"\nversion = \"1.0.0\"\n";
/// Four more lines of an agent file, for files that should cause no warning.
const GREETING: &str = "[[intent]]\nname = \"greet\"\nkeywords = [\"hello\"]\nanswer = \"Hello.\"\n";

fn faults(text: &str) -> String {
    match parse("agent.toml", text) {
        Ok(ParsedAgentFile { agent, .. }) => panic!("nothing wrong was found: {agent:?}"),
        Err(faults) => faults.to_string(),
    }
}

fn notes(text: &str) -> String {
    let declared = parse("agent.toml", text).unwrap_or_else(|faults| panic!("{faults}"));
    AgentFileFaults(declared.notes).to_string()
}

/// Makes one test per invalid agent file: the text after `[agent]`, and all expected faults.
macro_rules! refused {
    ($($name:ident: $body:literal => $said:literal;)*) => {$(
        #[test]
        fn $name() {
            let text = format!("{}{}", crate::tests::AGENT, &$body[1..]);
            assert_eq!(crate::tests::faults(&text), $said.trim());
        }
    )*};
}

/// Makes one test per invalid agent file: the complete text, and all expected faults.
macro_rules! refused_whole {
    ($($name:ident: $body:literal => $said:literal;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(crate::tests::faults(&$body[1..]), $said.trim());
        }
    )*};
}

/// Makes one test per agent file with warnings: the text after [`AGENT`] and [`GREETING`], and all expected warnings.
macro_rules! noted {
    ($($name:ident: $body:literal => $said:literal;)*) => {$(
        #[test]
        fn $name() {
            use crate::tests::{AGENT, GREETING};
            let text = format!("{AGENT}{GREETING}{}", &$body[1..]);
            assert_eq!(crate::tests::notes(&text), $said.trim());
        }
    )*};
}

use {noted, refused, refused_whole};
