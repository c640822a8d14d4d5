//! What the judge says.

use std::time::Duration;

use super::constraint::{Constraint, Constraints};
use super::offer::{Ability, ExecutionMode, Offer, SecurityProfile};
use super::score::Score;
use super::{Judged, Mode};
use crate::time::Timestamp;

/// How many of the others are told.
pub const MAX_ALTERNATIVES: usize = 16;

/// What the judge says when there is something to use.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<'a> {
    /// Use this.
    Accepted(Accepted<'a>),
    /// Nothing structured fits; this one would draft a protocol.
    Draft(Draft<'a>),
}

/// The choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted<'a> {
    /// The interface.
    pub offer: &'a Offer,
    /// What it is used for.
    pub ability: Option<&'a Ability>,
    /// How it is protected: the strongest way both know.
    pub security: SecurityProfile,
    /// What is sent.
    pub content_type: Option<&'a str>,
    /// How it is used.
    pub mode: Option<ExecutionMode>,
    /// Whether a person must agree to the call.
    pub human_authorization: bool,
    /// How long to wait.
    pub timeout_ms: Option<u64>,
    /// Its points.
    pub score: Score,
    /// The others, the nearest first, each with why it lost.
    pub alternatives: Vec<Alternative<'a>>,
}

/// Who would make up a protocol with the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft<'a> {
    /// The interface to talk on.
    pub offer: &'a Offer,
    /// How that is protected.
    pub security: SecurityProfile,
    /// The interfaces there are, and why none fits.
    pub alternatives: Vec<Alternative<'a>>,
}

/// An interface that was not chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative<'a> {
    /// The interface.
    pub offer: &'a Offer,
    /// What it would be used for.
    pub ability: Option<&'a Ability>,
    /// Its points.
    pub score: Score,
    /// Why it lost.
    pub lost: Lost,
}

/// Why an interface lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// It lacks what the caller must have.
    Lacks(Constraints),
    /// It would be less well protected.
    WeakerSecurity(SecurityProfile),
    /// It has fewer points.
    FewerPoints(u32),
    /// It is as good, and its id comes later.
    LaterId,
    /// It is only for drafting with.
    NotStructured,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lacks(constraints) => write!(f, "does not satisfy {}", constraints.names().join(", ")),
            Self::WeakerSecurity(profile) => write!(f, "would only be {}", profile.as_str()),
            Self::FewerPoints(by) => write!(f, "has {by} {} less", if *by == 1 { "point" } else { "points" }),
            Self::LaterId => f.write_str("is as good, and its id comes later"),
            Self::NotStructured => f.write_str("is natural language, and a protocol was asked for"),
        }
    }
}

/// The nearest of the others. What this caller may not use is not told.
pub(super) fn alternatives<'a>(judged: &[Judged<'a>], chosen: Option<usize>) -> Vec<Alternative<'a>> {
    let winner = chosen.map(|chosen| &judged[chosen]);
    let others = judged.iter().enumerate().filter(|(at, it)| Some(*at) != chosen && it.entry.offer.granted);
    let told = others.take(MAX_ALTERNATIVES).map(|(_, it)| Alternative {
        offer: &it.entry.offer,
        ability: it.ability,
        score: it.score,
        lost: why(it, winner),
    });
    told.collect()
}

fn why(it: &Judged<'_>, winner: Option<&Judged<'_>>) -> Lost {
    let Some(winner) = winner else {
        return if it.violations.is_empty() { Lost::NotStructured } else { Lost::Lacks(it.violations) };
    };
    match it.security {
        _ if !it.violations.is_empty() => Lost::Lacks(it.violations),
        Some(security) if Some(security) < winner.security => Lost::WeakerSecurity(security),
        _ if it.score.total < winner.score.total => Lost::FewerPoints(winner.score.total - it.score.total),
        _ => Lost::LaterId,
    }
}

/// Why there is nothing to use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Which of the nine.
    pub cause: Cause,
    /// In words.
    pub message: String,
    /// What could not be satisfied.
    pub unsupported: Constraints,
    /// What there is instead.
    pub supported: Vec<String>,
    /// What should be said.
    pub missing: Vec<&'static str>,
    /// The interface that lacks the least.
    pub nearest: Option<String>,
}

/// The nine causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The request is refused as such.
    Rejected,
    /// No interface has all that is asked for.
    NoMatchingInterface,
    /// Nobody negotiates in that way here.
    UnsupportedMode,
    /// No interface follows a profile that would do.
    UnsupportedCandidateProfile,
    /// No interface can be protected as asked.
    UnsupportedSecurityProfile,
    /// No interface takes a content type that would do.
    UnsupportedContentType,
    /// The request does not say enough.
    MoreInformationRequired,
    /// What would do is not for this caller.
    AuthorizationRequired,
    /// The request is too old.
    Expired,
}

impl Cause {
    /// Every cause, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Rejected,
        Self::NoMatchingInterface,
        Self::UnsupportedMode,
        Self::UnsupportedCandidateProfile,
        Self::UnsupportedSecurityProfile,
        Self::UnsupportedContentType,
        Self::MoreInformationRequired,
        Self::AuthorizationRequired,
        Self::Expired,
    ];

    /// Those that are about one thing, and the constraints they are about.
    pub(super) const OF_ONE_CONSTRAINT: &'static [(Self, &'static [Constraint])] = &[
        (Self::UnsupportedCandidateProfile, &[Constraint::CandidateProtocols, Constraint::SupportedProfiles]),
        (
            Self::UnsupportedSecurityProfile,
            &[
                Constraint::RequiredSecurityProfile,
                Constraint::SupportedSecurityProfiles,
                Constraint::OwnSecurityProfile,
            ],
        ),
        (Self::UnsupportedContentType, &[Constraint::SupportedContentTypes]),
    ];
}

impl Refusal {
    fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            message: message.into(),
            unsupported: Constraints::default(),
            supported: Vec::new(),
            missing: Vec::new(),
            nearest: None,
        }
    }

    pub(super) fn unsupported_mode(mode: &str) -> Self {
        let mode: String = mode.chars().take(80).collect();
        Self {
            supported: vec![Mode::StructuredSelection.as_str().to_owned()],
            ..Self::new(Cause::UnsupportedMode, format!("The mode {mode:?} is not supported"))
        }
    }

    pub(super) fn expired(created: Timestamp, age: Duration) -> Self {
        let message = format!("The request is of {created}, more than {} seconds ago", age.as_secs());
        Self::new(Cause::Expired, message)
    }

    pub(super) fn from_the_future(created: Timestamp) -> Self {
        Self::new(Cause::Rejected, format!("The request says it is of {created}, which is still to come"))
    }

    pub(super) fn more_information() -> Self {
        Self {
            missing: vec!["intent.intentTags", "intent.description"],
            ..Self::new(Cause::MoreInformationRequired, "The intent says nothing that could be compared")
        }
    }

    pub(super) fn authorization_required() -> Self {
        Self::new(Cause::AuthorizationRequired, "What would do is only for callers who are known and allowed")
    }

    pub(super) fn unsupported(cause: Cause, unsupported: Constraints, supported: Vec<String>) -> Self {
        let what = match cause {
            Cause::UnsupportedCandidateProfile => "profile",
            Cause::UnsupportedSecurityProfile => "security profile",
            _ => "content type",
        };
        let there_is = if supported.is_empty() { "none".to_owned() } else { supported.join(", ") };
        let message = format!("No interface has a {what} that would do; there is {there_is}");
        Self { unsupported, supported, ..Self::new(cause, message) }
    }

    pub(super) fn no_match(unsupported: Constraints, nearest: Option<&str>) -> Self {
        let message = match nearest {
            Some(id) => format!("No matching interface; the nearest, {id}, lacks {}", unsupported.names().join(", ")),
            None => "No matching interface".to_owned(),
        };
        Self { unsupported, nearest: nearest.map(str::to_owned), ..Self::new(Cause::NoMatchingInterface, message) }
    }

    /// A refusal by the rules of this place.
    #[must_use]
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(Cause::Rejected, message)
    }
}
