use nuncio_core::template::{EscapeContext, Template};
use serde_json::{Value, json};

use super::*;

/// Imports a document and checks that the tools make a valid agent file.
fn import_document(document: &Value) -> Result<GeneratedAgentParts, String> {
    let document = OpenApiDocument::parse(&document.to_string())?;
    let sections = convert(&document, None, "pets")?;
    let secrets = super::super::sections::secrets(&sections.secrets);
    let text = format!(
        "[agent]\nname = \"pets\"\nversion = \"1.0.0\"\n[brain]\nkind = \"script\"\n{secrets}{}{}",
        sections.sections, sections.tools
    );
    let declared = nuncio_agent_file::parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    assert_eq!(declared.notes, [], "{text}");
    Ok(sections)
}

fn document(version: &str, paths: &Value) -> Value {
    json!({"openapi": version, "info": {"title": "Pets"}, "servers": [{"url": "https://pets.example/v1/"}], "paths": paths})
}

#[test]
fn operation_becomes_a_tool_with_path_query_and_header_arguments() {
    let parameters = json!([
        {"name": "limit", "in": "query", "schema": {"type": "integer"}},
        {"name": "tag[]", "in": "query", "required": true, "schema": {"type": "array", "items": {"type": "string"}}},
        {"name": "X-Trace", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "Accept", "in": "header", "required": true, "schema": {"type": "string"}},
    ]);
    let owner = json!({"name": "owner-id", "in": "path", "required": true, "schema": {"type": "string"}});
    let paths = json!({"/owners/{owner-id}/pets": {
        "parameters": [owner],
        "get": {"operationId": "list.pets", "summary": "List pets", "parameters": parameters},
    }});
    let tools = import_document(&document("3.1.0", &paths)).unwrap().tools;
    for part in [
        "name = \"list_pets\"\ntitle = \"List pets\"\n",
        "url = \"https://pets.example/v1/owners/{{ args.owner_id }}/pets?\
         {% for item in args.tag %}{% if not loop.first %}&{% endif %}tag%5B%5D={{ item }}{% endfor %}\
         {% if args.limit is defined and args.limit is not none %}&limit={{ args.limit }}{% endif %}\"",
        "headers = { X-Trace = \"{{ args.X_Trace }}\" }",
        "required = [\"owner_id\", \"tag\", \"X_Trace\"]",
    ] {
        assert!(tools.contains(part), "{part} in\n{tools}");
    }
    assert!(!tools.contains("scope = "), "reading needs no permission: {tools}");
}

#[test]
fn optional_query_parameter_that_is_null_or_missing_is_not_sent() {
    let done = json!({"name": "done", "in": "query", "schema": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}});
    let page = json!({"name": "page", "in": "query", "required": true, "schema": {"type": "integer"}});
    let paths = json!({
        "/one": {"get": {"operationId": "one", "parameters": [done]}},
        "/two": {"get": {"operationId": "two", "parameters": [done, page]}},
    });
    let tools = import_document(&document("3.1.0", &paths)).unwrap().tools;
    let parsed: toml::Table = tools.parse().unwrap();
    let url = |tool: usize, args: Value| {
        let template = parsed["tool"][tool]["run"]["http"]["url"].as_str().unwrap();
        let template = Template::parse(template).unwrap();
        template.render(EscapeContext::Url, json!({"args": args})).unwrap()
    };
    let base = "https://pets.example/v1";
    for (tool, args, expected) in [
        (0, json!({}), "/one"),
        (0, json!({"done": null}), "/one"),
        (0, json!({"done": false}), "/one?done=false"),
        (1, json!({"page": 2, "done": null}), "/two?page=2"),
        (1, json!({"page": 2, "done": true}), "/two?page=2&done=true"),
    ] {
        assert_eq!(url(tool, args), format!("{base}{expected}"));
    }
}

#[test]
fn properties_of_a_request_body_become_arguments_or_the_argument_body_if_names_clash() {
    let pet = json!({"type": "object", "required": ["name", "id"], "properties": {
        "name": {"type": "string", "nullable": true, "example": "Rex"},
        "id": {"type": "integer", "readOnly": true},
        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": true},
    }});
    let body =
        json!({"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}});
    let id = json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}]);
    let mut document = document(
        "3.0.3",
        &json!({
            "/pets": {"post": {"operationId": "add", "requestBody": body}},
            "/pets/{id}": {
                "put": {"operationId": "replace", "parameters": id, "requestBody": body},
                "delete": {"parameters": id},
            },
        }),
    );
    document["components"] = json!({"schemas": {"Pet": pet}});
    let sections = import_document(&document).unwrap();
    assert_eq!(sections.names, ["add", "replace", "delete_pets_id"]);
    for part in [
        "name = { type = [\"string\", \"null\"] }",
        "age = { type = \"integer\", minimum = 0, exclusiveMinimum = 0 }",
        "required = [\"name\"]",
        "body = \"{{ args.body | tojson }}\"",
        "scope = \"pets:write\"",
        "scope = \"pets:delete\"",
    ] {
        assert!(sections.tools.contains(part), "{part} in\n{}", sections.tools);
    }
    assert!(sections.sections.contains("id = \"pets:delete\"") && sections.sections.contains("sensitivity = \"high\""));
}

#[test]
fn security_schemes_become_secrets_in_headers_and_queries() {
    let mut document = document(
        "3.1.0",
        &json!({
            "/a": {"get": {"operationId": "a"}},
            "/b": {"get": {"operationId": "b", "security": [{"signed": []}, {"inQuery": [], "userToken": []}]}},
            "/c": {"get": {"operationId": "c", "security": []}},
            "/d": {"get": {"operationId": "d", "security": [{"signed": []}]}},
        }),
    );
    document["security"] = json!([{"key": []}]);
    document["components"] = json!({"securitySchemes": {
        "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        "inQuery": {"type": "apiKey", "in": "query", "name": "token"},
        "userToken": {"type": "http", "scheme": "Bearer"},
        "signed": {"type": "mutualTLS"},
    }});
    let sections = import_document(&document).unwrap();
    let secrets: Vec<_> = sections.secrets.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(secrets, ["KEY", "IN_QUERY", "USER_TOKEN"]);
    assert_eq!(sections.names, ["a", "b", "c"]);
    assert_eq!(sections.skipped, ["GET /d: its security scheme \"signed\" cannot be used"]);
    for part in [
        "headers = { X-Api-Key = \"{{ secrets.KEY }}\" }",
        "/b?token={{ secrets.IN_QUERY }}\", headers = { Authorization = \"Bearer {{ secrets.USER_TOKEN }}\" }",
        "url = \"https://pets.example/v1/c\" }",
    ] {
        assert!(sections.tools.contains(part), "{part} in\n{}", sections.tools);
    }
}

#[test]
fn template_syntax_in_an_openapi_document_is_not_written_to_the_agent_file() {
    let paths = json!({"/{{ secrets.KEY }}": {"get": {}}, "/a{%x%}": {"get": {}}, "/b%{#": {"get": {}}, "/ok": {"get": {
        "parameters": [{"name": "{{ secrets.KEY }}", "in": "query", "required": true, "schema": {"type": "string"}}],
    }}});
    let sections = import_document(&document("3.1.0", &paths)).unwrap();
    assert_eq!(sections.names, ["get_ok"], "{:?}", sections.skipped);
    assert!(!sections.tools.contains("{{ secrets"), "{}", sections.tools);
}

#[test]
fn cyclic_schema_reference_ends_in_a_schema_without_rules() {
    let body = json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}});
    let mut document = document("3.1.0", &json!({"/tree": {"post": {"operationId": "grow", "requestBody": body}}}));
    document["components"] = json!({"schemas": {
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}},
    }});
    let sections = import_document(&document).unwrap();
    assert!(sections.tools.contains("next = { type = \"object\" }"), "{}", sections.tools);
}

#[test]
fn operation_with_invalid_references_or_excessive_size_is_skipped_with_the_reason() {
    let of = |schema: Value| json!({"content": {"application/json": {"schema": schema}}, "required": true});
    let mut deep = json!({"type": "string"});
    for _ in 0..40 {
        deep = json!({"type": "array", "items": deep});
    }
    let paths = json!({
        "/fine": {"get": {}},
        "/loop": {"post": {"requestBody": {"$ref": "#/components/requestBodies/A"}}},
        "/remote": {"post": {"requestBody": of(json!({"$ref": "https://evil.example/x.json"}))}},
        "/gone": {"post": {"requestBody": of(json!({"$ref": "#/components/schemas/None"}))}},
        "/deep": {"post": {"requestBody": of(deep)}},
        "/wide": {"post": {"requestBody": of(json!({"$ref": "#/components/schemas/S0"}))}},
        "/form": {"post": {"requestBody": {"required": true, "content": {"multipart/form-data": {}}}}},
    });
    let mut document = document("3.1.0", &paths);
    // Each schema refers four times to the next one: 4^6 schemas after resolution.
    let repeated = (0..6).map(|n| {
        let next = json!({"$ref": format!("#/components/schemas/S{}", n + 1)});
        (format!("S{n}"), json!({"type": "object", "properties": {"a": next, "b": next, "c": next, "d": next}}))
    });
    document["components"] = json!({
        "schemas": repeated.collect::<serde_json::Map<_, _>>(),
        "requestBodies": {
            "A": {"$ref": "#/components/requestBodies/B"},
            "B": {"$ref": "#/components/requestBodies/A"},
        },
    });
    document["components"]["schemas"]["S6"] = json!({});
    let sections = import_document(&document).unwrap();
    assert_eq!(sections.names, ["get_fine"]);
    let skipped = sections.skipped.join("\n");
    for why in [
        "POST /loop: it has more than 16 references in a row",
        "POST /remote: it refers to \"https://evil.example/x.json\", outside of the document",
        "POST /gone: it refers to \"#/components/schemas/None\", which does not exist",
        "POST /deep: its schemas are nested deeper than 24 levels",
        "POST /wide: it has more than 2000 schemas",
        "POST /form: its request body is multipart/form-data, but only JSON and plain text can be sent",
    ] {
        assert!(skipped.contains(why), "{why} in\n{skipped}");
    }
}

#[test]
fn document_with_too_many_operations_is_cut_with_a_reason() {
    let paths: serde_json::Map<_, _> = (0..130).map(|n| (format!("/p{n}"), json!({"get": {}}))).collect();
    let sections = import_document(&document("3.1.0", &Value::Object(paths))).unwrap();
    assert_eq!(sections.names.len(), 128);
    assert!(sections.skipped[0].starts_with("2 operations more"), "{:?}", sections.skipped);
}

#[test]
fn documents_that_cannot_be_imported_are_refused_with_a_reason() {
    let failure = |text: &str| {
        let imported = OpenApiDocument::parse(text).and_then(|document| convert(&document, None, "a"));
        imported.err().unwrap_or_else(|| panic!("{text} was imported"))
    };
    for (text, why) in [
        ("{", "it is not valid JSON"),
        ("a: [", "it is not valid YAML"),
        ("just text", "the key \"openapi\" is missing"),
        ("swagger: '2.0'", "Swagger 2"),
        ("openapi: 4.0.0", "3.0 and 3.1"),
        ("openapi: 3.1.0\npaths: {/a: {get: {}}}", "it does not say where its server is"),
        ("openapi: 3.1.0\nservers: [{url: 'ftp://x/'}]\npaths: {/a: {get: {}}}", "must be http or https"),
        ("openapi: 3.1.0\nservers: [{url: 'https://{{x}}.example/'}]\npaths: {/a: {get: {}}}", "a placeholder"),
        ("openapi: 3.1.0\nservers: [{url: 'https://x/'}]", "it has no \"paths\""),
        ("openapi: 3.1.0\nservers: [{url: 'https://x/'}]\npaths: {}", "no operation can be imported"),
    ] {
        assert!(failure(text).contains(why), "{why} in {}", failure(text));
    }
    // Aliases that double at each level.
    let mut bomb = "openapi: 3.1.0\na0: &a0 [x, x]\n".to_owned();
    (1..40).for_each(|n| bomb.push_str(&format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)));
    assert!(failure(&bomb).contains("it is not valid YAML"));
}

#[test]
fn import_without_a_usable_operation_names_the_reason_of_each() {
    let text = "openapi: 3.1.0\npaths:\n  /a: {servers: [{url: 'ftp://x/'}], get: {}}\n  /b: {get: {}}\n";
    let refused = convert(&OpenApiDocument::parse(text).unwrap(), None, "a").err().unwrap();
    let lines: Vec<_> = refused.lines().collect();
    assert_eq!(lines.len(), 3, "{refused}");
    assert!(lines[1].starts_with("  GET /a: ") && lines[1].contains("must be http or https"), "{refused}");
    assert!(lines[2].starts_with("  GET /b: ") && lines[2].contains("where its server is"), "{refused}");
}

#[test]
fn relative_server_is_resolved_against_the_address_of_the_document() {
    let document =
        OpenApiDocument::parse("openapi: 3.0.0\nservers: [{url: '/{v}', variables: {v: {default: v2}}}]").unwrap();
    let own = Url::parse("http://localhost:8000/docs/openapi.json").unwrap();
    let none = serde_json::Map::new();
    assert_eq!(document.base_url(Some(&own), &none, &none).unwrap(), "http://localhost:8000/v2");
    let operation = serde_json::Map::from_iter([("servers".to_owned(), json!([{"url": "https://other.example"}]))]);
    assert_eq!(document.base_url(Some(&own), &none, &operation).unwrap(), "https://other.example");
    let without = OpenApiDocument::parse("openapi: 3.0.0").unwrap();
    assert_eq!(without.base_url(Some(&own), &none, &none).unwrap(), "http://localhost:8000");
}

/// A document with ordinary security schemes and one operation `GET /x` with these keys.
fn secured(operation: &Value, schemes: &Value) -> Value {
    let mut document = document("3.1.0", &json!({"/x": {"get": operation}}));
    document["components"] = json!({"securitySchemes": schemes});
    document
}

#[test]
fn parameter_that_is_also_a_credential_is_sent_once() {
    let operation = json!({
        "security": [{"key": []}],
        "parameters": [{"name": "x-api-key", "in": "header", "required": true, "schema": {"type": "string"}}],
    });
    let schemes = json!({"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}});
    let tools = import_document(&secured(&operation, &schemes)).unwrap().tools;
    assert!(tools.contains("headers = { X-API-Key = \"{{ secrets.KEY }}\" }"), "{tools}");
    assert!(!tools.contains("x_api_key"), "{tools}");
}

#[test]
fn several_cookie_credentials_are_imported_in_one_header_and_operations_with_two_credentials_in_another_header_are_skipped()
 {
    let schemes = json!({
        "a": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "b": {"type": "apiKey", "in": "cookie", "name": "csrf"},
        "c": {"type": "apiKey", "in": "header", "name": "Authorization"},
        "d": {"type": "http", "scheme": "bearer"},
    });
    let both = json!({"security": [{"a": [], "b": []}]});
    let tools = import_document(&secured(&both, &schemes)).unwrap().tools;
    assert!(tools.contains("Cookie = \"sid={{ secrets.A }}; csrf={{ secrets.B }}\""), "{tools}");
    let twice = json!({"security": [{"c": [], "d": []}]});
    let why = import_document(&secured(&twice, &schemes)).unwrap_err();
    assert!(why.contains("its security needs the header Authorization twice"), "{why}");
}

#[test]
fn security_schemes_with_similar_names_get_separate_secrets_and_basic_states_its_encoding() {
    let operation = json!({"security": [{"api-key": [], "api_key": [], "login": []}]});
    let schemes = json!({
        "api-key": {"type": "apiKey", "in": "header", "name": "X-A"},
        "api_key": {"type": "apiKey", "in": "header", "name": "X-B"},
        "login": {"type": "http", "scheme": "basic"},
    });
    let secrets = import_document(&secured(&operation, &schemes)).unwrap().secrets;
    let shown: Vec<_> = secrets.iter().map(|secret| format!("{} {}", secret.name, secret.form)).collect();
    assert_eq!(shown, ["API_KEY ", "API_KEY_2 ", "LOGIN base64 of user:password"]);
}

#[test]
fn part_of_an_operation_that_cannot_be_sent_is_reported_and_the_rest_is_kept() {
    let string = json!({"type": "string"});
    let operation = json!({
        "parameters": [
            {"name": "X-Trace", "in": "header", "schema": string},
            {"name": "X Bad", "in": "header", "schema": string},
            {"name": "Host", "in": "header", "required": true, "schema": string},
            {"name": "sid", "in": "cookie", "schema": string},
            {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
            {"name": "doc", "in": "query", "content": {"application/json": {}}},
            {"name": "tags", "in": "query", "style": "pipeDelimited", "schema": {"type": "array"}},
        ],
    });
    let form = json!({"operationId": "form", "requestBody": {"content": {"multipart/form-data": {}}}});
    let paths = json!({"/x": {"get": operation, "head": {}, "post": form}, "/a/../b": {"get": {}}});
    let sections = import_document(&document("3.1.0", &paths)).unwrap();
    assert_eq!(
        sections.skipped,
        [
            "HEAD /x: tools cannot use this method",
            "GET /x: its header \"X Bad\", whose name is not valid; the tool is imported without it",
            "GET /x: its header Host, which the server writes itself; the tool is imported without it",
            "GET /x: its optional cookie \"sid\"; the tool is imported without it",
            "GET /x: its parameter \"filter\" is an object; the tool is imported without it",
            "GET /x: its parameter \"doc\" is a document, not a value; the tool is imported without it",
            "POST /x: its request body is multipart/form-data, but only JSON and plain text can be sent; the tool is \
             imported without it",
            "GET /a/../b: it does not give a valid tool: the address \"https://pets.example/v1/a/../b\" contains `.` or `..` \
             as a segment of its path",
        ]
    );
    for part in [
        "X-Trace = \"{{ args.X_Trace | default('') }}\"",
        "?tags={% for item in args.tags %}{% if not loop.first %}%7C",
    ] {
        assert!(sections.tools.contains(part), "{part} in\n{}", sections.tools);
    }
}

#[test]
fn authorization_parameter_without_a_security_scheme_is_named_as_left_out() {
    let header = |name: &str| json!({"name": name, "in": "header", "schema": {"type": "string"}});
    let parameters = json!([header("authorization"), header("Accept"), header("X-Trace")]);
    let paths = json!({"/a": {"get": {"operationId": "a", "parameters": parameters}}});
    let sections = import_document(&document("3.1.0", &paths)).unwrap();
    assert_eq!(sections.skipped.len(), 1, "{:?}", sections.skipped);
    assert!(sections.skipped[0].contains("its header authorization"), "{:?}", sections.skipped);
    assert!(sections.tools.contains("X-Trace = \"{{ args.X_Trace | default('') }}\""), "{}", sections.tools);
}

#[test]
fn optional_text_body_is_sent_only_if_given_and_never_replaces_a_parameter() {
    let text = json!({"content": {"text/plain": {"schema": {"type": "string"}}}});
    let taken = json!([{"name": "body", "in": "query", "schema": {"type": "string"}}]);
    let paths = json!({
        "/t": {"post": {"operationId": "text", "requestBody": text}},
        "/u": {"post": {"operationId": "both", "requestBody": text, "parameters": taken}},
    });
    let sections = import_document(&document("3.1.0", &paths)).unwrap();
    let body = "body = \"{% if args.body is defined %}{{ args.body }}{% endif %}\"";
    assert!(sections.tools.contains(body) && !sections.tools.contains("required"), "{}", sections.tools);
    assert_eq!(sections.names, ["text"]);
    assert!(sections.skipped[0].contains("both a body and a parameter"), "{:?}", sections.skipped);
}

#[test]
fn list_in_a_path_text_body_control_character_and_long_names_are_written_correctly() {
    let ids = json!([{"name": "ids", "in": "path", "required": true, "schema": {"type": "array"}}]);
    let text = json!({"required": true, "content": {"text/plain": {"schema": {"type": "string"}}}});
    let long = "n".repeat(80);
    let paths = json!({
        "/l/{ids}": {"get": {"operationId": "list", "parameters": ids}},
        "/t": {"post": {"operationId": "text", "requestBody": text}},
        "/1": {"get": {"operationId": long}},
        "/2": {"get": {"operationId": long}},
    });
    let mut document = document("3.1.0", &paths);
    document["info"]["title"] = json!("A\u{7}B\rC");
    let sections = import_document(&document).unwrap();
    assert!(!sections.about.contains(char::is_control), "{:?}", sections.about);
    let in_path = "/l/{% for item in args.ids %}{% if not loop.first %},{% endif %}{{ item }}{% endfor %}";
    assert!(sections.tools.contains(in_path), "{}", sections.tools);
    assert!(
        sections.tools.contains("headers = { Content-Type = \"text/plain; charset=utf-8\" }"),
        "{}",
        sections.tools
    );
    assert_eq!(sections.names.iter().map(String::len).max(), Some(64));
    assert!(sections.names[3].ends_with("n_2"), "{:?}", sections.names);
}
