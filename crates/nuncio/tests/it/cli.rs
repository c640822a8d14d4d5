//! The command line for people and programs: help, exit statuses, errors.

use std::net::TcpListener;

use serde_json::Value;

use crate::home::{SCRIPT, SCRIPTED, TestAgentFolder};
use crate::process::{nuncio, until};

#[test]
fn help_of_every_command_fits_eighty_columns() {
    let mut commands = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let ran = nuncio(&arguments).env("COLUMNS", "80").run();
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line:?}");
        }
        // Examples below the flags must not be wrapped by clap, because a wrapped example cannot be pasted.
        let wide = nuncio(&arguments).env("COLUMNS", "100").run().stdout;
        assert_eq!(below_the_flags(&ran.stdout), below_the_flags(&wide), "{arguments:?}");
        seen += 1;
        let listed =
            ran.stdout.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // A line indented by two spaces names a command; deeper lines continue its description.
        let names = listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        commands.extend(names.filter(|name| *name != "help").map(|name| [&command[..], &[name.to_owned()]].concat()));
    }
    assert!(seen >= 20, "only {seen} commands were found");
    println!("{seen} pages of help");
}

fn below_the_flags(help: &str) -> &str {
    help.split_once("-h, --help").and_then(|(_, behind)| behind.split_once("\n\n")).map_or("", |(_, below)| below)
}

#[test]
fn wrong_usage_exits_with_two_and_prints_only_to_stderr() {
    let wrong: [&[&str]; 10] = [
        &["nonsense"],
        &["serve", "--nonsense"],
        &["serve", "--tls-cert", "cert.pem"],
        &["serve", "--public-url", "not a url"],
        &["key"],
        &["key", "create", "--scope", "not a scope"],
        &["grant", "create", "anonymous", "hotel"],
        &["grant", "create", "nobody", "hotel", "rooms:read"],
        &["grant", "create", "anonymous", "hotel", "rooms:read", "--until", "some day"],
        &["audit", "list", "--limit", "many"],
    ];
    let home = TestAgentFolder::hotel();
    for arguments in wrong {
        let ran = home.nuncio(arguments).run();
        assert_eq!(ran.status, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{arguments:?}: {ran:?}");
    }
    assert!(!home.data().exists(), "nothing was touched");
    assert_eq!(nuncio(&[]).run().status, Some(2));
    assert_eq!(nuncio(&["--version"]).run().status, Some(0));
}

#[test]
fn public_url_that_is_not_a_whole_url_is_refused_with_an_example() {
    for arguments in [&["serve", "--public-url", "foo"][..], &["did", "rotate", "--to", "foo"]] {
        let refused = nuncio(arguments).run();
        assert!(refused.status == Some(2) && refused.stderr.contains("such as https://"), "{refused:?}");
    }
}

#[test]
fn explain_lists_all_codes_and_suggests_similar_ones_for_an_unknown_code() {
    let listed: Value = nuncio(&["--json", "explain"]).run().json();
    let codes = listed["codes"].as_array().unwrap();
    assert!(codes.len() > 50);
    let listing = nuncio(&["explain"]).run();
    for code in codes.iter().map(|code| code.as_str().unwrap()) {
        assert!(listing.stdout.lines().any(|line| line.split_whitespace().next() == Some(code)), "{code} is listed");
    }
    assert!(listing.stdout.lines().all(|line| line.chars().count() <= 80), "{}", listing.stdout);
    assert!(!listing.stdout.contains('…'), "no sentence is cut: {}", listing.stdout);
    let names: Vec<_> = codes.iter().map(|code| code.as_str().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
    let page = nuncio(&["explain", "data_dir_in_use"]).run();
    assert_eq!(page.status, Some(0));
    assert!(page.stdout.starts_with("data_dir_in_use\n") && page.stdout.contains("What to do"), "{page:?}");
    assert_eq!(nuncio(&["--json", "explain", "turn_running"]).run().json()["code"], "turn_running");

    let unknown = nuncio(&["explain", "data_directory"]).run();
    assert_eq!(unknown.status, Some(1));
    assert!(unknown.stderr.contains("data_dir_"), "{unknown:?}");
    let (_, suggested) = nuncio(&["--json", "explain", "not"]).run().failure();
    let suggested = suggested.split_once("perhaps: ").unwrap().1.split_once('.').unwrap().0;
    assert_eq!(suggested.split(", ").count(), 3, "{suggested}");
    let unknown = nuncio(&["explain", "zzz"]).run();
    assert!(unknown.stderr.contains("`nuncio explain` lists them all"), "{unknown:?}");
    assert!(!unknown.stderr.contains("explain not_found"), "{unknown:?}");
    assert_eq!(nuncio(&["--json", "explain", "zzz"]).run().failure().0, "not_found");
}

#[test]
fn explain_prints_every_key_of_the_agent_file_within_80_columns() {
    let sections: Value = nuncio(&["--json", "explain", "agent"]).run().json();
    let sections: Vec<_> = sections["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    assert!(sections.contains(&"agent.tool") && sections.contains(&"agent.agent"), "{sections:?}");
    for name in ["agent", "agent.tool", "agent.tool.run", "agent.name", "tool.run.http.url", "agent.skill.retry"] {
        let page = nuncio(&["explain", name]).run();
        assert_eq!(page.status, Some(0), "{page:?}");
        assert!(page.stdout.lines().all(|line| line.chars().count() <= 80), "{}", page.stdout);
    }
    let page = nuncio(&["explain", "agent.tool.run"]).run().stdout;
    for part in
        ["agent.tool.run\n", "default    required\n", "run = { command = [", "agent.tool.run.command  A program"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
    let page: Value = nuncio(&["--json", "explain", "agent.tool.run.http.body"]).run().json();
    assert_eq!(page["variables"], serde_json::json!(["args", "secrets"]));
    assert!(page["meaning"]["zh-CN"].is_string(), "{page}");
}

#[test]
fn explain_suggests_at_most_three_keys_for_an_unknown_one() {
    let ran = nuncio(&["explain", "agent.tool.rnu"]).run();
    assert!(ran.status == Some(1) && ran.stderr.contains("perhaps: agent.tool.run"), "{ran:?}");
    let ran = nuncio(&["explain", "agent.tool.descripton"]).run();
    assert!(ran.stderr.contains("agent.tool.description") && ran.stderr.matches(", agent.").count() <= 2, "{ran:?}");
    let ran = nuncio(&["explain", "agent.nmae"]).run();
    assert!(ran.stderr.contains("agent.name"), "{ran:?}");
    let (code, message) = nuncio(&["--json", "explain", "agent.zzzzzzzz"]).run().failure();
    assert_eq!(code, "not_found");
    assert!(message.contains("`nuncio explain agent` lists the sections"), "{message}");
}

#[test]
fn missing_argument_message_names_the_alternative_arguments() {
    for (command, expected) in [
        (&["did", "rotate"][..], "<AGENT|--service|--to <URL>>"),
        (&["user", "revoke", "ada"], "<NAME> <DEVICE|--all>"),
    ] {
        let ran = nuncio(command).run();
        assert!(ran.status == Some(2) && ran.stderr.contains(expected), "{ran:?}");
    }
}

#[test]
fn error_message_names_the_explain_command_for_its_code() {
    let home = TestAgentFolder::hotel();
    assert_eq!(home.nuncio(&["key", "create"]).run().status, Some(0));
    let ran = home.nuncio(&["approve", "allow", "apr_none"]).run();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("error: ") && ran.stderr.contains("nuncio explain approval_not_found"), "{ran:?}");
}

#[test]
fn reading_command_does_not_create_a_data_directory() {
    let home = TestAgentFolder::hotel();
    for command in [["audit", "verify"], ["key", "list"], ["approve", "list"], ["grant", "list"]] {
        let (code, message) = home.nuncio(&["--json", command[0], command[1], "--data", "typo"]).run().failure();
        assert_eq!(code, "data_dir_unusable");
        assert!(message.contains("typo"), "{message}");
        assert!(!home.path("typo").exists());
    }
}

#[test]
fn listening_on_the_network_needs_a_key_or_the_open_flag() {
    let home = TestAgentFolder::script();
    let serve = || home.nuncio(&["--json", "serve", SCRIPT, "--listen", "0.0.0.0:0"]);
    let (code, message) = serve().run().failure();
    assert_eq!(code, "keys_required");
    assert!(message.contains("nuncio key create") && message.contains("--open"), "{message}");
    serve().arg("--open").start().stop();
    home.key(&[]);
    serve().start().stop();
}

#[test]
fn listen_address_that_is_in_use_or_malformed_is_reported() {
    let home = TestAgentFolder::script();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (by_name, by_address) = (format!("localhost:{port}"), format!("127.0.0.1:{port}"));
    for (listen, address) in [(&*by_name, &*by_address), ("192.0.2.1:1", "192.0.2.1:1")] {
        let (code, message) = home.nuncio(&["--json", "serve", "--listen", listen]).run().failure();
        assert_eq!(code, "listen_failed", "{listen}");
        assert!(message.contains(address), "{listen}: {message}");
    }
    let no_addresses = [
        ("7400", "write localhost:7400"),
        ("localhost", "write HOST:PORT"),
        ("localhost:99999", "\"99999\" is not a port"),
        ("localhost:many", "from 0 to 65535"),
    ];
    for (listen, expected) in no_addresses {
        let ran = home.nuncio(&["serve", "--listen", listen]).run();
        assert!(ran.status == Some(2) && ran.stderr.contains(expected), "{ran:?}");
    }
}

#[test]
fn missing_input_file_is_reported_with_the_system_error() {
    let home = TestAgentFolder::hotel();
    for command in [&["validate", "nosuch.json"][..], &["show", "a/b@localhost", "--extra-ca", "nosuch.json"]] {
        let ran = home.nuncio(command).run();
        let expected = "error: nosuch.json cannot be read: No such file or directory (os error 2)\n";
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), expected), "{command:?}");
    }
    let output = home.nuncio(&["--json", "validate", "nosuch.json"]).run();
    assert!(output.stdout.contains("No such file"), "{output:?}");
}

#[tokio::test]
async fn serve_prints_a_chat_command_with_a_key_only_if_keys_exist() {
    let home = TestAgentFolder::script();
    let greeted = async || {
        let served = home.nuncio(&["serve", SCRIPT, "--listen", "localhost:0"]).start_interactive();
        until("its greeting", async || served.stdout().contains("nuncio chat localhost:").then_some(())).await;
        served.interrupt();
        served.wait_for_end().stdout
    };
    assert!(!greeted().await.contains("NUNCIO_KEY"));
    home.key(&[]);
    let closed = greeted().await;
    assert!(closed.contains("NUNCIO_KEY=… nuncio chat localhost:"), "{closed}");
}

#[tokio::test]
async fn serve_lists_an_agent_without_a_title_by_its_name_alone() {
    let home = TestAgentFolder::with_agent(SCRIPTED);
    let agent = home.path("agent.toml").display().to_string();
    let served = home.nuncio(&["serve", &agent, "--listen", "localhost:0"]).start_interactive();
    until("its greeting", async || served.stdout().contains("nuncio chat localhost:").then_some(())).await;
    served.interrupt();
    let stdout = served.wait_for_end().stdout;
    assert!(stdout.lines().any(|line| line == "  script"), "{stdout}");
}

#[tokio::test]
async fn serve_of_an_agent_with_device_tools_prints_how_to_add_a_person() {
    let home = TestAgentFolder::hotel();
    let device = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/device");
    for (agent, shown) in [(device, true), (SCRIPT, false)] {
        let served = home.nuncio(&["serve", agent, "--listen", "localhost:0"]).start_interactive();
        until("its greeting", async || served.stdout().contains("nuncio chat localhost:").then_some(())).await;
        served.interrupt();
        let stdout = served.wait_for_end().stdout;
        let command = format!("nuncio user invite NAME --data {}\n", home.data().display());
        assert_eq!(stdout.contains(&command), shown, "{stdout}");
        assert!(stdout.lines().any(|line| line.starts_with("  A2H      http://localhost:")), "{stdout}");
    }
}

#[tokio::test]
async fn serve_on_all_addresses_prints_urls_that_can_be_opened() {
    let home = TestAgentFolder::script();
    let served = home.nuncio(&["serve", SCRIPT, "--listen", "0.0.0.0:0", "--open"]).start_interactive();
    until("its greeting", async || served.stdout().contains("nuncio chat").then_some(())).await;
    served.interrupt();
    let stdout = served.wait_for_end().stdout;
    assert!(!stdout.contains("0.0.0.0"), "{stdout}");
    let page = stdout.lines().find_map(|line| line.trim().strip_prefix("page")).unwrap();
    assert!(page.trim().starts_with("http://localhost:"), "{stdout}");
}

#[tokio::test]
async fn verbose_server_prints_one_line_per_request_without_the_query() {
    let home = TestAgentFolder::script();
    let served = home.nuncio(&["serve", SCRIPT, "--listen", "localhost:0", "--verbose"]).start_interactive();
    until("its greeting", async || served.stdout().contains("nuncio chat").then_some(())).await;
    let stdout = served.stdout();
    let page = stdout.lines().find_map(|line| line.trim().strip_prefix("page")).unwrap().trim().to_owned();
    let http = crate::client::builder().build().unwrap();
    for path in ["aap/meta?secret=1", "nowhere"] {
        http.get(format!("{page}{path}")).send().await.unwrap();
    }
    until("both lines", async || served.stderr().contains("/nowhere 404 ").then_some(())).await;
    let stderr = served.stderr();
    assert_eq!(stderr.lines().filter(|line| line.contains(" GET /aap/meta 200 ")).count(), 1, "{stderr}");
    assert!(!stderr.contains("secret"), "{stderr}");
    served.interrupt();
    served.wait_for_end();
}

#[test]
fn folder_without_a_device_is_reported_with_the_enrol_command() {
    let home = TestAgentFolder::hotel();
    let (code, message) = home.nuncio(&["--json", "device", "status", "--home", "empty"]).run().failure();
    assert_eq!(code, "data_dir_unusable");
    assert!(message.contains("there is no device in empty yet"), "{message}");
    assert!(message.contains("nuncio device join LINK --home empty"), "{message}");
}

#[test]
fn invalid_setting_is_reported_with_its_file() {
    let home = TestAgentFolder::script();
    std::fs::create_dir(home.data()).unwrap();
    std::fs::write(home.data().join("nuncio.toml"), "[limits]\nturn_step = 3\n").unwrap();
    let (code, message) = home.serve().run().failure();
    assert_eq!(code, "config_invalid");
    assert!(message.contains("nuncio.toml") && message.contains("turn_step"), "{message}");
    let (code, message) = home.serve().arg("--config").arg("nowhere.toml").run().failure();
    assert_eq!(code, "config_invalid");
    assert!(message.contains("nowhere.toml"), "{message}");
}
