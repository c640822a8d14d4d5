//! Typed lines and Ctrl-C of a chat.

use std::io::{BufRead as _, IsTerminal as _};

use anstream::println;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::screen::ChatScreen;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInputEvent {
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
    /// Whether a person types at a terminal, so that there are prompts and questions.
    pub(super) is_interactive: bool,
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
        let is_interactive = !json && std::io::stdin().is_terminal();
        Ok(Self { lines, interrupt: signal(SignalKind::interrupt())?, is_interactive })
    }

    /// Waits for a typed line.
    pub(super) async fn ask(&mut self, screen: &mut ChatScreen, prompt: &str) -> ChatInputEvent {
        if self.is_interactive {
            screen.prompt(prompt);
        }
        self.next().await
    }

    async fn next(&mut self) -> ChatInputEvent {
        let event = tokio::select! {
            line = self.lines.recv() => line.map_or(ChatInputEvent::End, ChatInputEvent::Line),
            _ = self.interrupt.recv() => ChatInputEvent::Interrupted,
        };
        if self.is_interactive && !matches!(event, ChatInputEvent::Line(_)) {
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
