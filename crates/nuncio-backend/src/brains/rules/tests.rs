//! Tests of the rules brain with whole conversations.

mod chinese;
mod english;
mod laws;
mod transcript;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::{Date, date};
use nuncio_core::agent::{Agent, BrainSpec};
use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Message, ToolCall};
use nuncio_engine::ports::brain::{BrainStepInput, OfferedTool};

use super::compiled::CompiledRules;
use super::reply::{RulesBrainAction, reply};

const TODAY: Date = date(2026, 11, 15);

/// Agent with a rules brain, run without an engine.
struct RulesTestAgent {
    agent: Arc<Agent>,
    rules: CompiledRules,
    options: BTreeMap<nuncio_core::ids::OptionName, String>,
    is_switched_on: bool,
}

impl RulesTestAgent {
    fn of(file: &str) -> Self {
        let declared = nuncio_agent_file::parse("agent.toml", file).unwrap_or_else(|faults| panic!("{faults}"));
        let agent = Arc::new(declared.agent);
        let BrainSpec::Rules(spec) = &agent.brain else { panic!("no rules brain") };
        let rules = CompiledRules::compile(spec).unwrap();
        Self { agent, rules, options: BTreeMap::new(), is_switched_on: true }
    }

    fn hotel() -> Self {
        Self::of(include_str!("../../../../../examples/hotel/agent.toml"))
    }

    fn reply(&self, history: &[Message]) -> RulesBrainAction {
        self.try_reply(history).unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_reply(&self, history: &[Message]) -> Result<RulesBrainAction, String> {
        let tools = self.agent.tools.iter().filter(|_| self.is_switched_on);
        let tools = tools.map(|tool| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.input.source().clone(),
        });
        let prompt = BrainStepInput {
            agent: Arc::clone(&self.agent),
            history: history.to_vec(),
            tools: tools.collect(),
            options: self.options.clone(),
        };
        reply(&self.rules, &prompt, TODAY)
    }
}

#[test]
fn template_that_cannot_be_rendered_fails_the_step_and_is_named() {
    let agent = RulesTestAgent::of(
        r#"
        [agent]
        name = "a"
        version = "1.0.0"
        [brain]
        kind = "rules"
        fallback = "{{ language + 1 }}"
        [[intent]]
        name = "meet"
        keywords = ["meet"]
        answer = "{{ slots.name + 1 }}"
        [[intent.slot]]
        name = "name"
        type = "text"
        ask = "{{ language // 0 }}"
        [[intent]]
        name = "find"
        keywords = ["find"]
        tool = "find"
        answer = "{{ text + 1 }}"
        failure = "{{ error + 1 }}"
        [[tool]]
        name = "find"
        description = "Finds."
        input = { type = "object" }
        run = { answer = "x" }
        "#,
    );
    let said = |history: &[Message]| agent.try_reply(history).unwrap_err();
    assert!(said(&[Message::user("?")]).starts_with("`fallback` of the brain could not be rendered: "));
    let asked = said(&[Message::user("meet")]);
    assert!(asked.starts_with("`ask` of the slot `name` of the intent `meet` could not be rendered: "), "{asked}");
    let met = said(&[Message::user("meet"), Message::user("Ada")]);
    assert!(met.starts_with("`answer` of the intent `meet` could not be rendered: tried to use +"), "{met}");

    let Ok(RulesBrainAction::Call { name, input }) = agent.try_reply(&[Message::user("find")]) else {
        panic!("no call")
    };
    let call = ToolCall { id: CallId::parse("c").unwrap(), name, input };
    let found = |result: &str| {
        let call = Message::assistant(vec![Block::tool_use(call.clone())]);
        let result = Message::tool(CallId::parse("c").unwrap(), result.into());
        said(&[Message::user("find"), call, result])
    };
    assert!(found("x").starts_with("`answer` of the intent `find` could not be rendered: "));
    assert!(found("Tool call denied").starts_with("`failure` of the intent `find` could not be rendered: "));
}

#[test]
fn required_slot_without_a_question_is_asked_for_and_an_empty_answer_becomes_the_fallback_reply() {
    let agent = RulesTestAgent::of(
        r#"
        [agent]
        name = "a"
        version = "1.0.0"
        [[intent]]
        name = "find"
        keywords = ["find"]
        tool = "find"
        answer = "{{ text }}"
        [[intent.slot]]
        name = "room_id"
        type = "text"
        [[intent]]
        name = "hush"
        keywords = ["hush"]
        answer = "{% if slots.word %}{{ slots.word }}{% endif %}"
        [[intent.slot]]
        name = "word"
        type = "text"
        [[tool]]
        name = "find"
        description = "Finds."
        input = { type = "object", properties = { room_id = {} }, required = ["room_id"] }
        run = { answer = "x" }
        "#,
    );
    let asked = agent.reply(&[Message::user("find")]);
    assert_eq!(asked, RulesBrainAction::Say("Please tell me: room id.".to_owned()));
    let called = agent.reply(&[Message::user("find"), Message::user("7")]);
    assert!(matches!(called, RulesBrainAction::Call { ref input, .. } if input["room_id"] == "7"), "{called:?}");
    let RulesBrainAction::Say(hushed) = agent.reply(&[Message::user("hush")]) else { panic!("a call") };
    assert!(hushed.starts_with("Sorry, I did not understand that."), "{hushed}");
}

#[test]
fn device_example_agent_calls_its_tool_for_differently_worded_requests() {
    let agent = RulesTestAgent::of(include_str!("../../../../../examples/device/agent.toml"));
    for (said, path) in [
        ("read .", "."),
        ("read notes.txt", "notes.txt"),
        ("please open the file \"notes.txt\".", "notes.txt"),
        ("read \"my notes.txt\"", "my notes.txt"),
        ("Read me the file 'my notes.txt', please", "my notes.txt"),
        ("show me notes/todo.md", "notes/todo.md"),
        ("what's in notes.txt?", "notes.txt"),
        ("list my files", "."),
        ("what files do I have?", "."),
        ("show me the files in notes", "notes"),
        ("list notes", "notes"),
    ] {
        let step = agent.reply(&[Message::user(said)]);
        assert!(matches!(step, RulesBrainAction::Call { ref input, .. } if input["path"] == path), "{said}: {step:?}");
    }
    let without = RulesTestAgent { is_switched_on: false, ..agent };
    let RulesBrainAction::Say(text) = without.reply(&[Message::user("read .")]) else { panic!("a call") };
    assert!(text.contains("no person is linked to this app yet") && text.contains("--person NAME"), "{text}");
}
