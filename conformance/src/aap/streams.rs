//! Streamed turns: events, their order and their bytes.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::script::{BrainScriptStep, add, deltas, echo, play, sleep, text, thinking};
use super::turn::STREAMED;
use super::wire::{AapServerUnderTest, header};
use crate::verdict::{CheckVerdict, ensure, equal, fail};

checks![
    stream_content_type,
    stream_exact_shape,
    stream_starts_and_stops_once,
    stream_delta_events_only,
    stream_message_events_only,
    stream_one_event_per_block,
    stream_thinking_before_text,
    stream_modes_agree,
    stream_thousand_deltas,
    stream_words_in_order,
    stream_text_is_unchanged,
    stream_is_live,
    stream_needs_no_accept,
    stream_ids_on_every_event,
    stream_turn_stop_names_the_turn,
    stream_keeps_alive,
];

/// Script of a turn with every kind of event that needs no client tool.
fn everything() -> [BrainScriptStep; 2] {
    [
        vec![thinking("which one is it?"), text("Let me add them. "), add("c1")],
        vec![thinking("now I know"), text("Done: "), echo("results")],
    ]
}

fn trusted() -> Value {
    json!({ "tools": [{ "name": "add", "trust": true }] })
}

async fn stream_content_type(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    for mode in STREAMED {
        // Opening the stream checks its content type.
        let body = json!({ "messages": [play(&[vec![text("hello")]])], "stream": mode });
        api.open(&session, &body, &[]).await?.finish().await?;
    }
    Ok(())
}

async fn stream_exact_shape(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(trusted()).await?;
        // The strict parser checks every kind of event.
        let turn = api.play(&session, mode, &everything()).await?;
        for event in &turn.events {
            let field = match event.name.as_str() {
                "text_delta" | "thinking_delta" => "delta",
                "text" => "text",
                "thinking" => "thinking",
                "tool_call" | "tool_result" => "toolCallId",
                "turn_stop" => "stopReason",
                _ => continue,
            };
            ensure(event.text(field).is_some(), || {
                format!("{}: expected a text `{field}`, got {:?}", event.name, event.data)
            })?;
            let input = event.data.get("input").is_some_and(Value::is_object);
            let content = event.data.get("content").is_some_and(|c| c.is_string() || c.is_array());
            ensure(event.name != "tool_call" || input && event.text("name").is_some(), || {
                format!("tool_call: expected `name` and an object `input`, got {:?}", event.data)
            })?;
            ensure(event.name != "tool_result" || content, || {
                format!("tool_result: expected `content` as text or blocks, got {:?}", event.data)
            })?;
        }
    }
    Ok(())
}

async fn stream_starts_and_stops_once(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(trusted()).await?;
        // `StreamedTurn::new` requires one start at the beginning and one stop at the end.
        let turn = api.play(&session, mode, &everything()).await?;
        equal("stopReason", "end_turn", turn.stop())?;
    }
    Ok(())
}

async fn stream_delta_events_only(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(trusted()).await?;
    let turn = api.play(&session, "delta", &everything()).await?;
    let names = turn.names();
    ensure(!names.contains(&"text") && !names.contains(&"thinking"), || {
        format!("expected no whole blocks in delta mode, got {names:?}")
    })?;
    ensure(names.contains(&"text_delta") && names.contains(&"thinking_delta"), || {
        format!("expected text_delta and thinking_delta, got {names:?}")
    })
}

async fn stream_message_events_only(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(trusted()).await?;
    let turn = api.play(&session, "message", &everything()).await?;
    let names = turn.names();
    ensure(!names.iter().any(|name| name.ends_with("_delta")), || {
        format!("expected no deltas in message mode, got {names:?}")
    })?;
    ensure(names.contains(&"text") && names.contains(&"thinking"), || {
        format!("expected text and thinking, got {names:?}")
    })
}

async fn stream_one_event_per_block(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let turn = api.play(&session, "message", &[vec![text("one two three four")]]).await?;
    equal("events", vec!["turn_start", "text", "turn_stop"], turn.names())
}

async fn stream_thinking_before_text(api: &AapServerUnderTest) -> CheckVerdict {
    let steps = [vec![thinking("first I think"), text("then I speak")]];
    let expected = json!([
        { "type": "thinking", "thinking": "first I think" },
        { "type": "text", "text": "then I speak" },
    ]);
    for mode in STREAMED {
        let session = api.session(json!({})).await?;
        let turn = api.play(&session, mode, &steps).await?;
        equal(&format!("blocks in {mode}"), &expected, &turn.messages()[0]["content"])?;
        let history = api.history(&session, "full").await?;
        equal("stored blocks", Some(&expected), history.last().map(|last| &last["content"]))?;
    }
    let session = api.session(json!({})).await?;
    let answer = api.run_script(&session, &steps).await?;
    equal("blocks in none", Some(&expected), answer.messages.first().map(|first| &first["content"]))
}

async fn stream_modes_agree(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(trusted()).await?;
    let answer = api.run_script(&session, &everything()).await?;
    let expected: Vec<Value> = answer.messages.iter().map(in_blocks).collect();
    for mode in STREAMED {
        let session = api.session(trusted()).await?;
        let turn = api.play(&session, mode, &everything()).await?;
        let got: Vec<Value> = turn.messages().iter().map(in_blocks).collect();
        equal(&format!("messages in none and in {mode}"), &expected, &got)?;
        equal("stopReason", answer.stop(), turn.stop())?;
    }
    Ok(())
}

/// Converts plain text content to one text block, which the protocol treats as equal.
fn in_blocks(message: &Value) -> Value {
    let mut message = message.clone();
    if let Value::String(text) = &message["content"] {
        message["content"] = json!([{ "type": "text", "text": text }]);
    }
    message
}

async fn stream_thousand_deltas(api: &AapServerUnderTest) -> CheckVerdict {
    let expected = "tick ".repeat(1000);
    for mode in STREAMED {
        let session = api.session(json!({})).await?;
        let turn = api.play(&session, mode, &[vec![deltas(1000, "tick ")]]).await?;
        equal(&format!("length in {mode}"), expected.len(), turn.text().len())?;
        equal(&format!("text in {mode}"), &expected, &turn.text())?;
    }
    Ok(())
}

async fn stream_words_in_order(api: &AapServerUnderTest) -> CheckVerdict {
    let expected: Vec<String> = (0..1000).map(|n| format!("w{n}")).collect();
    let expected = expected.join(" ");
    let session = api.session(json!({})).await?;
    let turn = api.play(&session, "delta", &[vec![text(expected.as_str())]]).await?;
    equal("text", &expected, &turn.text())?;
    let history = api.history(&session, "full").await?;
    let stored = history.last().map(|last| super::script::flat(&last["content"]));
    equal("stored text", Some(expected), stored)
}

async fn stream_text_is_unchanged(api: &AapServerUnderTest) -> CheckVerdict {
    let awkward = "line one\nline two\r\n\n\tdata: {}\n\nevent: x \u{2028}\u{0} \"quoted\" \\ 漢字 🏨 e\u{301}";
    for mode in STREAMED {
        let session = api.session(json!({})).await?;
        let turn = api.play(&session, mode, &[vec![text(awkward)]]).await?;
        equal(&format!("text in {mode}"), awkward, turn.text().as_str())?;
    }
    Ok(())
}

async fn stream_is_live(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    // The first word must arrive although the brain then waits for a long time.
    let steps = [vec![text("now "), sleep(600_000), text("later")]];
    let body = json!({ "messages": [play(&steps)], "stream": "delta" });
    let mut live = api.open(&session, &body, &[]).await?;
    live.until("text_delta").await?;
    equal("events", vec!["turn_start", "text_delta"], super::turn::names(&live.events))
}

async fn stream_needs_no_accept(api: &AapServerUnderTest) -> CheckVerdict {
    for accept in ["*/*", "text/event-stream", "application/json"] {
        let session = api.session(json!({})).await?;
        let body = json!({ "messages": [play(&[vec![text("hello")]])], "stream": "message" });
        let live = api.open(&session, &body, &[("accept", accept)]).await?;
        ensure(!header(&live.headers, "cache-control").contains("max-age"), || {
            "expected a stream that is not cached".to_owned()
        })?;
        live.finish().await?;
    }
    Ok(())
}

async fn stream_ids_on_every_event(api: &AapServerUnderTest) -> CheckVerdict {
    for mode in STREAMED {
        let session = api.session(trusted()).await?;
        let turn = api.play(&session, mode, &everything()).await?;
        let mut seen = HashSet::new();
        for event in &turn.events {
            let id = event.id.as_deref().filter(|id| !id.is_empty());
            let id = id.ok_or_else(|| fail(format!("expected an `id:` on {}, got none", event.name)))?;
            ensure(seen.insert(id), || format!("expected ids of their own, got {id} twice"))?;
        }
    }
    Ok(())
}

async fn stream_turn_stop_names_the_turn(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let mut seen = HashSet::new();
    for mode in STREAMED {
        let turn = api.play(&session, mode, &[vec![text("hello")]]).await?;
        let stop = turn.stop_data();
        let id = stop["turnId"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| fail(format!("expected a `turnId` in turn_stop, got {stop}")))?;
        ensure(seen.insert(id.to_owned()), || format!("expected turn ids of their own, got {id} twice"))?;
    }
    Ok(())
}

async fn stream_keeps_alive(api: &AapServerUnderTest) -> CheckVerdict {
    let session = api.session(json!({})).await?;
    let turn = api.play(&session, "delta", &[vec![text("one "), sleep(17_000), text("two")]]).await?;
    ensure(turn.comments > 0, || "expected a comment within 17 quiet seconds, got none".to_owned())?;
    equal("text", "one two", turn.text().as_str())
}
