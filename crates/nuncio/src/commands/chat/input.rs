//! What the user types, and Ctrl-C.

use std::io::{BufRead as _, IsTerminal as _};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::screen::Screen;

/// What came from the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of a file.
    End,
}

/// The user's side.
#[derive(Debug)]
pub(super) struct Input {
    lines: mpsc::Receiver<String>,
    interrupt: Signal,
    /// Whether someone sits there who needs to be told when to type.
    prompts: bool,
}

impl Input {
    pub(super) fn new(json: bool) -> std::io::Result<Self> {
        let (send, lines) = mpsc::channel(16);
        // A thread of its own: a read from a terminal cannot be given up, and must not keep the
        // program from ending.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                if send.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        let prompts = !json && std::io::stdin().is_terminal();
        Ok(Self { lines, interrupt: signal(SignalKind::interrupt())?, prompts })
    }

    /// Waits for a line.
    pub(super) async fn ask(&mut self, screen: &mut Screen, prompt: &str) -> Heard {
        if self.prompts {
            screen.prompt(prompt);
        }
        self.next(screen).await
    }

    /// Waits for the answer to a question, which is worth reading also where nobody sits.
    pub(super) async fn answer(&mut self, screen: &mut Screen, question: &str) -> Heard {
        if self.prompts {
            screen.prompt(question);
        } else {
            screen.note(question);
        }
        self.next(screen).await
    }

    async fn next(&mut self, screen: &mut Screen) -> Heard {
        let heard = tokio::select! {
            line = self.lines.recv() => line.map_or(Heard::End, Heard::Line),
            _ = self.interrupt.recv() => Heard::Interrupted,
        };
        if self.prompts && !matches!(heard, Heard::Line(_)) {
            screen.line_break();
        }
        heard
    }

    /// Waits for Ctrl-C.
    pub(super) async fn interrupted(&mut self) {
        if self.interrupt.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
