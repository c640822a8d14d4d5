//! One transaction of a lane.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::store::{AuditChange, Change, Conflict, StoreError};
use tokio_postgres::Statement;

use super::super::audit::LaneAuditHead;
use super::super::connection::Session;
use super::super::problem::SqlError;
use super::super::writes::{CounterRow, Refusal, SqlValue, SqlWrite, Writes, params};
use super::super::{changes, forget, nodes};

/// Reason why a transaction was not committed.
pub(super) enum TransactionFailure {
    /// The commits at these positions of the group failed, or may have failed.
    Rejected(BTreeSet<usize>),
    /// The unit is refused.
    Refused(StoreError),
    Fenced,
    /// The connection was lost before `COMMIT`.
    Disconnected(SqlError),
    /// The connection was lost during `COMMIT`.
    InDoubt,
    /// Another process appended to the audit chain.
    StaleAuditHead,
    StaleNumber,
    /// The transaction met another one, or the server has a problem.
    Failed(SqlError),
}

impl TransactionFailure {
    fn of_problem(problem: SqlError) -> Self {
        if problem.is_lost_connection() { Self::Disconnected(problem) } else { Self::Failed(problem) }
    }

    fn of_refusal(refusal: &Refusal) -> Option<Self> {
        match refusal {
            Refusal::StaleAuditHead => Some(Self::StaleAuditHead),
            Refusal::StaleNumber => Some(Self::StaleNumber),
            Refusal::Fenced => Some(Self::Fenced),
            Refusal::Conflict(_) | Refusal::Queries(..) => None,
        }
    }
}

type Step = Result<(), TransactionFailure>;

pub(super) struct Transaction<'lane> {
    pub(super) session: &'lane Session,
    pub(super) fence: Option<&'lane Incarnation>,
    /// Name of the lane in the table `commits`.
    pub(super) lane: &'lane str,
    /// Number of this transaction.
    pub(super) number: i64,
}

impl Transaction<'_> {
    /// Commits a group with all statements sent at once, and moves the head of the audit chain if it succeeds.
    /// `Rejected` names the commits that must be repeated alone.
    pub(super) async fn commit_together(&self, group: &[&[Change]], head: &mut LaneAuditHead) -> Step {
        let mut moved = head.clone();
        if let [changes] = group
            && let Some(committed) = self.commit_in_one_trip(changes, &mut moved).await
        {
            committed?;
            *head = moved;
            return Ok(());
        }
        moved.clone_from(head);
        let applied = self.apply_together(group, &mut moved).await;
        self.finish(applied).await?;
        *head = moved;
        Ok(())
    }

    /// Commits one unit statement by statement, so that a failure is that of the first condition that does not hold.
    pub(super) async fn commit_stepwise(&self, changes: &[Change], head: &mut LaneAuditHead) -> Step {
        let mut moved = head.clone();
        let applied = self.apply_stepwise(changes, &mut moved).await;
        self.finish(applied).await?;
        *head = moved;
        Ok(())
    }

    async fn finish(&self, applied: Step) -> Step {
        if let Err(failure) = applied {
            // A connection that fails here is lost, and the server rolls back by itself.
            let _ = self.session.client.batch_execute("ROLLBACK").await;
            return Err(failure);
        }
        let committed = self.session.client.batch_execute("COMMIT").await.map_err(SqlError::from);
        committed.map_err(|problem| match problem.is_lost_connection() || self.session.is_closed() {
            true => TransactionFailure::InDoubt,
            false => TransactionFailure::Failed(problem),
        })
    }

    async fn apply_together(&self, group: &[&[Change]], head: &mut LaneAuditHead) -> Step {
        let mut writes = Vec::with_capacity(group.len());
        for (position, changes) in group.iter().enumerate() {
            let mut unit = Writes::new();
            let translated = changes.iter().try_for_each(|change| changes::translate(change, head, &mut unit));
            translated.map_err(|_| TransactionFailure::Rejected(BTreeSet::from([position])))?;
            writes.push(unit);
        }
        let preamble = self.preamble(&writes);
        let statements = preamble.iter().chain(writes.iter().flatten());
        let statements = statements.map(|write| (write.sql, write.params.as_slice()));
        let mut results = self.pipeline(statements).await?.into_iter();
        for (write, result) in preamble.iter().zip(&mut results) {
            if result.map_err(TransactionFailure::of_problem)? == 0
                && let Some(failure) = write.refusal.as_ref().and_then(TransactionFailure::of_refusal)
            {
                return Err(failure);
            }
        }
        let mut rejected = BTreeSet::new();
        'units: for (position, unit) in writes.iter().enumerate() {
            for (write, result) in unit.iter().zip(&mut results) {
                match (result, &write.refusal) {
                    (Ok(0), Some(refusal)) => {
                        if let Some(failure) = TransactionFailure::of_refusal(refusal) {
                            return Err(failure);
                        }
                        rejected.insert(position);
                    }
                    (Ok(_), _) => {}
                    (Err(problem), _) if problem.is_lost_connection() => {
                        return Err(TransactionFailure::Disconnected(problem));
                    }
                    // The statements after a failed one were not executed.
                    (Err(_), _) => {
                        rejected.insert(position);
                        break 'units;
                    }
                }
            }
        }
        if rejected.is_empty() { Ok(()) } else { Err(TransactionFailure::Rejected(rejected)) }
    }

    /// Commits one unit and sends `COMMIT` with its statements, each of which fails if its condition does not hold.
    /// `None` if a statement has no such form.
    async fn commit_in_one_trip(&self, changes: &[Change], head: &mut LaneAuditHead) -> Option<Step> {
        let mut unit = Writes::new();
        if changes.iter().try_for_each(|change| changes::translate(change, head, &mut unit)).is_err() {
            return None;
        }
        let writes: Writes = self.preamble(std::slice::from_ref(&unit)).into_iter().chain(unit).collect();
        let statements: Option<Vec<_>> = writes.iter().map(failing_form).collect();
        let statements = statements?;
        let commit: (&str, &[SqlValue]) = ("COMMIT", &[]);
        let sent = statements.iter().map(AsRef::as_ref).zip(writes.iter().map(|write| write.params.as_slice()));
        let results = match self.pipeline(sent.chain([commit])).await {
            Ok(results) => results,
            Err(failure) => return Some(Err(failure)),
        };
        let refusals = writes.iter().map(|write| write.refusal.as_ref()).chain([None]);
        // After a failed statement, `COMMIT` rolls back.
        let failed = results.into_iter().zip(refusals).find_map(|(result, refusal)| Some((result.err()?, refusal)));
        let Some((problem, refusal)) = failed else { return Some(Ok(())) };
        Some(Err(match refusal {
            _ if problem.is_lost_connection() || self.session.is_closed() => TransactionFailure::InDoubt,
            Some(refusal) if problem.is_unmet_condition() => TransactionFailure::of_refusal(refusal)
                .unwrap_or_else(|| TransactionFailure::Rejected(BTreeSet::from([0]))),
            _ => TransactionFailure::Rejected(BTreeSet::from([0])),
        }))
    }

    async fn apply_stepwise(&self, changes: &[Change], head: &mut LaneAuditHead) -> Step {
        for write in self.preamble(&[]) {
            self.execute(&write).await?;
        }
        for change in changes {
            // An erasure reads what it changes, so it is not a list of statements.
            if let Change::Record(AuditChange::ForgetPerson(forgotten)) = change {
                forget::person(self.session, forgotten).await.map_err(TransactionFailure::of_problem)?;
                continue;
            }
            let mut writes = Writes::new();
            let translated = changes::translate(change, head, &mut writes);
            translated.map_err(|problem| TransactionFailure::Refused(problem.into()))?;
            for write in &writes {
                self.execute(write).await?;
            }
        }
        Ok(())
    }

    async fn execute(&self, write: &SqlWrite) -> Step {
        let problem = match (self.session.execute(write.sql, &write.params).await, &write.refusal) {
            (Ok(0), Some(refusal)) => {
                return Err(match TransactionFailure::of_refusal(refusal) {
                    Some(failure) => failure,
                    None => TransactionFailure::Refused(StoreError::Conflict(self.conflict(refusal).await?)),
                });
            }
            (Ok(_), _) => return Ok(()),
            (Err(problem), _) => problem,
        };
        if problem.is_lost_connection() || problem.is_collision() {
            return Err(TransactionFailure::of_problem(problem));
        }
        let conflict = write.missing_reference.filter(|_| problem.is_missing_reference());
        Err(TransactionFailure::Refused(conflict.map_or_else(|| problem.into(), StoreError::Conflict)))
    }

    /// Statements before those of the commits: they prove that this incarnation is alive, number the transaction, and
    /// lock shared counters.
    fn preamble(&self, writes: &[Writes]) -> Writes {
        let mut preamble = vec![SqlWrite::any("BEGIN", Vec::new())];
        preamble.extend(self.fence.into_iter().flat_map(nodes::check_alive));
        let sql = "UPDATE commits SET number = $2::BIGINT, used_at = now() WHERE lane = $1 AND number = $2::BIGINT - 1";
        preamble.push(SqlWrite::one_or_refused(Refusal::StaleNumber, sql, params![self.lane, self.number]));
        let counters: BTreeSet<_> = writes.iter().flatten().filter_map(|write| write.counter.as_ref()).collect();
        if counters.len() > 1 {
            preamble.extend(lock_counters(&counters));
        }
        preamble
    }

    /// The conflict of a condition that does not hold.
    async fn conflict(&self, refusal: &Refusal) -> Result<Conflict, TransactionFailure> {
        match refusal {
            Refusal::Conflict(conflict) => Ok(*conflict),
            Refusal::Queries(queries, missing) => {
                for (sql, params, conflict) in queries {
                    let found = self.session.exists(sql, params).await;
                    if found.map_err(TransactionFailure::of_problem)? {
                        return Ok(*conflict);
                    }
                }
                Ok(*missing)
            }
            Refusal::StaleAuditHead | Refusal::StaleNumber | Refusal::Fenced => Ok(Conflict::Moved),
        }
    }

    /// Executes the statements in order without waiting for each other.
    async fn pipeline(
        &self,
        statements: impl Iterator<Item = (&str, &[SqlValue])>,
    ) -> Result<Vec<Result<u64, SqlError>>, TransactionFailure> {
        let mut prepared: Vec<(Statement, &[SqlValue])> = Vec::new();
        for (sql, params) in statements {
            let statement = self.session.prepare(sql).await.map_err(TransactionFailure::of_problem)?;
            prepared.push((statement, params));
        }
        let mut running: Vec<Pin<Box<dyn Future<Output = _> + Send + '_>>> = Vec::with_capacity(prepared.len());
        for (statement, params) in &prepared {
            running.push(Box::pin(self.session.client.execute_raw(statement, *params)));
        }
        let mut results: Vec<Option<Result<u64, tokio_postgres::Error>>> = running.iter().map(|_| None).collect();
        let (mut first_open, mut is_sent) = (0, false);
        // The first poll of each sends its statement, so they are polled in order. Results arrive in the same order.
        std::future::poll_fn(|context| {
            while let Some((work, result)) = running.get_mut(first_open).zip(results.get_mut(first_open)) {
                if result.is_none() {
                    match work.as_mut().poll(context) {
                        Poll::Ready(done) => *result = Some(done),
                        Poll::Pending => break,
                    }
                }
                first_open += 1;
            }
            if !std::mem::replace(&mut is_sent, true) {
                for (work, result) in running.iter_mut().zip(&mut results).skip(first_open + 1) {
                    if let Poll::Ready(done) = work.as_mut().poll(context) {
                        *result = Some(done);
                    }
                }
            }
            if first_open == running.len() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(results.into_iter().flatten().map(|result| result.map_err(SqlError::from)).collect())
    }
}

/// The SQL of a statement that fails if it must change a row and changes none; `None` if it has no such form.
fn failing_form(write: &SqlWrite) -> Option<Cow<'static, str>> {
    let sql = write.sql;
    if write.refusal.is_none() {
        return Some(sql.into());
    }
    match sql.split_whitespace().next() {
        Some("INSERT" | "UPDATE" | "DELETE") if !sql.contains("RETURNING") => {
            Some(format!("WITH changed AS ({sql} RETURNING 1) SELECT 1 / count(*) FROM changed").into())
        }
        Some("SELECT") => Some(format!("SELECT 1 / count(*) FROM ({sql}) AS found").into()),
        _ => None,
    }
}

/// Statements that lock rows in the order of their table and key.
fn lock_counters(counters: &BTreeSet<&CounterRow>) -> Writes {
    let (mut accounts, mut conversations, mut mailboxes) = (Vec::new(), Vec::new(), Vec::new());
    for counter in counters {
        match counter {
            CounterRow::Account(id) => accounts.push(id.clone()),
            CounterRow::Conversation(id) => conversations.push(id.clone()),
            CounterRow::Mailbox(id) => mailboxes.push(id.clone()),
        }
    }
    [
        ("SELECT 1 FROM accounts WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE", accounts),
        ("SELECT 1 FROM relay_conversations WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE", conversations),
        ("SELECT 1 FROM mailboxes WHERE recipient = ANY($1) ORDER BY recipient FOR NO KEY UPDATE", mailboxes),
    ]
    .into_iter()
    .filter(|(_, keys)| !keys.is_empty())
    .map(|(sql, keys)| SqlWrite::any(sql, params![keys]))
    .collect()
}

/// Whether a commit must be alone in its transaction: it erases a person.
pub(super) fn is_alone(changes: &[Change]) -> bool {
    changes.iter().any(|change| matches!(change, Change::Record(AuditChange::ForgetPerson(_))))
}
