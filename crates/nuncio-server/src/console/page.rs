//! View model of the home page template.

use std::sync::Arc;

use askama::Template;
use nuncio_core::agent::{Agent, AgentOption, OptionKind, Tool};
use nuncio_http::front::DocumentLink;
use nuncio_http::pages::{Language, Switches};
use serde_json::Value;

use super::texts::Texts;
use super::{Console, assets};

mod script;

pub(super) struct HomeRequest<'a> {
    pub(super) language: Language,
    /// Whether the URL sets the language, so that links keep it.
    pub(super) language_was_chosen: bool,
    pub(super) agent: Option<&'a str>,
    pub(super) host: Option<&'a str>,
    /// Whether the reader's requests need a key. Those that come through a proxy do even where this machine is let in.
    pub(super) needs_key: bool,
    /// How many tasks wait in the inbox, where there is one.
    pub(super) waiting: Option<usize>,
}

/// `GET /`
#[derive(Template)]
#[template(path = "page.html")]
pub(super) struct HomeTemplate {
    text: &'static Texts,
    language: Language,
    switches: Switches,
    home: String,
    assets: &'static str,
    /// How this server is reached, as far as it knows. The script knows better.
    origin: String,
    needs_key: bool,
    inbox: Option<InboxLink>,
    agents: Vec<AgentLink>,
    agent: Option<AgentView>,
    data: String,
}

struct InboxLink {
    href: String,
    waiting: usize,
}

struct AgentLink {
    name: String,
    title: String,
    current: bool,
    href: String,
}

struct AgentView {
    name: String,
    title: String,
    version: String,
    description: Option<String>,
    owner: Option<(String, Option<String>)>,
    tools: Vec<ToolView>,
    options: Vec<OptionView>,
    protocols: Vec<ProtocolView>,
}

struct ToolView {
    name: String,
    title: String,
    description: String,
    scope: Option<ScopeView>,
    operator: bool,
    arguments: Vec<ArgumentView>,
}

struct ScopeView {
    label: String,
    description: Option<String>,
    level: &'static str,
    sensitivity: &'static str,
}

struct ArgumentView {
    name: String,
    kind: String,
    required: bool,
    description: Option<String>,
}

struct OptionView {
    name: String,
    title: String,
    description: Option<String>,
    kind: &'static str,
    default: String,
    values: Vec<String>,
}

struct ProtocolView {
    name: &'static str,
    documents: Vec<DocumentView>,
}

struct DocumentView {
    title: String,
    path: String,
    opens: bool,
    request: String,
    arguments: String,
    sends_key: bool,
}

impl HomeTemplate {
    pub(super) fn new(console: &Console, asked: &HomeRequest<'_>) -> Self {
        let (language, text) = (asked.language, Texts::of(asked.language));
        let agents = console.engine.agents().list();
        let needs_key = asked.needs_key;
        let chosen: Option<&Arc<Agent>> =
            agents.iter().find(|agent| Some(agent.name.as_str()) == asked.agent).or_else(|| agents.first());
        let spoken = asked.language_was_chosen.then_some(language);
        let links = agents.iter().map(|agent| AgentLink {
            name: agent.name.to_string(),
            title: title(agent),
            current: chosen.is_some_and(|chosen| chosen.name == agent.name),
            href: address(spoken, Some(agent.name.as_str())),
        });
        Self {
            text,
            language,
            switches: Switches::new(&address(None, asked.agent), language),
            home: address(spoken, None),
            assets: assets::folder(),
            origin: origin(asked.host),
            needs_key,
            inbox: asked.waiting.map(|waiting| InboxLink {
                href: format!("/console/tasks{}", spoken.map(|it| format!("?lang={}", it.tag())).unwrap_or_default()),
                waiting,
            }),
            agents: links.collect(),
            agent: chosen.map(|agent| view(console, agent, language, needs_key)),
            data: script::data(chosen.map(|agent| &**agent), language, needs_key),
        }
    }

    pub(super) fn html(&self) -> Result<String, askama::Error> {
        self.render().map(nuncio_core::text::printable)
    }
}

/// The page's address. Agent names and language tags need no escaping.
fn address(language: Option<Language>, agent: Option<&str>) -> String {
    let language = language.map(|language| format!("lang={}", language.tag()));
    // What a stranger put into the address is not repeated unless it is a name.
    let is_name = |name: &&str| nuncio_core::ids::AgentName::parse(name).is_ok();
    let agent = agent.filter(is_name).map(|agent| format!("agent={agent}"));
    let query: Vec<_> = agent.into_iter().chain(language).collect();
    if query.is_empty() { "/".to_owned() } else { format!("/?{}", query.join("&")) }
}

fn origin(host: Option<&str>) -> String {
    let sensible = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    format!("http://{}", host.filter(sensible).unwrap_or("localhost:7400"))
}

fn title(agent: &Agent) -> String {
    agent.title.clone().unwrap_or_else(|| agent.name.to_string())
}

fn view(console: &Console, agent: &Agent, language: Language, needs_key: bool) -> AgentView {
    let document = |document: DocumentLink| DocumentView {
        title: document.title.in_language(language.tag()).to_owned(),
        request: document.request.unwrap_or_else(|| document.path.clone()),
        path: document.path,
        opens: document.opens,
        arguments: document.arguments,
        sends_key: document.needs_key && needs_key,
    };
    let protocols = console.fronts.iter().map(|front| ProtocolView {
        name: front.title(),
        documents: front.documents(agent).into_iter().map(document).collect(),
    });
    AgentView {
        name: agent.name.to_string(),
        title: title(agent),
        version: agent.version.to_string(),
        description: agent.description.clone(),
        owner: agent.owner.as_ref().map(|owner| {
            // Only what a browser opens as a page becomes a link.
            let url = owner.url.as_ref().filter(|url| matches!(url.scheme(), "http" | "https"));
            (owner.name.clone(), url.map(ToString::to_string))
        }),
        tools: agent.exposed_tools().map(|tool| tool_view(agent, tool, language)).collect(),
        options: agent.options.iter().map(option_view).collect(),
        protocols: protocols.filter(|protocol| !protocol.documents.is_empty()).collect(),
    }
}

fn tool_view(agent: &Agent, tool: &Tool, language: Language) -> ToolView {
    let scope = tool.scope.as_ref().and_then(|id| agent.scope(id)).map(|scope| ScopeView {
        label: scope.label.in_language(language.tag()).to_owned(),
        description: scope.description.as_ref().map(|text| text.in_language(language.tag()).to_owned()),
        level: script::level(scope.sensitivity),
        sensitivity: Texts::of(language).sensitivity.of(scope.sensitivity),
    });
    ToolView {
        name: tool.name.to_string(),
        title: tool.title.clone().unwrap_or_else(|| tool.name.to_string()),
        description: tool.description.clone(),
        scope,
        operator: tool.human_authorization,
        arguments: arguments(tool.input.source()),
    }
}

/// The arguments of a tool, as far as its schema lists them plainly.
fn arguments(schema: &Value) -> Vec<ArgumentView> {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let argument = |(name, schema): (&String, &Value)| ArgumentView {
        name: name.clone(),
        kind: kind(schema),
        required: required.contains(&name.as_str()),
        description: schema["description"].as_str().map(str::to_owned),
    };
    let mut arguments: Vec<_> = properties.map(argument).collect();
    // In the order the author lists what must be there, then the rest.
    arguments.sort_by_key(|argument| required.iter().position(|name| *name == argument.name).unwrap_or(usize::MAX));
    arguments
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return values.iter().map(plain).collect::<Vec<_>>().join(" | ");
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some(format)) => format.to_owned(),
        (Some(kind), _) => kind.to_owned(),
        (None, _) => String::new(),
    }
}

fn option_view(option: &AgentOption) -> OptionView {
    let (kind, values) = match &option.kind {
        OptionKind::Text => ("text", Vec::new()),
        OptionKind::Secret => ("secret", Vec::new()),
        OptionKind::Select(values) => ("select", values.clone()),
    };
    OptionView {
        name: option.name.to_string(),
        title: option.title.clone().unwrap_or_else(|| option.name.to_string()),
        description: option.description.clone(),
        kind,
        // A secret's default is nobody's business.
        default: if kind == "secret" { String::new() } else { option.default.clone() },
        values,
    }
}

/// JSON that can stand inside a script element: nothing in it ends the element.
fn embedded(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn console_page_url_omits_an_invalid_agent_name() {
        assert_eq!(address(None, None), "/");
        assert_eq!(address(None, Some("hotel-assistant")), "/?agent=hotel-assistant");
        assert_eq!(address(Some(Language::Chinese), Some("a")), "/?agent=a&lang=zh-CN");
        assert_eq!(address(None, Some("\"><script>")), "/");
    }

    #[test]
    fn origin_is_taken_from_a_valid_host_or_defaults() {
        assert_eq!(origin(Some("[::1]:7400")), "http://[::1]:7400");
        for odd in [None, Some("a b"), Some("x';rm -rf"), Some("<b>")] {
            assert_eq!(origin(odd), "http://localhost:7400");
        }
    }

    #[test]
    fn embedded_json_cannot_end_its_element() {
        let text = embedded(&json!({"a": "</script><!--\u{2028}"}));
        assert!(!text.contains('<') && !text.contains('\u{2028}'));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["a"], "</script><!--\u{2028}");
    }

    #[test]
    fn arguments_are_listed_in_the_order_of_required() {
        let schema = json!({"type": "object", "required": ["z", "a"], "properties": {
            "a": {"type": "string", "format": "date"}, "m": {"enum": ["x", 1]}, "z": {"type": "integer", "description": "Last."}
        }});
        let told: Vec<_> = arguments(&schema).into_iter().map(|it| (it.name, it.kind, it.required)).collect();
        let expected = [("z", "integer", true), ("a", "date", true), ("m", "x | 1", false)];
        assert_eq!(told, expected.map(|(name, kind, required)| (name.to_owned(), kind.to_owned(), required)));
    }
}
