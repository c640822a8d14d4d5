//! Whether every value valid under one JSON Schema (Draft 2020-12) is valid under another.
//!
//! Both schemas become nodes of one pool ([`lower`]); then each keyword of the new schema is negated in turn
//! and a value is looked for that the old schema takes all the same ([`findings`], [`solve`]). If there is
//! provably none for any keyword, the schemas are compatible. A value found is a witness once a real
//! validator agrees. What is neither is unknown, and counts as breaking.

mod decimal;
mod document;
mod eval;
mod findings;
mod local;
mod lower;
mod node;
mod referee;
mod regex;
mod rule;
mod search;
mod solve;

use serde_json::Value;

pub use rule::SchemaRule;

pub(crate) use self::document::join;
pub(crate) use self::findings::MAX_FINDINGS;
use self::findings::{Finder, Refusal};
use self::lower::{Lowering, Malformed, Side};
use self::node::Dot;
use self::referee::Referee;
use self::solve::{Memo, Solver};
use crate::schema::{MAX_DEPTH, depth};

/// How much work a comparison may cost, in steps; what is not decided by then is [`Outcome::Unknown`].
///
/// A step is about one literal looked at: some tens of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    steps: usize,
}

impl Budget {
    /// A budget of so many steps.
    #[must_use]
    pub const fn new(steps: usize) -> Self {
        Self { steps }
    }

    /// How many steps it allows.
    #[must_use]
    pub const fn steps(self) -> usize {
        self.steps
    }
}

impl Default for Budget {
    /// 400,000 steps: ordinary pairs need a few hundred, hostile ones end in well under a second.
    fn default() -> Self {
        Self::new(400_000)
    }
}

/// What is left of a budget that several comparisons share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    steps: usize,
    /// How many values may be made and tried where nothing was proved.
    tries: usize,
}

impl From<Budget> for Effort {
    fn from(budget: Budget) -> Self {
        Self { steps: budget.steps(), tries: referee::MOST_TRIES }
    }
}

/// What came of comparing two schemas.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The verdict.
    pub outcome: Outcome,
    /// Each way in which the new schema refuses what the old one took, at most 64; empty when compatible.
    pub findings: Vec<SchemaFinding>,
}

/// The verdict on a pair of schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Proved: whatever the old schema took, the new one takes.
    Compatible,
    /// Proved: at least one finding has a witness.
    Breaking,
    /// Neither is proved. To be treated as breaking.
    Unknown,
}

impl Outcome {
    /// Whether a caller has to treat the change as breaking: anything not proved compatible.
    #[must_use]
    pub const fn breaking(self) -> bool {
        !matches!(self, Self::Compatible)
    }
}

/// One way in which the new schema refuses what the old one took.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaFinding {
    /// Which kind of change.
    pub rule: SchemaRule,
    /// Where, as a JSON pointer into the new schema; into the old one when `new` is absent, for what is gone.
    pub pointer: String,
    /// What the old schema says there.
    pub old: Option<Value>,
    /// What the new schema says there.
    pub new: Option<Value>,
    /// A value valid under the old schema and not under the new one.
    pub witness: Option<Value>,
}

/// Whether every value valid under `old` is valid under `new`, and if not, in which ways.
///
/// Never panics and always ends, whatever the schemas: what is malformed, nested beyond
/// [`crate::schema::MAX_DEPTH`] or beyond the budget is [`Outcome::Unknown`].
#[must_use]
pub fn compare(old: &Value, new: &Value, budget: Budget) -> Comparison {
    compare_within(old, new, &mut Effort::from(budget))
}

/// The same, with what an earlier comparison left over.
pub(crate) fn compare_within(old: &Value, new: &Value, effort: &mut Effort) -> Comparison {
    if old == new {
        return Comparison { outcome: Outcome::Compatible, findings: Vec::new() };
    }
    if depth(old) > MAX_DEPTH || depth(new) > MAX_DEPTH {
        return undecided(SchemaRule::Unknown, String::new(), old, new);
    }
    let mut lowering = Lowering::new(old, new);
    match judge(&mut lowering, effort) {
        Ok(comparison) => comparison,
        Err(Malformed { side, place }) => {
            let mut comparison = undecided(SchemaRule::SchemaInvalid, place.clone(), old, new);
            let finding = &mut comparison.findings[0];
            let at = |root: &Value| root.pointer(&place).cloned();
            (finding.old, finding.new) = match side {
                Side::Old => (at(old), None),
                Side::New => (None, at(new)),
            };
            comparison
        }
    }
}

fn undecided(rule: SchemaRule, pointer: String, old: &Value, new: &Value) -> Comparison {
    let finding = SchemaFinding { rule, pointer, old: Some(old.clone()), new: Some(new.clone()), witness: None };
    Comparison { outcome: Outcome::Unknown, findings: vec![finding] }
}

fn judge(lowering: &mut Lowering<'_>, effort: &mut Effort) -> Result<Comparison, Malformed> {
    let (old, new) = lowering.roots()?;
    if old == new {
        return Ok(Comparison { outcome: Outcome::Compatible, findings: Vec::new() });
    }
    let pool = &lowering.pool;
    let referee = Referee::new(lowering.old.root, lowering.new.root, pool.unguarded.contains(&true));
    let mut refusals = Vec::new();
    // A dot means different things to different engines: it has to hold for both.
    let dots: &[Dot] = if pool.has_dots() { &[Dot::NotLineFeed, Dot::NotLineTerminator] } else { &[Dot::NotLineFeed] };
    for dot in dots {
        let mut finder = Finder::new(lowering, &referee, old, *dot, effort.steps);
        finder.run()?;
        effort.steps = finder.steps;
        refusals = finder.refusals;
        if !refusals.is_empty() {
            break;
        }
    }
    if refusals.is_empty() {
        return Ok(Comparison { outcome: Outcome::Compatible, findings: Vec::new() });
    }
    if refusals.iter().any(|refusal| refusal.finding.witness.is_none()) {
        try_harder(lowering, &referee, &mut effort.tries, &mut refusals);
        if refusals.is_empty() {
            return Ok(Comparison { outcome: Outcome::Compatible, findings: Vec::new() });
        }
    }
    let proved = refusals.iter().any(|refusal| refusal.finding.witness.is_some());
    let findings = refusals.into_iter().map(|refusal| refusal.finding).collect();
    Ok(Comparison { outcome: if proved { Outcome::Breaking } else { Outcome::Unknown }, findings })
}

/// Tries values for what was not decided. Whatever stays undecided is called unknown.
fn try_harder(lowering: &mut Lowering<'_>, referee: &Referee<'_>, tries: &mut usize, refusals: &mut Vec<Refusal>) {
    if refusals.iter().all(|refusal| refusal.finding.witness.is_none())
        && every_listed_value(lowering.old.root, referee)
    {
        refusals.clear();
        return;
    }
    if let Some(witness) = search::search(&lowering.old, &lowering.new, referee, tries) {
        let mut solver = Solver::new(&mut lowering.pool, Dot::NotLineFeed, 10_000, Memo::default());
        let open = |refusal: &&mut Refusal| refusal.finding.witness.is_none();
        let fitting =
            refusals.iter_mut().filter(open).find(|refusal| solver.fits(refusal.goal, &witness) == Some(true));
        if let Some(refusal) = fitting {
            refusal.finding.witness = Some(witness);
        } else if let Some(refusal) = refusals.iter_mut().find(open) {
            refusal.finding.witness = Some(witness);
        }
    }
    for refusal in refusals {
        if refusal.finding.witness.is_none() {
            refusal.finding.rule = SchemaRule::Unknown;
        }
    }
}

/// Whether the old schema lists all it takes, and the new one takes each, as the validator sees it.
fn every_listed_value(old: &Value, referee: &Referee<'_>) -> bool {
    let listed: Vec<&Value> = match (old.get("const"), old.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => vec![value],
        (None, Some(values)) => values.iter().collect(),
        (None, None) => return false,
    };
    listed.len() <= 1_000 && referee.patience() > 0 && !listed.into_iter().any(|value| referee.confirms(value))
}
