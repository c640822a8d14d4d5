//! Runners with a manual clock and agents from agent files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nuncio_anp::client::LocalDidUrlScheme;
use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_backend::runners::{McpStartOptions, ToolRunner, ToolRunnerConfig};
use nuncio_core::agent::Agent;
use nuncio_core::call_source::CallSource;
use nuncio_core::ids::{AgentName, CallId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::runner::{
    AuthorizedToolCall, ProgramStartSignal, SentCallMessages, ToolOutput, ToolRunError,
};
use nuncio_engine::ports::{Clock, Entropy, Runner};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

/// Clock that tests advance.
#[derive(Debug)]
pub(crate) struct RunnerTestClock(watch::Sender<Timestamp>);

impl RunnerTestClock {
    pub(crate) fn advance(&self, span: Duration) {
        self.0.send_modify(|now| *now = now.after(span));
    }
}

impl Clock for RunnerTestClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn sleep_until(&self, moment: Timestamp) -> BoxFuture<'static, ()> {
        let mut time = self.0.subscribe();
        Box::pin(async move {
            if time.wait_for(|now| *now >= moment).await.is_err() {
                // The clock no longer advances.
                std::future::pending::<()>().await;
            }
        })
    }
}

/// Random source that returns only zeros.
#[derive(Debug)]
pub(crate) struct ZeroEntropy;

impl Entropy for ZeroEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// Runners, their clock, and a folder for the agent's files.
pub(crate) struct RunnersFixture {
    pub(crate) clock: Arc<RunnerTestClock>,
    pub(crate) runners: ToolRunner,
    pub(crate) folder: TempDir,
    pub(crate) data: TempDir,
}

impl RunnersFixture {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(RunnerTestClock(watch::Sender::new(Timestamp::from_millis(1_794_740_400_000))));
        let fetch = GuardedFetch::new(AllowedAddresses::none(), false, None).unwrap();
        let [folder, data] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let runners = ToolRunner::new(ToolRunnerConfig {
            http: fetch.client_for_configured(),
            fetch: Arc::new(fetch),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::new(ZeroEntropy),
            local_dids: LocalDidUrlScheme::Http,
            executable: PathBuf::from("/bin/echo"),
            working_dir: data.path().to_owned(),
            confined: true,
            mcp_start: McpStartOptions { timeout: Duration::from_secs(10), stderr: None },
        });
        runners.set_base_dir(AgentName::parse("hotel").unwrap(), folder.path().to_owned());
        Self { clock, runners, folder, data }
    }

    /// Parses an agent named `hotel` with additional agent file text, checks it and imports its MCP tools.
    pub(crate) async fn resolve(&self, rest: &str) -> Result<Arc<Agent>, String> {
        self.runners.resolve(agent(rest)).await.map(Arc::new)
    }

    pub(crate) async fn run(
        &self,
        agent: &Arc<Agent>,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolOutput, ToolRunError> {
        self.runners.run(self.call(agent, tool, arguments)).await
    }

    pub(crate) fn call(&self, agent: &Arc<Agent>, tool: &str, arguments: Value) -> AuthorizedToolCall {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        AuthorizedToolCall {
            person: None,
            agent: Arc::clone(agent),
            tool: Arc::clone(agent.tool(tool).unwrap_or_else(|| panic!("no tool {tool}"))),
            id: CallId::parse("call-1").unwrap(),
            arguments,
            caller: Principal::Local,
            source: CallSource { caller: "local".to_owned(), app: None, key_created_at: None, conversation: None },
            deadline: self.clock.now().after(Duration::from_secs(60)),
            trace: BTreeMap::from([("traceparent", "00-1-2-01".to_owned())]),
            program_start: ProgramStartSignal::default(),
            sent: SentCallMessages::default(),
            inbox: None,
        }
    }
}

/// Agent whose programs may write to its folder, unless `rest` has an `allow` section.
pub(crate) fn agent(rest: &str) -> Agent {
    let allow = if rest.contains("[allow]") { "" } else { "[allow]\nwrite = [\".\"]\n" };
    let text = format!(
        "[agent]\nname = \"hotel\"\nversion = \"1.0.0\"\ndescription = \"A hotel.\"\n[brain]\nkind = \"script\"\n{allow}{rest}"
    );
    nuncio_agent_file::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}")).agent
}

/// Agent file text of a tool that accepts any arguments.
pub(crate) fn tool(name: &str, run: &str) -> String {
    format!("[[tool]]\nname = \"{name}\"\ndescription = \"Does it.\"\ninput = {{ type = \"object\" }}\nrun = {run}\n")
}

/// Text of an outcome that must be `ToolRunError::Failed`.
pub(crate) fn failure_text(outcome: Result<ToolOutput, ToolRunError>) -> String {
    match outcome {
        Err(ToolRunError::Failed(why)) => why,
        other => panic!("did not fail: {other:?}"),
    }
}

/// Text of an outcome that must be `ToolRunError::Unavailable`.
pub(crate) fn unavailable_text(outcome: Result<ToolOutput, ToolRunError>) -> String {
    match outcome {
        Err(ToolRunError::Unavailable(why)) => why,
        other => panic!("was available: {other:?}"),
    }
}
