//! Valid agent files, read completely.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::{MAX_BYTES, STARTER, parse};
use nuncio_core::agent::{
    Agent, BrainSpec, CapabilityType, HttpMethod, McpTransport, OptionValueType, SecretSource, Sensitivity,
    SkillAccess, SkillAuth, SkillCredential, SkillHttpMethod, SkillRetryPolicy, SlotKind, ToolRunSpec,
};
use nuncio_core::ids::ToolName;
use nuncio_core::text::TextByLanguage;

pub(super) const HOTEL: &str = include_str!("hotel.toml");

fn hotel() -> Agent {
    let declared = parse("hotel.toml", HOTEL).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(declared.notes, []);
    declared.agent
}

#[test]
fn identity_and_capabilities_of_a_complete_agent_file_are_read() {
    let agent = hotel();
    assert_eq!(agent.name.as_str(), "hotel-assistant");
    assert_eq!(agent.title_in("en"), "Grand Hotel Assistant");
    assert_eq!(agent.version.to_string(), "1.2.3-beta.1");
    assert_eq!(agent.description, Some(TextByLanguage::english("Books rooms and answers guests.")));
    let owner = agent.owner.unwrap();
    assert_eq!((owner.name.as_str(), owner.url.unwrap().as_str()), ("Grand Hotel", "https://grand-hotel.example/"));
    let can = agent.capabilities;
    assert_eq!((can.compacted_history, can.full_history), (false, true));
    assert_eq!((can.stream_delta, can.stream_message, can.stream_none), (false, true, true));
    assert_eq!((can.application_tools, can.image_https, can.image_data), (false, true, false));
}

#[test]
fn intents_of_a_complete_agent_file_are_read() {
    let BrainSpec::Rules(rules) = hotel().brain else { panic!("not a rules brain") };
    assert_eq!(rules.fallback.unwrap().as_str(), "I did not get that, {{ options.guest }}.");
    let [book, weather] = rules.intents.as_slice() else { panic!("{:?}", rules.intents) };
    assert_eq!(book.name.as_str(), "book");
    assert_eq!(book.keywords, ["book", "a room"]);
    assert_eq!(book.patterns, [r"(?i)for (?<nights>\d+) nights"]);
    assert_eq!(book.tool.as_ref().unwrap().as_str(), "make_reservation");
    assert_eq!(book.answer.as_str(), "Booked: {{ result.id }}.");
    assert_eq!(book.failure.as_ref().unwrap().as_str(), "That did not work: {{ error }}");
    // A tool imported from an MCP server can be the tool of an intent.
    assert_eq!(weather.tool.as_ref().unwrap().as_str(), "forecast");

    let slots: Vec<_> = book
        .slots
        .iter()
        .map(|slot| (slot.name.as_str(), slot.kind.clone(), slot.ask.is_some(), slot.default.as_deref(), slot.remember))
        .collect();
    assert_eq!(
        slots,
        [
            ("room", SlotKind::Choice(vec!["single".into(), "double".into()]), true, None, true),
            ("nights", SlotKind::Integer, false, Some("1"), false),
            ("from", SlotKind::Date, false, None, true),
            ("code", SlotKind::Pattern("^[A-Z]{3}$".into()), false, Some("ABC"), true),
            ("wish", SlotKind::Text, false, None, true),
        ]
    );
}

#[test]
fn options_and_scopes_of_a_complete_agent_file_are_read() {
    let agent = hotel();
    let options: Vec<_> =
        agent.options.iter().map(|option| (option.name.as_str(), &option.kind, option.default.as_str())).collect();
    assert_eq!(
        options,
        [
            ("guest", &OptionValueType::Text, "dear guest"),
            ("loyalty.key", &OptionValueType::Secret, ""),
            ("language", &OptionValueType::Select(vec!["English".into(), "中文".into()]), "中文"),
        ]
    );
    let [write, read] = agent.scopes.as_slice() else { panic!("{:?}", agent.scopes) };
    assert_eq!((write.id.as_str(), write.sensitivity), ("booking:write", Sensitivity::High));
    assert_eq!(write.label.in_language("zh-CN"), "预订客房");
    assert_eq!(write.description.as_ref().unwrap().in_language("en"), "Books and pays.");
    assert_eq!((read.label.in_language("en"), read.description.as_ref()), ("Look things up", None));
}

#[test]
fn tool_schemas_and_backends_of_a_complete_agent_file_are_read() {
    let agent = hotel();
    let reserve = agent.tool("make_reservation").unwrap();
    assert_eq!(reserve.title_in("en"), "Reserve");
    assert_eq!(reserve.scope.as_ref().unwrap().as_str(), "booking:write");
    assert_eq!((reserve.exposed, reserve.human_authorization, reserve.timeout), (false, true, Duration::from_secs(5)));
    let nights = &reserve.input.source()["properties"]["nights"];
    assert_eq!(*nights, json!({"type": "integer", "minimum": 1, "maximum": 30}));
    let output = reserve.output.as_ref().unwrap();
    assert_eq!(output.source()["properties"]["price"], json!({"type": "number", "multipleOf": 0.5}));
    let on = |tool: &str| match &agent.tool(tool).unwrap().run {
        ToolRunSpec::Mcp { server, tool } => format!("{server} {tool}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(on("make_reservation"), "hotel reserve");
    assert_eq!(on("search"), "hotel search");
    let search = agent.tool("search").unwrap();
    assert_eq!((search.exposed, search.human_authorization, search.timeout), (true, false, Duration::from_secs(30)));

    let ToolRunSpec::Http(rate) = &agent.tool("rate").unwrap().run else { panic!("not a request") };
    assert_eq!(rate.method, HttpMethod::Post);
    assert_eq!(rate.url.as_str(), "https://api.example/stays/{{ args.stay }}");
    let headers: Vec<_> = rate.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(headers, [("X-Two", "2"), ("Authorization", "Bearer {{ secrets.API_KEY }}")]);
    assert_eq!(rate.body.as_ref().unwrap().as_str(), r#"{"stars": {{ args.stars }}}"#);

    let ToolRunSpec::Command(clock) = &agent.tool("clock").unwrap().run else { panic!("not a command") };
    assert_eq!(clock.command.words().collect::<Vec<_>>(), ["date", "+%H:%M", ""]);
    let env: Vec<_> = clock.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(env, ["TZ", "TOKEN"]);
}

#[test]
fn human_and_remote_tools_of_a_complete_agent_file_are_read() {
    let agent = hotel();
    let human = |tool: &str| {
        let tool = agent.tool(tool).unwrap();
        let ToolRunSpec::Human(run) = &tool.run else { panic!("{:?}", tool.run) };
        (run.instructions.as_ref().map(|template| template.as_str().to_owned()), tool.timeout)
    };
    assert_eq!(human("carry"), (Some("Carry it to {{ args.room }}.".into()), Duration::from_secs(30 * 86_400)));
    assert_eq!(human("sweep"), (None, Duration::from_secs(86_400)));

    let remote = |tool: &str| match &agent.tool(tool).unwrap().run {
        ToolRunSpec::Skill(run) => run.clone(),
        other => panic!("{other:?}"),
    };
    let taxi = remote("taxi");
    assert_eq!(taxi.target, "taxi/call@rides.example:8443");
    let Some(SkillCredential::Client { id, secret }) = &taxi.credential else { panic!("{taxi:?}") };
    assert_eq!((id.as_str(), secret.as_str()), ("hotel", "{{ secrets.TOKEN }}"));
    let tickets = remote("tickets");
    assert_eq!((tickets.target.as_str(), tickets.credential), ("https://shows.example/skills/buy.json", None));
}

#[test]
fn skills_of_a_complete_agent_file_are_read() {
    let agent = hotel();
    let search = agent.tool("search").unwrap().skill.as_deref().unwrap();
    assert_eq!(search.id.as_str(), "grand/hotel-assistant/find");
    assert_eq!((search.name.as_str(), search.description.as_str()), ("Find a room", "Finds free rooms."));
    assert_eq!((search.version.to_string().as_str(), search.kind), ("2.0.1", CapabilityType::Api));
    assert_eq!((search.access, search.method), (SkillAccess::Private, SkillHttpMethod::Get));
    assert_eq!(search.auth, SkillAuth::OAuth2 { issuer: Some("https://login.example/realm".parse().unwrap()) });
    assert_eq!(search.tags, ["hotel", "客房"]);
    assert_eq!(search.documentation.as_ref().unwrap().as_str(), "https://grand-hotel.example/find");
    assert_eq!(search.created_at.unwrap().to_string(), "2026-01-15T08:00:00.000Z");
    assert_eq!(search.updated_at.unwrap().to_string(), "2026-02-01T00:00:00.000Z");
    assert_eq!(search.retry, Some(SkillRetryPolicy { max_attempts: 3, backoff: Duration::from_millis(250) }));
    assert_eq!((search.retention, search.concurrency), (Some(Duration::from_secs(48 * 3_600)), Some(4)));

    let carry = agent.tool("carry").unwrap().skill.as_deref().unwrap();
    assert_eq!((carry.id.as_str(), carry.access), ("hotel-assistant/carry", SkillAccess::Public));
    assert_eq!(carry.auth, SkillAuth::ApiKey { header: "X-Hotel-Key".into() });

    let whole = agent.skill.as_deref().unwrap();
    assert_eq!((whole.id.as_str(), whole.name.as_str()), ("hotel-assistant/ask", "Grand Hotel Assistant"));
    assert_eq!(whole.description, "Books rooms and answers guests.");
    assert_eq!(
        (whole.access, &whole.auth, whole.method),
        (SkillAccess::Public, &SkillAuth::None, SkillHttpMethod::Post)
    );
    assert_eq!((whole.retry, whole.retention, whole.concurrency), (None, None, None));
}

#[test]
fn mcp_servers_and_secrets_of_a_complete_agent_file_are_read() {
    let agent = hotel();
    let [hotel, sky, everything] = agent.mcp.as_slice() else { panic!("{:?}", agent.mcp) };
    let McpTransport::Stdio { command, env } = &hotel.transport else { panic!("{hotel:?}") };
    assert_eq!(command.words().collect::<Vec<_>>(), ["nuncio", "demo", "hotel"]);
    assert_eq!(env.len(), 1);
    assert_eq!(hotel.import, None);

    let McpTransport::Http { url, headers } = &sky.transport else { panic!("{sky:?}") };
    assert_eq!((url.as_str(), headers.len()), ("https://mcp.example/mcp", 1));
    let import = sky.import.as_ref().unwrap();
    let only: Vec<_> = import.only.iter().flatten().map(ToolName::as_str).collect();
    assert_eq!(only, ["forecast", "tides"]);
    assert_eq!(import.scope.as_ref().unwrap().as_str(), "hotel:read");
    assert_eq!((import.exposed, import.human_authorization), (false, true));

    let import = everything.import.as_ref().unwrap();
    assert_eq!((&import.only, &import.scope), (&None, &None));
    assert_eq!((import.exposed, import.human_authorization), (true, false));

    let secrets: Vec<_> = agent.secrets.iter().map(|(name, source)| (name.as_str(), source.clone())).collect();
    assert_eq!(
        secrets,
        [
            ("TOKEN", SecretSource::File(PathBuf::from("secrets/token"))),
            ("API_KEY", SecretSource::Env("HOTEL_API_KEY".into())),
        ]
    );
}

#[test]
fn minimal_agent_file_gets_defaults() {
    let declared = parse("a.toml", "agent = { name = 'a', version = '0.0.0' }").unwrap();
    assert_eq!(declared.agent.brain, BrainSpec::Rules(nuncio_core::agent::RulesBrainSpec::default()));
    assert_eq!(declared.agent.capabilities, nuncio_core::agent::AapCapabilities::default());
    assert_eq!(
        crate::AgentFileFaults(declared.notes).to_string(),
        "a.toml:1:1: brain: the brain matches no message\n  a rules brain needs [[intent]] sections"
    );
    let script = parse("a.toml", "agent = { name = 'a', version = '0.0.0' }\nbrain.kind = 'script'").unwrap();
    assert_eq!((script.agent.brain, script.notes), (BrainSpec::Script, vec![]));
}

#[test]
fn starter_file_is_valid() {
    let declared = parse("agent.toml", STARTER).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(declared.notes, []);
    assert_eq!(declared.agent.name.as_str(), "my-agent");
}

#[test]
fn starter_file_with_all_examples_enabled_is_valid() {
    let example = |line: &str| {
        let bare = line.strip_prefix("# ")?;
        let key = bare.split(" = ").next()?;
        let is_key = key != bare && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (bare.starts_with('[') || is_key).then(|| bare.to_owned())
    };
    let all: Vec<_> = STARTER.lines().map(|line| example(line).unwrap_or_else(|| line.to_owned())).collect();
    let declared = parse("agent.toml", &all.join("\n")).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(declared.notes, []);
    let agent = declared.agent;
    assert!(agent.owner.is_some());
    assert_eq!((agent.scopes.len(), agent.tools.len(), agent.secrets.len()), (1, 5, 2));
    assert_eq!((agent.mcp.len(), agent.options.len()), (1, 1));
    assert_eq!(agent.capabilities, nuncio_core::agent::AapCapabilities::default());
}

#[test]
fn toml_examples_in_the_skill_documentation_are_valid() {
    let page = include_str!("../../../../docs/skills.md");
    let examples: Vec<_> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 4);
    for example in examples {
        let agent = if example.contains("[agent]") { "" } else { super::AGENT };
        let server = "[[mcp]]\nname = \"hotel\"\ncommand = [\"hotel\"]\nimport = true\n";
        let text = format!("{agent}{}{example}{server}", super::GREETING);
        let declared = parse("skills.md", &text).unwrap_or_else(|faults| panic!("{faults}"));
        assert_eq!(declared.notes, [], "{text}");
    }
}

#[test]
fn agent_file_above_the_size_limit_is_refused() {
    let text = format!("{HOTEL}# {}", "x".repeat(MAX_BYTES));
    let faults = parse("big.toml", &text).unwrap_err();
    let said = format!("big.toml:1:1: the file has {} bytes\n  allowed: at most 1048576", text.len());
    assert_eq!(faults.to_string(), said);
    let filled = format!("{HOTEL}#{}", "x".repeat(MAX_BYTES - HOTEL.len() - 1));
    assert!(parse("full.toml", &filled).is_ok());
}

#[test]
fn agent_file_fault_has_file_line_column_and_key() {
    let faults = parse("x.toml", "[agent]\nname = \"a\"\nversion = \"1\"\n").unwrap_err();
    let [fault] = faults.0.as_slice() else { panic!("{faults}") };
    assert_eq!((fault.file.as_str(), fault.line, fault.column, fault.key.as_str()), ("x.toml", 3, 11, "agent.version"));
}

#[test]
fn texts_of_an_agent_are_read_by_language_with_english_as_the_fallback() {
    let text = r#"
[agent]
name = "a"
version = "1.0.0"
title = { en = "Desk", zh-CN = "前台" }
description = { zh-CN = "回答问题。" }
examples = ["Hello", { en = "Help", zh-CN = "帮助" }]
skill = { type = "knowledge", access = "public", auth = "none" }
[brain]
kind = "script"
[[tool]]
name = "find"
title = { en = "Find", zh-CN = "查找" }
description = "Finds."
input = { type = "object" }
run = { command = ["true"] }
skill = { type = "knowledge", access = "public", auth = "none" }
"#;
    let agent = parse("agent.toml", text).unwrap_or_else(|faults| panic!("{faults}")).agent;
    assert_eq!((agent.title_in("zh-CN"), agent.title_in("fr")), ("前台", "Desk"));
    assert_eq!(agent.description.as_ref().map(TextByLanguage::in_english), Some("回答问题。"));
    let examples: Vec<_> = agent.examples.iter().map(|text| text.in_language("zh-CN")).collect();
    assert_eq!(examples, ["Hello", "帮助"]);
    assert_eq!((agent.tools[0].title_in("zh-CN"), agent.tools[0].title_in("en")), ("查找", "Find"));
    let skills: Vec<_> = agent.skills().map(|skill| (skill.name.as_str(), skill.description.as_str())).collect();
    assert_eq!(skills, [("Find", "Finds."), ("Desk", "回答问题。")]);
}

#[test]
fn toml_examples_in_the_agent_file_documentation_make_a_valid_file() {
    for page in [include_str!("../../../../docs/agent-file.md"), include_str!("../../../../docs/zh-CN/agent-file.md")] {
        let written = page.split("\n<!--").next().unwrap();
        let examples = written.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let text: String = examples.collect();
        assert!(text.contains("[agent]") && text.contains("[[tool]]"));
        parse("agent-file.md", &text).unwrap_or_else(|faults| panic!("{faults}"));
    }
}
