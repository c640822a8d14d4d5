//! Decides whether every value valid under one JSON Schema (Draft 2020-12) is valid under another.
//!
//! Both schemas become nodes of one pool ([`lower`]). Then each keyword of the new schema is negated in turn, and a
//! value is searched that the old schema still accepts ([`findings`], [`solve`]). If there is provably none for any
//! keyword, the schemas are compatible. A found value is a witness once a real validator confirms it. Everything else
//! is unknown and counts as breaking.

mod decimal;
mod document;
mod eval;
mod findings;
mod local;
mod lower;
mod node;
mod regex;
mod rule;
mod search;
mod solve;
mod witness_checker;

use serde_json::Value;

pub use rule::NarrowingRule;

pub(crate) use self::document::decode_fragment;
pub(crate) use self::findings::MAX_FINDINGS;
use nuncio_core::schema::{MAX_DEPTH, depth};

use self::findings::{PossibleRefusal, RefusalFinder};
use self::lower::{ConstraintTranslator, MalformedSchemaPart, SchemaSide};
use self::node::DotMeaning;
use self::solve::{ConstraintSolver, SolverMemo};
use self::witness_checker::WitnessChecker;

/// Limit of work for a comparison of two schemas, in steps; undecided pairs are [`ComparisonOutcome::Unknown`].
///
/// A step examines about one literal (a node or its negation) and takes some tens of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparisonBudget {
    steps: usize,
}

impl ComparisonBudget {
    #[must_use]
    pub const fn new(steps: usize) -> Self {
        Self { steps }
    }

    #[must_use]
    pub const fn steps(self) -> usize {
        self.steps
    }
}

impl Default for ComparisonBudget {
    /// A budget of 400,000 steps: ordinary schemas need a few hundred, hostile ones end in well under a second.
    fn default() -> Self {
        Self::new(400_000)
    }
}

/// The remaining budget that several comparisons share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemainingComparisonBudget {
    steps: usize,
    /// Number of generated values that may be tried when nothing was proved.
    tries: usize,
}

impl From<ComparisonBudget> for RemainingComparisonBudget {
    fn from(budget: ComparisonBudget) -> Self {
        Self { steps: budget.steps(), tries: witness_checker::MOST_TRIES }
    }
}

/// Result of comparing two schemas.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaComparison {
    pub outcome: ComparisonOutcome,
    /// Each reason why the new schema refuses a value that the old one accepted, at most 64; empty if compatible.
    pub findings: Vec<SchemaNarrowing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonOutcome {
    /// Proved: the new schema accepts every value that the old one accepted.
    Compatible,
    /// Proved: the new schema refuses a value that the old one accepted. At least one finding has a witness.
    Breaking,
    /// Neither compatible nor breaking is proved. Callers treat this as breaking.
    Unknown,
}

impl ComparisonOutcome {
    /// Whether the change counts as breaking: everything that is not proved compatible.
    #[must_use]
    pub const fn breaking(self) -> bool {
        !matches!(self, Self::Compatible)
    }
}

/// One reason why the new schema refuses a value that the old one accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaNarrowing {
    pub rule: NarrowingRule,
    /// JSON pointer into the new schema, or into the old schema if `new` is absent.
    pub pointer: String,
    /// The old schema at the location of `pointer`.
    pub old: Option<Value>,
    /// The new schema at the location of `pointer`.
    pub new: Option<Value>,
    /// A value that is valid under the old schema and invalid under the new one, confirmed by a validator; `None` if
    /// none was found.
    pub witness: Option<Value>,
}

/// Compares two schemas.
///
/// Never panics and always ends: a malformed schema, nesting beyond [`nuncio_core::schema::MAX_DEPTH`] or an exhausted
/// budget gives [`ComparisonOutcome::Unknown`].
#[must_use]
pub fn compare(old: &Value, new: &Value, budget: ComparisonBudget) -> SchemaComparison {
    compare_within(old, new, &mut RemainingComparisonBudget::from(budget))
}

/// [`compare`] with the budget that earlier comparisons left over.
pub(crate) fn compare_within(old: &Value, new: &Value, effort: &mut RemainingComparisonBudget) -> SchemaComparison {
    if old == new {
        return SchemaComparison { outcome: ComparisonOutcome::Compatible, findings: Vec::new() };
    }
    if depth(old) > MAX_DEPTH || depth(new) > MAX_DEPTH {
        return undecided(NarrowingRule::Unknown, String::new(), old, new);
    }
    let mut lowering = ConstraintTranslator::new(old, new);
    match judge(&mut lowering, effort) {
        Ok(comparison) => comparison,
        Err(MalformedSchemaPart { side, location }) => {
            let mut comparison = undecided(NarrowingRule::SchemaInvalid, location.clone(), old, new);
            let finding = &mut comparison.findings[0];
            let at = |root: &Value| root.pointer(&location).cloned();
            (finding.old, finding.new) = match side {
                SchemaSide::Old => (at(old), None),
                SchemaSide::New => (None, at(new)),
            };
            comparison
        }
    }
}

fn undecided(rule: NarrowingRule, pointer: String, old: &Value, new: &Value) -> SchemaComparison {
    let finding = SchemaNarrowing { rule, pointer, old: Some(old.clone()), new: Some(new.clone()), witness: None };
    SchemaComparison { outcome: ComparisonOutcome::Unknown, findings: vec![finding] }
}

fn judge(
    lowering: &mut ConstraintTranslator<'_>,
    effort: &mut RemainingComparisonBudget,
) -> Result<SchemaComparison, MalformedSchemaPart> {
    let (old, new) = lowering.roots()?;
    if old == new {
        return Ok(SchemaComparison { outcome: ComparisonOutcome::Compatible, findings: Vec::new() });
    }
    let pool = &lowering.pool;
    let checker = WitnessChecker::new(lowering.old.root, lowering.new.root, pool.unguarded.contains(&true));
    let mut refusals = Vec::new();
    // The dot of a pattern differs between regex engines, so the result must hold for both meanings.
    let dots: &[DotMeaning] = if pool.has_dots() {
        &[DotMeaning::NotLineFeed, DotMeaning::NotLineTerminator]
    } else {
        &[DotMeaning::NotLineFeed]
    };
    for dot in dots {
        let mut finder = RefusalFinder::new(lowering, &checker, old, *dot, effort.steps);
        finder.run()?;
        effort.steps = finder.steps;
        refusals = finder.refusals;
        if !refusals.is_empty() {
            break;
        }
    }
    if refusals.is_empty() {
        return Ok(SchemaComparison { outcome: ComparisonOutcome::Compatible, findings: Vec::new() });
    }
    if refusals.iter().any(|refusal| refusal.finding.witness.is_none()) {
        try_harder(lowering, &checker, &mut effort.tries, &mut refusals);
        if refusals.is_empty() {
            return Ok(SchemaComparison { outcome: ComparisonOutcome::Compatible, findings: Vec::new() });
        }
    }
    let proved = refusals.iter().any(|refusal| refusal.finding.witness.is_some());
    let findings = refusals.into_iter().map(|refusal| refusal.finding).collect();
    Ok(SchemaComparison {
        outcome: if proved { ComparisonOutcome::Breaking } else { ComparisonOutcome::Unknown },
        findings,
    })
}

/// Tries generated values as witnesses for undecided findings; those left without a witness become unknown.
fn try_harder(
    lowering: &mut ConstraintTranslator<'_>,
    checker: &WitnessChecker<'_>,
    tries: &mut usize,
    refusals: &mut Vec<PossibleRefusal>,
) {
    if refusals.iter().all(|refusal| refusal.finding.witness.is_none())
        && every_listed_value(lowering.old.root, checker)
    {
        refusals.clear();
        return;
    }
    if let Some(witness) = search::search(&lowering.old, &lowering.new, checker, tries) {
        let mut solver =
            ConstraintSolver::new(&mut lowering.pool, DotMeaning::NotLineFeed, 10_000, SolverMemo::default());
        let open = |refusal: &&mut PossibleRefusal| refusal.finding.witness.is_none();
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
            refusal.finding.rule = NarrowingRule::Unknown;
        }
    }
}

/// Whether the old schema enumerates its values and a validator accepts each of them under the new schema.
fn every_listed_value(old: &Value, checker: &WitnessChecker<'_>) -> bool {
    let listed: Vec<&Value> = match (old.get("const"), old.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => vec![value],
        (None, Some(values)) => values.iter().collect(),
        (None, None) => return false,
    };
    listed.len() <= 1_000 && checker.patience() > 0 && !listed.into_iter().any(|value| checker.confirms(value))
}
