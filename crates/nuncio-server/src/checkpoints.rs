//! Signed checkpoints of the audit chains in a file of the data directory, written at start, by count, by time and at
//! stop; and rounds, which sign the heads of all chains within the audit record.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::ErrorCode;
use nuncio_core::audit::{AuditChainHead, AuditChainId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::Engine;
use nuncio_engine::record::{AuditCheckpoint, AuditPublicKeys, AuditRound};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::data::{AUDIT_KEY, DataDir};
use crate::error::OperatorError;
use crate::keyring::{AUDIT_KEYS, ServerKeyring};

mod file;

use file::AuditCheckpointFile;

/// Name of the file of the checkpoints in the data directory.
pub(crate) const CHECKPOINTS_FILE: &str = "audit-checkpoints.jsonl";

/// Longest time until a checkpoint covers a new audit record while the server runs.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// Shortest time between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(60);

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
    keyring: ServerKeyring,
    /// The last round of this process. Held while the checkpoint file is changed, or read together with the records.
    last_round: Mutex<AuditRound>,
}

impl AuditCheckpoints {
    /// Opens the checkpoints, and stores the public key of this data directory for other nodes.
    pub(crate) async fn open(data: &DataDir, keyring: ServerKeyring) -> Result<Self, OperatorError> {
        let key = data.signing_key(AUDIT_KEY)?;
        let public_key = STANDARD.encode(key.public_key());
        keyring.read_or_create(&format!("{AUDIT_KEYS}{public_key}"), || public_key.clone()).await?;
        let file = AuditCheckpointFile::new(data.path());
        Ok(Self { file, key, keyring, last_round: Mutex::default() })
    }

    /// Public keys of all data directories that the store was used with. The secret key protects them.
    pub(crate) async fn public_keys(&self) -> Result<AuditPublicKeys, OperatorError> {
        let entries = self.keyring.all().await?;
        let audit_keys = entries.into_iter().filter(|(name, _)| name.starts_with(AUDIT_KEYS));
        let other = audit_keys.filter_map(|(_, key)| STANDARD.decode(key.content).ok());
        Ok(AuditPublicKeys(other.collect()))
    }

    pub(crate) const fn key(&self) -> &Ed25519KeyPair {
        &self.key
    }

    pub(crate) fn read(&self) -> Result<Vec<AuditCheckpoint>, OperatorError> {
        self.file.read()
    }

    /// Prevents pruning and new checkpoints while the guard is held, so that records and checkpoints match when they
    /// are read.
    pub(crate) async fn hold(&self) -> MutexGuard<'_, AuditRound> {
        self.last_round.lock().await
    }

    /// Logs checkpoints or records that are missing at a start; `heads` are the ends of the chains before this process
    /// adds records. A server with a damaged audit chain starts nevertheless: `nuncio audit verify` names the position.
    pub(crate) fn report_missing(&self, heads: &[AuditChainHead]) {
        let checkpoints = match self.read() {
            Ok(checkpoints) => checkpoints,
            Err(error) => {
                tracing::error!(%error, "the audit checkpoints cannot be read; see `nuncio audit verify`");
                return;
            }
        };
        if checkpoints.is_empty() && !heads.is_empty() {
            tracing::warn!(
                records = heads.iter().map(|head| head.head.seq).sum::<u64>(),
                "the audit record has no checkpoint: records removed from its end before this start cannot be detected"
            );
        }
        for (chain, seen) in last_seen(&checkpoints) {
            let records = heads.iter().find(|head| head.chain == chain).map_or(0, |head| head.head.seq);
            if seen > records {
                tracing::error!(
                    %chain,
                    records,
                    seen,
                    "records are missing at the end of an audit chain; see `nuncio audit verify`"
                );
            }
        }
    }

    /// Writes the first checkpoint of a start.
    pub(crate) async fn begin(&self, engine: &Engine) {
        if let Err(error) = self.write(engine, false).await {
            tracing::error!(%error, "no audit checkpoint could be written");
        }
    }

    /// Adds a round, if there are several chains, and a checkpoint for each chain that has grown since its last one.
    /// Drops old lines of a long file.
    async fn write(&self, engine: &Engine, is_last: bool) -> Result<(), OperatorError> {
        let mut last_round = self.last_round.lock().await;
        if is_last || last_round.at.is_none_or(|at| at.after(ROUND_INTERVAL) <= engine.now()) {
            engine.records().add_round(&mut last_round, &self.key).await?;
        }
        // Unreadable checkpoints are reported by `audit verify`; they must not prevent new ones.
        let mut checkpoints = self.read().unwrap_or_default();
        let seen = last_seen(&checkpoints);
        for head in engine.records().audit_heads().await? {
            if seen.get(&head.chain).is_none_or(|seen| head.head.seq > *seen) {
                let checkpoint = AuditCheckpoint::sign(head, engine.now(), &self.key);
                self.file.append(&checkpoint)?;
                checkpoints.push(checkpoint);
            }
        }
        if checkpoints.len() >= MAX_LINES {
            self.drop_old(engine, &checkpoints).await?;
        }
        Ok(())
    }

    /// Drops the oldest checkpoints, since later ones cover the same records. If an old checkpoint contradicts the
    /// chain, all stay as evidence.
    async fn drop_old(&self, engine: &Engine, checkpoints: &[AuditCheckpoint]) -> Result<(), OperatorError> {
        let keys = self.public_keys().await?;
        let (old, recent) = checkpoints.split_at(checkpoints.len() - KEPT_LINES);
        let mut pruned: BTreeMap<AuditChainId, &AuditCheckpoint> = BTreeMap::new();
        pruned.extend(checkpoints.iter().filter(|it| it.pruned).map(|it| (it.chain, it)));
        let is_stored =
            |it: &&AuditCheckpoint| pruned.get(&it.chain).is_none_or(|pruned| it.seq > pruned.seq) && !it.pruned;
        for checkpoint in old.iter().filter(is_stored) {
            let stored = engine.records().audit_link_hash(checkpoint.chain, checkpoint.seq).await?;
            if stored != Some(checkpoint.hash) || !checkpoint.is_signed_by(&keys) {
                tracing::error!(record = checkpoint.seq, "a checkpoint does not match the audit chain");
                return Ok(());
            }
        }
        // The last checkpoint of a chain that does not grow any more stays.
        let last = last_seen(old).into_iter().filter(|(chain, _)| recent.iter().all(|it| it.chain != *chain));
        let last: Vec<_> = last.collect();
        let is_kept = |it: &&AuditCheckpoint| {
            pruned.get(&it.chain).is_some_and(|pruned| pruned == it) || last.contains(&(it.chain, it.seq))
        };
        self.file.replace(&old.iter().filter(is_kept).chain(recent).cloned().collect::<Vec<_>>())
    }

    /// Deletes the audit records that ended before a time, from the oldest on, and returns their number. The remaining
    /// records stay verifiable by a signed line with the number of the last deleted record. A broken chain is an error,
    /// and nothing is deleted.
    pub(crate) async fn prune(&self, engine: &Engine, before: Timestamp, by: Principal) -> Result<u64, OperatorError> {
        let _writing = self.last_round.lock().await;
        let checkpoints = self.read()?;
        if let Err(broken) = engine.records().verify_audit(&checkpoints, &self.public_keys().await?).await? {
            let message = format!("the audit chain is broken, so nothing was pruned: {broken}");
            return Err(OperatorError::new(ErrorCode::AuditBroken, message));
        }
        let through = engine.records().last_audit_before(before).await?;
        if through.is_empty() {
            return Ok(0);
        }
        let sign = |head: &AuditChainHead| AuditCheckpoint::sign_pruned(*head, engine.now(), &self.key);
        let mut remaining: Vec<_> = through.iter().map(sign).collect();
        remaining.iter().try_for_each(|pruned| self.file.append(pruned))?;
        let count = engine.records().prune_audit(&through, before, by).await?;
        remaining.extend(checkpoints.into_iter().filter(|checkpoint| {
            let pruned = through.iter().find(|pruned| pruned.chain == checkpoint.chain);
            pruned.is_none_or(|pruned| checkpoint.seq > pruned.head.seq && !checkpoint.pruned)
        }));
        let heads = engine.records().audit_heads().await?;
        remaining.extend(heads.into_iter().map(|head| AuditCheckpoint::sign(head, engine.now(), &self.key)));
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
            match self.write(&engine, stopped).await {
                Ok(()) => next = growth.borrow().saturating_add(EVERY_RECORDS),
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

/// Number of the last link of each chain that a checkpoint covers.
fn last_seen(checkpoints: &[AuditCheckpoint]) -> BTreeMap<AuditChainId, u64> {
    checkpoints.iter().fold(BTreeMap::new(), |mut seen, checkpoint| {
        let last = seen.entry(checkpoint.chain).or_default();
        *last = checkpoint.seq.max(*last);
        seen
    })
}
