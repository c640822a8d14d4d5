//! What the device can do, each under a permission. A tool of an agent's manifest is found here by its name, or else by
//! the permission it needs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ids::{AgentId, ScopeId, ToolName};
use serde_json::Value;

pub(crate) mod dbus;
mod desktop;
mod files;
mod own;
mod place;
mod programs;

pub use desktop::{Clipboard, Desktop, Notify};
pub use files::Folders;
pub use nuncio_confine::{Confinement, Reach, confinement};
pub use own::{OwnTool, Shelf};
pub use place::{GeoClue, Place};
pub use programs::ProgramTool;

/// Why a tool has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFailure {
    /// The device has no such thing.
    #[error("{0}")]
    Unavailable(String),
    /// The arguments ask for what it does not do.
    #[error("{0}")]
    Arguments(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

/// Something the device can do.
#[async_trait]
pub trait LocalTool: fmt::Debug + Send + Sync + 'static {
    /// Does it, within the time. It is dropped when that is over.
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, ToolFailure>;

    /// The same, for tools that say for whom they do it.
    async fn run_for(&self, caller: &Caller, arguments: &Value, time: Duration) -> Result<Value, ToolFailure> {
        let _ = caller;
        self.run(arguments, time).await
    }
}

/// For whom something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Which agent.
    pub agent: AgentId,
    /// As it calls itself, without tricks.
    pub name: String,
}

/// Tools whose names are known only when whoever has them is asked.
#[async_trait]
pub trait Family: fmt::Debug + Send + Sync + 'static {
    /// The tool of that name, if there is one. It is dropped when the call's time is over.
    async fn tool(&self, name: &ToolName) -> Result<Option<Arc<dyn LocalTool>>, ToolFailure>;
}

/// What the device can do.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    by_scope: BTreeMap<ScopeId, Arc<dyn LocalTool>>,
    by_name: BTreeMap<ToolName, (ScopeId, Arc<dyn LocalTool>)>,
    families: Vec<(ScopeId, Arc<dyn Family>)>,
}

impl Tools {
    /// Does whatever needs that permission with this.
    #[must_use]
    pub fn under(mut self, scope: ScopeId, tool: Arc<dyn LocalTool>) -> Self {
        self.by_scope.insert(scope, tool);
        self
    }

    /// Does what has that name, under that permission.
    #[must_use]
    pub fn named(mut self, name: ToolName, scope: ScopeId, tool: Arc<dyn LocalTool>) -> Self {
        self.by_name.insert(name, (scope, tool));
        self
    }

    /// Does what these have a name for, under that permission.
    #[must_use]
    pub fn family(mut self, scope: ScopeId, family: Arc<dyn Family>) -> Self {
        self.families.push((scope, family));
        self
    }

    /// Whether something has that name already.
    #[must_use]
    pub fn has(&self, name: &ToolName) -> bool {
        self.by_name.contains_key(name)
    }

    /// The one for a tool of a manifest, which says by which permission it runs: of that name, or of a family that has
    /// the name, or whatever does all of that permission.
    #[must_use]
    pub fn find(&self, name: &ToolName, scope: &ScopeId) -> Option<Arc<dyn LocalTool>> {
        if let Some((needs, tool)) = self.by_name.get(name) {
            // A tool of that name under another permission is not this one.
            return (needs == scope).then(|| Arc::clone(tool));
        }
        let any = self.by_scope.get(scope).map(Arc::clone);
        let families = self.families.iter().filter(|(needs, _)| needs == scope);
        let families: Vec<_> = families.map(|(_, family)| Arc::clone(family)).collect();
        match families.is_empty() {
            true => any,
            false => Some(Arc::new(Sought { name: name.clone(), families, any })),
        }
    }
}

/// A tool that a family may have.
#[derive(Debug)]
struct Sought {
    name: ToolName,
    families: Vec<Arc<dyn Family>>,
    any: Option<Arc<dyn LocalTool>>,
}

#[async_trait]
impl LocalTool for Sought {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, ToolFailure> {
        let mut silent = None;
        for family in &self.families {
            match family.tool(&self.name).await {
                Ok(Some(tool)) => return tool.run(arguments, time).await,
                Ok(None) => {}
                // One that does not answer may have it: nothing else does it instead, except another that has it.
                Err(failure) => silent = Some(failure),
            }
        }
        match (silent, &self.any) {
            (Some(failure), _) => Err(failure),
            (None, Some(any)) => any.run(arguments, time).await,
            (None, None) => Err(ToolFailure::Unavailable("this device has no such tool".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Says its own name.
    #[derive(Debug)]
    struct Says(&'static str);

    #[async_trait]
    impl LocalTool for Says {
        async fn run(&self, _: &Value, _: Duration) -> Result<Value, ToolFailure> {
            Ok(json!(self.0))
        }
    }

    /// Has one tool, or does not say.
    #[derive(Debug)]
    struct Has(Result<&'static str, ToolFailure>);

    #[async_trait]
    impl Family for Has {
        async fn tool(&self, name: &ToolName) -> Result<Option<Arc<dyn LocalTool>>, ToolFailure> {
            let has = self.0.clone()?;
            Ok((has == name.as_str()).then(|| Arc::new(Says("family")) as _))
        }
    }

    async fn run(tools: &Tools, name: &str, scope: &str) -> Option<Result<Value, ToolFailure>> {
        let tool = tools.find(&ToolName::parse(name).unwrap(), &ScopeId::parse(scope).unwrap())?;
        Some(tool.run(&json!({}), Duration::from_secs(1)).await)
    }

    #[tokio::test]
    async fn a_name_goes_before_a_family_and_a_family_before_the_rest() {
        let scope = |text: &str| ScopeId::parse(text).unwrap();
        let tools = Tools::default()
            .under(scope("a:read"), Arc::new(Says("any")))
            .named(ToolName::parse("own").unwrap(), scope("a:read"), Arc::new(Says("own")))
            .family(scope("a:read"), Arc::new(Has(Ok("theirs"))))
            .family(scope("b:read"), Arc::new(Has(Ok("theirs"))));
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
            let got = got.map(|got| got.map_err(|failure| assert!(matches!(failure, ToolFailure::Unavailable(_)))));
            assert_eq!(got, said.map(|said| said.map(|said| json!(said))), "{name} {scope}");
        }
        // Nothing else does what one that is silent may have; another that has it does.
        let silent = ToolFailure::Unavailable("silent".to_owned());
        let tools = tools.family(scope("a:read"), Arc::new(Has(Err(silent.clone()))));
        assert_eq!(run(&tools, "other", "a:read").await, Some(Err(silent)));
        assert_eq!(run(&tools, "theirs", "a:read").await, Some(Ok(json!("family"))));
    }
}
