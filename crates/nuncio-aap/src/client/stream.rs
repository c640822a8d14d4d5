//! A turn as it is told: from a stream of events, or from an answer that came all at once.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use nuncio_core::message::{Block, Content, Message};
use nuncio_core::sse::{SseDecoder, SseEvent, SseLimits};
use serde_json::Value;

use super::error::ClientError;
use super::event::{TurnEvent, TurnStop};
use super::tolerant;

/// An event, and the id behind which the stream can be continued.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// What happened.
    pub event: TurnEvent,
    /// The last id the stream has given, if it gives any.
    pub id: Option<Arc<str>>,
}

/// The events of a turn. It ends with the connection, whether or not `turn_stop` has come.
pub struct TurnStream {
    body: Option<(BoxStream<'static, reqwest::Result<Bytes>>, SseDecoder)>,
    ready: VecDeque<Result<Told, ClientError>>,
}

impl TurnStream {
    pub(super) fn of_events(response: reqwest::Response) -> Self {
        let decoder = SseDecoder::new(SseLimits::default());
        Self { body: Some((response.bytes_stream().boxed(), decoder)), ready: VecDeque::new() }
    }

    /// An answer of mode `none`, as if its messages had been streamed.
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
        Self { body: None, ready: events.map(|event| Ok(Told { event, id: None })).collect() }
    }

    fn take_in(&mut self, chunk: &Option<reqwest::Result<Bytes>>) {
        let Some((_, decoder)) = &mut self.body else { return };
        let fault = match chunk {
            Some(Ok(bytes)) => decoder.feed(bytes).err().map(|error| ClientError::TooLarge(error.to_string())),
            Some(Err(error)) => Some(ClientError::broken(error)),
            None => None,
        };
        let over = !matches!(chunk, Some(Ok(_))) || fault.is_some();
        self.ready.extend(std::iter::from_fn(|| decoder.next_event()).map(|event| Ok(told(&event))));
        if over && let Some((_, decoder)) = self.body.take() {
            // The last event may lack only its blank line: its data tells whether it is whole.
            let last = decoder.finish().map(|event| told(&event));
            self.ready.extend(last.filter(|told| !matches!(told.event, TurnEvent::Unknown { .. })).map(Ok));
        }
        self.ready.extend(fault.map(Err));
    }
}

impl Stream for TurnStream {
    type Item = Result<Told, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            let Some((body, _)) = &mut self.body else { return Poll::Ready(None) };
            let chunk = ready!(body.poll_next_unpin(context));
            self.take_in(&chunk);
        }
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("open", &self.body.is_some()).finish_non_exhaustive()
    }
}

fn told(event: &SseEvent) -> Told {
    Told { event: TurnEvent::read(&event.event, &event.data), id: event.id.clone() }
}

/// A message as the events that would have told it.
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
