//! `nuncio init` and `nuncio lint`, and how `nuncio serve` finds agent files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::brains::model_server;
use crate::client::{call, last_text};
use crate::home::{SCRIPT, SCRIPTED, TestAgentFolder, shell_tool};

#[tokio::test]
async fn init_writes_an_agent_that_lint_accepts_and_serve_serves() {
    let home = TestAgentFolder::hotel();
    let written = home.json_command(&["init", "my-agent"]).json();
    assert_eq!(written["written"], "my-agent/agent.toml");
    let linted = home.json_command(&["lint", "my-agent"]).json();
    assert_eq!(linted["agents"][0]["agent"], "my-agent");
    assert_eq!(linted["agents"][0]["notes"], json!([]));

    let server = home.serve().arg("my-agent").start();
    assert_eq!(server.greeting["agents"], json!(["my-agent"]));
    let session = server.aap().session("my-agent", &[("clock", true)]).await;
    let answer = server.aap().say(&session, "What time is it in Europe/Paris?").await;
    let text = last_text(answer["messages"].as_array().unwrap());
    assert!(text.starts_with("In Europe/Paris it is ") && text.contains(':'), "{text}");
}

#[test]
fn init_writes_the_schema_that_the_first_line_of_the_agent_file_names() {
    let home = TestAgentFolder::hotel();
    home.json_command(&["init", "my-agent"]).json();
    let text = fs::read_to_string(home.path("my-agent/agent.toml")).unwrap();
    let schema = text.lines().next().unwrap().strip_prefix("#:schema ./").unwrap();
    let schema = fs::read_to_string(home.path("my-agent").join(schema)).unwrap();
    assert_eq!(schema, include_str!("../../../../schema/agent.schema.json"));
    assert_eq!(home.nuncio(&["explain", "--schema"]).run().stdout, schema);
}

#[test]
fn init_refuses_to_overwrite_an_existing_agent_file() {
    let home = TestAgentFolder::hotel();
    home.write_agent("mine");
    let ran = home.nuncio(&["init"]).run();
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("exists already"), "{ran:?}");
    assert_eq!(fs::read_to_string(home.path("agent.toml")).unwrap(), "mine");
}

#[test]
fn lint_reports_every_fault_at_once_with_its_file_and_line() {
    let home = TestAgentFolder::with_agent(
        "[agent]\nname = \"Not A Name\"\nversion = \"one\"\ndescription = \"x\"\n\n[brain]\nkind = \"magic\"\n\n[[tool]]\nname = \"t\"\ndescription = \"d\"\nscope = \"nobody:knows\"\ninput = { type = \"object\" }\nrun = { command = [] }\n",
    );
    let ran = home.nuncio(&["lint", "agent.toml"]).run();
    assert_eq!(ran.status, Some(1), "{ran:?}");
    for place in ["agent.toml:2:", "agent.toml:3:", "agent.toml:7:", "agent.toml:12:", "agent.toml:14:"] {
        assert!(ran.stderr.contains(place), "{place} in {}", ran.stderr);
    }
    let (code, message) = home.json_command(&["lint", "agent.toml"]).failure();
    assert_eq!(code, "agent_file_invalid");
    assert!(message.contains("agent.toml:2:") && message.contains("agent.toml:14:"), "{message}");
    let (code, served) = home.serve().run().failure();
    assert_eq!(code, "agent_file_invalid");
    assert_eq!(served.matches(".toml:").count(), message.matches(".toml:").count(), "serve says the same as lint");
}

#[test]
fn lint_reports_no_notes_on_the_example_agents() {
    let home = TestAgentFolder::hotel();
    let linted = home.json_command(&["lint", &format!("{SCRIPT}/..")]).json();
    let agents = linted["agents"].as_array().unwrap();
    assert!(agents.len() >= 2, "{linted}");
    for agent in agents {
        assert_eq!(agent["notes"], json!([]), "{}", agent["file"]);
    }
}

/// What each protocol cannot say includes texts in other languages.
#[test]
fn lint_lists_translated_texts_that_a_protocol_publishes_in_english_only() {
    let text = SCRIPTED.replace("description = ", "title = { en = \"Script\", zh-CN = \"脚本\" }\ndescription = ");
    let home = TestAgentFolder::with_agent(&(text + &shell_tool("well", "true")));
    let unsaid = home.json_command(&["lint", "agent.toml"]).json()["agents"][0]["unsaid"].clone();
    for protocol in ["aap", "anp"] {
        let parts = unsaid[protocol].as_array().unwrap();
        assert!(parts.contains(&json!("agent.title: only the English text is published")), "{protocol}: {unsaid}");
    }
}

#[test]
fn lint_and_serve_accept_and_refuse_the_same_files() {
    let tool = |run: &str| {
        format!(
            "\n[[tool]]\nname = \"t\"\ndescription = \"d\"\n\
             input = {{ type = \"object\", properties = {{ x = {{ type = \"string\" }} }}, required = [\"x\"] }}\nrun = {{ {run} }}\n"
        )
    };
    let http = |url: &str, rest: &str| tool(&format!("http = {{ url = {url:?}{rest} }}"));
    let information =
        |file: &str| format!("\n[[information]]\ntype = \"Text\"\ndescription = \"d\"\nfile = {file:?}\n");
    let cases = [
        (http("https://a.example/{{ args.x }}", ""), true),
        (http("https://{{ args.x }}/a", ""), false),
        (http("https://api.{{ args.x }}.example/a", ""), false),
        (http("https://u:p@a.example/a", ""), false),
        (http("https://a.example/a/../b", ""), false),
        (http("https://a.example/a b", ""), false),
        (http("https://a.example:99999/a", ""), false),
        (http("https://a.example/a", ", headers = { Host = \"x\" }"), false),
        (http("https://a.example/a", ", headers = { Transfer-Encoding = \"x\" }"), false),
        (http("https://a.example/a", ", headers = { X-Own = \"x\" }"), true),
        (information("there.json"), true),
        (information("nope.json"), false),
        (information("broken.json"), false),
        (tool("answer = \"{{ args.x }}\""), true),
        (tool("command = [\"sh\", \"-c\", \"-e\", \"echo {{ args.x }}\"]"), false),
    ];
    let home = TestAgentFolder::with_agent("");
    fs::write(home.path("there.json"), "{}").unwrap();
    fs::write(home.path("broken.json"), "{").unwrap();
    for (rest, accepted) in cases {
        home.write_agent(&format!("{SCRIPTED}{rest}"));
        let linted = home.nuncio(&["lint", "agent.toml"]).run();
        assert_eq!(linted.status == Some(0), accepted, "lint: {rest}\n{linted:?}");
        if accepted {
            home.serve().start();
        } else {
            assert_eq!(home.serve().run().failure().0, "agent_file_invalid", "serve: {rest}");
        }
    }
}

#[test]
fn lint_reports_a_script_file_that_does_not_exist() {
    let home = TestAgentFolder::with_agent(
        "[agent]\nname = \"a\"\nversion = \"1.0.0\"\n[brain]\nkind = \"process\"\ncommand = [\"sh\", \"brain_nope.sh\"]\n",
    );
    let (code, message) = home.json_command(&["lint", "agent.toml"]).failure();
    assert_eq!(code, "agent_file_invalid");
    assert!(message.contains("brain.command[1]: there is no file ") && message.contains("brain_nope.sh"), "{message}");
}

/// If `lint` started the MCP server, it would leave a file; if it connected, the listener would have a connection waiting.
#[test]
fn lint_without_connect_starts_nothing_and_connects_nowhere() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let text = [
        SCRIPTED.to_owned(),
        "[[mcp]]\nname = \"m\"\ncommand = [\"sh\", \"-c\", \"touch started\"]\nimport = true\n".to_owned(),
        format!("[[mcp]]\nname = \"n\"\nurl = \"http://{address}/mcp\"\nimport = true\n"),
        shell_tool("web", "true")
            .replace("command = [\"sh\", \"-c\", \"true\"]", &format!("http = {{ url = \"http://{address}/\" }}")),
    ];
    let home = TestAgentFolder::with_agent(&text.concat());
    let linted = home.nuncio(&["lint", "agent.toml"]).run();
    assert_eq!(linted.status, Some(0), "{linted:?}");
    assert!(!home.path("started").exists());
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn lint_accepts_the_examples_for_existing_agents_apart_from_programs_that_are_not_installed() {
    let folder = format!("{SCRIPT}/../bring-your-agent");
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path().join("agent.toml");
        let home = TestAgentFolder::with_agent("");
        let text = fs::read_to_string(&file).unwrap().replace(".venv/bin/python", "python3");
        for beside in fs::read_dir(file.parent().unwrap()).unwrap().map(|beside| beside.unwrap().path()) {
            if beside.is_file() {
                fs::copy(&beside, home.path(beside.file_name().unwrap().to_str().unwrap())).unwrap();
            }
        }
        home.write_agent(&text);
        let linted = home.json_command(&["lint", "agent.toml"]).json();
        assert_eq!(linted["agents"][0]["notes"], json!([]), "{}", file.display());
    }
}

#[test]
fn lint_lists_the_agent_file_parts_that_each_protocol_cannot_express() {
    let text = [
        SCRIPTED,
        "\n[[option]]\nname = \"tone\"\ntype = \"text\"\ndefault = \"plain\"\n",
        "\n[[scope]]\nid = \"notes:write\"\nlabel = \"Write notes\"\nsensitivity = \"high\"\n",
        "\n[[tool]]\nname = \"note\"\ndescription = \"Writes a note.\"\nscope = \"notes:write\"\n",
        "input = { type = \"object\", properties = { text = { type = \"string\" } }, minProperties = 1 }\n",
        "run = { command = [\"true\"] }\nskill = { type = \"task\", access = \"restricted\", auth = \"api_key\" }\n",
        "\n[[tool]]\nname = \"look\"\ntitle = \"Look\"\ndescription = \"Looks.\"\nscope = \"notes:write\"\n",
        "input = { type = \"object\" }\nrun = { device = true }\n",
    ];
    let home = TestAgentFolder::with_agent(&text.concat());
    let unsaid = home.json_command(&["lint", "agent.toml"]).json()["agents"][0]["unsaid"].clone();
    for (protocol, part) in [
        ("aap", "scope: the permission that a tool needs and its sensitivity are not published to clients"),
        ("skill", "option tone: callers cannot set it"),
        ("skill", "skill script/note: the permission that it needs and its sensitivity are not published to callers"),
        (
            "skill",
            "skill script/note: the rule \"minProperties\" for its inputs as a whole is not published to callers",
        ),
        ("anp", "option tone: callers cannot set it"),
        ("a2h", "tool look: its title is not published, only its description"),
    ] {
        let parts = unsaid[protocol].as_array().unwrap_or_else(|| panic!("{protocol} is not asked: {unsaid}"));
        assert!(parts.contains(&json!(part)), "{protocol}: {part} in {unsaid}");
    }
    let shown = home.nuncio(&["lint", "agent.toml"]).run().stdout;
    for name in ["AAP", "Skill Sharing", "ANP", "A2H"] {
        assert!(shown.contains(&format!("{name} cannot express:")), "{shown}");
    }
}

#[test]
fn lint_reports_programs_that_do_not_exist_and_serve_starts_without_them() {
    let text = SCRIPTED.to_owned()
        + &shell_tool("well", "true")
        + &shell_tool("gone", "true").replace("\"sh\"", "\"no-such-program\"");
    let home = TestAgentFolder::with_agent(&text);
    let (code, message) = home.json_command(&["lint", "agent.toml"]).failure();
    assert_eq!(code, "agent_file_invalid");
    assert!(message.starts_with("agent.toml:24:20: tool \"gone\".run.command[0]: there is no program"), "{message}");
    assert_eq!(home.serve().start().greeting["agents"], json!(["script"]));
}

#[test]
fn lint_notes_secrets_that_are_not_set_and_lists_tools_without_a_scope() {
    let secret = "\n[secrets]\nKEY = { env = \"NUNCIO_TEST_NEVER_SET\" }\n";
    let tool = shell_tool("well", "true").replace("] }", "], env = { KEY = \"{{ secrets.KEY }}\" } }");
    let home = TestAgentFolder::with_agent(&[SCRIPTED, &tool, secret].concat());
    let agent = home.json_command(&["lint", "agent.toml"]).json()["agents"][0].clone();
    let note = agent["environment"][0].as_str().unwrap();
    assert!(
        note.starts_with("agent.toml:20:15: secrets.KEY.env: the environment variable NUNCIO_TEST_NEVER_SET"),
        "{note}"
    );
    assert_eq!(agent["unscoped"], json!(["agent.toml:12:1: tool \"well\""]));
    assert_eq!(agent["servers"], json!(null), "without --connect nothing is reached");
    let shown = home.nuncio(&["lint", "agent.toml"]).run().stdout;
    assert!(shown.contains("Without a scope") && shown.contains("agent.toml:12:1: tool \"well\""), "{shown}");
}

#[tokio::test]
async fn lint_connect_reports_each_server_as_reached_or_with_its_fault() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = TestAgentFolder::hotel();
    let server = other.serve().start();
    let tool = |name: &str, run: &str| {
        format!(
            "\n[[tool]]\nname = {name:?}\ndescription = \"d\"\ninput = {{ type = \"object\" }}\nrun = {{ {run} }}\n"
        )
    };
    let text = [
        "[agent]\nname = \"a\"\nversion = \"1.0.0\"\n".to_owned(),
        format!("[brain]\nkind = \"aap\"\nurl = \"{}/aap\"\n", server.url()),
        "[[mcp]]\nname = \"hotel\"\ncommand = [\"nuncio\", \"demo\", \"hotel\"]\nimport = [\"search_rooms\"]\n"
            .to_owned(),
        "[[mcp]]\nname = \"other\"\ncommand = [\"nuncio\", \"demo\", \"hotel\"]\nimport = [\"no_such\"]\n".to_owned(),
        "[[mcp]]\nname = \"broken\"\ncommand = [\"false\"]\nimport = true\n".to_owned(),
        tool("closed", &format!("http = {{ url = \"http://{closed}/x\" }}")),
        tool("remote", &format!("skill = \"hotel/find@{closed}\"")),
    ];
    let home = TestAgentFolder::with_agent(&text.concat());
    let ran = home.json_command(&["lint", "--connect", "agent.toml"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let servers = report["agents"][0]["servers"].as_array().unwrap();
    let seen: Vec<_> =
        servers.iter().map(|it| (it["part"].as_str().unwrap(), it["reachable"].as_bool().unwrap())).collect();
    let expected = [
        ("mcp \"hotel\"", true),
        ("mcp \"other\"", false),
        ("mcp \"broken\"", false),
        ("brain", true),
        ("tool \"closed\"", false),
        ("tool \"remote\"", false),
    ];
    assert_eq!(seen, expected, "{report}");
    let says = |index: usize| servers[index]["says"].as_str().unwrap();
    assert_eq!(says(0), "has 4 tools");
    assert!(says(1).starts_with("has no tool `no_such`; it has: "), "{report}");
    assert_eq!(says(3), "has the agent \"hotel-assistant\"");
    assert!(says(4).contains("refused"), "{report}");
}

#[tokio::test]
async fn lint_connect_checks_key_and_name_of_a_model() {
    let list = json!({"data": [{"id": "gpt-5"}, {"id": "qwen3:latest"}]}).to_string();
    let answer = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let listed = answer("200 OK", &list);
    let refused = answer("401 Unauthorized", "{\"error\":{\"message\":\"bad key sk-secret-1\"}}");
    for (model, answer, reachable, says) in [
        ("gpt-5", &listed, true, "accepts the key and has the model \"gpt-5\""),
        ("qwen3", &listed, true, "accepts the key and has the model \"qwen3\""),
        ("gtp-5", &listed, true, "accepts the key and lists 2 models, but not \"gtp-5\"; check its name"),
        ("gpt-5", &refused, false, "refuses the key with status 401 Unauthorized: bad key [secret]"),
    ] {
        let (url, server) = model_server(vec![answer.clone()]);
        let home = TestAgentFolder::with_agent(&format!(
            "[agent]\nname = \"a\"\nversion = \"1.0.0\"\n[brain]\nkind = \"model\"\nprovider = \"openai\"\n\
             model = {model:?}\nkey = \"KEY\"\nbase_url = \"{url}\"\n[secrets]\nKEY = {{ env = \"KEY\" }}\n"
        ));
        let ran = home.nuncio(&["--json", "lint", "--connect", "agent.toml"]).env("KEY", "sk-secret-1").run();
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let brain = &report["agents"][0]["servers"][0];
        assert_eq!((&brain["reachable"], &brain["says"]), (&json!(reachable), &json!(says)), "{report}");
        server.join().unwrap();
    }
}

#[tokio::test]
async fn lint_connect_reaches_model_servers_agents_skills_and_mcp_over_http() {
    let other = TestAgentFolder::hotel();
    let server = other.serve().start();
    let url = server.url();
    let host = url.trim_start_matches("http://").to_owned();
    let tool = |name: &str, run: &str| {
        format!(
            "\n[[tool]]\nname = {name:?}\ndescription = \"d\"\ninput = {{ type = \"object\" }}\nrun = {{ {run} }}\n"
        )
    };
    let text = [
        "[agent]\nname = \"a\"\nversion = \"1.0.0\"\n".to_owned(),
        format!("[brain]\nkind = \"model\"\nprovider = \"ollama\"\nmodel = \"m\"\nbase_url = \"{url}/v1\"\n"),
        format!("[[mcp]]\nname = \"far\"\nurl = \"{url}/mcp\"\nimport = true\n"),
        format!("[[mcp]]\nname = \"wrong\"\nurl = \"{url}/aap\"\nimport = true\n"),
        tool("agent", &format!("anp = \"{url}/agents/hotel/ad.json\", method = \"x\"")),
        tool("skill", &format!("skill = \"hotel/find@{host}\"")),
    ];
    let home = TestAgentFolder::with_agent(&text.concat());
    let ran = home.json_command(&["lint", "--connect", "agent.toml"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let servers = report["agents"][0]["servers"].as_array().unwrap();
    let seen: Vec<_> =
        servers.iter().map(|it| (it["part"].as_str().unwrap(), it["reachable"].as_bool().unwrap())).collect();
    let expected = [
        ("mcp \"far\"", true),
        // The server speaks no MCP at this address.
        ("mcp \"wrong\"", false),
        ("brain", true),
        ("tool \"agent\"", true),
        ("tool \"skill\"", true),
    ];
    assert_eq!(seen, expected, "{report}");
}

#[test]
fn duplicate_agent_names_and_paths_without_agents_are_refused() {
    let home = TestAgentFolder::hotel();
    for folder in ["agents/a", "agents/b", "empty"] {
        fs::create_dir_all(home.path(folder)).unwrap();
    }
    for folder in ["a", "b"] {
        fs::write(home.path("agents").join(folder).join("agent.toml"), SCRIPTED).unwrap();
    }
    assert_eq!(home.json_command(&["lint", "agents"]).failure().0, "agent_name_taken");
    assert_eq!(home.serve().arg("agents").run().failure().0, "agent_name_taken");
    let (code, message) = home.serve().arg("empty").run().failure();
    assert_eq!(code, "agent_file_invalid");
    assert!(message.contains("nuncio init empty"), "{message}");
    assert_eq!(home.serve().arg("nowhere.toml").run().failure().0, "agent_file_invalid");
}

/// Programs named with a slash, and all relative paths, are resolved in the agent's folder.
#[tokio::test]
async fn tool_program_path_is_resolved_in_the_agent_folder_from_any_working_directory() {
    let home = TestAgentFolder::hotel();
    let folder = home.path("my-agent");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("agent.toml"),
        format!("{SCRIPTED}\n[[tool]]\nname = \"beside\"\ndescription = \"d\"\ninput = {{ type = \"object\" }}\nrun = {{ command = [\"./beside.sh\"] }}\n"),
    )
    .unwrap();
    fs::write(folder.join("beside.sh"), "#!/bin/sh\ncat note\n").unwrap();
    fs::set_permissions(folder.join("beside.sh"), Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("note"), "found").unwrap();

    let absolute = folder.join("agent.toml").display().to_string();
    let names = [
        (".", "my-agent"),
        (".", "my-agent/agent.toml"),
        ("my-agent", "agent.toml"),
        ("my-agent", "."),
        (".", &absolute),
    ];
    for (from, name) in names {
        let server = home.serve().arg(name).in_folder(&home.path(from)).start();
        let session = server.aap().session("script", &[("beside", true)]).await;
        let answer = server.aap().play(&session, json!([[call("c1", "beside", json!({}))], [{"text": "done"}]])).await;
        assert_eq!(answer["messages"][1]["content"], "found", "`nuncio serve {name}` in {from}");
    }
}
