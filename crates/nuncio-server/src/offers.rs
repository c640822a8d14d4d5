//! Lists the tools of MCP servers without serving an agent.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use nuncio_anp::client::LocalDidScheme;
use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_backend::runners::{McpOffer, ToolRunner, ToolRunnerConfig};
use nuncio_core::Code;
use nuncio_core::agent::Agent;
use nuncio_engine::ports::entropy::random_name;

use crate::error::StartError;
use crate::system::{SystemClock, SystemEntropy};

/// Runner settings for commands without a server: programs are confined, and only this machine can be reached.
pub fn local_runners_config(executable: PathBuf, working_dir: PathBuf) -> Result<ToolRunnerConfig, String> {
    let fetch = GuardedFetch::new(AllowedAddresses::none(), true, None)?;
    Ok(ToolRunnerConfig {
        http: fetch.client_for_configured(),
        fetch: Arc::new(fetch),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        local_dids: LocalDidScheme::default(),
        executable,
        working_dir,
        confined: true,
    })
}

/// Lists the tools of an agent's MCP servers. `folder` is that of the agent file; `executable` is run for the command
/// `nuncio`.
pub async fn mcp_offers(agent: &Agent, folder: PathBuf, executable: PathBuf) -> Result<Vec<McpOffer>, StartError> {
    let wrong = |message: String| StartError::new(Code::ToolUnavailable, message);
    // The demo servers write files; a new private folder keeps them away from other data.
    let scratch = std::env::temp_dir().join(random_name(&SystemEntropy, "nuncio-offers-"));
    DirBuilder::new()
        .mode(0o700)
        .create(&scratch)
        .map_err(|error| wrong(format!("{} cannot be made: {error}", scratch.display())))?;
    let runners = ToolRunner::new(local_runners_config(executable, scratch.clone()).map_err(wrong)?);
    runners.set_base_dir(agent.name.clone(), folder);
    let offers = runners.offers(agent).await;
    let _ = std::fs::remove_dir_all(&scratch);
    offers.map_err(wrong)
}
