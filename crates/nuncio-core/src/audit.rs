//! What was decided and what came of it, in a chain that shows any change.
//!
//! Each link's hash covers the one before it, so a record that was altered, removed or put in
//! between breaks the chain at that place. Signed checkpoints show a tail that was cut.

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::code::Code;
use crate::digest::{Digest, canonical};
use crate::ids::{AgentName, CallId, RelationId, ScopeId, SessionId, ToolName};
use crate::policy::Protocol;
use crate::principal::Principal;
use crate::time::Timestamp;

mod happened;
pub mod redact;
pub mod references;

pub use happened::{Happened, HappenedRecord};
pub use references::References;

/// What may stand in the chain.
pub trait Recorded {
    /// Its canonical JSON.
    fn text(&self) -> String;
}

impl Recorded for AuditRecord {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("a record always has a JSON form")
    }
}

impl Recorded for HappenedRecord {
    fn text(&self) -> String {
        String::from_utf8(canonical(self)).expect("JSON is UTF-8")
    }
}

/// One call of one tool, whatever protocol it came by.
///
/// Its fields are in the order of their names, so that its JSON is canonical as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Whose tool.
    pub agent: AgentName,
    /// The digest of the arguments; never the arguments.
    pub arguments_digest: Digest,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// The call's own id.
    pub call: CallId,
    /// Who called.
    pub caller: Principal,
    /// Whether it might run, and who decided.
    pub decision: Verdict,
    /// When it was over.
    pub ended_at: Timestamp,
    /// What came of it.
    pub outcome: Outcome,
    /// By which protocol.
    pub protocol: Protocol,
    /// What it refers to in other records; none in records of earlier versions.
    #[serde(skip_serializing_if = "References::is_empty", default)]
    pub references: References,
    /// The request that brought it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// The permission it needed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<ScopeId>,
    /// The conversation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    /// When it began to run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Timestamp>,
    /// Which tool, as it was named.
    pub tool: ToolName,
    /// The turn in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<u64>,
}

/// Whether a call might run, and on whose word.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// It might.
    Allowed {
        /// Who decided: `policy`, or those who said yes.
        by: Vec<String>,
    },
    /// It might not.
    Refused {
        /// Who decided: `policy`, or the one who said no.
        by: String,
        /// Why.
        code: Code,
    },
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Allowed { by } => {
                map.serialize_entry("by", by)?;
                map.serialize_entry("verdict", "allowed")?;
            }
            Self::Refused { by, code } => {
                map.serialize_entry("by", by)?;
                map.serialize_entry("code", code)?;
                map.serialize_entry("verdict", "refused")?;
            }
        }
        map.end()
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Outcome {
    /// It ran and answered.
    Completed,
    /// It ran and failed.
    Failed {
        /// How.
        code: Code,
    },
    /// It never ran.
    NotRun,
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let result = match self {
            Self::Completed => "completed",
            Self::Failed { code } => {
                map.serialize_entry("code", code)?;
                "failed"
            }
            Self::NotRun => "not_run",
        };
        map.serialize_entry("result", result)?;
        map.end()
    }
}

/// A record in its place in the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its number, from one, without gaps.
    pub seq: u64,
    /// The record's canonical JSON, exactly as it was hashed.
    pub record: String,
    /// The hash of the link before.
    pub previous: Digest,
    /// The hash of this one.
    pub hash: Digest,
    /// The server's signature over the record, where a person was taken out of it: its hash is of the record as it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub redaction: Option<String>,
}

impl Link {
    /// Puts a record behind `previous`.
    #[must_use]
    pub fn forge(seq: u64, previous: Digest, record: &impl Recorded) -> Self {
        let record = record.text();
        let hash = link_hash(seq, previous, &record);
        Self { seq, record, previous, hash, redaction: None }
    }
}

fn link_hash(seq: u64, previous: Digest, record: &str) -> Digest {
    let mut bytes = Vec::with_capacity(40 + record.len());
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(previous.as_bytes());
    bytes.extend_from_slice(record.as_bytes());
    Digest::of_bytes(&bytes)
}

/// Where a chain has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The number of the last link; zero for an empty chain.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
}

impl Head {
    /// The head of an empty chain.
    pub const START: Self = Self { seq: 0, hash: Digest::ZERO };
}

/// The first place where a chain does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A number is missing or out of order.
    #[error("record {expected} is missing: the next one found is {found}")]
    Gap {
        /// The number that should come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// A link does not follow from the one before.
    #[error("record {seq} does not follow from record {}", seq - 1)]
    Detached {
        /// The link.
        seq: u64,
    },
    /// A record is not what was hashed.
    #[error("record {seq} was changed after it was written")]
    Altered {
        /// The link.
        seq: u64,
    },
    /// The end is missing: a checkpoint knows of more, or of another chain.
    #[error("the chain ends at record {found}, but a signed checkpoint has seen record {seen}")]
    Cut {
        /// The last record there is.
        found: u64,
        /// The last record the checkpoint saw.
        seen: u64,
    },
    /// A checkpoint saw another record in that place.
    #[error("record {seq} is not the one that a signed checkpoint saw")]
    Replaced {
        /// The link.
        seq: u64,
    },
    /// An entry of a ledger that was erased with its person is not what was signed.
    #[error("entry {seq} of the erased ledger {relation} was changed, or one before it is missing")]
    Erased {
        /// The ledger.
        relation: RelationId,
        /// The entry.
        seq: u64,
    },
    /// A checkpoint's signature does not hold.
    #[error("the checkpoint at record {seq} is not signed by this server's key")]
    Unsigned {
        /// The record it claims to have seen.
        seq: u64,
    },
}

/// Checks one link after another.
#[derive(Debug)]
pub struct Verifier {
    head: Head,
}

impl Verifier {
    /// Starts behind `head`.
    #[must_use]
    pub fn after(head: Head) -> Self {
        Self { head }
    }

    /// Takes the next link.
    ///
    /// # Errors
    /// It does not follow, or was changed.
    pub fn take(&mut self, link: &Link) -> Result<(), Broken> {
        self.follows(link)?;
        if link_hash(link.seq, link.previous, &link.record) != link.hash {
            return Err(Broken::Altered { seq: link.seq });
        }
        self.head = Head { seq: link.seq, hash: link.hash };
        Ok(())
    }

    /// Takes the next link, whose record was redacted: its text was checked by its signature.
    ///
    /// # Errors
    /// Its number or its previous hash does not follow from the last link.
    pub fn take_redacted(&mut self, link: &Link) -> Result<(), Broken> {
        self.follows(link)?;
        self.head = Head { seq: link.seq, hash: link.hash };
        Ok(())
    }

    fn follows(&self, link: &Link) -> Result<(), Broken> {
        let expected = self.head.seq + 1;
        if link.seq != expected {
            return Err(Broken::Gap { expected, found: link.seq });
        }
        if link.previous != self.head.hash {
            return Err(Broken::Detached { seq: link.seq });
        }
        Ok(())
    }

    /// Where the chain has got to.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(n: i64) -> AuditRecord {
        AuditRecord {
            caller: Principal::Local,
            protocol: Protocol::Aap,
            references: References::default(),
            agent: AgentName::parse("hotel").unwrap(),
            tool: ToolName::parse("book").unwrap(),
            scope: None,
            call: CallId::parse(&format!("c{n}")).unwrap(),
            session: None,
            turn: None,
            request: None,
            arguments_digest: Digest::ZERO,
            decision: Verdict::Allowed { by: vec!["policy".into()] },
            outcome: Outcome::Completed,
            asked_at: Timestamp::from_millis(n),
            started_at: Some(Timestamp::from_millis(n)),
            ended_at: Timestamp::from_millis(n + 1),
        }
    }

    #[test]
    fn its_json_is_canonical_as_it_is() {
        let refused = Verdict::Refused { by: "key:k\u{1}\"é".to_owned(), code: Code::Denied };
        let full = AuditRecord {
            scope: Some(ScopeId::parse("a:b").unwrap()),
            session: Some(SessionId::parse("s").unwrap()),
            turn: Some(7),
            request: Some("r\n\u{7f}客".to_owned()),
            started_at: None,
            references: References { rule: Some(references::Rule::Key), ..References::default() },
            ..record(2)
        };
        let outcomes = [Outcome::Completed, Outcome::NotRun, Outcome::Failed { code: Code::Interrupted }];
        for (outcome, decision) in
            outcomes.into_iter().flat_map(|it| [(it.clone(), refused.clone()), (it, record(1).decision)])
        {
            for base in [record(1), full.clone()] {
                let record = AuditRecord { outcome: outcome.clone(), decision: decision.clone(), ..base };
                let text = Link::forge(1, Digest::ZERO, &record).record;
                assert_eq!(text.as_bytes(), crate::digest::canonical(&record));
                assert_eq!(serde_json::from_str::<AuditRecord>(&text).unwrap(), record);
            }
        }
    }

    fn chain(length: u64) -> Vec<Link> {
        let mut head = Head::START;
        (1..=length)
            .map(|seq| {
                let link = Link::forge(seq, head.hash, &record(i64::try_from(seq).unwrap()));
                head = Head { seq, hash: link.hash };
                link
            })
            .collect()
    }

    fn verify(links: &[Link]) -> Result<Head, Broken> {
        let mut verifier = Verifier::after(Head::START);
        links.iter().try_for_each(|link| verifier.take(link))?;
        Ok(verifier.head())
    }

    #[test]
    fn an_untouched_chain_holds() {
        assert_eq!(verify(&chain(5)).unwrap().seq, 5);
        assert_eq!(verify(&[]).unwrap(), Head::START);
    }

    #[test]
    fn the_first_broken_link_is_named() {
        let mut altered = chain(5);
        altered[2].record = altered[2].record.replace("completed", "not_run");
        assert_eq!(verify(&altered), Err(Broken::Altered { seq: 3 }));

        let mut missing = chain(5);
        missing.remove(1);
        assert_eq!(verify(&missing), Err(Broken::Gap { expected: 2, found: 3 }));

        let mut forged = chain(5);
        forged[3] = Link::forge(4, Digest::ZERO, &record(4));
        assert_eq!(verify(&forged), Err(Broken::Detached { seq: 4 }));

        let mut rehashed = chain(5);
        rehashed[3] = Link::forge(4, rehashed[2].hash, &record(99));
        assert_eq!(verify(&rehashed), Err(Broken::Detached { seq: 5 }));
    }
}
