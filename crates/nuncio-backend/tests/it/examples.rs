//! Examples with `process` brains, run with their real programs.

use std::path::Path;

use nuncio_core::ids::{AgentName, CallId};
use nuncio_core::message::Message;
use nuncio_core::turn::StopReason;
use serde_json::json;

use crate::test_brain::TestBrain;
use crate::test_runners::RunnersFixture;

fn example(name: &str) -> TestBrain {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read_to_string(folder.join("agent.toml")).unwrap();
    let declared = nuncio_agent_file::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(declared.notes, []);
    let workshop = RunnersFixture::new();
    workshop.runners.set_base_dir(AgentName::parse(name).unwrap(), folder);
    TestBrain::of(workshop, &text)
}

/// Asks the brain for the time and answers its call of the tool `clock`.
async fn ask_for_time(brain: &mut TestBrain) -> String {
    brain.history = vec![Message::user("早上好! What time is it \"now\"?\n\\ Tell me.")];
    let step = brain.think().await;
    let said: Message = serde_json::from_value(step.message.clone()).unwrap();
    let (thought, blocks) = step.blocks();
    assert_eq!(thought.stop, StopReason::ToolUse);
    assert_eq!(blocks[0], json!({"type": "thinking", "thinking": "The clock knows."}));
    let call = said.tool_calls().next().unwrap();
    assert_eq!((call.name.as_str(), &call.input["zone"]), ("clock", &json!("UTC")));

    let output = brain.workshop.run(&brain.agent, "clock", json!({"zone": "UTC"})).await.unwrap();
    let time = output.message_content().text();
    let result = Message::tool(CallId::parse(call.id.as_str()).unwrap(), output.message_content());
    brain.history.extend([said, result]);
    let (thought, blocks) = brain.think().await.blocks();
    assert_eq!(thought.stop, StopReason::EndTurn);
    let text = blocks[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(&format!("It is {time}")), "{text}");
    text
}

#[tokio::test]
async fn python_example_greets_and_calls_clock_tool() {
    let mut brain = example("process-python");
    brain.history = vec![Message::user("grüß dich 🏨")];
    brain.set("name", "Ada");
    let (thought, blocks) = brain.think().await.blocks();
    assert_eq!(blocks, json!([{"type": "text", "text": "Hello Ada! You said: grüß dich 🏨 "}]));
    assert_eq!(thought.usage.unwrap().output_tokens, 10);
    assert!(ask_for_time(&mut brain).await.ends_with(", Ada."));
}

#[tokio::test]
async fn node_example_greets_and_calls_clock_tool() {
    let mut brain = example("process-node");
    brain.history = vec![Message::user("grüß dich 🏨")];
    brain.set("name", "Ada");
    let (thought, blocks) = brain.think().await.blocks();
    assert_eq!(blocks, json!([{"type": "text", "text": "Hello Ada! You said: grüß dich 🏨 "}]));
    assert_eq!(thought.usage.unwrap().output_tokens, 10);
    assert!(ask_for_time(&mut brain).await.ends_with(", Ada."));
}

#[tokio::test]
async fn shell_example_echoes_text_and_calls_clock_tool() {
    let mut brain = example("process-shell");
    brain.history = vec![Message::user("a \"quoted\"\n\\line, 你好")];
    let (thought, blocks) = brain.think().await.blocks();
    assert_eq!(thought.stop, StopReason::EndTurn);
    assert_eq!(blocks, json!([{"type": "text", "text": "You said: a \"quoted\"\n\\line, 你好"}]));
    ask_for_time(&mut brain).await;
}
