//! `nuncio init`: agent files generated from MCP servers, OpenAPI documents and models, and for devices and programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::last_text;
use crate::home::TestAgentFolder;
use crate::process::nuncio;

fn lint_file(home: &TestAgentFolder, folder: &str) -> Value {
    home.json_command(&["lint", folder]).json()["agents"][0].clone()
}

#[tokio::test]
async fn init_from_the_hotel_mcp_server_makes_a_working_agent() {
    let home = TestAgentFolder::hotel();
    let written = home.json_command(&["init", "desk", "--from-mcp", "nuncio demo hotel", "--yes"]).json();
    assert_eq!(written, json!({"written": "desk/agent.toml", "skipped": []}));
    assert_eq!(lint_file(&home, "desk")["notes"], json!([]));
    let entries = fs::read_dir(home.path("desk")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    assert_eq!(entries, [".agent.schema.json", "agent.toml"], "asking leaves nothing else behind");
    let text = fs::read_to_string(home.path("desk/agent.toml")).unwrap();
    assert!(text.contains("[[mcp]]\nname = \"hotel\"\ncommand = [\"nuncio\", \"demo\", \"hotel\"]\n"), "{text}");
    assert!(text.contains("run = { mcp = \"hotel\" }"), "{text}");
    // The server's annotations: booking writes, cancelling destroys.
    assert!(text.contains("id = \"hotel:write\"") && text.contains("id = \"hotel:delete\""), "{text}");
    assert!(text.contains("title = \"Search rooms\""), "{text}");

    let server = home.serve().arg("desk").start();
    assert_eq!(server.greeting["agents"], json!(["desk"]));
    let session = server.aap().session("desk", &[]).await;
    let answer = server.aap().say(&session, "help").await;
    let text = last_text(answer["messages"].as_array().unwrap());
    assert!(text.starts_with("I have these tools, but no rules yet") && text.contains("search_rooms"), "{text}");
}

/// Script of the reference server of MCP.
fn everything() -> PathBuf {
    let script = std::env::var_os("NUNCIO_TEST_MCP_EVERYTHING").map(PathBuf::from);
    script.expect("NUNCIO_TEST_MCP_EVERYTHING must name dist/index.js of @modelcontextprotocol/server-everything: run `cargo xtask test`")
}

#[test]
fn init_from_the_reference_mcp_server_with_a_model_writes_a_valid_agent_file() {
    let script = everything();
    let home = TestAgentFolder::hotel();
    let command = format!("node '{}'", script.display());
    home.json_command(&["init", "all", "--from-mcp", &command, "--yes", "--model", "anthropic/claude-sonnet-4-5"])
        .json();
    let agent = lint_file(&home, "all");
    assert_eq!((&agent["agent"], &agent["notes"]), (&json!("all"), &json!([])));
    let text = fs::read_to_string(home.path("all/agent.toml")).unwrap();
    for part in [
        "kind = \"model\"\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\nkey = \"ANTHROPIC_API_KEY\"\n",
        "[secrets]\nANTHROPIC_API_KEY = { env = \"ANTHROPIC_API_KEY\" }",
        "name = \"get-sum\"\n",
        "[tool.input.properties]\n",
        "[tool.output.properties]\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn init_with_a_model_and_no_mcp_server_writes_a_valid_agent_file() {
    let home = TestAgentFolder::hotel();
    home.json_command(&["init", "local", "--model", "ollama/qwen3:8b"]).json();
    assert_eq!(lint_file(&home, "local")["notes"], json!([]));
    let text = fs::read_to_string(home.path("local/agent.toml")).unwrap();
    assert!(text.contains("provider = \"ollama\"\nmodel = \"qwen3:8b\"\n") && !text.contains("[secrets]"), "{text}");
    let shown = home.nuncio(&["init", "far", "--model", "openai/gpt-5"]).run();
    assert!(shown.stdout.contains("export OPENAI_API_KEY="), "{shown:?}");
    let text = fs::read_to_string(home.path("far/agent.toml")).unwrap();
    let own_server = text
        .replace("key = \"OPENAI_API_KEY\"\n", "")
        .replace("\nOPENAI_API_KEY = ", "\n# ")
        .replace("# base_url = ", "base_url = ");
    assert!(text.contains("# A server at base_url that needs no key: delete `key`"), "{text}");
    assert!(!own_server.contains("OPENAI_API_KEY = ") && own_server.contains("\nbase_url = "), "{own_server}");
    fs::write(home.path("far/agent.toml"), own_server).unwrap();
    assert_eq!(lint_file(&home, "far")["notes"], json!([]), "the file is valid without the key");
}

#[test]
fn init_with_a_base_url_writes_the_address_and_needs_no_key() {
    let home = TestAgentFolder::hotel();
    let own = ["--model", "openai/qwen3", "--base-url", "http://localhost:8080/v1"];
    let shown = home.nuncio(&[&["init", "own"], &own[..]].concat()).run();
    assert!(shown.status == Some(0) && !shown.stdout.contains("export"), "{shown:?}");
    let text = fs::read_to_string(home.path("own/agent.toml")).unwrap();
    assert!(text.contains("model = \"qwen3\"\nbase_url = \"http://localhost:8080/v1\"\n"), "{text}");
    assert!(!text.contains("\n[secrets]\n") && text.contains("# If the server needs a key:"), "{text}");
    assert_eq!(lint_file(&home, "own")["notes"], json!([]));
    for wrong in [&["--base-url", "http://localhost:8080/v1"][..], &["--model", "openai/x", "--base-url", "here"]] {
        let ran = home.nuncio(&[&["init", "gone"], wrong].concat()).run();
        assert_eq!(ran.status, Some(2), "{ran:?}");
    }
}

#[test]
fn init_with_an_unreachable_mcp_server_or_wrong_arguments_writes_nothing() {
    let home = TestAgentFolder::hotel();
    let (code, message) = home.json_command(&["init", "gone", "--from-mcp", "./no-such-server"]).failure();
    assert_eq!(code, "tool_unavailable");
    assert!(message.contains("./no-such-server"), "{message}");
    let (_, message) = home.json_command(&["init", "gone", "--from-mcp", "http://127.0.0.1:9/mcp"]).failure();
    assert!(message.contains("MCP server `127`"), "{message}");
    for arguments in [["--model", "gpt-5"], ["--from-mcp", "'open"], ["--from-mcp", ""]] {
        let ran = home.nuncio(&["init", "gone"]).arg(arguments[0]).arg(arguments[1]).run();
        assert_eq!(ran.status, Some(2), "{ran:?}");
    }
    assert!(!home.path("gone").exists());
}

#[test]
fn init_without_a_terminal_leaves_out_mcp_tools_that_write() {
    let home = TestAgentFolder::hotel();
    let written = home.json_command(&["init", "desk", "--from-mcp", "nuncio demo hotel"]).json();
    let skipped: Vec<_> = written["skipped"].as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect();
    assert_eq!(
        skipped,
        [
            "`make_reservation` may change something; to take it over, delete agent.toml and add --yes",
            "`cancel_reservation` may change something; to take it over, delete agent.toml and add --yes",
        ]
    );
    let text = fs::read_to_string(home.path("desk/agent.toml")).unwrap();
    assert!(text.contains("name = \"search_rooms\"") && !text.contains("name = \"make_reservation\""), "{text}");
    assert!(!text.contains("[[scope]]"), "{text}");
}

#[test]
fn init_in_a_terminal_asks_before_it_takes_over_mcp_tools_that_write() {
    let home = TestAgentFolder::hotel();
    for (answer, taken) in [("n", false), ("y", true)] {
        let command = home.nuncio(&["init", answer, "--from-mcp", "nuncio demo hotel"]);
        let Some(command) = command.in_terminal() else { return };
        let mut running = command.start_interactive();
        running.line(answer);
        let shown = running.wait_for_end();
        assert!(shown.stdout.contains("2 tools of hotel may change something:"), "{shown:?}");
        assert!(shown.stdout.contains("cancel_reservation (may delete or overwrite)"), "{shown:?}");
        let text = fs::read_to_string(home.path(answer).join("agent.toml")).unwrap();
        assert_eq!(text.contains("name = \"make_reservation\""), taken, "{text}");
    }
}

#[test]
fn init_shows_the_output_of_a_starting_mcp_server_and_quotes_names_with_spaces() {
    let home = TestAgentFolder::hotel();
    let script = everything();
    let ran = home.nuncio(&["init", "my agent", "--from-mcp", &format!("node '{}'", script.display())]).run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("Starting index.\nindex: Starting default (STDIO) server...\n"), "{ran:?}");
    assert!(ran.stdout.contains(" tools, ") && ran.stdout.contains("nuncio serve 'my agent' "), "{ran:?}");
    let one = home.nuncio(&["init", "one", "--model", "ollama/qwen3"]).run();
    assert!(one.stdout.contains(", with 1 tool, "), "{one:?}");
    let linted = home.nuncio(&["lint", "one"]).run();
    assert!(linted.stdout.contains(", 1 tool\n"), "{linted:?}");
}

#[test]
fn init_from_an_mcp_server_that_fails_shows_its_output_once_and_names_missing_paths() {
    let home = TestAgentFolder::hotel();
    fs::write(home.path("server.sh"), "echo 'the notes are missing' >&2\nexit 1\n").unwrap();
    let command = ["init", "gone", "--from-mcp", "sh server.sh no-notes"];
    let ran = home.nuncio(&command).run();
    assert!(ran.stderr.contains("no-notes: the notes are missing\n"), "{ran:?}");
    assert_eq!(ran.stderr.matches("the notes are missing").count(), 1, "{ran:?}");
    let here = home.path("").canonicalize().unwrap();
    let note = format!("note: if `no-notes` is a path: it does not exist in {}\n", here.display());
    assert!(ran.stderr.contains(&note), "{note} in {ran:?}");
    let (_, message) = home.json_command(&command).failure();
    assert!(message.contains("the notes are missing"), "without progress the failure quotes the output: {message}");
}

#[test]
fn init_in_the_current_folder_prints_commands_with_a_data_directory_elsewhere() {
    let home = TestAgentFolder::hotel();
    let init = |arguments: &[&str]| {
        let folder = home.path(arguments[0]);
        fs::create_dir(&folder).unwrap();
        let ran = nuncio(&[&["init"], &arguments[1..]].concat()).in_folder(&folder).run();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        (ran.stdout, fs::read_to_string(folder.join("agent.toml")).unwrap())
    };
    for arguments in [&["a", "--process", "python"][..], &["b b", "."], &["c", "--device"]] {
        let (shown, file) = init(arguments);
        let data = if arguments[0] == "b b" { "'../b b-data'".to_owned() } else { format!("../{}-data", arguments[0]) };
        let serve = format!("nuncio serve . --data {data} ");
        assert!(shown.contains(&serve), "{serve} in {shown}");
        assert!(file.contains(serve.trim_end()), "{serve} in {file}");
    }
    let (shown, _) = init(&["d", "--device"]);
    assert!(shown.contains("nuncio user invite NAME --data ../d-data,"), "{shown}");
    let other = nuncio(&["init", "other"]).in_folder(&home.path(".")).run();
    assert!(other.stdout.contains("nuncio serve other    ") && !other.stdout.contains("--data"), "{other:?}");
}

#[test]
fn init_stops_waiting_for_an_mcp_server_after_the_configured_time() {
    let home = TestAgentFolder::hotel();
    let silent = ["init", "gone", "--from-mcp", "sh -c 'read line; read line; read line'"];
    let ran = home.nuncio(&silent).env("NUNCIO_LIMITS_MCP_START_SECONDS", "1").run();
    assert!(ran.stderr.contains("did not complete the initialization within 1s"), "{ran:?}");
    // The name of the program decides whether the hint about downloads is shown.
    fs::write(home.path("npx"), "#!/bin/sh\nread line; read line; read line\n").unwrap();
    fs::set_permissions(home.path("npx"), fs::Permissions::from_mode(0o755)).unwrap();
    let ran = home.nuncio(&["init", "gone", "--mcp-start-seconds", "1", "--from-mcp", "./npx -y some-server"]).run();
    assert!(ran.stderr.contains("Its packages may have to be downloaded first; this may take up to 1 s."), "{ran:?}");
    assert!(ran.stderr.contains("raise `limits.mcp_start_seconds`"), "{ran:?}");
    assert!(!home.path("gone").exists());
}

#[test]
fn init_options_that_contradict_each_other_are_refused_with_the_reason() {
    let home = TestAgentFolder::hotel();
    for (arguments, why) in [
        (&["--process", "python", "--model", "ollama/x"][..], "an agent has one brain"),
        (&["--from-mcp", "x", "--from-openapi", "y"], "--from-mcp and --from-openapi exclude each other"),
        (&["--device", "--from-mcp", "x"], "--from-mcp and --device exclude each other"),
        (&["--model", "ollama/x", "--yes"], "--yes answers the question of --from-mcp"),
    ] {
        let ran = home.nuncio(&[&["init", "gone"], arguments].concat()).run();
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(why), "{why} in {ran:?}");
    }
    assert!(!home.path("gone").exists());
}

#[tokio::test]
async fn init_with_a_program_as_brain_offers_it_the_imported_tools_and_keeps_the_authors_file() {
    let home = TestAgentFolder::hotel();
    fs::create_dir(home.path("desk")).unwrap();
    fs::write(home.path("desk/brain.py"), "# mine\n").unwrap();
    let arguments = ["init", "desk", "--process", "python", "--from-mcp", "nuncio demo hotel", "--yes"];
    let shown = home.nuncio(&arguments).run();
    assert_eq!(shown.status, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("Kept desk/brain.py, which exists already."), "{shown:?}");
    assert!(shown.stdout.contains("Until brain.py calls the tools that were added"), "{shown:?}");
    assert_eq!(fs::read_to_string(home.path("desk/brain.py")).unwrap(), "# mine\n");
    assert_eq!(lint_file(&home, "desk")["notes"], json!([]));
    let text = fs::read_to_string(home.path("desk/agent.toml")).unwrap();
    for part in ["command = [\"python3\", \"brain.py\"]", "name = \"search_rooms\"", "name = \"clock\""] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    home.json_command(&["init", "phone", "--process", "node", "--device"]).json();
    assert_eq!(lint_file(&home, "phone")["notes"], json!([]));
}

#[test]
fn init_names_the_starter_agent_after_its_folder_and_prints_the_next_steps() {
    let home = TestAgentFolder::hotel();
    home.json_command(&["init", "support-bot"]).json();
    assert_eq!(lint_file(&home, "support-bot")["agent"], "support-bot");
    let device = home.nuncio(&["init", "phone", "--device"]).run();
    assert!(device.stdout.contains("nuncio user invite NAME"), "{device:?}");
    let tools = home.nuncio(&["init", "desk", "--from-mcp", "nuncio demo hotel", "--yes"]).run();
    assert!(tools.stdout.contains("conversations cannot use the tools"), "{tools:?}");
}

#[test]
fn generated_agent_files_pass_lint_and_refer_to_no_file_of_the_repository() {
    let home = TestAgentFolder::hotel();
    let starts: [&[&str]; 7] = [
        &[],
        &["--device"],
        &["--model", "ollama/qwen3"],
        &["--from-mcp", "nuncio demo hotel", "--yes"],
        &["--process", "python"],
        &["--process", "node", "--device"],
        &["--device", "--model", "openai/gpt-5"],
    ];
    for (number, start) in starts.iter().enumerate() {
        let name = format!("a{number}");
        home.json_command(&[&["init", name.as_str()], *start].concat()).json();
        let text = fs::read_to_string(home.path(&name).join("agent.toml")).unwrap();
        assert!(!text.contains("docs/"), "{start:?}: {text}");
        assert_eq!(lint_file(&home, &name)["notes"], json!([]), "{start:?}");
    }
}
