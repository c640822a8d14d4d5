use nuncio_testkit::ManualClock;

use super::*;
use crate::prompt::tests::question;

async fn asked(desk: &Arc<PromptQueue>, id: &str) -> tokio::task::JoinHandle<PromptAnswer> {
    let mut changes = desk.changes();
    changes.mark_unchanged();
    let (desk, question) = (Arc::clone(desk), PromptQuestion { id: id.to_owned(), ..question() });
    let waits = tokio::spawn(async move { desk.ask(&question).await });
    changes.changed().await.unwrap();
    waits
}

#[tokio::test]
async fn prompt_takes_one_answer_only_and_not_before_half_a_second_after_display() {
    let clock = ManualClock::new();
    let desk = Arc::new(PromptQueue::new(Arc::new(clock.clone())));
    let waits = asked(&desk, "one").await;
    // The prompt was not shown yet, so it cannot be answered.
    clock.advance(TOO_SOON * 2);
    assert_eq!(desk.answer("one", PromptAnswer::Yes), Err(PromptAnswerRejection::TooSoon));
    assert_eq!(desk.show().len(), 1);
    assert_eq!(desk.answer("one", PromptAnswer::Yes), Err(PromptAnswerRejection::TooSoon));
    clock.advance(TOO_SOON);
    // Showing the prompt again does not restart the half second.
    assert_eq!(desk.show().len(), 1);
    assert_eq!(desk.answer("one", PromptAnswer::Yes), Ok(()));
    assert_eq!(waits.await.unwrap(), PromptAnswer::Yes);
    assert_eq!(desk.answer("one", PromptAnswer::No), Err(PromptAnswerRejection::Gone));
    assert!(desk.show().is_empty());
}

#[tokio::test]
async fn prompt_is_removed_when_its_caller_is_dropped() {
    let desk = Arc::new(PromptQueue::new(Arc::new(ManualClock::new())));
    let (one, other) = (asked(&desk, "one").await, asked(&desk, "other").await);
    let mut changes = desk.changes();
    one.abort();
    let _ = one.await;
    changes.changed().await.unwrap();
    assert_eq!(desk.show().iter().map(|question| question.id.as_str()).collect::<Vec<_>>(), ["other"]);
    assert_eq!(desk.answer("one", PromptAnswer::Yes), Err(PromptAnswerRejection::Gone));
    other.abort();
}
