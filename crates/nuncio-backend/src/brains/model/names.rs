//! Names, ids and schemas as model servers take them: fewer characters and shorter than ours, and plainer.

use std::collections::{HashMap, HashSet};

use nuncio_core::agent::Provider;
use nuncio_core::ids::ToolName;
use nuncio_engine::ports::brain::OfferedTool;
use serde_json::{Map, Value};

/// What every server takes for a tool's name.
const MAX_NAME: usize = 64;
/// What every server takes for a call's id.
const MAX_ID: usize = 40;

/// The tools on offer, by our names and by those in the request.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    theirs: HashMap<ToolName, String>,
    ours: HashMap<String, ToolName>,
}

impl ToolNames {
    pub(super) fn new(tools: &[OfferedTool]) -> Self {
        let mut names = Self::default();
        // Names that need no change keep theirs; the others go around them.
        let (plain, odd): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| plain(tool.name.as_str(), MAX_NAME));
        for tool in plain.into_iter().chain(odd) {
            let wire = unused(&simplified(tool.name.as_str()), MAX_NAME, |name| names.ours.contains_key(name));
            names.theirs.insert(tool.name.clone(), wire.clone());
            names.ours.insert(wire, tool.name.clone());
        }
        names
    }

    /// A tool's name in the request; also of one that is no longer on offer.
    pub(super) fn theirs(&self, name: &ToolName) -> String {
        self.theirs.get(name).cloned().unwrap_or_else(|| simplified(name.as_str()))
    }

    /// The tool a model means. One that is not on offer is left for the engine to refuse.
    pub(super) fn ours(&self, name: &str) -> Option<ToolName> {
        self.ours.get(name).cloned().or_else(|| ToolName::parse(&simplified(name)).ok())
    }
}

/// What a tool takes. The servers want an object said outright, where any JSON Schema may leave it open.
pub(super) fn parameters(tool: &OfferedTool) -> Value {
    let mut schema = tool.parameters.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema.into()
}

/// Gives the calls of one request ids that are unlike each other.
#[derive(Debug)]
pub(super) struct CallIds {
    provider: Provider,
    used: HashSet<String>,
}

impl CallIds {
    pub(super) fn new(provider: Provider) -> Self {
        Self { provider, used: HashSet::new() }
    }

    /// The id of the next call: its own where that can be.
    pub(super) fn next(&mut self, own: &str) -> String {
        let wire = match self.provider {
            // Nine letters or digits, no more and no fewer.
            Provider::Mistral if own.len() == 9 && own.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                own.to_owned()
            }
            Provider::Mistral => format!("{:09}", self.used.len() + 1),
            _ if plain(own, MAX_ID) => own.to_owned(),
            _ => format!("call_{}", self.used.len() + 1),
        };
        let wire = match self.provider {
            Provider::Mistral => {
                let later = || (self.used.len()..).map(|number| format!("{:09}", number + 1));
                std::iter::once(wire).chain(later()).find(|id| !self.used.contains(id)).unwrap_or_default()
            }
            _ => unused(&wire, MAX_ID, |id| self.used.contains(id)),
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

/// The name, with a number behind it if it is taken.
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
    fn names_go_out_simple_and_come_back_as_they_are() {
        let long = "x".repeat(100);
        let declared = ["files.read", "files_read", "files-read", &long, "a.b.c"];
        let names = ToolNames::new(&tools(&declared));
        let mut seen = HashSet::new();
        for name in declared {
            let ours = ToolName::parse(name).unwrap();
            let wire = names.theirs(&ours);
            assert!(plain(&wire, 64), "{wire}");
            assert!(seen.insert(wire.clone()));
            assert_eq!(names.ours(&wire), Some(ours));
        }
        assert_eq!(names.theirs(&ToolName::parse("files_read").unwrap()), "files_read");
        assert_eq!(names.theirs(&ToolName::parse("files.read").unwrap()), "files_read_2");
        assert_eq!(names.ours("made up!").unwrap().as_str(), "made_up_");
        assert_eq!(names.ours(""), None);
    }

    #[test]
    fn ids_stay_where_they_can_and_are_never_doubled() {
        let mut ids = CallIds::new(Provider::OpenAi);
        assert_eq!(
            ["call_1", "call_1", "调用 1", "call_1", ""].map(|id| ids.next(id)),
            ["call_1", "call_1_2", "call_3", "call_1_3", "call_5"]
        );
        let mut ids = CallIds::new(Provider::Mistral);
        assert_eq!(
            ["abcdefgh1", "call_1", "000000002", "x"].map(|id| ids.next(id)),
            ["abcdefgh1", "000000002", "000000003", "000000004"]
        );
    }

    #[test]
    fn a_schema_says_outright_that_it_takes_an_object() {
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
