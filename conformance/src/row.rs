//! Requirement of a protocol, as written in the requirements file of a suite.

use serde::Deserialize;

/// A requirement of a specification with the name of its check.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequirementRow {
    /// Stable id of the row, such as `AAP-TURN-07`.
    pub id: String,
    /// The requirement in one sentence.
    pub sentence: String,
    /// Document or decision that the requirement comes from.
    pub source: RequirementSource,
    /// Section of the source document.
    pub section: String,
    /// Name of the check that proves the requirement.
    #[serde(default)]
    pub check: Option<String>,
    /// Reason why the requirement has no check.
    #[serde(default)]
    pub excluded: Option<String>,
    /// Precondition of the check; without it the row is skipped.
    #[serde(default)]
    pub needs: Option<CheckPrecondition>,
}

/// Document or decision that a requirement comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequirementSource {
    /// Published schema of the protocol.
    Spec,
    /// Published text of the protocol, as summarised in our notes.
    Digest,
    /// Choice of Nuncio where the protocol specifies nothing. Other servers may differ.
    Ours,
}

impl RequirementSource {
    /// Name of the source in the requirements file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Digest => "digest",
            Self::Ours => "ours",
        }
    }
}

/// Precondition of a check; the row is skipped without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckPrecondition {
    /// An agent named `script` on the script brain, with its tools, options and all capabilities; for Skill Sharing the
    /// skills `script/echo` and `script/fail`.
    Script,
    /// A server that requires a key, and a key.
    Key,
    /// Two keys of different owners.
    Keys,
    /// A server that requires no key.
    Open,
    /// A server that requires no key, on a loopback address.
    Loopback,
    /// The probe skills, declared in `conformance/skill/agent.toml`.
    Probe,
    /// The probe skills and two keys: one with the scope `probe:use`, one without.
    ProbeKeys,
    /// The probe skills and a secret for signing requests.
    ProbeSecret,
}

impl CheckPrecondition {
    /// Message for the report when the precondition is missing.
    #[must_use]
    pub const fn missing(self) -> &'static str {
        match self {
            Self::Script => "needs an agent named `script` on the script brain",
            Self::Key => "needs a server with keys, and one of them",
            Self::Keys => "needs two keys of different owners",
            Self::Open => "needs a server without keys",
            Self::Loopback => "needs a server without keys on a loopback address",
            Self::Probe => "needs the skills of conformance/skill/agent.toml",
            Self::ProbeKeys => {
                "needs the skills of conformance/skill/agent.toml, a key with their scope and one without"
            }
            Self::ProbeSecret => "needs the skills of conformance/skill/agent.toml, and a secret with their scope",
        }
    }
}
