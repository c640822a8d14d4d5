//! Turns as the checks run and parse them, streamed or not.

use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::script::{BrainScriptStep, flat, play};
use super::sse::{RawSseEvent, SseStreamDecoder};
use super::wire::{AapServerUnderTest, HttpReply, chain, header};
use crate::verdict::{CheckStopReason, ensure, equal, fail, short};

/// Values of the field `stream` for which the response is an event stream.
pub(super) const STREAMED: [&str; 2] = ["delta", "message"];

impl AapServerUnderTest {
    /// Plays a script and reads the stream to its end.
    pub(super) async fn play(
        &self,
        session: &str,
        mode: &str,
        steps: &[BrainScriptStep],
    ) -> Result<StreamedTurn, CheckStopReason> {
        self.turn(session, mode, vec![play(steps)]).await
    }

    /// Sends messages and reads the stream to its end.
    pub(super) async fn turn(
        &self,
        session: &str,
        mode: &str,
        messages: Vec<Value>,
    ) -> Result<StreamedTurn, CheckStopReason> {
        let body = json!({ "messages": messages, "stream": mode });
        self.open(session, &body, &[]).await?.finish().await
    }

    /// Starts a streamed turn with this body.
    pub(super) async fn open(
        &self,
        session: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Result<TurnEventStream, CheckStopReason> {
        let path = format!("/sessions/{session}/turns");
        let (asked, response) = self.send(self.posting(&path, body, headers)).await?;
        TurnEventStream::new(asked, response).await
    }

    /// Plays a script in a turn without streaming (mode `none`).
    pub(super) async fn run_script(
        &self,
        session: &str,
        steps: &[BrainScriptStep],
    ) -> Result<UnstreamedTurnResponse, CheckStopReason> {
        self.ask(session, &json!({ "messages": [play(steps)] })).await
    }

    /// Runs a turn with this body without streaming (mode `none`).
    pub(super) async fn ask(&self, session: &str, body: &Value) -> Result<UnstreamedTurnResponse, CheckStopReason> {
        let reply = self.post_turn(session, body).await?;
        UnstreamedTurnResponse::read(reply.status(200)?)
    }

    /// Posts the body of a turn, valid or not, and returns the raw response.
    pub(super) async fn post_turn(&self, session: &str, body: &Value) -> Result<HttpReply, CheckStopReason> {
        self.post(&format!("/sessions/{session}/turns"), body).await
    }

    /// Messages of a session's history.
    pub(super) async fn history(&self, session: &str, kind: &str) -> Result<Vec<Value>, CheckStopReason> {
        let reply = self.get(&format!("/sessions/{session}/history?type={kind}")).await?;
        let body = reply.status(200)?.json()?;
        body["history"][kind].as_array().cloned().ok_or_else(|| {
            fail(format!("expected {{\"history\":{{\"{kind}\":[…]}}}}, got {}", short(&body.to_string())))
        })
    }

    /// Body of `GET /sessions/:id`.
    pub(super) async fn read_session(&self, session: &str) -> Result<Value, CheckStopReason> {
        self.get(&format!("/sessions/{session}")).await?.status(200)?.json()
    }
}

/// Response to a turn without streaming (mode `none`).
#[derive(Debug, Clone)]
pub(super) struct UnstreamedTurnResponse {
    pub(super) body: Value,
    pub(super) messages: Vec<Value>,
}

impl UnstreamedTurnResponse {
    pub(super) fn read(reply: &HttpReply) -> Result<Self, CheckStopReason> {
        let body = reply.json()?;
        let messages = body["messages"].as_array().cloned();
        match messages {
            Some(messages) if body["stopReason"].is_string() => Ok(Self { body, messages }),
            _ => Err(fail(format!(
                "{}: expected {{\"stopReason\",\"messages\"}}, got {}",
                reply.asked,
                short(&reply.text())
            ))),
        }
    }

    pub(super) fn stop(&self) -> &str {
        self.body["stopReason"].as_str().unwrap_or_default()
    }

    /// Concatenated text of the agent.
    pub(super) fn text(&self) -> String {
        let said = self.messages.iter().filter(|message| message["role"] == "assistant");
        said.map(|message| flat(&message["content"])).collect()
    }
}

/// Event stream of a turn that is being read.
pub(super) struct TurnEventStream {
    pub(super) headers: HeaderMap,
    /// Events received so far.
    pub(super) events: Vec<RawSseEvent>,
    asked: String,
    response: Response,
    decoder: SseStreamDecoder,
}

impl TurnEventStream {
    pub(super) async fn new(asked: String, response: Response) -> Result<Self, CheckStopReason> {
        if response.status() != 200 {
            HttpReply::read(asked, response).await?.status(200)?;
            return Err(fail("expected 200"));
        }
        let headers = response.headers().clone();
        let kind = header(&headers, "content-type").split(';').next().unwrap_or_default();
        equal(&format!("{asked}: content-type"), "text/event-stream", kind.trim())?;
        Ok(Self { headers, events: Vec::new(), asked, response, decoder: SseStreamDecoder::default() })
    }

    /// Reads the next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<&RawSseEvent>, CheckStopReason> {
        loop {
            let event = self.decoder.next().map_err(|wrong| fail(format!("{}: {wrong}", self.asked)))?;
            if let Some(event) = event {
                self.events.push(event);
                return Ok(self.events.last());
            }
            let chunk = self.response.chunk().await.map_err(|error| {
                fail(format!("{}: expected the stream to go on, got {}", self.asked, chain(&error)))
            })?;
            match chunk {
                Some(bytes) => self.decoder.push(&bytes),
                None => {
                    self.decoder.finish().map_err(|wrong| fail(format!("{}: {wrong}", self.asked)))?;
                    return Ok(None);
                }
            }
        }
    }

    /// Reads the stream until an event named `name`; fails if the stream ends before.
    pub(super) async fn until(&mut self, name: &str) -> Result<(), CheckStopReason> {
        while let Some(event) = self.next().await? {
            if event.name == name {
                return Ok(());
            }
        }
        Err(fail(format!("{}: expected `{name}`, got {:?}", self.asked, names(&self.events))))
    }

    /// Reads the stream to its end; returns all its events, also those read before, and the number of comments.
    pub(super) async fn rest(mut self) -> Result<(Vec<RawSseEvent>, usize), CheckStopReason> {
        while self.next().await?.is_some() {}
        Ok((self.events, self.decoder.comments))
    }

    /// Reads the stream to the end of a complete turn.
    pub(super) async fn finish(self) -> Result<StreamedTurn, CheckStopReason> {
        let (events, comments) = self.rest().await?;
        StreamedTurn::new(events, comments)
    }
}

/// Complete streamed turn: exactly one `turn_start` at the beginning and one `turn_stop` at the end.
#[derive(Debug, Clone)]
pub(super) struct StreamedTurn {
    pub(super) events: Vec<RawSseEvent>,
    pub(super) comments: usize,
}

impl StreamedTurn {
    pub(super) fn new(events: Vec<RawSseEvent>, comments: usize) -> Result<Self, CheckStopReason> {
        let turn = Self { events, comments };
        let names = turn.names();
        let once = |name| names.iter().filter(|found| **found == name).count() == 1;
        ensure(names.first() == Some(&"turn_start") && once("turn_start"), || {
            format!("expected one `turn_start`, first, got {}", short(&format!("{names:?}")))
        })?;
        ensure(names.last() == Some(&"turn_stop") && once("turn_stop"), || {
            format!("expected one `turn_stop`, last, got …{:?}", &names[names.len().saturating_sub(6)..])
        })?;
        Ok(turn)
    }

    pub(super) fn names(&self) -> Vec<&str> {
        names(&self.events)
    }

    /// Data of the `turn_stop` event.
    pub(super) fn stop_data(&self) -> Value {
        self.events.last().map_or(Value::Null, |event| Value::Object(event.data.clone()))
    }

    pub(super) fn stop(&self) -> &str {
        self.events.last().and_then(|event| event.text("stopReason")).unwrap_or_default()
    }

    /// Concatenated text of the agent.
    pub(super) fn text(&self) -> String {
        let said = self.events.iter().filter_map(|event| match event.name.as_str() {
            "text" => event.text("text"),
            "text_delta" => event.text("delta"),
            _ => None,
        });
        said.collect()
    }

    /// Tool results in the events of the turn: call id and text.
    pub(super) fn results(&self) -> Vec<(&str, String)> {
        let results = self.events.iter().filter(|event| event.name == "tool_result");
        results
            .map(|event| {
                let content = event.data.get("content").map(flat).unwrap_or_default();
                (event.text("toolCallId").unwrap_or_default(), content)
            })
            .collect()
    }

    /// Bytes of the events after the first `count`, without comments.
    pub(super) fn bytes_after(&self, count: usize) -> Vec<u8> {
        raw(&self.events[count..])
    }

    /// Messages that a client rebuilds from the events.
    pub(super) fn messages(&self) -> Vec<Value> {
        let mut messages = Vec::new();
        let mut blocks: Vec<Value> = Vec::new();
        let mut close = |blocks: &mut Vec<Value>, tool: Option<Value>| {
            if !blocks.is_empty() {
                messages.push(json!({ "role": "assistant", "content": std::mem::take(blocks) }));
            }
            messages.extend(tool);
        };
        for event in &self.events {
            let data = &event.data;
            match event.name.as_str() {
                "text_delta" => extend(&mut blocks, "text", event.text("delta").unwrap_or_default()),
                "thinking_delta" => extend(&mut blocks, "thinking", event.text("delta").unwrap_or_default()),
                "text" => blocks.push(json!({ "type": "text", "text": data["text"] })),
                "thinking" => blocks.push(json!({ "type": "thinking", "thinking": data["thinking"] })),
                "tool_call" => blocks.push(json!({
                    "type": "tool_use",
                    "toolCallId": data["toolCallId"],
                    "name": data["name"],
                    "input": data["input"],
                })),
                "tool_result" => close(
                    &mut blocks,
                    Some(json!({
                        "role": "tool",
                        "toolCallId": data["toolCallId"],
                        "content": data["content"],
                    })),
                ),
                _ => {}
            }
        }
        close(&mut blocks, None);
        messages
    }
}

/// Appends `delta` to the last block if it has this type, else adds a block.
fn extend(blocks: &mut Vec<Value>, kind: &str, delta: &str) {
    if let Some(Value::String(text)) =
        blocks.last_mut().filter(|block| block["type"] == kind).map(|block| &mut block[kind])
    {
        text.push_str(delta);
        return;
    }
    let mut block = json!({ "type": kind });
    block[kind] = delta.into();
    blocks.push(block);
}

pub(super) fn names(events: &[RawSseEvent]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Concatenated bytes of the events.
pub(super) fn raw(events: &[RawSseEvent]) -> Vec<u8> {
    events.iter().flat_map(|event| event.raw.iter().copied()).collect()
}
