//! Verification of the whole audit record: each chain, then the checkpoints and rounds that name the chains.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nuncio_core::audit::{
    AuditChainBreak, AuditChainHead, AuditChainId, AuditChainVerifier, BrokenAuditChain, ChainHead, StoredAuditLink,
};
use nuncio_core::digest::Digest;

use super::{AuditChainService, AuditCheckpoint, AuditPublicKeys, RECORDS_PER_READ, redaction, round};
use crate::error::EngineError;
use crate::ports::store::RedactedLedgerEntry;

/// Result of a successful verification of the audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditVerificationResult {
    /// Head of the main chain.
    pub head: ChainHead,
    pub records: u64,
    pub pruned: u64,
    pub chains: usize,
    /// Number of checkpoints that were compared with the chains.
    pub checkpoints: usize,
    /// Number of rounds that were verified.
    pub rounds: usize,
}

/// Rounds found in the chains so far.
#[derive(Default)]
struct FoundRounds {
    count: usize,
    /// Heads named by the last round of each chain that holds rounds.
    last: BTreeMap<AuditChainId, Vec<AuditChainHead>>,
}

/// A verified chain: the part that is stored.
struct VerifiedChain {
    start: ChainHead,
    end: ChainHead,
}

type Verdict<T> = Result<T, BrokenAuditChain>;

impl AuditChainService {
    /// Verifies all chains and compares them with checkpoints and rounds; the inner error names the first fault.
    pub async fn verify_audit(
        &self,
        checkpoints: &[AuditCheckpoint],
        keys: &AuditPublicKeys,
    ) -> Result<Verdict<AuditVerificationResult>, EngineError> {
        if let Some(forged) = checkpoints.iter().find(|checkpoint| !checkpoint.is_signed_by(keys)) {
            return Ok(Err(broken(forged.chain, AuditChainBreak::Unsigned { seq: forged.seq })));
        }
        let stored = self.store.audit_heads().await?;
        let stored = stored.iter().map(|head| head.chain);
        let named: BTreeSet<_> = checkpoints.iter().map(|checkpoint| checkpoint.chain).chain(stored).collect();
        let (mut chains, mut rounds) = (BTreeMap::new(), FoundRounds::default());
        for chain in named {
            match self.verify_chain(chain, checkpoints, keys, &mut rounds).await? {
                Ok(verified) => chains.insert(chain, verified),
                Err(broken) => return Ok(Err(broken)),
            };
        }
        for named in rounds.last.values().flatten() {
            if let Err(broken) = self.verify_named_head(*named, &chains).await? {
                return Ok(Err(broken));
            }
        }
        let erased = self.store.erased_ledger(None).await?;
        if let Some(RedactedLedgerEntry { relation, seq, .. }) = redaction::first_broken(&erased, keys) {
            let fault = AuditChainBreak::Erased { relation: relation.clone(), seq: *seq };
            return Ok(Err(broken(AuditChainId::MAIN, fault)));
        }
        Ok(Ok(AuditVerificationResult {
            head: chains.get(&AuditChainId::MAIN).map_or(ChainHead::START, |chain| chain.end),
            records: chains.values().map(|chain| chain.end.seq - chain.start.seq).sum(),
            pruned: chains.values().map(|chain| chain.start.seq).sum(),
            chains: chains.len(),
            checkpoints: checkpoints.len(),
            rounds: rounds.count,
        }))
    }

    async fn verify_chain(
        &self,
        chain: AuditChainId,
        checkpoints: &[AuditCheckpoint],
        keys: &AuditPublicKeys,
        rounds: &mut FoundRounds,
    ) -> Result<Verdict<VerifiedChain>, EngineError> {
        let of_chain = || checkpoints.iter().filter(|checkpoint| checkpoint.chain == chain);
        let seen: HashMap<u64, Digest> = of_chain().map(|checkpoint| (checkpoint.seq, checkpoint.hash)).collect();
        let first = self.store.audit_chain_links(chain, 0, 1).await?.pop();
        let pruned = of_chain().filter(|checkpoint| checkpoint.pruned).max_by_key(|checkpoint| checkpoint.seq);
        let start = match chain_start(chain, first.as_ref(), pruned) {
            Ok(start) => start,
            Err(fault) => return Ok(Err(broken(chain, fault))),
        };
        let (mut verifier, mut number) = (AuditChainVerifier::after(start), 0);
        loop {
            let links = self.store.audit_chain_links(chain, number, RECORDS_PER_READ).await?;
            let Some(last) = links.last() else { break };
            number = last.number;
            for StoredAuditLink { link, .. } in &links {
                let taken = match &link.redaction {
                    Some(redaction) => {
                        redaction::check_link(link, redaction, keys).and_then(|()| verifier.take_redacted(link))
                    }
                    None => verifier.take(link),
                };
                let checked = taken.and_then(|()| match seen.get(&link.seq) {
                    Some(hash) if *hash != link.hash => Err(AuditChainBreak::Replaced { seq: link.seq }),
                    _ => rounds.take(chain, link.seq, &link.record, keys),
                });
                if let Err(fault) = checked {
                    return Ok(Err(broken(chain, fault)));
                }
            }
        }
        let end = verifier.head();
        Ok(match seen.into_keys().max().filter(|seen| *seen > end.seq) {
            Some(seen) => Err(broken(chain, AuditChainBreak::Cut { found: end.seq, seen })),
            None => Ok(VerifiedChain { start, end }),
        })
    }

    /// Compares a head that a round names with its chain. Earlier rounds need not be compared, because each head covers
    /// all links before it.
    async fn verify_named_head(
        &self,
        AuditChainHead { chain, head }: AuditChainHead,
        chains: &BTreeMap<AuditChainId, VerifiedChain>,
    ) -> Result<Verdict<()>, EngineError> {
        let none = VerifiedChain { start: chain.start(), end: chain.start() };
        let VerifiedChain { start, end } = chains.get(&chain).unwrap_or(&none);
        if head.seq > end.seq {
            return Ok(Err(broken(chain, AuditChainBreak::Cut { found: end.seq, seen: head.seq })));
        }
        // Of a pruned link nothing is left to compare.
        if head.seq <= start.seq {
            return Ok(Ok(()));
        }
        let link = self.store.audit_link(chain, head.seq).await?;
        Ok(match link {
            Some(stored) if stored.link.hash == head.hash => Ok(()),
            _ => Err(broken(chain, AuditChainBreak::Replaced { seq: head.seq })),
        })
    }
}

impl FoundRounds {
    /// Checks a record if it is a round: a node of this store has signed it, and no head is lower than in the last one.
    fn take(
        &mut self,
        holder: AuditChainId,
        seq: u64,
        record: &str,
        keys: &AuditPublicKeys,
    ) -> Result<(), AuditChainBreak> {
        let Some(round) = round::parse_round(record) else { return Ok(()) };
        let earlier = self.last.get(&holder).map(Vec::as_slice).unwrap_or_default();
        let grows = earlier.iter().all(|earlier| {
            let now = round.heads.iter().find(|head| head.chain == earlier.chain);
            now.is_some_and(|now| now.head.seq >= earlier.head.seq)
        });
        if !grows || !round::is_signed(&round, keys) {
            return Err(AuditChainBreak::Round { seq });
        }
        self.count += 1;
        self.last.insert(holder, round.heads);
        Ok(())
    }
}

fn broken(chain: AuditChainId, fault: AuditChainBreak) -> BrokenAuditChain {
    BrokenAuditChain { chain, fault }
}

/// Head after which the chain begins: the start, or the last pruned record. An interrupted pruning may leave some
/// records before the signed one.
fn chain_start(
    chain: AuditChainId,
    first: Option<&StoredAuditLink>,
    pruned: Option<&AuditCheckpoint>,
) -> Result<ChainHead, AuditChainBreak> {
    let first = match first {
        Some(stored) if stored.link.seq > 1 => &stored.link,
        Some(_) => return Ok(chain.start()),
        None => return Ok(chain.start()),
    };
    match pruned {
        Some(pruned) if first.seq == pruned.seq + 1 && first.previous != pruned.hash => {
            Err(AuditChainBreak::Detached { seq: first.seq })
        }
        Some(pruned) if first.seq <= pruned.seq + 1 => Ok(ChainHead { seq: first.seq - 1, hash: first.previous }),
        _ => Err(AuditChainBreak::Gap { expected: pruned.map_or(1, |pruned| pruned.seq + 1), found: first.seq }),
    }
}
