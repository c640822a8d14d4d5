//! One operation of an OpenAPI document as an HTTP tool.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use nuncio_core::agent::{HttpMethod, ToolHints};
use nuncio_core::http_request::TRANSPORT_HEADERS;
use nuncio_core::template::Template;
use nuncio_server::ToolEffect;
use serde_json::{Map, Value, json};

use super::super::{sections, toml};
use super::document::{OpenApiDocument, OpenApiOperation, literal};
use super::schema::SchemaConverter;
use super::security::{RequestCredentialTemplate, SecuritySchemeConverter};

/// Limit of a tool name that language models accept.
pub(super) const MAX_NAME: usize = 64;

pub(super) struct ImportedOperation {
    pub(super) name: String,
    title: Option<String>,
    description: String,
    method: HttpMethod,
    /// Template of the request's URL.
    url: String,
    /// Headers of the request: each name with the template of its value.
    headers: Vec<(String, String)>,
    /// Template of the request's body; without it the arguments are the body.
    body: Option<String>,
    pub(super) input: Value,
    /// Optional parts of the operation that the tool does not have.
    pub(super) left_out: Vec<String>,
}

/// Imports an operation; the error says why it is left out.
pub(super) fn import(
    document: &OpenApiDocument,
    base: &str,
    security: &mut SecuritySchemeConverter<'_>,
    (path, item, method, operation): OpenApiOperation<'_>,
) -> Result<ImportedOperation, String> {
    let mut arguments = ToolArguments::default();
    let mut converter = SchemaConverter::new(document);
    let mut request = ImportedRequestParts { path: path.to_owned(), ..ImportedRequestParts::default() };
    for credential in security.credentials(operation.get("security"))? {
        match credential {
            RequestCredentialTemplate::Header { name, value } => request.add_header(&name, value),
            RequestCredentialTemplate::Query { name, value } => request.required_query.push(format!("{name}={value}")),
        }
    }
    for parameter in parameters(document, item, operation)? {
        request.add(document, parameter, &mut arguments, &mut converter)?;
    }
    let body = body(document, operation, method, &mut arguments, &mut converter, &mut request)?;
    let text = |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let title = text("summary").map(str::to_owned);
    let described = text("description").map(str::to_owned).or_else(|| title.clone());
    Ok(ImportedOperation {
        name: tool_name(text("operationId"), method, path),
        description: described.unwrap_or_else(|| format!("{} {path}", method.as_str())),
        title,
        method,
        url: format!("{base}{}", request.url()?),
        headers: request.headers,
        left_out: request.left_out,
        input: arguments.schema(body.as_ref()),
        body: body.map_or_else(|| arguments.body_without_request_body(method), |body| body.template),
    })
}

impl ImportedOperation {
    pub(super) fn effect(&self) -> ToolEffect {
        match self.method {
            HttpMethod::Get => ToolEffect::ReadOnly,
            HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch => ToolEffect::Writes,
            HttpMethod::Delete => ToolEffect::Destroys,
        }
    }

    /// Names of the secrets that the request contains.
    pub(super) fn secrets(&self) -> BTreeSet<String> {
        let texts = self.headers.iter().map(|(_, value)| value).chain([&self.url]);
        let templates = texts.filter_map(|text| Template::parse(text.as_str()).ok());
        let variables = templates.flat_map(|template| template.variables());
        variables.filter_map(|name| name.strip_prefix("secrets.").map(str::to_owned)).collect()
    }

    /// The `[[tool]]` section.
    pub(super) fn section(&self, scope_prefix: &str) -> String {
        let mut run = format!("method = \"{}\", url = {}", self.method.as_str(), toml::text(&self.url));
        if !self.headers.is_empty() {
            let lines: Vec<String> = self
                .headers
                .iter()
                .map(|(name, value)| format!("{} = {}", toml::key(name), toml::text(value)))
                .collect();
            let _ = write!(run, ", headers = {{ {} }}", lines.join(", "));
        }
        if let Some(body) = &self.body {
            let _ = write!(run, ", body = {}", toml::text(body));
        }
        let head = sections::AgentFileToolHead {
            name: &self.name,
            title: self.title.as_deref(),
            description: &self.description,
            scope: sections::scope_of(scope_prefix, self.effect()),
            hints: ToolHints::default(),
        };
        format!("{head}run = {{ http = {{ {run} }} }}\n{}", sections::schema("input", &self.input))
    }
}

/// Parameters of the operation and of its path; the operation's replace those of the path with the same name.
fn parameters<'a>(
    document: &'a OpenApiDocument,
    item: &'a Map<String, Value>,
    operation: &'a Map<String, Value>,
) -> Result<Vec<&'a Value>, String> {
    let list = |of: &'a Map<String, Value>| of.get("parameters").and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<&Value> = Vec::new();
    for parameter in list(item).chain(list(operation)) {
        let parameter = document.resolve(parameter)?;
        found.retain(|before| before["name"] != parameter["name"] || before["in"] != parameter["in"]);
        found.push(parameter);
    }
    Ok(found)
}

/// Arguments of the tool that are parameters of the operation.
#[derive(Default)]
struct ToolArguments {
    properties: Map<String, Value>,
    required: Vec<String>,
}

/// A request body as a part of the tool's arguments.
struct ImportedRequestBody {
    schema: Value,
    /// `None` if the arguments are the body.
    template: Option<String>,
    required: bool,
}

impl ToolArguments {
    /// Adds an argument, and returns its name: changed so that templates can use it and no other argument has it.
    fn add(&mut self, name: &str, schema: Value, required: bool) -> String {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let plain = plain.trim_matches('_');
        let plain = if plain.is_empty() || plain.starts_with(|c: char| c.is_ascii_digit()) {
            format!("arg_{plain}")
        } else {
            plain.to_owned()
        };
        let mut argument = plain.clone();
        for number in 2.. {
            if !self.properties.contains_key(&argument) {
                break;
            }
            argument = format!("{plain}_{number}");
        }
        self.properties.insert(argument.clone(), schema);
        if required {
            self.required.push(argument.clone());
        }
        argument
    }

    fn schema(&self, body: Option<&ImportedRequestBody>) -> Value {
        if let Some(ImportedRequestBody { schema, template: None, .. }) = body {
            return schema.clone();
        }
        let (mut properties, mut required) = (self.properties.clone(), self.required.clone());
        if let Some(body) = body {
            properties.insert("body".to_owned(), body.schema.clone());
            if body.required {
                required.push("body".to_owned());
            }
        }
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    /// Body template of a tool whose operation has no request body: `{}` if the tool would otherwise send its
    /// arguments, which are already in the URL; else `None`.
    fn body_without_request_body(&self, method: HttpMethod) -> Option<String> {
        let sends_arguments = matches!(method, HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch);
        (sends_arguments && !self.properties.is_empty()).then(|| "{}".to_owned())
    }
}

/// Parts of the request that parameters fill in.
#[derive(Default)]
struct ImportedRequestParts {
    path: String,
    /// Placeholder in the path, and the template of its value.
    path_values: Vec<(String, String)>,
    required_query: Vec<String>,
    /// Argument, and the query text that is added if the argument is given.
    optional_query: Vec<(String, String)>,
    /// Header names with the templates of their values; a name occurs once, ignoring case.
    headers: Vec<(String, String)>,
    left_out: Vec<String>,
}

impl ImportedRequestParts {
    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Adds a header. Cookies share one; of other headers with the same name the first one counts.
    fn add_header(&mut self, name: &str, value: String) {
        match self.headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, cookies)) if name.eq_ignore_ascii_case("cookie") => {
                let _ = write!(cookies, "; {value}");
            }
            Some(_) => {}
            None => self.headers.push((name.to_owned(), value)),
        }
    }

    /// Leaves an optional part out, and the whole operation if the part is required. `what` names the part and says why it
    /// cannot be sent.
    fn leave_out(&mut self, what: String, required: bool) -> Result<(), String> {
        if required {
            return Err(what);
        }
        self.left_out.push(format!("{what}; the tool is imported without it"));
        Ok(())
    }

    fn add(
        &mut self,
        document: &OpenApiDocument,
        parameter: &Value,
        arguments: &mut ToolArguments,
        converter: &mut SchemaConverter<'_>,
    ) -> Result<(), String> {
        let name = parameter["name"].as_str().ok_or("a parameter has no name")?;
        let location = parameter["in"].as_str().unwrap_or_default();
        let required = location == "path" || parameter["required"] == true;
        let lower = name.to_lowercase();
        // OpenAPI §4.8.12.1: these headers are described elsewhere, as media types and security schemes.
        if location == "header" && (matches!(lower.as_str(), "accept" | "content-type") || self.has_header(name)) {
            return Ok(());
        }
        if location == "header" && lower == "authorization" {
            return self.leave_out(format!("its header {name}, which no security scheme describes"), false);
        }
        if location == "header" && TRANSPORT_HEADERS.contains(&lower.as_str()) {
            return self.leave_out(format!("its header {name}, which the server writes itself"), false);
        }
        if matches!(location, "header" | "cookie") && !is_token(name) {
            return self.leave_out(format!("its {location} {name:?}, whose name is not valid"), required);
        }
        if location == "cookie" && !required {
            return self.leave_out(format!("its optional cookie {name:?}"), false);
        }
        if parameter.get("schema").is_none() && parameter.get("content").is_some() {
            return self.leave_out(format!("its parameter {name:?} is a document, not a value"), required);
        }
        let mut schema = converter.convert(&parameter["schema"])?;
        if let (Some(text), Value::Object(schema)) = (parameter["description"].as_str(), &mut schema) {
            schema.entry("description").or_insert_with(|| Value::from(text.trim()));
        }
        let declared = document.resolve(&parameter["schema"])?;
        let is_list = declared["type"] == "array";
        if declared["type"] == "object" {
            return self.leave_out(format!("its parameter {name:?} is an object"), required);
        }
        let repeats = parameter["explode"].as_bool();
        match location {
            "path" if self.path.contains(&format!("{{{name}}}")) => {
                let argument = arguments.add(name, schema, true);
                let value = if is_list { joined(&argument, ",") } else { format!("{{{{ args.{argument} }}}}") };
                self.path_values.push((name.to_owned(), value));
            }
            "query" => {
                let argument = arguments.add(name, schema, required);
                let separator = match parameter["style"].as_str() {
                    Some("spaceDelimited") if repeats != Some(true) => Some("%20"),
                    Some("pipeDelimited") if repeats != Some(true) => Some("%7C"),
                    _ if repeats == Some(false) => Some(","),
                    _ => None,
                };
                let text = query(&literal(name), &argument, is_list, separator);
                match required {
                    true => self.required_query.push(text),
                    false => self.optional_query.push((argument, text)),
                }
            }
            "header" => {
                let argument = arguments.add(name, schema, required);
                // A header without a value is not sent.
                let value = match required {
                    true => format!("{{{{ args.{argument} }}}}"),
                    false => format!("{{{{ args.{argument} | default('') }}}}"),
                };
                self.add_header(name, value);
            }
            "cookie" => {
                let argument = arguments.add(name, schema, true);
                self.add_header("Cookie", format!("{name}={{{{ args.{argument} }}}}"));
            }
            _ => return Err(format!("its parameter {name:?} in {location:?} cannot be sent")),
        }
        Ok(())
    }

    /// Template of path and query.
    fn url(&self) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = self.path.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("its path has an unclosed brace")?;
            let value = self.path_values.iter().find(|(placeholder, _)| placeholder == name);
            let (_, value) = value.ok_or_else(|| format!("its path parameter {name:?} is not declared"))?;
            let _ = write!(out, "{}{value}", literal(before));
            rest = after;
        }
        out.push_str(&literal(rest));
        if self.required_query.is_empty() && self.optional_query.is_empty() {
            return Ok(out);
        }
        if let ([], [(argument, text)]) = (self.required_query.as_slice(), self.optional_query.as_slice()) {
            out.push_str(&if_given(argument, &format!("?{text}")));
            return Ok(out);
        }
        out.push('?');
        out.push_str(&self.required_query.join("&"));
        for (argument, text) in &self.optional_query {
            out.push_str(&if_given(argument, &format!("&{text}")));
        }
        Ok(out)
    }
}

/// Template of a text that is sent only if the argument has a value. A query has no notation for null, and an empty value
/// is not a valid number or boolean.
fn if_given(argument: &str, text: &str) -> String {
    format!("{{% if args.{argument} is defined and args.{argument} is not none %}}{text}{{% endif %}}")
}

/// Template of a query parameter. Lists are joined with the separator, or else repeated (style `form`).
fn query(name: &str, argument: &str, is_list: bool, separator: Option<&str>) -> String {
    match (is_list, separator) {
        (false, _) => format!("{name}={{{{ args.{argument} }}}}"),
        (true, Some(separator)) => format!("{name}={}", joined(argument, separator)),
        (true, None) => {
            format!(
                "{{% for item in args.{argument} %}}{{% if not loop.first %}}&{{% endif %}}{name}={{{{ item }}}}{{% endfor %}}"
            )
        }
    }
}

/// Template of a list with a separator between its items.
fn joined(argument: &str, separator: &str) -> String {
    format!(
        "{{% for item in args.{argument} %}}{{% if not loop.first %}}{separator}{{% endif %}}{{{{ item }}}}{{% endfor %}}"
    )
}

/// Whether the name is valid as that of a header or a cookie.
fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte))
}

/// The request body: the arguments themselves if there are no others and it is an object, else the argument `body`.
fn body(
    document: &OpenApiDocument,
    operation: &Map<String, Value>,
    method: HttpMethod,
    arguments: &mut ToolArguments,
    converter: &mut SchemaConverter<'_>,
    request: &mut ImportedRequestParts,
) -> Result<Option<ImportedRequestBody>, String> {
    let Some(declared) = operation.get("requestBody").filter(|_| method != HttpMethod::Get) else { return Ok(None) };
    let declared = document.resolve(declared)?;
    let required = declared["required"] == true;
    let types: Vec<_> = declared["content"].as_object().into_iter().flatten().collect();
    let is_json = |kind: &str| nuncio_core::json::is_json(kind) || kind == "*/*";
    let found = types.iter().find(|(kind, _)| is_json(kind));
    let found = found.or_else(|| types.iter().find(|(kind, _)| kind.starts_with("text/plain")));
    let Some((kind, media)) = found else {
        let kinds: Vec<_> = types.iter().map(|(kind, _)| kind.as_str()).collect();
        let what = format!("its request body is {}, but only JSON and plain text can be sent", kinds.join(", "));
        return request.leave_out(what, required).map(|()| None);
    };
    let schema = converter.convert(&media["schema"])?;
    let is_json = is_json(kind);
    if is_json && arguments.properties.is_empty() && schema["type"] == "object" {
        return Ok(Some(ImportedRequestBody { schema, template: None, required }));
    }
    match is_json {
        true if kind.starts_with("application/json") || kind.starts_with('*') => {}
        true => request.add_header("Content-Type", (*kind).clone()),
        // Text such as `123` would be taken for JSON otherwise.
        false => request.add_header("Content-Type", "text/plain; charset=utf-8".to_owned()),
    }
    // A parameter may have the name of the body.
    if let Some(taken) = arguments.properties.shift_remove("body") {
        return Err(format!("it has both a body and a parameter \"body\" ({})", taken["type"]));
    }
    let value = if is_json { "{{ args.body | tojson }}" } else { "{{ args.body }}" };
    let template = match required {
        true => value.to_owned(),
        false => format!("{{% if args.body is defined %}}{value}{{% endif %}}"),
    };
    Ok(Some(ImportedRequestBody { schema, template: Some(template), required }))
}

/// The operation's id as a tool name, or one made of method and path.
fn tool_name(id: Option<&str>, method: HttpMethod, path: &str) -> String {
    let text = id.map_or_else(|| format!("{}{path}", method.as_str().to_lowercase()), str::to_owned);
    let mut name = String::new();
    for c in text.chars().take(MAX_NAME) {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '-' => name.push(c),
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_matches('_');
    if name.is_empty() { "operation".to_owned() } else { name.to_owned() }
}
