//! Links and `curl` commands for the documents each protocol publishes about an agent.

use nuncio_core::agent::{Agent, Skill, SkillAccess, SkillAuth, SkillMethod, Tool};
use nuncio_core::schema::Schema;
use serde_json::{Value, json};

use super::texts::Texts;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentLink {
    pub(crate) protocol: &'static str,
    pub(crate) title: String,
    pub(crate) path: String,
    /// Whether following a link to it shows it.
    pub(crate) opens: bool,
    /// The path of the `curl` command; `path` when absent.
    pub(crate) request: Option<String>,
    /// Arguments of `curl` beside the address, quoted for a shell: `-d '…'`.
    pub(crate) arguments: String,
    /// Whether it asks for a key where there are keys.
    pub(crate) needs_key: bool,
}

/// Builds the document links of one protocol for an agent.
pub(crate) type DocumentsOf = fn(&Agent, &Texts) -> Vec<DocumentLink>;

/// AAP: the description, and the request that begins a conversation.
pub(crate) fn aap(agent: &Agent, texts: &Texts) -> Vec<DocumentLink> {
    let tools: Vec<_> = agent.exposed_tools().map(|tool| json!({"name": tool.name})).collect();
    let session = json!({"agent": {"name": agent.name, "tools": tools}});
    vec![
        DocumentLink {
            protocol: "AAP v3",
            title: texts.documents.aap_meta.clone(),
            path: "/aap/meta".to_owned(),
            opens: true,
            request: None,
            arguments: String::new(),
            needs_key: false,
        },
        DocumentLink {
            protocol: "AAP v3",
            title: texts.documents.aap_session.clone(),
            path: "/aap/sessions".to_owned(),
            opens: false,
            request: None,
            arguments: format!("-H 'content-type: application/json' -d {}", quoted(&session.to_string())),
            needs_key: true,
        },
    ]
}

/// Skill Sharing: the index, and each skill with a request for an execution.
pub(crate) fn skill(agent: &Agent, texts: &Texts) -> Vec<DocumentLink> {
    const PROTOCOL: &str = "Skill Sharing 1.0";
    let tools = agent.tools.iter().filter_map(|tool| Some((Some(&**tool), tool.skill.as_deref()?)));
    let whole = agent.skill.as_deref().map(|skill| (None, skill));
    let shown = |(tool, skill): &(Option<&Tool>, &Skill)| {
        skill.access != SkillAccess::Private && !tool.is_some_and(Tool::on_device)
    };
    let skills: Vec<_> = whole.into_iter().chain(tools).filter(shown).collect();
    if skills.is_empty() {
        return Vec::new();
    }
    let mut documents = vec![DocumentLink {
        protocol: PROTOCOL,
        title: texts.documents.skill_index.clone(),
        path: "/.well-known/skill-sharing".to_owned(),
        opens: true,
        request: None,
        arguments: String::new(),
        needs_key: false,
    }];
    documents.extend(skills.into_iter().map(|(tool, skill)| {
        let inputs = tool.map_or_else(|| json!({"text": "…"}), |tool| sample(tool.input.source()));
        DocumentLink {
            protocol: PROTOCOL,
            title: skill.name.clone(),
            path: format!("/skills/{}.json", skill.id),
            opens: true,
            request: Some(format!("/skills/{}/invoke", skill.id)),
            arguments: [proof(&skill.auth), invocation(skill, &inputs)].concat(),
            needs_key: false,
        }
    }));
    documents
}

/// A2H: the manifest, where the agent has something for people's devices.
pub(crate) fn a2h(agent: &Agent, texts: &Texts) -> Vec<DocumentLink> {
    if agent.device_tools().next().is_none() {
        return Vec::new();
    }
    vec![DocumentLink {
        protocol: "A2H Capability Manifest v1",
        title: texts.documents.a2h_manifest.clone(),
        path: format!("/a2h/agents/{}", agent.name),
        opens: true,
        request: None,
        arguments: String::new(),
        needs_key: false,
    }]
}

/// ANP: the description, its methods, and a call.
pub(crate) fn anp(agent: &Agent, texts: &Texts) -> Vec<DocumentLink> {
    const PROTOCOL: &str = "ANP 1.2";
    let read = |title: &str, path: String| DocumentLink {
        protocol: PROTOCOL,
        title: title.to_owned(),
        path,
        opens: true,
        request: None,
        arguments: String::new(),
        needs_key: false,
    };
    let mut documents = vec![
        read(&texts.documents.anp_description, format!("/agents/{}/ad.json", agent.name)),
        read(&texts.documents.anp_did, format!("/agents/{}/did.json", agent.name)),
        read(&texts.documents.anp_interface, format!("/agents/{}/interfaces/tools.json", agent.name)),
    ];
    if let Some(tool) = agent.exposed_tools().find(|tool| !tool.human_authorization) {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": tool.name, "params": sample(tool.input.source())});
        documents.push(DocumentLink {
            title: format!("{} · {}", texts.documents.anp_call, tool.name),
            path: format!("/agents/{}/rpc", agent.name),
            opens: false,
            arguments: format!("-H 'content-type: application/json' -d {}", quoted(&call.to_string())),
            needs_key: true,
            ..read("", String::new())
        });
    }
    documents
}

/// The credential header of a skill, with the secret in a shell variable.
fn proof(auth: &SkillAuth) -> String {
    match auth {
        SkillAuth::ApiKey { header } => format!("-H \"{header}: $NUNCIO_KEY\" "),
        SkillAuth::OAuth2 { .. } => "-H \"authorization: Bearer $NUNCIO_TOKEN\" ".to_owned(),
        SkillAuth::None | SkillAuth::Custom => String::new(),
    }
}

/// The `curl` arguments that invoke a skill with its own method.
fn invocation(skill: &Skill, inputs: &Value) -> String {
    let body = json!({"caller": {"id": "me", "type": "user"}, "skill_id": skill.id, "inputs": inputs});
    let body = || format!("-H 'content-type: application/json' -d {}", quoted(&body.to_string()));
    let query = || {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let pairs = inputs.as_object().into_iter().flatten();
        pairs.map(|(name, value)| format!(" --data-urlencode {}", quoted(&format!("{name}={}", text(value))))).collect()
    };
    match skill.method {
        SkillMethod::Post => body(),
        SkillMethod::Put => format!("-X PUT {}", body()),
        SkillMethod::Get => ["-G".to_owned(), query()].concat(),
        SkillMethod::Delete => ["-X DELETE -G".to_owned(), query()].concat(),
    }
}

/// The inputs that must be given, with something that fits.
fn sample(schema: &Value) -> Value {
    some_value(schema, &mut 0)
}

/// Something that fits a schema, as far as can be told without trying. Each day named is later than the
/// one before: who arrives leaves later.
fn some_value(schema: &Value, days: &mut u32) -> Value {
    let named = ["const", "default"].iter().find_map(|key| schema.get(key));
    let listed = ["examples", "enum"].iter().find_map(|key| schema[key].as_array()?.first());
    if let Some(value) = named.or(listed) {
        return value.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"].as_array()?.first()?.as_str());
    match kind {
        Some("number" | "integer") => match (&schema["minimum"], schema["exclusiveMinimum"].as_i64()) {
            (Value::Null, None) => json!(schema["maximum"].as_i64().map_or(1, |most| most.min(1))),
            (Value::Null, Some(more_than)) => json!(more_than + 1),
            (least, _) => least.clone(),
        },
        Some("boolean") => json!(true),
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(0).min(3);
            (0..count).map(|_| some_value(&schema["items"], days)).collect()
        }
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let inputs = required.map(|name| (name.to_owned(), some_value(&schema["properties"][name], days)));
            inputs.collect::<serde_json::Map<_, _>>().into()
        }
        Some("null") => Value::Null,
        _ => json!(some_text(schema, days)),
    }
}

fn some_text(schema: &Value, days: &mut u32) -> String {
    let length = schema["minLength"].as_u64().unwrap_or(1).clamp(1, 100);
    let words = "…".repeat(usize::try_from(length).unwrap_or(1));
    if schema.get("format").is_none() && schema.get("pattern").is_none() {
        return words;
    }
    let day = format!("2030-06-{:02}", (*days + 1).min(30));
    let moment = format!("{day}T12:00:00Z");
    let address = "https://example.com/";
    let uuid = "018f4c5e-0000-7000-8000-000000000000";
    let named = match schema["format"].as_str() {
        Some("date") => &*day,
        Some("date-time") => &moment,
        Some("time") => "12:00:00Z",
        Some("email") => "me@example.com",
        Some("uri") => address,
        Some("uuid") => uuid,
        _ => &words,
    };
    // What a pattern is often meant for.
    let usual = [named, &words, &day, &moment, "12:00", address, uuid, "1", "en"];
    let Ok(compiled) = Schema::compile(schema.clone()) else { return words };
    let fitting = usual.into_iter().find(|text| compiled.check(&json!(text)).is_ok()).unwrap_or(&words).to_owned();
    if fitting == day || fitting == moment {
        *days += 1;
    }
    fitting
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_quoting_round_trips() {
        assert_eq!(quoted(r#"{"a":"b"}"#), r#"'{"a":"b"}'"#);
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    /// Every skill of the examples can be tried as its command says.
    #[test]
    fn sample_arguments_match_the_input_schema_of_the_skill() {
        for name in ["hotel", "restaurant", "script", "warehouse"] {
            let path = format!("{}/../../examples/{name}/agent.toml", env!("CARGO_MANIFEST_DIR"));
            let agent = nuncio_core::declaration::parse(name, &std::fs::read_to_string(path).unwrap()).unwrap().agent;
            for tool in agent.tools.iter().filter(|tool| tool.skill.is_some()) {
                let sample = sample(tool.input.source());
                assert_eq!(tool.input.check(&sample), Ok(()), "{name}/{}: {sample}", tool.name);
            }
        }
    }

    #[test]
    fn sample_value_matches_every_kind_of_schema() {
        let schema = json!({"type": "object", "additionalProperties": false,
            "required": ["a", "b", "c", "d", "e", "f", "g", "h", "i"], "properties": {
            "a": {"type": "integer", "minimum": 3}, "b": {"type": "number", "exclusiveMinimum": 0, "maximum": 30},
            "c": {"enum": ["x", "y"]}, "d": {"type": "array", "minItems": 2, "items": {"type": "boolean"}},
            "e": {"type": "string", "minLength": 4}, "f": {"type": ["null", "string"]}, "g": {"const": 7},
            "h": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer", "maximum": -1}}},
            "i": {"type": "string", "format": "date-time"}, "z": {"type": "string"}}});
        let sample = sample(&schema);
        assert_eq!(nuncio_core::schema::Schema::compile(schema).unwrap().check(&sample), Ok(()), "{sample}");
        assert_eq!(sample["i"], "2030-06-01T12:00:00Z");
        assert_eq!(sample.get("z"), None, "only what must be given");
    }

    fn command(skill: &str) -> (String, String) {
        let head = "[agent]\nname = \"desk\"\nversion = \"1.0.0\"\n[brain]\nkind = \"script\"\n";
        let input = "input = { type = \"object\", required = [\"q\"], properties = { q = { enum = [\"it's\"] } } }";
        let tool =
            format!("[[tool]]\nname = \"find\"\ndescription = \"Finds.\"\nrun = {{ command = [\"cat\"] }}\n{input}\n");
        let text = format!("{head}{tool}skill = {{ type = \"api\", {skill} }}\n");
        let agent =
            nuncio_core::declaration::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}")).agent;
        let mut documents = super::skill(&agent, Texts::of(nuncio_http::pages::Language::English));
        let document = documents.pop().unwrap();
        assert_eq!((documents.len(), document.path.as_str()), (1, "/skills/desk/find.json"));
        (document.request.unwrap(), document.arguments)
    }

    #[test]
    fn curl_example_uses_the_method_and_credentials_of_the_skill() {
        let (request, arguments) = command("method = \"GET\"");
        assert_eq!(
            (request.as_str(), arguments.as_str()),
            ("/skills/desk/find/invoke", r"-G --data-urlencode 'q=it'\''s'")
        );
        let (_, arguments) = command("access = \"restricted\", auth = \"api_key\"");
        assert!(
            arguments.starts_with("-H \"X-API-Key: $NUNCIO_KEY\" -H 'content-type: application/json' -d '{"),
            "{arguments}"
        );
        assert!(command("method = \"PUT\"").1.starts_with("-X PUT -H"));
        assert!(command("method = \"DELETE\"").1.starts_with("-X DELETE -G --data-urlencode"));
    }
}
