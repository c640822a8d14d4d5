//! Typed lines and Ctrl-C of a chat.

use std::io::{BufRead as _, IsTerminal as _};

use anstream::println;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::screen::ChatScreen;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputEvent {
    Line(String),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The user pressed Ctrl-D, or the input file ended.
    End,
}

#[derive(Debug)]
pub(super) struct ChatInput {
    lines: mpsc::Receiver<String>,
    interrupt: Signal,
    /// Whether input comes from a terminal, which needs a prompt.
    prompts: bool,
}

impl ChatInput {
    pub(super) fn new(json: bool) -> std::io::Result<Self> {
        let (send, lines) = mpsc::channel(16);
        // A read from a terminal cannot be cancelled; on its own thread it does not delay the end of the program.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if send.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        let prompts = !json && std::io::stdin().is_terminal();
        Ok(Self { lines, interrupt: signal(SignalKind::interrupt())?, prompts })
    }

    /// Waits for a typed line.
    pub(super) async fn ask(&mut self, screen: &mut ChatScreen, prompt: &str) -> InputEvent {
        if self.prompts {
            screen.prompt(prompt);
        }
        self.next().await
    }

    /// Waits for the answer to a question. The question is printed even without a terminal.
    pub(super) async fn answer(&mut self, screen: &mut ChatScreen, question: &str) -> InputEvent {
        if self.prompts {
            screen.prompt(question);
        } else {
            screen.note(question);
        }
        self.next().await
    }

    async fn next(&mut self) -> InputEvent {
        let event = tokio::select! {
            line = self.lines.recv() => line.map_or(InputEvent::End, InputEvent::Line),
            _ = self.interrupt.recv() => InputEvent::Interrupted,
        };
        if self.prompts && !matches!(event, InputEvent::Line(_)) {
            println!();
        }
        event
    }

    pub(super) async fn interrupted(&mut self) {
        if self.interrupt.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
