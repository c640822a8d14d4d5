//! The examples whose brains are programs, run for real.

use std::path::Path;

use nuncio_core::ids::{AgentName, CallId};
use nuncio_core::message::Message;
use nuncio_core::turn::StopReason;
use serde_json::json;

use crate::thinking::Thinker;
use crate::workshop::Workshop;

fn example(name: &str) -> Thinker {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read_to_string(folder.join("agent.toml")).unwrap();
    let declared = nuncio_core::declaration::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(declared.notes, []);
    let workshop = Workshop::new();
    workshop.runners.set_base_dir(AgentName::parse(name).unwrap(), folder);
    Thinker::of(workshop, &text)
}

/// Asks for the time and lets the clock that the brain calls answer.
async fn asks_the_clock(thinker: &mut Thinker) -> String {
    thinker.history = vec![Message::user("早上好! What time is it \"now\"?\n\\ Tell me.")];
    let step = thinker.think().await;
    let said: Message = serde_json::from_value(step.message.clone()).unwrap();
    let (thought, blocks) = step.blocks();
    assert_eq!(thought.stop, StopReason::ToolUse);
    assert_eq!(blocks[0], json!({"type": "thinking", "thinking": "The clock knows."}));
    let call = said.tool_calls().next().unwrap();
    assert_eq!((call.name.as_str(), &call.input["zone"]), ("clock", &json!("UTC")));

    let output = thinker.workshop.run(&thinker.agent, "clock", json!({"zone": "UTC"})).await.unwrap();
    let time = output.message_content().text();
    let result = Message::tool(CallId::parse(call.id.as_str()).unwrap(), output.message_content());
    thinker.history.extend([said, result]);
    let (thought, blocks) = thinker.think().await.blocks();
    assert_eq!(thought.stop, StopReason::EndTurn);
    let text = blocks[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(&format!("It is {time}")), "{text}");
    text
}

#[tokio::test]
async fn python_thinks() {
    let mut thinker = example("process-python");
    thinker.history = vec![Message::user("grüß dich 🏨")];
    thinker.set("name", "Ada");
    let (thought, blocks) = thinker.think().await.blocks();
    assert_eq!(blocks, json!([{"type": "text", "text": "Hello Ada! You said: grüß dich 🏨 "}]));
    assert_eq!(thought.usage.unwrap().output_tokens, 10);
    assert!(asks_the_clock(&mut thinker).await.ends_with(", Ada."));
}

#[tokio::test]
async fn the_shell_thinks() {
    let mut thinker = example("process-shell");
    thinker.history = vec![Message::user("a \"quoted\"\n\\line, 你好")];
    let (thought, blocks) = thinker.think().await.blocks();
    assert_eq!(thought.stop, StopReason::EndTurn);
    assert_eq!(blocks, json!([{"type": "text", "text": "You said: a \"quoted\"\n\\line, 你好"}]));
    asks_the_clock(&mut thinker).await;
}
