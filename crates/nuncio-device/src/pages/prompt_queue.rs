//! Queue of pending prompts and their answers. An answer within half a second after the prompt was shown is rejected,
//! because the click was probably meant for something else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::opaque_debug;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use tokio::sync::{oneshot, watch};

use crate::prompt::{PermissionPrompt, PromptAnswer, PromptQuestion};

/// Time after the display of a prompt in which an answer is rejected as not deliberate.
const TOO_SOON: Duration = Duration::from_millis(500);

pub struct PromptQueue {
    clock: Arc<dyn Clock>,
    open: Mutex<BTreeMap<String, PendingPrompt>>,
    changes: watch::Sender<u64>,
}

struct PendingPrompt {
    question: PromptQuestion,
    /// Time when a page first received the prompt; before that the prompt cannot be answered.
    shown: Option<Timestamp>,
    answer: oneshot::Sender<PromptAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptAnswerRejection {
    /// The prompt expired or was answered on another device.
    Gone,
    /// The person cannot have read the prompt yet.
    TooSoon,
}

impl PromptQueue {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, open: Mutex::default(), changes: watch::Sender::new(0) }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, PendingPrompt>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Counter that changes whenever a prompt is added or removed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Pending prompts, ordered by deadline. Marks the prompts as shown.
    pub(super) fn show(&self) -> Vec<PromptQuestion> {
        let now = self.clock.now();
        let mut open = self.open();
        let mut waiting: Vec<_> = open
            .values_mut()
            .map(|open| {
                open.shown.get_or_insert(now);
                open.question.clone()
            })
            .collect();
        waiting.sort_by_key(|question| question.until);
        waiting
    }

    pub(super) fn answer(&self, id: &str, answer: PromptAnswer) -> Result<(), PromptAnswerRejection> {
        let mut open = self.open();
        let pending = open.get(id).ok_or(PromptAnswerRejection::Gone)?;
        if pending.shown.is_none_or(|shown| self.clock.now() < shown.after(TOO_SOON)) {
            return Err(PromptAnswerRejection::TooSoon);
        }
        let pending = open.remove(id).ok_or(PromptAnswerRejection::Gone)?;
        drop(open);
        self.changed();
        pending.answer.send(answer).map_err(|_| PromptAnswerRejection::Gone)
    }
}

opaque_debug!(PromptQueue);

/// Removes a prompt when its waiting caller is dropped.
struct RemovePromptOnDrop<'a>(&'a PromptQueue, &'a str);

impl Drop for RemovePromptOnDrop<'_> {
    fn drop(&mut self) {
        if self.0.open().remove(self.1).is_some() {
            self.0.changed();
        }
    }
}

#[async_trait]
impl PermissionPrompt for PromptQueue {
    async fn ask(&self, question: &PromptQuestion) -> PromptAnswer {
        let (answer, receiver) = oneshot::channel();
        let open = PendingPrompt { question: question.clone(), shown: None, answer };
        self.open().insert(question.id.clone(), open);
        let _guard = RemovePromptOnDrop(self, &question.id);
        self.changed();
        receiver.await.unwrap_or(PromptAnswer::No)
    }
}

#[cfg(test)]
mod tests;
