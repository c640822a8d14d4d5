use std::collections::{HashMap, HashSet};
use std::time::Duration;

use nuncio_core::agent::SkillAccess;
use nuncio_core::backoff::Backoff;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::crawl::STALE_AFTER;
use nuncio_engine::follow::FollowedDomain;
use url::Url;

use super::FollowedDomainTargets;
use super::read::{ConditionalFetchResult, DomainDocumentReader, FetchFailure, FetchFailureKind};
use super::snapshot::{DescriptorState, DescriptorSummary, DomainSnapshot, SnapshotIndexPage, SnapshotSkill};
use crate::client::{display_url, next_page, plain};
use crate::wire::{SkillDescriptor, SkillIndex, WELL_KNOWN};

/// Limit on listed skills of one domain.
const MAX_SKILLS: usize = 10_000;
/// Limit on index pages of one domain.
const MAX_PAGES: usize = 200;
/// Limit on the bytes of one domain's index.
const MAX_BYTES: usize = 16 << 20;
/// Time limit of a visit to one domain.
const VISIT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Upper bound of the pause between visits after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);
/// Number of consecutive failed descriptors after which a visit leaves the rest to the next visit.
const ENOUGH_FAILURES: u32 = 3;
/// Interval at which a visit saves its progress.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct DomainVisit<'a> {
    crawler: &'a FollowedDomainTargets,
    reader: DomainDocumentReader<'a>,
    followed: FollowedDomain,
    old: DomainSnapshot,
    began: Timestamp,
}

/// Skill index as fetched in the current visit.
struct FetchedIndex {
    snapshot: DomainSnapshot,
    /// Warning about the fetched index, shown to the operator.
    note: Option<String>,
}

/// Reason why descriptors were left to the next visit.
#[derive(Default)]
struct DescriptorSkipReason {
    why: Option<String>,
    retry_after: Option<Duration>,
}

impl<'a> DomainVisit<'a> {
    pub(super) fn new(crawler: &'a FollowedDomainTargets, followed: FollowedDomain, old: DomainSnapshot) -> Self {
        let clock = &**crawler.engine.clock();
        let reader = DomainDocumentReader::new(followed.domain.clone(), &*crawler.fetch, clock);
        Self { crawler, reader, followed, old, began: clock.now() }
    }

    /// Fetches, stores and lists the skills of the domain.
    pub(super) async fn go(mut self) -> Result<(), EngineError> {
        match self.index().await {
            Ok(index) => self.succeed(index).await,
            Err(failure) => self.fail(failure).await,
        }
    }

    async fn succeed(mut self, index: FetchedIndex) -> Result<(), EngineError> {
        let FetchedIndex { mut snapshot, note } = index;
        self.followed.last_seen = Some(self.began);
        self.followed.failures = 0;
        let Some(leftover) = self.descriptors(&mut snapshot).await? else { return Ok(()) };
        let interval = self.crawler.interval;
        let pause =
            leftover.retry_after.map_or(interval, |requested| requested.clamp(interval, LONGEST_PAUSE.max(interval)));
        self.followed.next_visit = self.reader.now().after(pause);
        self.followed.problem = leftover.why.or(note).or_else(|| unlisted(&snapshot));
        self.store(&snapshot).await.map(drop)
    }

    /// Records a failed visit. Listed skills stay until they are stale or the host says that the index is gone.
    async fn fail(mut self, failure: FetchFailure) -> Result<(), EngineError> {
        tracing::debug!(domain = %self.followed.domain, why = failure.why, "a visit of a followed domain failed");
        self.followed.failures = self.followed.failures.saturating_add(1);
        let interval = self.crawler.interval;
        let backoff = Backoff::doubling(interval.saturating_mul(2), LONGEST_PAUSE.max(interval));
        let requested = failure.retry_after.unwrap_or_default();
        let pause = backoff.after(self.followed.failures).max(requested).min(backoff.max);
        let now = self.reader.now();
        self.followed.next_visit = now.after(pause);
        self.followed.problem = Some(failure.why);
        let is_stale = self.followed.last_seen.is_some_and(|seen| seen.after(STALE_AFTER) <= now);
        let snapshot = match failure.kind {
            FetchFailureKind::Gone => DomainSnapshot::default(),
            _ if is_stale => DomainSnapshot::default(),
            _ => self.old.clone(),
        };
        self.store(&snapshot).await.map(drop)
    }

    /// Stores the snapshot and lists its skills; `false` if the domain is no longer followed.
    async fn store(&mut self, snapshot: &DomainSnapshot) -> Result<bool, EngineError> {
        self.followed.listed = snapshot.listed();
        let offers = (*snapshot != self.old).then(|| snapshot.write());
        let _order = self.crawler.listing_lock.lock().await;
        if !self.crawler.engine.directory().record_visit(self.followed.clone(), offers).await? {
            self.crawler.catalogue.remove(self.followed.domain.as_str());
            return Ok(false);
        }
        self.old.clone_from(snapshot);
        if let Some(last_seen) = self.followed.last_seen {
            self.crawler.catalogue.put(self.followed.domain.as_str(), snapshot.host_skills(last_seen));
        }
        Ok(true)
    }

    /// Fetches all pages of the index with conditional requests.
    async fn index(&mut self) -> Result<FetchedIndex, FetchFailure> {
        let mut old_skills: HashMap<&str, &SnapshotSkill> =
            self.old.skills.iter().map(|skill| (skill.entry.id.as_str(), skill)).collect();
        let mut first = self.followed.domain.url().clone();
        first.set_path(WELL_KNOWN);
        let (mut snapshot, mut note, mut ids, mut bytes) = (DomainSnapshot::default(), None, HashSet::new(), 0);
        let mut next = Some(first.clone());
        while let Some(url) = next {
            if url.origin() != first.origin() {
                return Err(FetchFailure::unusable(format!(
                    "the next page of the index is {}, which is on another host",
                    display_url(&url)
                )));
            }
            if snapshot.pages.len() == MAX_PAGES || snapshot.pages.iter().any(|page| page.url == url) {
                return Err(FetchFailure::unusable(format!(
                    "the index has no end: {} pages were read",
                    snapshot.pages.len()
                )));
            }
            let number = snapshot.pages.len();
            let before = self.old.pages.iter().position(|page| page.url == url);
            let mark = before.map(|at| &self.old.pages[at]);
            let got = self.reader.read::<SkillIndex>(&url, mark.and_then(|mark| mark.etag.as_deref())).await?;
            let (mark, entries) = match (got, mark, before) {
                (ConditionalFetchResult::New { document, etag, answer }, ..) => {
                    bytes += answer.body.len();
                    let next = next_page(&url, &answer);
                    (SnapshotIndexPage { url, etag, next }, document.skills)
                }
                (ConditionalFetchResult::Same, Some(mark), Some(at)) => {
                    let entries = self.old.skills.iter().filter(|skill| skill.page == at);
                    (mark.clone(), entries.map(|skill| skill.entry.clone()).collect())
                }
                (ConditionalFetchResult::Same, ..) => {
                    return Err(FetchFailure::unusable(format!("{} was never read", display_url(&url))));
                }
            };
            if bytes > MAX_BYTES {
                return Err(FetchFailure::unusable(format!("the index has more than {MAX_BYTES} bytes")));
            }
            next = mark.next.clone();
            snapshot.pages.push(mark);
            for entry in entries {
                if !ids.insert(entry.id.clone()) {
                    return Err(FetchFailure::unusable(format!("the index lists the id {:?} twice", plain(&entry.id))));
                }
                if entry.access == SkillAccess::Private {
                    continue;
                }
                if snapshot.skills.len() == MAX_SKILLS {
                    note = Some(format!("only the first {MAX_SKILLS} skills are listed"));
                    next = None;
                    // Some skills of this page were dropped, so it must be fetched completely next time.
                    snapshot.pages[number].etag = None;
                    break;
                }
                let fresh = SnapshotSkill::new(entry, number);
                snapshot.skills.push(match old_skills.remove(fresh.entry.id.as_str()) {
                    Some(old) if old.entry == fresh.entry => SnapshotSkill { page: number, ..old.clone() },
                    _ => fresh,
                });
            }
        }
        Ok(FetchedIndex { snapshot, note })
    }

    /// Fetches the descriptors that are due; `None` if the domain is no longer followed.
    async fn descriptors(
        &mut self,
        snapshot: &mut DomainSnapshot,
    ) -> Result<Option<DescriptorSkipReason>, EngineError> {
        let (mut failures, mut saved_at) = (0, self.began);
        for at in 0..snapshot.skills.len() {
            let now = self.reader.now();
            if !snapshot.skills[at].is_due(now) {
                continue;
            }
            if self.began.after(VISIT_TIMEOUT) <= now {
                let why = Some("the visit took too long; the remaining skills are read at the next visit".to_owned());
                return Ok(Some(DescriptorSkipReason { why, retry_after: None }));
            }
            let outcome = self.descriptor(&snapshot.skills[at]).await;
            let skill = &mut snapshot.skills[at];
            let failure = record_outcome(skill, outcome, now);
            match failure {
                Some(failure) => {
                    failures += 1;
                    if failures == ENOUGH_FAILURES || failure.retry_after.is_some() {
                        let why = Some(format!("descriptors cannot be read: {}", failure.why));
                        return Ok(Some(DescriptorSkipReason { why, retry_after: failure.retry_after }));
                    }
                }
                None => failures = 0,
            }
            if saved_at.after(SAVE_INTERVAL) <= self.reader.now() {
                saved_at = self.reader.now();
                if !self.store(snapshot).await? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(DescriptorSkipReason::default()))
    }

    async fn descriptor(
        &mut self,
        skill: &SnapshotSkill,
    ) -> Result<ConditionalFetchResult<SkillDescriptor>, FetchFailure> {
        let url = Url::parse(&skill.entry.descriptor_url)
            .map_err(|error| FetchFailure::unusable(format!("the URL of its descriptor is not valid: {error}")))?;
        self.reader.read(&url, skill.etag.as_deref()).await
    }
}

/// Records the outcome of a descriptor fetch in the snapshot; returns the failure if it may be temporary.
fn record_outcome(
    skill: &mut SnapshotSkill,
    outcome: Result<ConditionalFetchResult<SkillDescriptor>, FetchFailure>,
    now: Timestamp,
) -> Option<FetchFailure> {
    match outcome {
        Ok(ConditionalFetchResult::Same) => skill.read_at = Some(now),
        Ok(ConditionalFetchResult::New { document, etag, .. }) => {
            skill.state = usable(skill, document);
            skill.read_at = Some(now);
            skill.etag = etag;
        }
        Err(failure) if failure.kind == FetchFailureKind::Unreachable => {
            // A skill whose descriptor was fetched before stays listed while its index entry is unchanged.
            if !skill.is_listed() {
                skill.state = DescriptorState::Unreachable { why: failure.why.clone() };
            }
            return Some(failure);
        }
        Err(failure) => {
            skill.state = DescriptorState::Unusable { why: failure.why };
            skill.read_at = Some(now);
            skill.etag = None;
        }
    }
    None
}

fn usable(skill: &SnapshotSkill, descriptor: SkillDescriptor) -> DescriptorState {
    if descriptor.id != skill.entry.id {
        return DescriptorState::Unusable {
            why: format!("its descriptor belongs to another skill, {:?}", plain(&descriptor.id)),
        };
    }
    if descriptor.access == SkillAccess::Private {
        return DescriptorState::Unusable { why: "its descriptor says that it is private".to_owned() };
    }
    DescriptorState::Listed(DescriptorSummary::from_descriptor(descriptor))
}

/// Text that summarises which skills are not listed.
fn unlisted(snapshot: &DomainSnapshot) -> Option<String> {
    let mut unlisted = snapshot.unlisted();
    let first = unlisted.next()?;
    let count = unlisted.count() + 1;
    let are = if count == 1 { "skill is" } else { "skills are" };
    Some(format!("{count} {are} not listed: {:?}: {}", first.id, first.why))
}
