//! Signed checkpoints of the audit chain, one a line in a file beside the store.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_engine::Engine;
use nuncio_engine::record::Checkpoint;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use tokio_util::sync::CancellationToken;

use crate::data::{DataDir, private};
use crate::error::StartError;

const FILE: &str = "audit-checkpoints.jsonl";
const EVERY: Duration = Duration::from_secs(60);

/// The checkpoints of a data directory, and the key that signs them.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    path: PathBuf,
    key: Ed25519KeyPair,
}

impl Checkpoints {
    pub(crate) fn open(data: &DataDir) -> Result<Self, StartError> {
        Ok(Self { path: data.path().join(FILE), key: data.audit_key()? })
    }

    pub(crate) fn public_key(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// Every checkpoint there is. A line cut short by a crash is passed over if it is the last.
    pub(crate) fn read(&self) -> Result<Vec<Checkpoint>, StartError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(&error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .enumerate()
            .map(|(index, line)| {
                serde_json::from_str(line).map_err(|error| {
                    let message = format!("{}, line {}: {error}", self.path.display(), index + 1);
                    StartError::new(Code::AuditBroken, message)
                })
            })
            .collect()
    }

    /// Adds a checkpoint if the chain has grown since the last.
    pub(crate) async fn write(&self, engine: &Engine) -> Result<(), StartError> {
        let head = engine.audit_head().await?;
        let last = self.read()?.last().map_or(0, |last| last.seq);
        if head.seq <= last {
            return Ok(());
        }
        let checkpoint = Checkpoint::sign(head, engine.now(), &self.key);
        let line = serde_json::to_string(&checkpoint).expect("a checkpoint is JSON") + "\n";
        let mut file = private().append(true).create(true).open(&self.path).map_err(|error| self.failed(&error))?;
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| self.failed(&error))
    }

    /// Writes one a minute until told to stop, and a last one then.
    pub(crate) async fn keep(&self, engine: Engine, stop: CancellationToken) {
        loop {
            let stopped = tokio::select! {
                () = engine.clock().sleep_until(engine.now().after(EVERY)) => false,
                () = stop.cancelled() => true,
            };
            if let Err(error) = self.write(&engine).await {
                tracing::error!(%error, "no audit checkpoint could be written");
            }
            if stopped {
                return;
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> StartError {
        StartError::new(Code::DataDirUnusable, format!("{}: {error}", self.path.display()))
    }
}
