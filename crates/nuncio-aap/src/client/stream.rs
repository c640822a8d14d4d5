//! Events of a turn, from an event stream or from a complete response.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use nuncio_core::message::{Block, Content, Message};
use nuncio_http::sse::{SseDecoder, SseEvent, SseLimits};
use serde_json::Value;

use super::error::ClientError;
use super::event::{TurnEvent, TurnStop};
use super::tolerant;

/// Turn event with the id from which the stream can be resumed.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumableEvent {
    pub event: TurnEvent,
    /// Latest event id that the server sent, if any.
    pub id: Option<Arc<str>>,
}

/// Events of a turn. The stream ends with the connection, with or without `turn_stop`.
pub struct TurnStream {
    body: Option<(BoxStream<'static, reqwest::Result<Bytes>>, SseDecoder)>,
    ready: VecDeque<Result<ResumableEvent, ClientError>>,
}

impl TurnStream {
    pub(super) fn of_events(response: reqwest::Response) -> Self {
        let decoder = SseDecoder::new(SseLimits::default());
        Self { body: Some((response.bytes_stream().boxed(), decoder)), ready: VecDeque::new() }
    }

    /// Converts a response of mode `none` to the events of a stream.
    pub(super) fn of_answer(mut answer: Value) -> Self {
        let messages = match answer.get_mut("messages").map(Value::take) {
            Some(Value::Array(messages)) => tolerant::messages(messages),
            _ => Vec::new(),
        };
        let stop = TurnStop::read(&answer).map(TurnEvent::TurnStop);
        if stop.is_none() && messages.is_empty() {
            let fault = ClientError::NotAap(format!("it answered a turn with {}", shortened(&answer)));
            return Self { body: None, ready: VecDeque::from([Err(fault)]) };
        }
        let events = std::iter::once(TurnEvent::TurnStart).chain(messages.into_iter().flat_map(events)).chain(stop);
        Self { body: None, ready: events.map(|event| Ok(ResumableEvent { event, id: None })).collect() }
    }

    fn push_chunk(&mut self, chunk: &Option<reqwest::Result<Bytes>>) {
        let Some((_, decoder)) = &mut self.body else { return };
        let fault = match chunk {
            Some(Ok(bytes)) => decoder.feed(bytes).err().map(|error| ClientError::TooLarge(error.to_string())),
            Some(Err(error)) => Some(ClientError::broken(error)),
            None => None,
        };
        let over = !matches!(chunk, Some(Ok(_))) || fault.is_some();
        self.ready.extend(std::iter::from_fn(|| decoder.next_event()).map(|event| Ok(resumable(&event))));
        if over && let Some((_, decoder)) = self.body.take() {
            // The last event may lack its blank line; it counts as complete if its data can be parsed.
            let last = decoder.finish().map(|event| resumable(&event));
            self.ready.extend(last.filter(|resumable| !matches!(resumable.event, TurnEvent::Unknown { .. })).map(Ok));
        }
        self.ready.extend(fault.map(Err));
    }
}

impl Stream for TurnStream {
    type Item = Result<ResumableEvent, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            let Some((body, _)) = &mut self.body else { return Poll::Ready(None) };
            let chunk = ready!(body.poll_next_unpin(context));
            self.push_chunk(&chunk);
        }
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("open", &self.body.is_some()).finish_non_exhaustive()
    }
}

fn resumable(event: &SseEvent) -> ResumableEvent {
    ResumableEvent { event: TurnEvent::read(&event.event, &event.data), id: event.id.clone() }
}

/// Stream events that describe the content of a complete message.
fn events(message: Message) -> Vec<TurnEvent> {
    match message {
        Message::Assistant { content: Content::Text(text), .. } => vec![TurnEvent::Text(text)],
        Message::Assistant { content: Content::Blocks(blocks), .. } => {
            let event = |block| match block {
                Block::Text { text, .. } => Some(TurnEvent::Text(text)),
                Block::Thinking { thinking, .. } => Some(TurnEvent::Thinking(thinking)),
                Block::ToolUse { call, .. } => Some(TurnEvent::ToolCall(call)),
                Block::Image { .. } => None,
            };
            blocks.into_iter().filter_map(event).collect()
        }
        Message::Tool { tool_call_id: call, content, .. } => vec![TurnEvent::ToolResult { call, content }],
        Message::System { .. } | Message::User { .. } => Vec::new(),
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
