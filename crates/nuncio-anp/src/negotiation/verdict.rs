//! Results of a negotiation.

use nuncio_core::time::Timestamp;

use super::constraint::{NegotiationConstraint, NegotiationConstraintSet, SECURITY_CONSTRAINTS};
use super::offer::{InterfaceExecutionMode, InterfaceOffer, OfferedCapability, SecurityProfile};
use super::score::InterfaceScore;
use super::{EvaluatedOffer, MAX_AGE, NegotiationMode};
use crate::wire::AnpErrorCode;

pub const MAX_ALTERNATIVES: usize = 16;

/// Result of a successful negotiation.
#[derive(Debug, Clone, PartialEq)]
pub enum AcceptedInterfaceOrDraft<'a> {
    Accepted(ChosenInterface<'a>),
    /// No structured interface fits; the contained interface can be used to draft a protocol.
    Draft(ProtocolDraftingOffer<'a>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChosenInterface<'a> {
    pub offer: &'a InterfaceOffer,
    pub ability: Option<&'a OfferedCapability>,
    /// Strongest security profile that both sides support.
    pub security: SecurityProfile,
    pub content_type: Option<&'a str>,
    pub mode: Option<InterfaceExecutionMode>,
    pub timeout_ms: Option<u64>,
    pub score: InterfaceScore,
    /// Other interfaces, the nearest first, each with the reason why it was not chosen.
    pub alternatives: Vec<InterfaceNotChosen<'a>>,
}

/// The interface with which the caller can draft a protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct ProtocolDraftingOffer<'a> {
    pub offer: &'a InterfaceOffer,
    pub security: SecurityProfile,
    /// Existing interfaces, each with the reason why it does not fit.
    pub alternatives: Vec<InterfaceNotChosen<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct InterfaceNotChosen<'a> {
    pub offer: &'a InterfaceOffer,
    pub ability: Option<&'a OfferedCapability>,
    pub score: InterfaceScore,
    pub lost: NotChosenReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotChosenReason {
    Lacks(NegotiationConstraintSet),
    /// The best security profile common with the caller is weaker than that of the chosen interface.
    WeakerSecurity(SecurityProfile),
    FewerPoints(u32),
    /// The interface has the same score as the chosen one, and its id sorts later.
    LaterId,
    /// The interface can only be used for drafting.
    NotStructured,
    /// The interface fits better than the chosen one, but the caller lacks a scope.
    NotGranted,
}

impl std::fmt::Display for NotChosenReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lacks(constraints) => write!(f, "does not satisfy {}", constraints.names().join(", ")),
            Self::WeakerSecurity(profile) => write!(f, "would only be {}", profile.as_str()),
            Self::FewerPoints(by) => write!(f, "has {by} {} less", if *by == 1 { "point" } else { "points" }),
            Self::LaterId => f.write_str("has the same score, and its id sorts later"),
            Self::NotStructured => f.write_str("is a natural-language interface, and a protocol was requested"),
            Self::NotGranted => f.write_str("would have been chosen, but you lack a scope"),
        }
    }
}

/// Nearest interfaces that were not chosen. Interfaces that the caller may not use are left out, except those that would
/// have been chosen if the caller had a scope.
pub(super) fn alternatives<'a>(evaluated: &[EvaluatedOffer<'a>], chosen: Option<usize>) -> Vec<InterfaceNotChosen<'a>> {
    let winner = chosen.map(|chosen| &evaluated[chosen]);
    let would_win = |at: usize, it: &EvaluatedOffer<'a>| {
        let lacks_scope = it.ability.is_some_and(|ability| !ability.missing_scopes.is_empty());
        lacks_scope && it.violations.is_empty() && chosen.is_none_or(|chosen| at < chosen)
    };
    let is_shown = |at: usize, it: &EvaluatedOffer<'a>| it.entry.offer.granted || would_win(at, it);
    let others = evaluated.iter().enumerate().filter(|(at, it)| Some(*at) != chosen && is_shown(*at, it));
    let alternative = |(_, it): (_, &EvaluatedOffer<'a>)| {
        let lost = why(it, winner);
        InterfaceNotChosen { offer: &it.entry.offer, ability: it.ability, score: it.score, lost }
    };
    others.take(MAX_ALTERNATIVES).map(alternative).collect()
}

fn why(it: &EvaluatedOffer<'_>, winner: Option<&EvaluatedOffer<'_>>) -> NotChosenReason {
    if !it.entry.offer.granted {
        return NotChosenReason::NotGranted;
    }
    if !it.violations.is_empty() {
        return NotChosenReason::Lacks(it.violations);
    }
    let Some(winner) = winner else { return NotChosenReason::NotStructured };
    match it.security {
        Some(security) if Some(security) < winner.security => NotChosenReason::WeakerSecurity(security),
        _ if it.score.total < winner.score.total => NotChosenReason::FewerPoints(winner.score.total - it.score.total),
        _ => NotChosenReason::LaterId,
    }
}

/// Error of a negotiation in which no interface was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NegotiationRefusal {
    /// One of the nine codes of ANP-06 for a negotiation without a result.
    pub cause: AnpErrorCode,
    pub message: String,
    /// Constraints that no interface satisfies.
    pub unsupported: NegotiationConstraintSet,
    /// Supported values that the caller could use instead.
    pub supported: Vec<String>,
    /// Request fields that the caller should fill in.
    pub missing: Vec<&'static str>,
    /// Id of the interface that violates the fewest constraints.
    pub nearest: Option<String>,
}

/// Error codes for a single requirement that no interface satisfies, with the constraints that they report.
pub(super) const CAUSES_OF_ONE_REQUIREMENT: &[(AnpErrorCode, &[NegotiationConstraint])] = &[
    (
        AnpErrorCode::UnsupportedCandidateProfile,
        &[NegotiationConstraint::CandidateProtocols, NegotiationConstraint::SupportedProfiles],
    ),
    (AnpErrorCode::UnsupportedCandidateSecurity, &SECURITY_CONSTRAINTS),
    (AnpErrorCode::UnsupportedCandidateContent, &[NegotiationConstraint::SupportedContentTypes]),
];

impl NegotiationRefusal {
    fn new(cause: AnpErrorCode, message: impl Into<String>) -> Self {
        Self {
            cause,
            message: message.into(),
            unsupported: NegotiationConstraintSet::default(),
            supported: Vec::new(),
            missing: Vec::new(),
            nearest: None,
        }
    }

    pub(super) fn unsupported_mode(mode: &str) -> Self {
        let mode: String = mode.chars().take(80).collect();
        Self {
            supported: vec![NegotiationMode::StructuredSelection.as_str().to_owned()],
            ..Self::new(AnpErrorCode::UnsupportedNegotiationMode, format!("The mode {mode:?} is not supported"))
        }
    }

    pub(super) fn expired(created: Timestamp) -> Self {
        let message = format!("The request was created at {created}, more than {} seconds ago", MAX_AGE.as_secs());
        Self::new(AnpErrorCode::NegotiationExpired, message)
    }

    pub(super) fn from_the_future(created: Timestamp) -> Self {
        let message = format!("The request was created at {created}, which is in the future");
        Self::new(AnpErrorCode::NegotiationRejected, message)
    }

    pub(super) fn more_information() -> Self {
        Self {
            missing: vec!["intent.intentTags", "intent.description"],
            ..Self::new(AnpErrorCode::MoreInformationRequired, "The intent has no words or tags that could be compared")
        }
    }

    pub(super) fn authorization_required() -> Self {
        Self::new(
            AnpErrorCode::AuthorizationRequired,
            "A suitable interface exists, but only for authenticated callers with its permission",
        )
    }

    pub(super) fn unsupported(
        cause: AnpErrorCode,
        unsupported: NegotiationConstraintSet,
        supported: Vec<String>,
    ) -> Self {
        let what = match cause {
            AnpErrorCode::UnsupportedCandidateProfile => "profile",
            AnpErrorCode::UnsupportedCandidateSecurity => "security profile",
            _ => "content type",
        };
        let there_is = if supported.is_empty() { "none".to_owned() } else { supported.join(", ") };
        let message = format!("No interface has an acceptable {what}; supported: {there_is}");
        Self { unsupported, supported, ..Self::new(cause, message) }
    }

    pub(super) fn no_match(unsupported: NegotiationConstraintSet, nearest: Option<&str>) -> Self {
        let message = match nearest {
            Some(id) => format!("No matching interface; the nearest, {id}, lacks {}", unsupported.names().join(", ")),
            None => "No matching interface".to_owned(),
        };
        Self {
            unsupported,
            nearest: nearest.map(str::to_owned),
            ..Self::new(AnpErrorCode::NoMatchingInterface, message)
        }
    }
}
