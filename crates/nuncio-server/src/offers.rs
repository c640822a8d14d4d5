//! Lists the tools of MCP servers, and connects to an agent's servers, without serving the agent.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use nuncio_anp::client::LocalDidUrlScheme;
use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_backend::runners::{McpServerTools, McpStartOptions, ServerReachability, ToolRunner, ToolRunnerConfig};
use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;
use nuncio_engine::ports::entropy::random_name;

use crate::error::OperatorError;
use crate::system::{SystemClock, SystemEntropy};

/// Runner settings for commands without a server: programs are confined, and of the addresses that are not public only
/// those of this machine can be reached.
pub fn local_runners_config(executable: PathBuf, working_dir: PathBuf) -> Result<ToolRunnerConfig, String> {
    let fetch = GuardedFetch::new(AllowedAddresses::none(), true, None)?;
    Ok(ToolRunnerConfig {
        http: fetch.client_for_configured(),
        fetch: Arc::new(fetch),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        local_dids: LocalDidUrlScheme::default(),
        executable,
        working_dir,
        confined: true,
        mcp_start: McpStartOptions::default(),
    })
}

/// Lists the tools of an agent's MCP servers. `folder` is that of the agent file; `executable` is run for the command
/// `nuncio`.
pub async fn mcp_offers(
    agent: &Agent,
    folder: PathBuf,
    executable: PathBuf,
    mcp_start: McpStartOptions,
) -> Result<Vec<McpServerTools>, OperatorError> {
    let (runners, _scratch) = scratch_runners(agent, folder, executable, mcp_start)?;
    runners.offers(agent).await.map_err(unavailable)
}

/// Starts or connects to every server that an agent uses, without calling a tool.
pub async fn reach_servers(
    agent: &Agent,
    folder: PathBuf,
    executable: PathBuf,
) -> Result<Vec<ServerReachability>, OperatorError> {
    let (runners, _scratch) = scratch_runners(agent, folder, executable, McpStartOptions::default())?;
    Ok(runners.reach(agent).await)
}

fn unavailable(message: String) -> OperatorError {
    OperatorError::new(ErrorCode::ToolUnavailable, message)
}

/// Folder that is removed when it is dropped.
struct ScratchFolder(PathBuf);

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runners whose programs write to a new private folder: the demo servers write files, which stay away from other data.
fn scratch_runners(
    agent: &Agent,
    folder: PathBuf,
    executable: PathBuf,
    mcp_start: McpStartOptions,
) -> Result<(ToolRunner, ScratchFolder), OperatorError> {
    let scratch = std::env::temp_dir().join(random_name(&SystemEntropy, "nuncio-offers-"));
    DirBuilder::new()
        .mode(0o700)
        .create(&scratch)
        .map_err(|error| unavailable(format!("{} cannot be made: {error}", scratch.display())))?;
    let scratch = ScratchFolder(scratch);
    let config = local_runners_config(executable, scratch.0.clone()).map_err(unavailable)?;
    let runners = ToolRunner::new(ToolRunnerConfig { mcp_start, ..config });
    runners.set_base_dir(agent.name.clone(), folder);
    Ok((runners, scratch))
}
