//! Finds panics of background tasks, which the runtime catches, so that a test fails that did not notice them.

use std::panic::{set_hook, take_hook};
use std::sync::{Mutex, Once, PoisonError};

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Fails the test when it is dropped if anything but a test's own code panicked since the process started. A test that
/// fails already is left alone. Each test needs a process of its own, as `cargo nextest` gives it.
#[derive(Debug)]
pub(crate) struct BackgroundPanicCheck(());

impl BackgroundPanicCheck {
    pub(crate) fn new() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = take_hook();
            set_hook(Box::new(move |panic| {
                // A peer that a test only imitates may end by a panic when the server closes the connection.
                if !panic.location().is_some_and(|at| at.file().contains("tests/")) {
                    PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
                }
                usual(panic);
            }));
        });
        Self(())
    }
}

impl Drop for BackgroundPanicCheck {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let panics = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
            assert!(panics.is_empty(), "a background task panicked: {panics:#?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[tokio::test]
    async fn check_fails_exactly_if_a_task_panicked() {
        drop(BackgroundPanicCheck::new());
        let check = BackgroundPanicCheck::new();
        tokio::spawn(async { panic!("the task's own reason") }).await.unwrap_err();
        let failed = catch_unwind(AssertUnwindSafe(|| drop(check))).unwrap_err();
        let message = failed.downcast::<String>().unwrap();
        assert!(message.contains("the task's own reason"), "{message}");
    }
}
