//! One visit of a followed domain.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use nuncio_core::agent::SkillAccess;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::follow::Followed;
use url::Url;

use super::Inner;
use super::kept::{Kept, KeptSkill, PageMark, State, Told};
use super::read::{Got, Reader, Trouble, TroubleKind};
use crate::client::{next_page, plain, shown};
use crate::wire::{SkillDescriptor, SkillIndex, WELL_KNOWN};

/// How many skills of one domain are listed.
const MAX_SKILLS: usize = 10_000;
/// How many pages of an index are read.
const MAX_PAGES: usize = 200;
/// How many bytes of an index are read.
const MAX_BYTES: usize = 16 << 20;
/// How long a visit may take.
const VISIT: Duration = Duration::from_secs(30 * 60);
/// The longest pause between visits.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a domain may not be seen until nothing of it is listed any more.
const STALE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// After so many descriptors in a row that cannot be had, the others are left for the next visit.
const ENOUGH_FAILURES: u32 = 3;
/// So often what was found is kept on the way, so that a stop loses little.
const KEEP_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Visit<'a> {
    crawler: &'a Inner,
    reader: Reader<'a>,
    followed: Followed,
    old: Kept,
    began: Timestamp,
}

/// An index as it is now.
struct Index {
    kept: Kept,
    /// What is odd about it.
    note: Option<String>,
}

/// Why descriptors were left for the next visit.
#[derive(Default)]
struct Leftover {
    why: Option<String>,
    retry_after: Option<Duration>,
}

impl<'a> Visit<'a> {
    pub(super) fn new(crawler: &'a Inner, followed: Followed, old: Kept) -> Self {
        let clock = &**crawler.engine.clock();
        let reader = Reader::new(followed.domain.clone(), &*crawler.fetch, clock);
        Self { crawler, reader, followed, old, began: clock.now() }
    }

    /// Reads what the domain offers, keeps and lists it; none when it is followed no more.
    pub(super) async fn go(mut self) -> Result<Option<Followed>, EngineError> {
        match self.index().await {
            Ok(index) => self.succeed(index).await,
            Err(trouble) => self.fail(trouble).await,
        }
    }

    async fn succeed(mut self, index: Index) -> Result<Option<Followed>, EngineError> {
        let Index { mut kept, note } = index;
        self.followed.last_seen = Some(self.began);
        self.followed.failures = 0;
        let Some(leftover) = self.descriptors(&mut kept).await? else { return Ok(None) };
        let interval = self.crawler.options.interval;
        let pause = leftover.retry_after.map_or(interval, |asked| asked.clamp(interval, LONGEST_PAUSE.max(interval)));
        self.followed.next_visit = self.reader.now().after(pause);
        self.followed.problem = leftover.why.or(note).or_else(|| unlisted(&kept));
        self.keep(&kept).await
    }

    /// Nothing new is listed. What was listed stays, unless it is gone or was not seen for long.
    async fn fail(mut self, trouble: Trouble) -> Result<Option<Followed>, EngineError> {
        tracing::debug!(domain = %self.followed.domain, why = trouble.why, "a followed domain tells nothing new");
        self.followed.failures = self.followed.failures.saturating_add(1);
        let doubled = self.crawler.options.interval.saturating_mul(1 << self.followed.failures.min(20));
        let asked = trouble.retry_after.unwrap_or_default();
        let pause = doubled.max(asked).min(LONGEST_PAUSE.max(self.crawler.options.interval));
        let now = self.reader.now();
        self.followed.next_visit = now.after(pause);
        self.followed.problem = Some(trouble.why);
        let is_stale = self.followed.last_seen.is_some_and(|seen| seen.after(STALE) <= now);
        let kept = match trouble.kind {
            TroubleKind::Gone => Kept::default(),
            _ if is_stale => Kept::default(),
            _ => self.old.clone(),
        };
        self.keep(&kept).await
    }

    /// Writes down how it is now, and lists it.
    async fn keep(&mut self, kept: &Kept) -> Result<Option<Followed>, EngineError> {
        self.followed.listed = kept.listed();
        let offers = (*kept != self.old).then(|| kept.write());
        let _order = self.crawler.shelving.lock().await;
        if !self.crawler.engine.keep_visit(self.followed.clone(), offers).await? {
            self.crawler.catalogue.remove(self.followed.domain.as_str());
            return Ok(None);
        }
        self.old.clone_from(kept);
        if let Some(last_seen) = self.followed.last_seen {
            self.crawler.catalogue.put(self.followed.domain.as_str(), kept.shelf(last_seen));
        }
        Ok(Some(self.followed.clone()))
    }

    /// Reads the index, all of its pages. Each is asked for only if it has changed.
    async fn index(&mut self) -> Result<Index, Trouble> {
        let mut known: HashMap<&str, &KeptSkill> =
            self.old.skills.iter().map(|skill| (skill.entry.id.as_str(), skill)).collect();
        let mut first = self.followed.domain.url().clone();
        first.set_path(WELL_KNOWN);
        let (mut kept, mut note, mut ids, mut bytes) = (Kept::default(), None, HashSet::new(), 0);
        let mut next = Some(first.clone());
        while let Some(url) = next {
            if url.origin() != first.origin() {
                return Err(Trouble::unusable(format!("the index goes on at {}, another host", shown(&url))));
            }
            if kept.pages.len() == MAX_PAGES || kept.pages.iter().any(|page| page.url == url) {
                return Err(Trouble::unusable(format!("the index has no end: {} pages were read", kept.pages.len())));
            }
            let number = kept.pages.len();
            let before = self.old.pages.iter().position(|page| page.url == url);
            let mark = before.map(|at| &self.old.pages[at]);
            let got = self.reader.read::<SkillIndex>(&url, mark.and_then(|mark| mark.etag.as_deref())).await?;
            let (mark, entries) = match (got, mark, before) {
                (Got::New { document, etag, answer }, ..) => {
                    bytes += answer.body.len();
                    let next = next_page(&url, &answer);
                    (PageMark { url, etag, next }, document.skills)
                }
                (Got::Same, Some(mark), Some(at)) => {
                    let entries = self.old.skills.iter().filter(|skill| skill.page == at);
                    (mark.clone(), entries.map(|skill| skill.entry.clone()).collect())
                }
                (Got::Same, ..) => return Err(Trouble::unusable(format!("{} was never read", shown(&url)))),
            };
            if bytes > MAX_BYTES {
                return Err(Trouble::unusable(format!("the index has more than {MAX_BYTES} bytes")));
            }
            next = mark.next.clone();
            kept.pages.push(mark);
            for entry in entries {
                if !ids.insert(entry.id.clone()) {
                    return Err(Trouble::unusable(format!("the index lists the id {:?} twice", plain(&entry.id))));
                }
                if entry.access == SkillAccess::Private {
                    continue;
                }
                if kept.skills.len() == MAX_SKILLS {
                    note = Some(format!("only the first {MAX_SKILLS} skills are listed"));
                    next = None;
                    // Not kept whole, so not to be taken for the same.
                    kept.pages[number].etag = None;
                    break;
                }
                let fresh = KeptSkill::new(entry, number);
                kept.skills.push(match known.remove(fresh.entry.id.as_str()) {
                    Some(old) if old.entry == fresh.entry => KeptSkill { page: number, ..old.clone() },
                    _ => fresh,
                });
            }
        }
        Ok(Index { kept, note })
    }

    /// Reads the descriptors whose time has come; none when the domain is followed no more.
    async fn descriptors(&mut self, kept: &mut Kept) -> Result<Option<Leftover>, EngineError> {
        let (mut failures, mut kept_at) = (0, self.began);
        for at in 0..kept.skills.len() {
            let now = self.reader.now();
            if !kept.skills[at].is_due(now) {
                continue;
            }
            if self.began.after(VISIT) <= now {
                let why = Some("the visit took too long; the other skills are read at the next".to_owned());
                return Ok(Some(Leftover { why, retry_after: None }));
            }
            let outcome = self.descriptor(&kept.skills[at]).await;
            let skill = &mut kept.skills[at];
            let trouble = settle(skill, outcome, now);
            match trouble {
                Some(trouble) => {
                    failures += 1;
                    if failures == ENOUGH_FAILURES || trouble.retry_after.is_some() {
                        let why = Some(format!("descriptors cannot be read: {}", trouble.why));
                        return Ok(Some(Leftover { why, retry_after: trouble.retry_after }));
                    }
                }
                None => failures = 0,
            }
            if kept_at.after(KEEP_EVERY) <= self.reader.now() {
                kept_at = self.reader.now();
                if self.keep(kept).await?.is_none() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(Leftover::default()))
    }

    async fn descriptor(&mut self, skill: &KeptSkill) -> Result<Got<SkillDescriptor>, Trouble> {
        let url = Url::parse(&skill.entry.descriptor_url)
            .map_err(|error| Trouble::unusable(format!("its descriptor is nowhere: {error}")))?;
        self.reader.read(&url, skill.etag.as_deref()).await
    }
}

/// What a descriptor came to; trouble, when it could not be had and may be at another time.
fn settle(skill: &mut KeptSkill, outcome: Result<Got<SkillDescriptor>, Trouble>, now: Timestamp) -> Option<Trouble> {
    match outcome {
        Ok(Got::Same) => skill.read_at = Some(now),
        Ok(Got::New { document, etag, .. }) => {
            skill.state = usable(skill, document);
            skill.read_at = Some(now);
            skill.etag = etag;
        }
        Err(trouble) if trouble.kind == TroubleKind::Unreachable => {
            // What was read before and has not changed since stays listed.
            if !skill.is_listed() {
                skill.state = State::Unreachable { why: trouble.why.clone() };
            }
            return Some(trouble);
        }
        Err(trouble) => {
            skill.state = State::Unusable { why: trouble.why };
            skill.read_at = Some(now);
            skill.etag = None;
        }
    }
    None
}

fn usable(skill: &KeptSkill, descriptor: SkillDescriptor) -> State {
    if descriptor.id != skill.entry.id {
        return State::Unusable { why: format!("its descriptor is of another skill, {:?}", plain(&descriptor.id)) };
    }
    if descriptor.access == SkillAccess::Private {
        return State::Unusable { why: "its descriptor says that it is private".to_owned() };
    }
    State::Listed(Told::by(descriptor))
}

/// What to tell of the skills that are not listed.
fn unlisted(kept: &Kept) -> Option<String> {
    let mut unlisted = kept.unlisted();
    let first = unlisted.next()?;
    let count = unlisted.count() + 1;
    let are = if count == 1 { "skill is" } else { "skills are" };
    Some(format!("{count} {are} not listed: {:?}: {}", first.id, first.why))
}
