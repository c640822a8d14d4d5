//! What can be called: the methods of an agent's OpenRPC interfaces, by address or given inline.

use nuncio_core::schema::Schema;
use serde_json::{Map, Value, json};
use url::Url;

use super::AnpClient;
use super::describe::Described;
use super::error::{ClientError, Reason, plain, shown};
use super::target::authority;
use crate::validate::Kind;
use crate::wire::{Interface, Method, OpenRpc};

/// How many methods of one agent are looked at.
const MAX_METHODS: usize = 1024;
/// How many interface documents of one agent are fetched.
const MAX_DOCUMENTS: usize = 16;

/// A method that can be called.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The interface it is of, where that has an id.
    pub interface: Option<String>,
    /// Where calls go.
    pub server: Url,
    /// Whether a person there must agree to each call.
    pub asks_a_person: bool,
    /// The shape of its arguments, as a JSON Schema of one object.
    pub input: Value,
    /// The shape of its answer.
    pub output: Option<Value>,
}

impl Operation {
    /// Holds arguments against what the method takes. A schema that cannot be read refuses nothing: the other
    /// side will say.
    ///
    /// # Errors
    /// They do not fit.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), ClientError> {
        let Ok(schema) = Schema::compile(self.input.clone()) else { return Ok(()) };
        schema.check(&Value::Object(arguments.clone())).map_err(|faults| {
            let said: Vec<_> = faults.iter().map(|fault| plain(&fault.to_string())).collect();
            let message = format!("the arguments do not fit {:?}: {}", plain(&self.name), said.join("; "));
            ClientError::new(Reason::BadArguments, message).advice("nothing was called")
        })
    }

    /// The type a schema gives an argument, where it is one.
    #[must_use]
    pub fn type_of(&self, argument: &str) -> Option<&str> {
        self.input.pointer("/properties")?.get(argument)?.get("type")?.as_str()
    }
}

impl AnpClient {
    /// Everything that can be called, interface by interface: given inline, or fetched. What cannot be read is
    /// told.
    ///
    /// # Errors
    /// None of the interfaces can be read, and there are some.
    pub async fn operations(&self, agent: &Described) -> Result<(Vec<Operation>, Vec<String>), ClientError> {
        let (found, notes, unread) = self.readable(agent).await;
        match unread {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok((found, notes)),
        }
    }

    /// What can be read of all interfaces, what is odd about it, and why the first that cannot be read cannot.
    async fn readable(&self, agent: &Described) -> (Vec<Operation>, Vec<String>, Option<ClientError>) {
        let (mut found, mut notes, mut first) = (Vec::new(), Vec::new(), None);
        let mut fetched = 0;
        for interface in agent.description.interfaces.iter().flatten().filter(|it| is_openrpc(it)) {
            let read = match inline(interface) {
                Some(document) => Ok((document, agent.url.clone())),
                None if fetched >= MAX_DOCUMENTS => continue,
                None => {
                    fetched += 1;
                    self.interface_document(agent, interface).await
                }
            };
            let read = read.and_then(|(document, base)| methods(interface, &document, &base));
            match read {
                Ok(methods) => {
                    for operation in methods {
                        let known = |it: &Operation| it.name == operation.name && it.server == operation.server;
                        if found.len() < MAX_METHODS && !found.iter().any(known) {
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
        for operation in found.iter().filter(|it| !agent.is_at_home(&it.server)) {
            let note =
                format!("{} is called on another host: {}", plain(&operation.name), authority(&operation.server));
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        (found, notes, first)
    }

    /// The method of that name.
    ///
    /// # Errors
    /// There is none, or the interface that may have it cannot be read.
    pub async fn operation(&self, agent: &Described, name: &str) -> Result<Operation, ClientError> {
        let (all, _, unread) = self.readable(agent).await;
        let found = all.iter().find(|it| it.name == name).cloned();
        found.ok_or_else(|| unread.unwrap_or_else(|| unknown(agent, name, &all)))
    }

    /// The methods of one interface, by its id or by the address of its document.
    pub(super) async fn operations_of(
        &self,
        agent: &Described,
        id: Option<&str>,
        url: Option<&Url>,
    ) -> Result<Vec<Operation>, ClientError> {
        let declared = id.and_then(|id| agent.description.interface(id));
        if let Some(interface) = declared {
            let (document, base) = match inline(interface) {
                Some(document) => (document, agent.url.clone()),
                None => self.interface_document(agent, interface).await?,
            };
            return methods(interface, &document, &base);
        }
        let Some(url) = url else {
            let message = format!("{} has no interface {:?}", shown(&agent.url), plain(id.unwrap_or_default()));
            return Err(ClientError::new(Reason::BadAgreement, message));
        };
        let document = self.openrpc(agent, url).await?;
        let interface =
            Interface::new(id.unwrap_or_default().to_owned(), Interface::STRUCTURED, "openrpc", String::new());
        methods(&interface, &document, url)
    }

    async fn interface_document(
        &self,
        agent: &Described,
        interface: &Interface,
    ) -> Result<(OpenRpc, Url), ClientError> {
        let text = interface.url.as_deref().unwrap_or_default();
        let url = agent.url.join(text).map_err(|why| {
            let message = format!("an interface of {} is at {:?}: {why}", shown(&agent.url), plain(text));
            ClientError::new(Reason::InvalidDocument, message)
        })?;
        Ok((self.openrpc(agent, &url).await?, url))
    }

    async fn openrpc(&self, agent: &Described, url: &Url) -> Result<OpenRpc, ClientError> {
        let value = self.document(url, &agent.named, Kind::OpenRpc.max_bytes()).await?;
        serde_json::from_value(value.clone()).map_err(|_| {
            let report = crate::validate::check(Kind::OpenRpc, &value);
            ClientError::invalid(url, &report)
        })
    }
}

/// That there is no such method, and which there are.
fn unknown(agent: &Described, name: &str, all: &[Operation]) -> ClientError {
    let names: Vec<_> = all.iter().map(|it| plain(&it.name)).collect();
    let place = shown(&agent.url);
    let message = match names.as_slice() {
        [] => format!("{place} has no method that could be called"),
        names => format!("{place} has no method {:?}; it has {}", plain(name), names.join(", ")),
    };
    ClientError::new(Reason::WhichMethod, message).details(json!({"methods": names}))
}

fn is_openrpc(interface: &Interface) -> bool {
    let says = interface.protocol.as_deref().is_some_and(|word| word.eq_ignore_ascii_case("openrpc"));
    // Some software writes the document so.
    says || interface.r#type == "InlineOpenRPC"
}

fn inline(interface: &Interface) -> Option<OpenRpc> {
    let other = || serde_json::from_value(interface.extra.get("definition")?.clone()).ok();
    interface.openrpc().or_else(other)
}

/// The methods of a document. One without a place to be called, or that is itself a reference that leads
/// nowhere, is passed over.
fn methods(interface: &Interface, document: &OpenRpc, base: &Url) -> Result<Vec<Operation>, ClientError> {
    let components = document.components.as_ref().map(|it| Value::Object(it.clone()));
    let server = document.servers.iter().flatten().next().map(|server| server.url.as_str());
    let mut found = Vec::new();
    for method in document.methods.iter().take(MAX_METHODS) {
        let Some(method) = followed(method, components.as_ref()) else { continue };
        let own = method.extra.get("servers").and_then(|servers| servers.get(0)?.get("url")?.as_str());
        let Some(server) = own.or(server) else {
            let message = format!("{} does not say where its methods are called", shown(base));
            return Err(ClientError::new(Reason::InvalidDocument, message));
        };
        let server = base.join(server).map_err(|why| {
            let message = format!("{} has its methods called at {:?}: {why}", shown(base), plain(server));
            ClientError::new(Reason::InvalidDocument, message)
        })?;
        found.push(Operation {
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

/// What a reference inside the document leads to.
fn referred<T: serde::de::DeserializeOwned>(extra: &Map<String, Value>, components: Option<&Value>) -> Option<T> {
    let pointer = extra.get("$ref")?.as_str()?.strip_prefix("#/components")?;
    serde_json::from_value(components?.pointer(pointer)?.clone()).ok()
}

fn followed(method: &Method, components: Option<&Value>) -> Option<Method> {
    if method.name.is_empty() { referred(&method.extra, components) } else { Some(method.clone()) }
}

/// A schema without references that lead nowhere: one would keep all the rest from being checked. Some software
/// refers to a model by the name of the parameter, which differs from the model's in its capitals.
fn mended(schema: Value, components: Option<&Value>) -> Value {
    match schema {
        Value::Object(mut object) => {
            let reference = object.get("$ref").and_then(Value::as_str).map(str::to_owned);
            if let Some(pointer) = reference.as_deref().and_then(|text| text.strip_prefix("#/components")) {
                let there = |pointer: &str| components.and_then(|it| it.pointer(pointer));
                if there(pointer).is_none() {
                    let (folder, name) = pointer.rsplit_once('/').unwrap_or_default();
                    let known = there(folder).and_then(Value::as_object).into_iter().flat_map(Map::keys);
                    let meant: Vec<_> = known.filter(|known| known.eq_ignore_ascii_case(name)).collect();
                    let [meant] = meant.as_slice() else { return json!({}) };
                    object.insert("$ref".to_owned(), json!(format!("#/components{folder}/{meant}")));
                }
                return Value::Object(object);
            }
            Value::Object(object.into_iter().map(|(name, value)| (name, mended(value, components))).collect())
        }
        Value::Array(list) => list.into_iter().map(|value| mended(value, components)).collect(),
        other => other,
    }
}

/// All parameters as one schema, with what its references lead to.
fn input(method: &Method, components: Option<&Value>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for param in method.params.iter().flatten() {
        let param = if param.name.is_empty() { referred(&param.extra, components) } else { Some(param.clone()) };
        let Some(param) = param else { continue };
        if param.required == Some(true) {
            required.push(param.name.clone());
        }
        let schema = if param.schema.is_null() { json!({}) } else { mended(param.schema, components) };
        properties.insert(param.name, schema);
    }
    // A method that describes no parameters may take some all the same.
    let open = properties.is_empty();
    let mut schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": open,
    });
    if let Some(components) = components {
        schema["components"] = components.clone();
    }
    schema
}
