//! Local tools of the device, which run the tools of agents' manifests. They are found by tool name, or else by scope.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ids::{AgentId, ScopeId, ToolName};
use serde::Serialize;
use serde_json::Value;

mod desktop;
mod files;
mod location;
mod own;
mod programs;

pub use desktop::{ClipboardTool, DesktopEnvironment, DesktopNotificationTool};
pub use files::SharedFolders;
pub use location::{FixedLocationTool, GeoClueLocationTool};
pub use nuncio_confine::{ConfinementRules, ConfinementSupport, confinement};
pub use own::{CustomTool, ToolsFolder};
pub use programs::ProgramTool;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalToolFailure {
    /// The device lacks something that the tool needs.
    #[error("{0}")]
    Unavailable(String),
    /// The arguments are invalid for the tool.
    #[error("{0}")]
    Arguments(String),
    #[error("{0}")]
    Failed(String),
}

/// Limits within which a tool works, for the person who decides whether an agent may use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LocalToolAccess {
    /// Files and folders that the tool may read.
    pub reads: Vec<PathBuf>,
    /// Files and folders that the tool may also change.
    pub writes: Vec<PathBuf>,
    pub network: bool,
    /// Largest file that one call can read, in bytes.
    pub file_bytes: Option<usize>,
}

#[async_trait]
pub trait LocalTool: fmt::Debug + Send + Sync + 'static {
    /// The limits of the tool; `None` if it has none of its own.
    fn limits(&self) -> Option<LocalToolAccess> {
        None
    }

    /// Runs the tool. The future is dropped when `time` is over.
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, LocalToolFailure>;

    /// Runs the tool with the identity of the calling agent, for tools that display it.
    async fn run_for(
        &self,
        _caller: &LocalToolCaller,
        arguments: &Value,
        time: Duration,
    ) -> Result<Value, LocalToolFailure> {
        self.run(arguments, time).await
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalToolCaller {
    pub agent: AgentId,
    /// Display name chosen by the agent, sanitised.
    pub name: String,
}

/// Source of tools whose names are known only when a call arrives, such as an MCP server.
#[async_trait]
pub trait LocalToolSource: fmt::Debug + Send + Sync + 'static {
    /// The tool with that name, if the source has one. The future is dropped when the call's time is over.
    async fn tool(&self, name: &ToolName) -> Result<Option<Arc<dyn LocalTool>>, LocalToolFailure>;
}

#[derive(Debug, Clone, Default)]
pub struct LocalTools {
    by_scope: BTreeMap<ScopeId, Arc<dyn LocalTool>>,
    by_name: BTreeMap<ToolName, (ScopeId, Arc<dyn LocalTool>)>,
    families: Vec<(ScopeId, Arc<dyn LocalToolSource>)>,
}

impl LocalTools {
    /// Adds a tool that runs every call under a scope for which no other tool is found.
    #[must_use]
    pub fn under(mut self, scope: ScopeId, tool: Arc<dyn LocalTool>) -> Self {
        self.by_scope.insert(scope, tool);
        self
    }

    #[must_use]
    pub fn named(mut self, name: ToolName, scope: ScopeId, tool: Arc<dyn LocalTool>) -> Self {
        self.by_name.insert(name, (scope, tool));
        self
    }

    /// Adds a source of tools for a scope.
    #[must_use]
    pub fn family(mut self, scope: ScopeId, family: Arc<dyn LocalToolSource>) -> Self {
        self.families.push((scope, family));
        self
    }

    #[must_use]
    pub fn has(&self, name: &ToolName) -> bool {
        self.by_name.contains_key(name)
    }

    /// Finds the local tool for a manifest's tool: by name, then in a source that has the name, then by scope.
    #[must_use]
    pub fn find(&self, name: &ToolName, scope: &ScopeId) -> Option<Arc<dyn LocalTool>> {
        if let Some((needs, tool)) = self.by_name.get(name) {
            // A tool with the same name under another scope is a different tool.
            return (needs == scope).then(|| Arc::clone(tool));
        }
        let any = self.by_scope.get(scope).map(Arc::clone);
        let families = self.families.iter().filter(|(needs, _)| needs == scope);
        let families: Vec<_> = families.map(|(_, family)| Arc::clone(family)).collect();
        match families.is_empty() {
            true => any,
            false => Some(Arc::new(LateBoundTool { name: name.clone(), families, any })),
        }
    }
}

/// A tool that is looked up in the tool sources when it runs.
#[derive(Debug)]
struct LateBoundTool {
    name: ToolName,
    families: Vec<Arc<dyn LocalToolSource>>,
    any: Option<Arc<dyn LocalTool>>,
}

#[async_trait]
impl LocalTool for LateBoundTool {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        let mut silent = None;
        for family in &self.families {
            match family.tool(&self.name).await {
                Ok(Some(tool)) => return tool.run(arguments, time).await,
                Ok(None) => {}
                // A failed source may have the tool, so only another source may run it, not the tool of the scope.
                Err(failure) => silent = Some(failure),
            }
        }
        match (silent, &self.any) {
            (Some(failure), _) => Err(failure),
            (None, Some(any)) => any.run(arguments, time).await,
            (None, None) => Err(LocalToolFailure::Unavailable("this device has no such tool".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug)]
    struct FixedResultTool(&'static str);

    #[async_trait]
    impl LocalTool for FixedResultTool {
        async fn run(&self, _: &Value, _: Duration) -> Result<Value, LocalToolFailure> {
            Ok(json!(self.0))
        }
    }

    /// Tool source that has one tool, or fails.
    #[derive(Debug)]
    struct FixedToolSource(Result<&'static str, LocalToolFailure>);

    #[async_trait]
    impl LocalToolSource for FixedToolSource {
        async fn tool(&self, name: &ToolName) -> Result<Option<Arc<dyn LocalTool>>, LocalToolFailure> {
            let has = self.0.clone()?;
            Ok((has == name.as_str()).then(|| Arc::new(FixedResultTool("family")) as _))
        }
    }

    async fn run(tools: &LocalTools, name: &str, scope: &str) -> Option<Result<Value, LocalToolFailure>> {
        let tool = tools.find(&ToolName::parse(name).unwrap(), &ScopeId::parse(scope).unwrap())?;
        Some(tool.run(&json!({}), Duration::from_secs(1)).await)
    }

    #[tokio::test]
    async fn tool_is_found_by_name_then_in_tool_sources_then_by_scope() {
        let scope = |text: &str| ScopeId::parse(text).unwrap();
        let tools = LocalTools::default()
            .under(scope("a:read"), Arc::new(FixedResultTool("any")))
            .named(ToolName::parse("own").unwrap(), scope("a:read"), Arc::new(FixedResultTool("own")))
            .family(scope("a:read"), Arc::new(FixedToolSource(Ok("theirs"))))
            .family(scope("b:read"), Arc::new(FixedToolSource(Ok("theirs"))));
        for (name, scope, said) in [
            ("own", "a:read", Some(Ok("own"))),
            ("own", "b:read", None),
            ("theirs", "a:read", Some(Ok("family"))),
            ("other", "a:read", Some(Ok("any"))),
            ("theirs", "b:read", Some(Ok("family"))),
            ("other", "b:read", Some(Err(()))),
            ("theirs", "c:read", None),
        ] {
            let got = run(&tools, name, scope).await;
            let got =
                got.map(|got| got.map_err(|failure| assert!(matches!(failure, LocalToolFailure::Unavailable(_)))));
            assert_eq!(got, said.map(|said| said.map(|said| json!(said))), "{name} {scope}");
        }
        // If a source fails, another source may run the tool, but not the tool of the scope.
        let silent = LocalToolFailure::Unavailable("silent".to_owned());
        let tools = tools.family(scope("a:read"), Arc::new(FixedToolSource(Err(silent.clone()))));
        assert_eq!(run(&tools, "other", "a:read").await, Some(Err(silent)));
        assert_eq!(run(&tools, "theirs", "a:read").await, Some(Ok(json!("family"))));
    }
}
