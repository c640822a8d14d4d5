//! The caller's credential, under one name in every command.

use clap::Args;

/// Prefix of a secret that signs requests and is never sent.
const SIGNING_PREFIX: &str = "nsk_";

/// The credential of the caller, whatever the protocol.
#[derive(Debug, Args)]
pub(crate) struct CallerKey {
    /// API key or access token; better set in the environment, where others cannot see it
    // Version 0.1 called it `--api-key` and `--token`.
    #[arg(long, env = "NUNCIO_KEY", hide_env_values = true, aliases = ["api-key", "token"])]
    key: Option<String>,
}

/// A credential that was given. An empty one counts as none, so that `NUNCIO_KEY=` is the same as no variable.
pub(crate) fn given(credential: Option<&String>) -> Option<String> {
    credential.filter(|credential| !credential.trim().is_empty()).cloned()
}

impl CallerKey {
    /// The credential for a server that asks for an API key.
    pub(crate) fn api_key(&self) -> Option<String> {
        self.sent().or_else(|| earlier_variable("NUNCIO_API_KEY"))
    }

    /// The credential for a server that asks for an access token.
    pub(crate) fn token(&self) -> Option<String> {
        self.sent().or_else(|| earlier_variable("NUNCIO_TOKEN"))
    }

    /// The credential for a server that makes no difference between keys and tokens.
    pub(crate) fn bearer(&self) -> Option<String> {
        self.api_key().or_else(|| self.token())
    }

    /// The credential for a server that asks for a signature.
    pub(crate) fn signing(&self) -> Option<String> {
        given(self.key.as_ref())
    }

    /// The credential, unless it is a secret that is never sent.
    fn sent(&self) -> Option<String> {
        given(self.key.as_ref()).filter(|key| !key.starts_with(SIGNING_PREFIX))
    }
}

/// Reads a credential from an environment variable of version 0.1, which had one for each kind of credential.
fn earlier_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
