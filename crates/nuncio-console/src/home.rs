//! The home page, `GET /`.

use askama::Template;
use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::agent::{Agent, AgentOption, BrainSpec, OptionValueType, Tool, ToolRunSpec};
use nuncio_core::ids::AgentName;
use nuncio_core::principal::Principal;
use nuncio_engine::CallerCheckResult;
use nuncio_http::front::SampleRequest;
use nuncio_http::pages::headers::guard_with_images;
use nuncio_http::pages::{Language, LanguageThemeSwitches};
use serde::Deserialize;
use serde_json::Value;

use crate::schema::{plain_text, properties};
use crate::texts::Texts;
use crate::{Console, assets};

mod script;

#[derive(Default, Deserialize)]
pub(super) struct HomeQuery {
    lang: Option<String>,
    agent: Option<String>,
}

/// `GET /`
pub(super) async fn show(
    State(console): State<Console>,
    identity: Option<Extension<CallerCheckResult>>,
    headers: HeaderMap,
    query: Result<Query<HomeQuery>, QueryRejection>,
) -> Response {
    // A query that cannot be parsed is ignored.
    let query = query.map_or_else(|_| HomeQuery::default(), |Query(query)| query);
    // Requests through a proxy need a key even if local requests do not.
    let needs_key = matches!(identity, Some(Extension(CallerCheckResult::Missing))) || (console.asks_for_keys)();
    let waiting = count_waiting(&console, identity).await;
    let page = HomeTemplate::new(&console, &query, &headers, needs_key, waiting);
    match page.render().map(nuncio_core::text::printable) {
        Ok(html) => {
            let mut response = cacheable_page(&headers, html);
            if page.shows_remote_images {
                guard_with_images(response.headers_mut());
            }
            response
        }
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The number of open tasks, zero if the reader may not see it; `None` if no agent gives tasks to people.
async fn count_waiting(console: &Console, identity: Option<Extension<CallerCheckResult>>) -> Option<usize> {
    let is_local =
        matches!(identity, Some(Extension(CallerCheckResult::Known(caller))) if caller.principal == Principal::Local);
    let waiting = if is_local { console.engine.inbox().open_tasks().await.map_or(0, |tasks| tasks.len()) } else { 0 };
    let agents = console.engine.agents().list();
    let has_inbox = |agent: &Agent| agent.tools.iter().any(|tool| matches!(tool.run, ToolRunSpec::Human(_)));
    (waiting > 0 || agents.iter().any(|agent| has_inbox(agent))).then_some(waiting)
}

/// A page that browsers revalidate with every visit and that is sent again only if it changed.
fn cacheable_page(request: &HeaderMap, html: String) -> Response {
    let tag = nuncio_http::etag(html.as_bytes());
    let mut response = nuncio_http::unless_known(request, tag, || Html(html).into_response());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Language, Host"));
    response
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomeTemplate {
    text: &'static Texts,
    language: Language,
    switches: LanguageThemeSwitches,
    home: String,
    assets: &'static str,
    /// The URL of this server by the `Host` header; a script replaces it with the page's own origin.
    origin: String,
    needs_key: bool,
    inbox: Option<InboxLink>,
    agents: Vec<AgentLink>,
    agent: Option<AgentView>,
    data: String,
    /// Whether the agent declares that its images are at `https:` addresses.
    shows_remote_images: bool,
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
    /// Messages to begin a conversation with.
    examples: Vec<String>,
    owner: Option<(String, Option<String>)>,
    /// Whether the agent may call tools that clients cannot set.
    runs_own_tools: bool,
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
    /// `waiting` is the number of open tasks; `None` hides the link to the inbox.
    fn new(console: &Console, query: &HomeQuery, headers: &HeaderMap, needs_key: bool, waiting: Option<usize>) -> Self {
        let language = query.lang.as_deref().and_then(Language::parse).unwrap_or_else(|| Language::accepted(headers));
        let agents = console.engine.agents().list();
        let asked = query.agent.as_deref();
        let chosen = agents.iter().find(|agent| Some(agent.name.as_str()) == asked).or_else(|| agents.first());
        // Links keep a language that the URL sets.
        let kept_language = query.lang.is_some().then_some(language);
        let links = agents.iter().map(|agent| AgentLink {
            name: agent.name.to_string(),
            title: agent.title_in(language.tag()).to_owned(),
            current: chosen.is_some_and(|chosen| chosen.name == agent.name),
            href: home_path(kept_language, Some(agent.name.as_str())),
        });
        Self {
            text: Texts::of(language),
            language,
            switches: LanguageThemeSwitches::new(&home_path(None, asked), language),
            home: home_path(kept_language, None),
            assets: assets::folder(),
            origin: origin(headers.get(header::HOST).and_then(|host| host.to_str().ok())),
            needs_key,
            inbox: waiting.map(|waiting| InboxLink {
                href: format!(
                    "/console/tasks{}",
                    kept_language.map(|it| format!("?lang={}", it.tag())).unwrap_or_default()
                ),
                waiting,
            }),
            agents: links.collect(),
            agent: chosen.map(|agent| agent_view(console, agent, language, needs_key)),
            shows_remote_images: chosen.is_some_and(|agent| agent.capabilities.image_https),
            data: script::data(chosen.map(|agent| &**agent), language, needs_key),
        }
    }
}

/// The path of the home page. Agent names and language tags need no escaping.
fn home_path(language: Option<Language>, agent: Option<&str>) -> String {
    let language = language.map(|language| format!("lang={}", language.tag()));
    // The name comes from the query, so it is repeated only if it is valid.
    let is_name = |name: &&str| AgentName::parse(name).is_ok();
    let agent = agent.filter(is_name).map(|agent| format!("agent={agent}"));
    let query: Vec<_> = agent.into_iter().chain(language).collect();
    if query.is_empty() { "/".to_owned() } else { format!("/?{}", query.join("&")) }
}

fn origin(host: Option<&str>) -> String {
    let is_plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    format!("http://{}", host.filter(is_plain).unwrap_or("localhost:7400"))
}

fn agent_view(console: &Console, agent: &Agent, language: Language, needs_key: bool) -> AgentView {
    let document = |document: SampleRequest| DocumentView {
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
        title: agent.title_in(language.tag()).to_owned(),
        version: agent.version.to_string(),
        description: agent.description.as_ref().map(|text| text.in_language(language.tag()).to_owned()),
        examples: agent.examples.iter().map(|text| text.in_language(language.tag()).to_owned()).collect(),
        owner: agent.owner.as_ref().map(|owner| {
            // Other schemes, such as `javascript:`, must not become links.
            let url = owner.url.as_ref().filter(|url| matches!(url.scheme(), "http" | "https"));
            (owner.name.clone(), url.map(ToString::to_string))
        }),
        runs_own_tools: runs_own_tools(agent),
        tools: agent.exposed_tools().map(|tool| tool_view(agent, tool, language)).collect(),
        options: agent.options.iter().map(option_view).collect(),
        protocols: protocols.filter(|protocol| !protocol.documents.is_empty()).collect(),
    }
}

/// Whether the agent may call tools that clients do not see: hidden tools, or those of an agent on another server.
fn runs_own_tools(agent: &Agent) -> bool {
    agent.tools.iter().any(|tool| !tool.exposed) || !agent.mcp.is_empty() || matches!(agent.brain, BrainSpec::Aap(_))
}

fn tool_view(agent: &Agent, tool: &Tool, language: Language) -> ToolView {
    let scope = tool.scope.as_ref().and_then(|id| agent.scope(id)).map(|scope| ScopeView {
        label: scope.label.in_language(language.tag()).to_owned(),
        description: scope.description.as_ref().map(|text| text.in_language(language.tag()).to_owned()),
        level: scope.sensitivity.as_str(),
        sensitivity: Texts::of(language).sensitivity.of(scope.sensitivity),
    });
    ToolView {
        name: tool.name.to_string(),
        title: tool.title_in(language.tag()).to_owned(),
        description: tool.description.clone(),
        scope,
        operator: tool.human_authorization,
        arguments: arguments(tool.input.source()),
    }
}

/// The arguments that the top level of a tool's schema lists.
fn arguments(schema: &Value) -> Vec<ArgumentView> {
    let argument = |(name, schema, required): (&str, &Value, bool)| ArgumentView {
        name: name.to_owned(),
        kind: value_kind(schema),
        required,
        description: schema["description"].as_str().map(str::to_owned),
    };
    properties(schema).map(argument).collect()
}

/// The values that a schema accepts, in a few words.
fn value_kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(plain_text).collect::<Vec<_>>().join(" | ");
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some(format)) => format.to_owned(),
        (Some(kind), _) => kind.to_owned(),
        (None, _) => String::new(),
    }
}

fn option_view(option: &AgentOption) -> OptionView {
    let (kind, values) = match &option.kind {
        OptionValueType::Text => ("text", Vec::new()),
        OptionValueType::Secret => ("secret", Vec::new()),
        OptionValueType::Select(values) => ("select", values.clone()),
    };
    OptionView {
        name: option.name.to_string(),
        title: option.title.clone().unwrap_or_else(|| option.name.to_string()),
        description: option.description.clone(),
        kind,
        // The default of a secret is a secret itself.
        default: if kind == "secret" { String::new() } else { option.default.clone() },
        values,
    }
}

/// JSON for a script element, escaped so that it cannot end the element.
fn embeddable_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn home_page_path_omits_an_invalid_agent_name() {
        assert_eq!(home_path(None, None), "/");
        assert_eq!(home_path(None, Some("hotel-assistant")), "/?agent=hotel-assistant");
        assert_eq!(home_path(Some(Language::Chinese), Some("a")), "/?agent=a&lang=zh-CN");
        assert_eq!(home_path(None, Some("\"><script>")), "/");
    }

    #[test]
    fn origin_is_taken_from_a_valid_host_header_or_defaults_to_localhost() {
        assert_eq!(origin(Some("[::1]:7400")), "http://[::1]:7400");
        for host in [None, Some("a b"), Some("x';rm -rf"), Some("<b>")] {
            assert_eq!(origin(host), "http://localhost:7400");
        }
    }

    #[test]
    fn embedded_json_cannot_end_its_script_element() {
        let text = embeddable_json(&json!({"a": "</script><!--\u{2028}"}));
        assert!(!text.contains('<') && !text.contains('\u{2028}'));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["a"], "</script><!--\u{2028}");
    }

    #[test]
    fn required_arguments_are_listed_first_in_the_order_of_the_required_keyword() {
        let schema = json!({"type": "object", "required": ["z", "a"], "properties": {
            "a": {"type": "string", "format": "date"}, "m": {"enum": ["x", 1]}, "z": {"type": "integer", "description": "Last."}
        }});
        let listed: Vec<_> = arguments(&schema).into_iter().map(|it| (it.name, it.kind, it.required)).collect();
        let expected = [("z", "integer", true), ("a", "date", true), ("m", "x | 1", false)];
        assert_eq!(listed, expected.map(|(name, kind, required)| (name.to_owned(), kind.to_owned(), required)));
    }
}
