//! Maps tool names, call ids and schemas to the restricted forms that model servers accept.

use std::collections::{HashMap, HashSet};

use nuncio_core::agent::ModelProvider;
use nuncio_core::ids::ToolName;
use nuncio_engine::ports::brain::OfferedTool;
use serde_json::{Map, Value};

/// Length limit of tool names that every server accepts.
const MAX_NAME: usize = 64;
/// Length limit of call ids that every server accepts.
const MAX_ID: usize = 40;

/// Offered tools by local name and by name in the request.
#[derive(Debug, Default)]
pub(super) struct ToolNameMapping {
    wire_name: HashMap<ToolName, String>,
    local_name: HashMap<String, ToolName>,
}

impl ToolNameMapping {
    pub(super) fn new(tools: &[OfferedTool]) -> Self {
        let mut names = Self::default();
        // Valid names come first and are kept; replaced names must differ from them.
        let (plain, odd): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| plain(tool.name.as_str(), MAX_NAME));
        for tool in plain.into_iter().chain(odd) {
            let wire = unused(&simplified(tool.name.as_str()), MAX_NAME, |name| names.local_name.contains_key(name));
            names.wire_name.insert(tool.name.clone(), wire.clone());
            names.local_name.insert(wire, tool.name.clone());
        }
        names
    }

    /// Tool name in the request, also for a tool that is no longer offered.
    pub(super) fn wire_name(&self, name: &ToolName) -> String {
        self.wire_name.get(name).cloned().unwrap_or_else(|| simplified(name.as_str()))
    }

    /// Local name of a tool that the model called. The engine refuses a name that is not among the offered tools.
    pub(super) fn local_name(&self, name: &str) -> Option<ToolName> {
        self.local_name.get(name).cloned().or_else(|| ToolName::parse(&simplified(name)).ok())
    }
}

/// Parameter schema with an explicit `type: object`, which servers require.
pub(super) fn parameters(tool: &OfferedTool) -> Value {
    let mut schema = tool.parameters.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema.into()
}

/// Generates unique call ids for one request.
#[derive(Debug)]
pub(super) struct CallIdGenerator {
    provider: ModelProvider,
    used: HashSet<String>,
}

impl CallIdGenerator {
    pub(super) fn new(provider: ModelProvider) -> Self {
        Self { provider, used: HashSet::new() }
    }

    /// Id of the next call in the request: the call's own id if it is valid and unused, else a generated one.
    pub(super) fn next(&mut self, own: &str) -> String {
        let number = self.used.len() + 1;
        let wire = if self.provider == ModelProvider::Mistral {
            // Mistral requires exactly nine letters or digits.
            let is_valid = own.len() == 9 && own.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let own = is_valid.then(|| own.to_owned());
            let numbered = (number..).map(|number| format!("{number:09}"));
            own.into_iter().chain(numbered).find(|id| !self.used.contains(id)).unwrap_or_default()
        } else {
            let wanted = if plain(own, MAX_ID) { own.to_owned() } else { format!("call_{number}") };
            unused(&wanted, MAX_ID, |id| self.used.contains(id))
        };
        self.used.insert(wire.clone());
        wire
    }
}

fn plain(text: &str, max: usize) -> bool {
    !text.is_empty()
        && text.len() <= max
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn simplified(name: &str) -> String {
    let simple = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(simple).take(MAX_NAME).collect()
}

/// The given tool name or call id, with a number appended if it is already taken.
fn unused(name: &str, max: usize, taken: impl Fn(&str) -> bool) -> String {
    let numbered = |number: usize| {
        let suffix = format!("_{number}");
        let kept: String = name.chars().take(max - suffix.len()).collect();
        kept + &suffix
    };
    let candidates = std::iter::once(name.to_owned()).chain((2..).map(numbered));
    candidates.into_iter().find(|candidate| !taken(candidate)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(names: &[&str]) -> Vec<OfferedTool> {
        let tool = |name: &&str| OfferedTool {
            name: ToolName::parse(name).unwrap(),
            description: String::new(),
            parameters: Value::Null,
        };
        names.iter().map(tool).collect()
    }

    #[test]
    fn tool_names_invalid_for_model_servers_are_replaced_and_mapped_back() {
        let long = "x".repeat(100);
        let declared = ["files.read", "files_read", "files-read", &long, "a.b.c"];
        let names = ToolNameMapping::new(&tools(&declared));
        let mut seen = HashSet::new();
        for name in declared {
            let local_name = ToolName::parse(name).unwrap();
            let wire = names.wire_name(&local_name);
            assert!(plain(&wire, 64), "{wire}");
            assert!(seen.insert(wire.clone()));
            assert_eq!(names.local_name(&wire), Some(local_name));
        }
        assert_eq!(names.wire_name(&ToolName::parse("files_read").unwrap()), "files_read");
        assert_eq!(names.wire_name(&ToolName::parse("files.read").unwrap()), "files_read_2");
        assert_eq!(names.local_name("made up!").unwrap().as_str(), "made_up_");
        assert_eq!(names.local_name(""), None);
    }

    #[test]
    fn valid_call_ids_are_kept_and_invalid_or_repeated_ones_replaced() {
        let mut ids = CallIdGenerator::new(ModelProvider::OpenAi);
        assert_eq!(
            ["call_1", "call_1", "调用 1", "call_1", ""].map(|id| ids.next(id)),
            ["call_1", "call_1_2", "call_3", "call_1_3", "call_5"]
        );
        let mut ids = CallIdGenerator::new(ModelProvider::Mistral);
        assert_eq!(
            ["abcdefgh1", "call_1", "000000002", "x"].map(|id| ids.next(id)),
            ["abcdefgh1", "000000002", "000000003", "000000004"]
        );
    }

    #[test]
    fn parameter_schema_always_has_type_object() {
        let said = |schema: Value| {
            let (name, description) = (ToolName::parse("a").unwrap(), String::new());
            parameters(&OfferedTool { name, description, parameters: schema })
        };
        assert_eq!(said(json!({})), json!({"type": "object", "properties": {}}));
        assert_eq!(said(json!(true)), json!({"type": "object", "properties": {}}));
        let open = json!({"properties": {"q": {}}, "anyOf": [{"required": ["q"]}]});
        assert_eq!(said(open.clone())["anyOf"], open["anyOf"]);
        assert_eq!(said(open)["type"], "object");
        let whole = json!({"type": "object", "properties": {"q": {"type": "string"}}});
        assert_eq!(said(whole.clone()), whole);
    }
}
