//! Callable methods of an agent: from its OpenRPC interfaces, inline or fetched.

use nuncio_core::schema::Schema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use url::Url;

use super::AnpClient;
use super::describe::VerifiedAgentDescription;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::target::authority;
use crate::validate::AnpDocumentType;
use crate::wire::{Interface, Method, OpenRpc};

const MAX_METHODS: usize = 1024;
const MAX_FETCHED_DOCUMENTS: usize = 16;

#[derive(Debug, Clone)]
pub struct RemoteMethod {
    pub name: String,
    pub description: Option<String>,
    /// Id of the interface that declares the method, if it has one.
    pub interface: Option<String>,
    /// URL to which calls of the method are posted.
    pub server: Url,
    /// Whether a person on the remote side must approve each call.
    pub asks_a_person: bool,
    /// JSON Schema of the arguments, as one object.
    pub input: Value,
    pub output: Option<Value>,
}

impl RemoteMethod {
    /// Validates arguments against the input schema. A schema that does not compile accepts everything; the server
    /// validates anyway.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), ClientError> {
        let Ok(schema) = Schema::compile(self.input.clone()) else { return Ok(()) };
        schema.check(&Value::Object(arguments.clone())).map_err(|faults| {
            let messages: Vec<_> = faults.iter().map(|fault| plain(&fault.to_string())).collect();
            let message = format!("the arguments do not fit {:?}: {}", plain(&self.name), messages.join("; "));
            ClientError::new(ClientErrorReason::BadArguments, message).advice("nothing was called")
        })
    }

    /// Declared JSON type of an argument, if it has exactly one.
    #[must_use]
    pub fn type_of(&self, argument: &str) -> Option<&str> {
        self.input.pointer("/properties")?.get(argument)?.get("type")?.as_str()
    }
}

impl AnpClient {
    /// Collects all callable methods of an agent, with warnings about unreadable interfaces.
    ///
    /// # Errors
    /// The agent has interfaces, and none of them can be read.
    pub async fn operations(
        &self,
        agent: &VerifiedAgentDescription,
    ) -> Result<(Vec<RemoteMethod>, Vec<String>), ClientError> {
        let (found, notes, unread) = self.readable_operations(agent).await;
        match unread {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok((found, notes)),
        }
    }

    /// Returns the readable methods, warnings, and the error of the first unreadable interface.
    async fn readable_operations(
        &self,
        agent: &VerifiedAgentDescription,
    ) -> (Vec<RemoteMethod>, Vec<String>, Option<ClientError>) {
        let (mut found, mut notes, mut first) = (Vec::new(), Vec::new(), None);
        let mut fetched = 0;
        for interface in agent.description.interfaces.iter().flatten().filter(|it| is_openrpc(it)) {
            if inline(interface).is_none() {
                if fetched >= MAX_FETCHED_DOCUMENTS {
                    continue;
                }
                fetched += 1;
            }
            match self.interface_operations(agent, interface).await {
                Ok(methods) => {
                    for operation in methods {
                        let is_listed = |it: &RemoteMethod| it.name == operation.name && it.server == operation.server;
                        if found.len() < MAX_METHODS && !found.iter().any(is_listed) {
                            found.push(operation);
                        }
                    }
                }
                Err(error) => {
                    notes.push(error.message.clone());
                    first.get_or_insert(error);
                }
            }
        }
        for operation in found.iter().filter(|it| !agent.is_on_own_host(&it.server)) {
            let note =
                format!("{} is called on another host: {}", plain(&operation.name), authority(&operation.server));
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        (found, notes, first)
    }

    pub async fn operation(&self, agent: &VerifiedAgentDescription, name: &str) -> Result<RemoteMethod, ClientError> {
        let (all, _, unread) = self.readable_operations(agent).await;
        let found = all.iter().find(|it| it.name == name).cloned();
        found.ok_or_else(|| unread.unwrap_or_else(|| unknown_method(agent, name, &all)))
    }

    /// Methods of one interface, found by id and by the URL that was agreed upon. If the description has the interface
    /// at another URL, the agreed one counts (ANP-06 §3.4), except on another host; the note tells the difference.
    pub(super) async fn operations_of(
        &self,
        agent: &VerifiedAgentDescription,
        id: Option<&str>,
        url: Option<&Url>,
    ) -> Result<(Vec<RemoteMethod>, Option<String>), ClientError> {
        let Some(interface) = id.and_then(|id| agent.description.interface(id)) else {
            let Some(url) = url else {
                let message =
                    format!("{} has no interface {:?}", display_url(&agent.url), plain(id.unwrap_or_default()));
                return Err(ClientError::new(ClientErrorReason::BadAgreement, message));
            };
            if !agent.is_on_own_host(url) {
                let message = format!(
                    "the negotiated interface {:?} at {} is on another host, and {} does not describe it",
                    plain(id.unwrap_or_default()),
                    display_url(url),
                    display_url(&agent.url)
                );
                return Err(ClientError::new(ClientErrorReason::BadAgreement, message).advice("nothing was called"));
            }
            let interface =
                Interface::new(id.unwrap_or_default().to_owned(), Interface::STRUCTURED, "openrpc", String::new());
            return Ok((methods(&interface, &self.openrpc(agent, url).await?, url)?, None));
        };
        let described_at = interface.url.as_deref().and_then(|text| agent.url.join(text).ok());
        let described_at = described_at.as_ref().unwrap_or(&agent.url);
        let Some(agreed) = url.filter(|url| *url != described_at) else {
            return Ok((self.interface_operations(agent, interface).await?, None));
        };
        let difference = format!(
            "{} was agreed upon, but the description has {} at {}",
            display_url(agreed),
            plain(id.unwrap_or_default()),
            display_url(described_at)
        );
        if agent.is_on_own_host(agreed) {
            match self.openrpc(agent, agreed).await.and_then(|document| methods(interface, &document, agreed)) {
                Ok(found) => return Ok((found, Some(format!("{difference}; the agreed one is used")))),
                // The URL may be where the methods are called.
                Err(unread) => {
                    let found = self.interface_operations(agent, interface).await?;
                    let is_endpoint = found.iter().any(|it| it.server == *agreed);
                    let note = format!("{difference}; the latter is used, because {}", unread.message);
                    return Ok((found, (!is_endpoint).then_some(note)));
                }
            }
        }
        let found = self.interface_operations(agent, interface).await?;
        let note = format!("{difference}; the latter is used, because the agreed one is on another host");
        Ok((found, Some(note)))
    }

    async fn interface_operations(
        &self,
        agent: &VerifiedAgentDescription,
        interface: &Interface,
    ) -> Result<Vec<RemoteMethod>, ClientError> {
        if let Some(document) = inline(interface) {
            return methods(interface, &document, &agent.url);
        }
        let text = interface.url.as_deref().unwrap_or_default();
        let url = agent.url.join(text).map_err(|why| {
            let message = format!("an interface of {} is at {:?}: {why}", display_url(&agent.url), plain(text));
            ClientError::new(ClientErrorReason::InvalidDocument, message)
        })?;
        methods(interface, &self.openrpc(agent, &url).await?, &url)
    }

    async fn openrpc(&self, agent: &VerifiedAgentDescription, url: &Url) -> Result<OpenRpc, ClientError> {
        let value = self.http.document(url, &agent.named_host, AnpDocumentType::OpenRpc.max_bytes()).await?;
        serde_json::from_value(value.clone()).map_err(|_| {
            let report = crate::validate::check(AnpDocumentType::OpenRpc, &value);
            ClientError::invalid(url, &report)
        })
    }
}

/// Error for an unknown method; lists the existing methods.
fn unknown_method(agent: &VerifiedAgentDescription, name: &str, all: &[RemoteMethod]) -> ClientError {
    let names: Vec<_> = all.iter().map(|it| plain(&it.name)).collect();
    let address = display_url(&agent.url);
    let message = match names.as_slice() {
        [] => format!("{address} has no method that could be called"),
        names => format!("{address} has no method {:?}; it has {}", plain(name), names.join(", ")),
    };
    ClientError::new(ClientErrorReason::WhichMethod, message).details(json!({"methods": names}))
}

fn is_openrpc(interface: &Interface) -> bool {
    let is_declared = interface.protocol.as_deref().is_some_and(|word| word.eq_ignore_ascii_case("openrpc"));
    // Some software uses the type `InlineOpenRPC` for inline documents.
    is_declared || interface.r#type == "InlineOpenRPC"
}

/// Inline OpenRPC document of an interface, in `content` or, as some software writes it, in `definition`.
fn inline(interface: &Interface) -> Option<OpenRpc> {
    let mut documents = interface.content.iter().chain(interface.extra.get("definition"));
    documents.find_map(|document| serde_json::from_value(document.clone()).ok())
}

/// Methods of an OpenRPC document, at most [`MAX_METHODS`]. Methods with an unresolvable reference are skipped; a
/// method without the URL of a server is an error.
fn methods(interface: &Interface, document: &OpenRpc, base: &Url) -> Result<Vec<RemoteMethod>, ClientError> {
    let components = document.components.as_ref().map(|it| Value::Object(it.clone()));
    let server = document.servers.iter().flatten().next().map(|server| server.url.as_str());
    let mut found = Vec::new();
    for method in document.methods.iter().take(MAX_METHODS) {
        let Some(method) = resolve_reference(method, &method.name, &method.extra, components.as_ref()) else {
            continue;
        };
        let own = method.extra.get("servers").and_then(|servers| servers.get(0)?.get("url")?.as_str());
        let Some(server) = own.or(server) else {
            let message = format!("{} does not name the URL of its methods", display_url(base));
            return Err(ClientError::new(ClientErrorReason::InvalidDocument, message));
        };
        let server = base.join(server).map_err(|why| {
            let message = format!("{} has the URL {:?} for its methods: {why}", display_url(base), plain(server));
            ClientError::new(ClientErrorReason::InvalidDocument, message)
        })?;
        found.push(RemoteMethod {
            description: method.description.clone().or_else(|| method.summary.clone()),
            interface: interface.id.clone(),
            server,
            asks_a_person: interface.asks_a_person(),
            input: input(&method, components.as_ref()),
            output: method.result.as_ref().map(|it| it.schema.clone()).filter(|schema| !schema.is_null()),
            name: method.name,
        });
    }
    Ok(found)
}

/// Returns the object itself or, if it has a `$ref`, the object that the reference leads to.
fn resolve_reference<T: Clone + DeserializeOwned>(
    object: &T,
    name: &str,
    extra: &Map<String, Value>,
    components: Option<&Value>,
) -> Option<T> {
    if !name.is_empty() {
        return Some(object.clone());
    }
    let pointer = extra.get("$ref")?.as_str()?.strip_prefix("#/components")?;
    serde_json::from_value(components?.pointer(pointer)?.clone()).ok()
}

/// Repairs references of a schema. References that differ from a component's name only in capitalisation are corrected;
/// an unresolvable reference becomes `{}`, because it would disable validation of the rest.
fn repair_references(schema: Value, components: Option<&Value>) -> Value {
    match schema {
        Value::Object(mut object) => {
            let reference = object.get("$ref").and_then(Value::as_str).map(str::to_owned);
            if let Some(pointer) = reference.as_deref().and_then(|text| text.strip_prefix("#/components")) {
                let there = |pointer: &str| components.and_then(|it| it.pointer(pointer));
                if there(pointer).is_none() {
                    let (folder, name) = pointer.rsplit_once('/').unwrap_or_default();
                    let existing = there(folder).and_then(Value::as_object).into_iter().flat_map(Map::keys);
                    let meant: Vec<_> = existing.filter(|existing| existing.eq_ignore_ascii_case(name)).collect();
                    let [meant] = meant.as_slice() else { return json!({}) };
                    object.insert("$ref".to_owned(), json!(format!("#/components{folder}/{meant}")));
                }
                return Value::Object(object);
            }
            Value::Object(
                object.into_iter().map(|(name, value)| (name, repair_references(value, components))).collect(),
            )
        }
        Value::Array(list) => list.into_iter().map(|value| repair_references(value, components)).collect(),
        other => other,
    }
}

/// Combines all parameters into one object schema, with the referenced components.
fn input(method: &Method, components: Option<&Value>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for param in method.params.iter().flatten() {
        let Some(param) = resolve_reference(param, &param.name, &param.extra, components) else { continue };
        if param.required == Some(true) {
            required.push(param.name.clone());
        }
        let schema = if param.schema.is_null() { json!({}) } else { repair_references(param.schema, components) };
        properties.insert(param.name, schema);
    }
    // A method without described parameters may still accept some.
    let open = properties.is_empty();
    let mut schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": open,
    });
    if let Some(components) = components {
        schema["components"] = components.clone();
    }
    schema
}
