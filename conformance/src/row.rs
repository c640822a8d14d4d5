//! One sentence of a protocol, as it is written in the suite's file.

use serde::Deserialize;

/// A sentence, and what proves it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its stable name, such as `AAP-TURN-07`.
    pub id: String,
    /// What a server must do, in one sentence.
    pub sentence: String,
    /// Who says so.
    pub source: Source,
    /// Where they say so.
    pub section: String,
    /// The check that proves it.
    #[serde(default)]
    pub check: Option<String>,
    /// Why there is no check.
    #[serde(default)]
    pub excluded: Option<String>,
    /// What the check cannot do without.
    #[serde(default)]
    pub needs: Option<Need>,
}

/// Who says a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The protocol's published schema.
    Spec,
    /// The protocol's published prose, as our digest of it words it.
    Digest,
    /// Nuncio, where the protocol is silent. Other servers may have chosen otherwise.
    Ours,
}

impl Source {
    /// Its name in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Digest => "digest",
            Self::Ours => "ours",
        }
    }
}

/// What a check cannot do without; the row is skipped where it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// An agent named `script` on the script brain, with its tools, options and all capabilities.
    Script,
    /// A key: the server must ask for one.
    Key,
    /// Two keys of different owners.
    Keys,
    /// A server that asks for no key.
    Open,
    /// A server that asks for no key, on a loopback address.
    Loopback,
    /// The skills of `conformance/skill/agent.toml`.
    Probe,
    /// Those, on a server with keys: one with the scope `probe:use`, another without.
    ProbeKeys,
    /// Those, on a server with keys, and a secret to sign requests with.
    ProbeSecret,
}

impl Need {
    /// What is missing, for the report.
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
