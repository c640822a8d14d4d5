//! Tools that a person added to `nuncio device run`: programs limited to their declared files, and MCP servers.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use nuncio_testkit::is_alive;
use serde_json::{Value, json};

use super::device::LaptopSetup;
use super::{SCOPE, free_port};
use crate::client::{call, last_text};
use crate::process::until;

const WISHES: &str = r#"
[[scope]]
id = "maths:run"
label = "Do maths"
sensitivity = "low"

[[scope]]
id = "words:read"
label = "Repeat words"
sensitivity = "low"

[[tool]]
name = "add"
description = "Adds."
scope = "maths:run"
input = { type = "object" }
run = { device = true }

[[tool]]
name = "subtract"
description = "Subtracts."
scope = "maths:run"
input = { type = "object" }
run = { device = true }

[[tool]]
name = "echo"
description = "Says it again."
scope = "words:read"
input = { type = "object" }
run = { device = true }
"#;

impl LaptopSetup {
    fn with_wishes() -> Self {
        let laptop = Self::with(WISHES);
        laptop.device(&["allow", "script", SCOPE, "maths:run", "words:read"]).json();
        laptop
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.home_folder().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    async fn call_tool(&self, session: &str, tool: &str, input: Value) -> String {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let id = format!("c_{}", CALLS.fetch_add(1, Ordering::SeqCst));
        let script = json!([[call(&id, tool, input)], [{"echo": "results"}]]);
        let turn = self.client.play(session, script).await;
        let results: Vec<Value> = serde_json::from_str(&last_text(turn["messages"].as_array().unwrap())).unwrap();
        results[0].as_str().map_or_else(|| results[0].to_string(), str::to_owned)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn device_mcp_server_is_started_at_the_first_call_and_restarted_after_a_kill() {
    let laptop = LaptopSetup::with_wishes();
    // The wrapper script writes down its process id and environment, and then becomes the real server.
    let (pid, environment_file) = (laptop.home_folder().join("pid"), laptop.home_folder().join("environment"));
    let line = format!("echo $$ > {}; env > {}; exec \"$0\" demo script", pid.display(), environment_file.display());
    let line = format!("command = [\"sh\", \"-c\", {line:?}, {:?}]\n", env!("CARGO_BIN_EXE_nuncio"));
    laptop.write("mcp/demo.toml", &format!("{line}scope = \"maths:run\"\n[tools]\necho = \"words:read\"\n"));
    let running = laptop.to_run().env("SECRET_OF_OURS", "x").start();
    let session = laptop.client.session("script", &[]).await;
    assert!(!pid.exists(), "nobody needed it yet");

    let sum = laptop.call_tool(&session, "add", json!({"a": 20, "b": 22})).await;
    assert_eq!(sum, json!({"text": "42"}).to_string());
    let first: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let environment = fs::read_to_string(&environment_file).unwrap();
    assert!(!environment.contains("SECRET_OF_OURS") && environment.contains("PATH="), "{environment}");
    // Structured results stay structured, arguments are validated, and unknown tools are refused.
    let result = laptop.call_tool(&session, "echo", json!({"text": "good day"})).await;
    assert_eq!(result, json!({"text": "good day"}).to_string());
    let wrong = laptop.call_tool(&session, "add", json!({"a": "many", "b": 1})).await;
    assert!(wrong.contains("/a"), "{wrong}");
    let none = laptop.call_tool(&session, "subtract", json!({"a": 1, "b": 1})).await;
    assert!(none.contains("no such tool"), "{none}");
    assert_eq!(fs::read_to_string(&pid).unwrap().trim(), first.to_string(), "one process does it all");

    let process = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    until("it answers again", async || {
        let again = laptop.call_tool(&session, "add", json!({"a": 20, "b": 22})).await;
        (again == sum).then_some(())
    })
    .await;
    let second: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    assert_ne!(first, second);
    assert!(!is_alive(first), "the one that was killed");
    assert!(is_alive(second), "the one that answers now");
    running.stop();
    until("it ends with the device", async || (!is_alive(second)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_device_mcp_server_does_not_affect_other_tools() {
    let laptop = LaptopSetup::with_wishes();
    laptop.write("mcp/broken.toml", "command = [\"/none\"]\nscope = \"maths:run\"\n");
    laptop.write("mcp/gone.toml", "url = \"http://127.0.0.1:9/mcp\"\n[tools]\necho = \"words:read\"\n");
    let running = laptop.run();
    let session = laptop.client.session("script", &[]).await;
    let sum = laptop.call_tool(&session, "add", json!({"a": 1, "b": 1})).await;
    assert!(sum.contains("the MCP server `broken` cannot be used"), "{sum}");
    let result = laptop.call_tool(&session, "echo", json!({"text": "x"})).await;
    assert!(result.contains("the MCP server `gone` cannot be used"), "{result}");
    let read = laptop.call_tool(&session, "read_file", json!({"path": "treasure.md"})).await;
    assert!(read.contains(super::SECRET), "{read}");
    running.stop();
    let codes: Vec<_> = laptop.device(&["audit"]).json()["entries"].as_array().unwrap().clone();
    let codes: Vec<_> = codes.iter().map(|entry| entry["reason"].as_str().unwrap_or("-").to_owned()).collect();
    assert_eq!(codes, ["TOOL_UNAVAILABLE", "TOOL_UNAVAILABLE", "-"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_tool_program_reads_only_its_declared_files() {
    let laptop = LaptopSetup::with_wishes();
    let allowed_file = laptop.home.path("named.txt");
    fs::write(&allowed_file, "what was named").unwrap();
    let head = format!(
        "name = \"read_file\"\nscope = {SCOPE:?}\ncommand = [\"sh\", \"-c\", \"cat $(sed 's/.*:\\\"//; s/\\\".*//')\"]\n\
         description = \"Reads a file\"\ntimeout_ms = 20000\n"
    );
    let input = "[input.properties.path]\ntype = \"string\"\nminLength = 3\n[input]\ntype = \"object\"\n";
    laptop.write("tools/read.toml", &format!("{head}read = [{:?}]\n{input}", allowed_file.to_str().unwrap()));
    let running = laptop.run();
    let session = laptop.client.session("script", &[]).await;
    let path = |path: PathBuf| json!({"path": path.to_str().unwrap()});
    let read = laptop.call_tool(&session, "read_file", path(allowed_file)).await;
    assert!(read.contains("what was named"), "{read}");
    if nuncio_device::tools::confinement().files {
        for shut in [laptop.home_folder().join("keys.db"), laptop.home.path("policy.toml"), "/etc/passwd".into()] {
            let read = laptop.call_tool(&session, "read_file", path(shut)).await;
            assert!(read.contains("the program failed"), "{read}");
        }
    }
    let wrong = laptop.call_tool(&session, "read_file", json!({"path": "a"})).await;
    assert!(wrong.contains("/path"), "{wrong}");
    running.stop();
    let status = laptop.device(&["status"]).json();
    assert_eq!(status["programs"], json!(nuncio_device::tools::confinement()), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn device_calls_a_tool_of_a_running_mcp_server_by_url() {
    let script = std::env::var_os("NUNCIO_TEST_MCP_EVERYTHING");
    let script = script.expect("NUNCIO_TEST_MCP_EVERYTHING must name dist/index.js of @modelcontextprotocol/server-everything: run `cargo xtask test`");
    let port = free_port();
    let mut server = Command::new("node");
    server.arg(script).arg("streamableHttp").env("PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("listening on port")), "it starts");
    std::thread::spawn(move || lines.count());

    let laptop = LaptopSetup::with_wishes();
    let file = format!("url = \"http://127.0.0.1:{port}/mcp\"\nscope = \"words:read\"\n");
    laptop.write("mcp/everything.toml", &file);
    let running = laptop.run();
    let session = laptop.client.session("script", &[]).await;
    let result = laptop.call_tool(&session, "echo", json!({"message": "hello"})).await;
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(result, json!({"text": "Echo: hello"}).to_string());
    running.stop();
}

/// A device with an invalid file does not start, because its person would not notice the missing tool.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_tool_or_mcp_file_is_reported_and_the_device_does_not_start() {
    let laptop = LaptopSetup::with_wishes();
    let tool = "name = \"t\"\nscope = \"words:read\"\ncommand = [\"sh\"]\n";
    let server = "command = [\"sh\"]\nscope = \"words:read\"\n";
    let wrong = [
        ("tools/a.toml", format!("{tool}colour = 1\n"), "colour"),
        ("tools/a.toml", format!("{tool}read = [\"../keys.db\"]\n"), "`read`"),
        ("tools/a.toml", format!("{tool}write = [\"/none\"]\n"), "`write`"),
        ("tools/a.toml", format!("{tool}[input]\ntype = \"array\"\n"), "`input`"),
        ("tools/a.toml", "not toml".to_owned(), "a.toml"),
        ("mcp/a.toml", format!("{server}url = \"http://127.0.0.1/\"\n"), "`url`"),
        ("mcp/a.toml", "scope = \"words:read\"\n".to_owned(), "`command`"),
        ("mcp/a.toml", "command = [\"sh\"]\n".to_owned(), "`scope`"),
        ("mcp/a.toml", format!("{server}port = 1\n"), "port"),
        ("mcp/a.toml", "scope = \"words:read\"\nurl = \"http://example.com/mcp\"\n".to_owned(), "`url`"),
        ("mcp/a.toml", "scope = \"words:read\"\nurl = \"file:///mcp\"\n".to_owned(), "`url`"),
        ("mcp/no name.toml", server.to_owned(), "name"),
        ("place.toml", "latitude = 1.0\n".to_owned(), "longitude"),
    ];
    for (file, text, expected) in wrong {
        let path = laptop.write(file, &text);
        let (code, message) = laptop.to_run().run().failure();
        assert_eq!(code, "config_invalid", "{message}");
        assert!(message.contains(path.to_str().unwrap()) && message.contains(expected), "{file}: {message}");
        fs::remove_file(path).unwrap();
    }
    for twice in ["tools/b.toml", "mcp/b.toml"] {
        laptop.write("tools/a.toml", tool);
        let text = if twice.starts_with("mcp") { "command = [\"sh\"]\n[tools]\nt = \"words:read\"\n" } else { tool };
        let path = laptop.write(twice, text);
        let (code, message) = laptop.to_run().run().failure();
        assert!(code == "config_invalid" && message.contains("already"), "{message}");
        fs::remove_file(path).unwrap();
    }
    for folder in [laptop.home_folder(), laptop.home.path("."), laptop.home_folder().join("tools")] {
        let refused = laptop.to_run().arg("--folder").arg(&folder).run();
        assert_eq!(refused.status, Some(2), "{refused:?}");
        assert!(refused.stdout.contains("keys") || refused.stderr.contains("keys"), "{refused:?}");
    }
}
