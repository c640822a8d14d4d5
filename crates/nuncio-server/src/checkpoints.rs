//! Signed checkpoints of the audit chain in a file beside the store, written at start, by count, by time and at stop.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::ChainHead;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::Engine;
use nuncio_engine::record::AuditCheckpoint;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::data::{AUDIT_KEY, DataDir};
use crate::error::OperatorError;

mod file;

use file::AuditCheckpointFile;

/// Name of the file of the checkpoints in the data directory.
pub(crate) const CHECKPOINTS_FILE: &str = "audit-checkpoints.jsonl";

/// Longest time until a checkpoint covers a new audit record while the server runs.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// Number of new audit records after which a checkpoint is written before the interval ends.
const EVERY_RECORDS: u64 = 1000;

/// Number of lines of the checkpoint file at which old checkpoints are dropped.
const MAX_LINES: usize = 1024;

const KEPT_LINES: usize = 512;

/// The checkpoints of a data directory, and the key that signs them.
#[derive(Debug)]
pub(crate) struct AuditCheckpoints {
    file: AuditCheckpointFile,
    key: Ed25519KeyPair,
    /// Held while the checkpoint file is changed, or read together with the records.
    writing: Mutex<()>,
}

impl AuditCheckpoints {
    pub(crate) fn open(data: &DataDir) -> Result<Self, OperatorError> {
        Ok(Self {
            file: AuditCheckpointFile::new(data.path()),
            key: data.signing_key(AUDIT_KEY)?,
            writing: Mutex::new(()),
        })
    }

    pub(crate) fn public_key(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    pub(crate) const fn key(&self) -> &Ed25519KeyPair {
        &self.key
    }

    pub(crate) fn read(&self) -> Result<Vec<AuditCheckpoint>, OperatorError> {
        self.file.read()
    }

    /// Prevents pruning and new checkpoints while the guard is held, so that records and checkpoints match when they
    /// are read.
    pub(crate) async fn hold(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    /// Logs checkpoints or records that are missing at a start; `head` is the end of the chain before this process adds
    /// records. A server with a damaged audit chain starts nevertheless: `nuncio audit verify` names the position.
    pub(crate) fn report_missing(&self, head: ChainHead) {
        match self.read() {
            Ok(checkpoints) => match checkpoints.iter().max_by_key(|checkpoint| checkpoint.seq) {
                None if head.seq > 0 => tracing::warn!(
                    records = head.seq,
                    "the audit chain has no checkpoint: records removed from its end before this start cannot be \
                     detected"
                ),
                Some(last) if last.seq > head.seq => tracing::error!(
                    records = head.seq,
                    seen = last.seq,
                    "records are missing at the end of the audit chain; see `nuncio audit verify`"
                ),
                _ => {}
            },
            Err(error) => tracing::error!(%error, "the audit checkpoints cannot be read; see `nuncio audit verify`"),
        }
    }

    /// Writes the first checkpoint of a start.
    pub(crate) async fn begin(&self, engine: &Engine) {
        if let Err(error) = self.write(engine).await {
            tracing::error!(%error, "no audit checkpoint could be written");
        }
    }

    /// Adds a checkpoint if the chain has grown since the last one, and drops old lines of a long file. Returns the
    /// number of the last audit record.
    async fn write(&self, engine: &Engine) -> Result<u64, OperatorError> {
        let _writing = self.writing.lock().await;
        let head = engine.records().audit_head().await?;
        // Unreadable checkpoints are reported by `audit verify`; they must not prevent new ones.
        let mut checkpoints = self.read().unwrap_or_default();
        if head.seq <= checkpoints.iter().map(|checkpoint| checkpoint.seq).max().unwrap_or(0) {
            return Ok(head.seq);
        }
        let checkpoint = AuditCheckpoint::sign(head, engine.now(), &self.key);
        self.file.append(&checkpoint)?;
        checkpoints.push(checkpoint);
        if checkpoints.len() >= MAX_LINES {
            self.drop_old(engine, &checkpoints).await?;
        }
        Ok(head.seq)
    }

    /// Drops the oldest checkpoints, since later ones cover the same records. If an old checkpoint contradicts the
    /// chain, all stay as evidence.
    async fn drop_old(&self, engine: &Engine, checkpoints: &[AuditCheckpoint]) -> Result<(), OperatorError> {
        let (old, recent) = checkpoints.split_at(checkpoints.len() - KEPT_LINES);
        let pruned = checkpoints.iter().rfind(|checkpoint| checkpoint.pruned);
        let is_kept = |checkpoint: &&AuditCheckpoint| pruned.is_none_or(|pruned| checkpoint.seq > pruned.seq);
        for checkpoint in old.iter().filter(is_kept) {
            let link = engine.records().audit_links(checkpoint.seq - 1, 1).await?.pop();
            let agrees = link.is_some_and(|link| link.seq == checkpoint.seq && link.hash == checkpoint.hash);
            if !agrees || !checkpoint.is_signed_by(self.public_key()) {
                tracing::error!(record = checkpoint.seq, "a checkpoint does not match the audit chain");
                return Ok(());
            }
        }
        let old_pruned = pruned.filter(|pruned| !recent.contains(pruned));
        self.file.replace(&old_pruned.into_iter().chain(recent).cloned().collect::<Vec<_>>())
    }

    /// Deletes the audit records that ended before a time, from the oldest on, and returns their number. The remaining
    /// records stay verifiable by a signed line with the number of the last deleted record. A broken chain is an error,
    /// and nothing is deleted.
    pub(crate) async fn prune(&self, engine: &Engine, before: Timestamp, by: Principal) -> Result<u64, OperatorError> {
        let _writing = self.writing.lock().await;
        let checkpoints = self.read()?;
        if let Err(broken) = engine.records().verify_audit(&checkpoints, self.public_key()).await? {
            let message = format!("the audit chain is broken, so nothing was pruned: {broken}");
            return Err(OperatorError::new(ErrorCode::AuditBroken, message));
        }
        let Some(through) = engine.records().last_audit_before(before).await? else { return Ok(0) };
        let pruned = AuditCheckpoint::sign_pruned(through, engine.now(), &self.key);
        self.file.append(&pruned)?;
        let count = engine.records().prune_audit(through.seq, before, by).await?;
        let mut remaining = vec![pruned];
        remaining
            .extend(checkpoints.into_iter().filter(|checkpoint| checkpoint.seq > through.seq && !checkpoint.pruned));
        remaining.push(AuditCheckpoint::sign(engine.records().audit_head().await?, engine.now(), &self.key));
        self.file.replace(&remaining)?;
        Ok(count)
    }

    /// Writes checkpoints by count and by time until `stop`, and a last one at the end.
    pub(crate) async fn run_periodically(&self, engine: Engine, stop: CancellationToken) {
        let mut growth = engine.records().audit_growth();
        let mut next = growth.borrow().saturating_add(EVERY_RECORDS);
        loop {
            let stopped = tokio::select! {
                () = engine.clock().sleep_until(engine.now().after(CHECKPOINT_INTERVAL)) => false,
                Ok(_) = growth.wait_for(|seq| *seq >= next) => false,
                () = stop.cancelled() => true,
            };
            match self.write(&engine).await {
                Ok(seq) => next = seq.saturating_add(EVERY_RECORDS),
                Err(error) => {
                    tracing::error!(%error, "no audit checkpoint could be written");
                    // On a full disk the next try is after the interval, not after the next record.
                    next = u64::MAX;
                }
            }
            if stopped {
                return;
            }
        }
    }
}
