//! Access of confined programs to allowed and forbidden resources.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nuncio_core::agent::Agent;
use nuncio_engine::ports::Runner as _;
use nuncio_engine::ports::runner::{ToolOutput, ToolRunError};
use serde_json::json;

use crate::test_runners::{RunnersFixture, failure_text, tool};

/// Runs a `bash` line as a tool of an agent with this `allow` section.
async fn bash(workshop: &RunnersFixture, allow: &str, line: &str) -> Result<String, String> {
    run(workshop, allow, &["bash", "-c", line]).await
}

async fn run(workshop: &RunnersFixture, allow: &str, command: &[&str]) -> Result<String, String> {
    let agent = agent_with(workshop, allow, command).await.unwrap();
    text(workshop.run(&agent, "try", json!({})).await)
}

async fn agent_with(workshop: &RunnersFixture, allow: &str, command: &[&str]) -> Result<Arc<Agent>, String> {
    let run = format!("{{ command = {} }}", json!(command));
    workshop.resolve(&format!("[allow]\n{allow}\n{}", tool("try", &run))).await
}

fn text(outcome: Result<ToolOutput, ToolRunError>) -> Result<String, String> {
    match outcome {
        Ok(output) => Ok(output.message_content().text()),
        Err(error) => Err(failure_text(Err(error))),
    }
}

fn workshop_with_secret() -> (RunnersFixture, String) {
    let workshop = RunnersFixture::new();
    let secret = workshop.data.path().canonicalize().unwrap().join("secret.key");
    fs::write(&secret, "secret").unwrap();
    let secret = secret.display().to_string();
    (workshop, secret)
}

#[tokio::test]
async fn confined_program_cannot_access_the_data_directory() {
    let (workshop, secret) = workshop_with_secret();
    let data = workshop.data.path().display();
    for line in [
        format!("cat {secret}"),
        format!("ls {data}"),
        format!("ls {data}/programs"),
        format!("echo > {data}/new"),
        format!("ln {secret} $NUNCIO_STATE/link"),
        format!("ln -s {secret} $NUNCIO_STATE/link && cat $NUNCIO_STATE/link"),
        "mkdir -p $NUNCIO_STATE/../other && echo > $NUNCIO_STATE/../other/file".to_owned(),
    ] {
        let why = bash(&workshop, "", &line).await.unwrap_err();
        assert!(why.contains("ended with"), "{line}: {why}");
    }
    let why = bash(&workshop, "", &format!("cat {secret}")).await.unwrap_err();
    assert!(why.contains("in the data directory, which programs can never access"), "{why}");
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
}

#[tokio::test]
async fn data_directory_inside_an_allowed_folder_stays_inaccessible() {
    let (workshop, secret) = workshop_with_secret();
    let above = workshop.data.path().canonicalize().unwrap().parent().unwrap().display().to_string();
    let beside = tempfile::NamedTempFile::new_in(&above).unwrap();
    fs::write(beside.path(), "beside").unwrap();
    let read = format!("read = [{above:?}]");
    assert_eq!(bash(&workshop, &read, &format!("cat {}", beside.path().display())).await.unwrap(), "beside");
    let write = format!("write = [{above:?}]");
    for allow in [&read, &write, &"read = [\"/\"]".to_owned(), &"write = [\"/\"]".to_owned()] {
        bash(&workshop, allow, &format!("cat {secret}")).await.unwrap_err();
    }
    for key in ["read", "write"] {
        let why = agent_with(&workshop, &format!("{key} = [{secret:?}]"), &["true"]).await.unwrap_err();
        assert!(why.contains(&format!("`allow.{key}`")) && why.contains("in the data directory"), "{why}");
        let why = agent_with(&workshop, &format!("{key} = [\"absent\"]"), &["true"]).await.unwrap_err();
        assert!(why.contains("\"absent\" does not exist"), "{why}");
    }
}

#[tokio::test]
async fn confined_program_can_write_only_its_state_and_temporary_folders() {
    let workshop = RunnersFixture::new();
    let said = bash(&workshop, "", "echo kept > $NUNCIO_STATE/file; mktemp; echo $TMPDIR").await.unwrap();
    let state = workshop.data.path().canonicalize().unwrap().join("programs/hotel");
    assert_eq!(fs::read_to_string(state.join("file")).unwrap(), "kept\n");
    let (file, folder) = said.split_once('\n').unwrap();
    assert!(file.starts_with(folder) && !folder.starts_with(state.to_str().unwrap()), "{said}");
    assert!(!fs::exists(folder).unwrap(), "it is removed with the program");
    // The temporary folder belongs to one program: other programs of the agent cannot reach it, and the program cannot
    // reach its parent.
    let above = std::path::Path::new(folder).parent().unwrap();
    fs::create_dir_all(above.join("other")).unwrap();
    for line in [format!("ls {}", above.display()), format!("rmdir {}/other", above.display())] {
        bash(&workshop, "", &line).await.unwrap_err();
    }
    let caches = bash(&workshop, "", "echo $npm_config_cache $UV_CACHE_DIR").await.unwrap();
    for cache in caches.split(' ') {
        assert!(cache.starts_with(state.to_str().unwrap()), "{caches}");
    }
    // The agent's folder is read-only: a program that could change its agent file could allow itself anything.
    fs::write(workshop.folder.path().join("agent.toml"), "mine").unwrap();
    assert_eq!(bash(&workshop, "", "cat agent.toml").await.unwrap(), "mine");
    let why = bash(&workshop, "", "echo more >> agent.toml").await.unwrap_err();
    assert!(why.contains("Permission denied"), "{why}");
    bash(&workshop, "write = [\".\"]", "echo more >> agent.toml").await.unwrap();
}

#[tokio::test]
async fn missing_permission_of_a_confined_program_is_named_in_the_error() {
    let workshop = RunnersFixture::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().canonicalize().unwrap().join("notes");
    fs::write(&file, "words").unwrap();
    let file = file.display().to_string();
    let why = bash(&workshop, "", &format!("cat {file}")).await.unwrap_err();
    assert!(why.contains(&format!("may not read {file}")) && why.contains("`allow.read`"), "{why}");
    let read = format!("read = [{file:?}]");
    assert_eq!(bash(&workshop, &read, &format!("cat {file}")).await.unwrap(), "words");
    let why = bash(&workshop, &read, &format!("rm {file}")).await.unwrap_err();
    assert!(why.contains(&format!("may not change {file}")) && why.contains("`allow.write`"), "{why}");
    let write = format!("write = [{:?}]", elsewhere.path());
    bash(&workshop, &write, &format!("cat {file} && rm {file}")).await.unwrap();
}

/// MCP server whose tool `list` lists a folder.
const LISTING_SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result, params = {}, request.get("params", {})
    if request["method"] == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "files", "version": "1"},
        }
    elif request["method"] == "tools/list":
        result = {"tools": [{"name": "list", "inputSchema": {"type": "object"}}]}
    elif request["method"] == "tools/call":
        try:
            text, failed = " ".join(os.listdir(params["arguments"]["path"])), False
        except OSError as error:
            text, failed = str(error), True
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn error_result_of_a_confined_mcp_server_names_the_missing_permission() {
    let workshop = RunnersFixture::new();
    fs::write(workshop.folder.path().join("server.py"), LISTING_SERVER).unwrap();
    let data = workshop.data.path().canonicalize().unwrap();
    let around = data.parent().unwrap().to_owned();
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().canonicalize().unwrap();
    let list = async |allow: &str, path: &std::path::Path| {
        let server = "[[mcp]]\nname = \"files\"\ncommand = [\"python3\", \"server.py\"]\nimport = true\n";
        let agent = workshop.resolve(&format!("[allow]\n{allow}\n{server}")).await.unwrap();
        let outcome = text(workshop.run(&agent, "list", json!({"path": path})).await);
        workshop.runners.release(&agent).await;
        outcome
    };
    let why = list("", &elsewhere).await.unwrap_err();
    assert!(why.contains(&format!("may not read {}", elsewhere.display())) && why.contains("`allow.read`"), "{why}");
    let shared = format!("read = [{around:?}]");
    list(&shared, &elsewhere).await.unwrap();
    let why = list(&shared, &around).await.unwrap_err();
    assert!(why.contains(&format!("cannot list {}", around.display())) && why.contains("--data"), "{why}");
}

#[tokio::test]
async fn confined_program_cannot_use_unix_sockets_unless_allowed() {
    let workshop = RunnersFixture::new();
    let socket = workshop.folder.path().canonicalize().unwrap().join("service");
    let _service = UnixListener::bind(&socket).unwrap();
    let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let connect = ["python3", "-c", connect, socket.to_str().unwrap()];
    let why = run(&workshop, "write = [\".\"]", &connect).await.unwrap_err();
    assert!(why.contains("PermissionError"), "{why}");
    run(&workshop, "unix = true\nwrite = [\".\"]", &connect).await.unwrap();
    for code in [
        // A pair of datagram sockets could be connected to a service later.
        "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)",
    ] {
        let why = run(&workshop, "", &["python3", "-c", code]).await.unwrap_err();
        assert!(why.contains("PermissionError"), "{why}");
    }
    for command in [
        ["python3", "-c", "import socket; socket.socketpair()"],
        ["python3", "-c", "import asyncio; asyncio.run(asyncio.sleep(0))"],
        ["node", "-e", "require('os').networkInterfaces(); require('child_process').execSync('true')"],
    ] {
        run(&workshop, "", &command).await.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    }
}

#[tokio::test]
async fn confined_program_cannot_read_or_signal_other_processes() {
    let workshop = RunnersFixture::new();
    let mut other = Command::new("sleep").arg("1000").env("SECRET", "hunter22").stdin(Stdio::null()).spawn().unwrap();
    let id = other.id();
    for allow in ["", "read = [\"/proc\"]"] {
        for line in [
            format!("cat /proc/{id}/environ"),
            format!("head -c 1 /proc/{id}/mem"),
            format!("cat /proc/{}/environ", std::process::id()),
            format!("kill -0 {id}"),
        ] {
            bash(&workshop, allow, &line).await.unwrap_err();
        }
    }
    bash(&workshop, "", &format!("cat /proc/{id}/cmdline")).await.unwrap_err();
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn confined_program_has_resource_limits_and_no_privileges() {
    let workshop = RunnersFixture::new();
    // The limits are set by the server after the program started; the core limit comes first.
    let wait = "until [ \"$(ulimit -Hn)\" -le 16384 ]; do sleep 0.05; done";
    let said = bash(&workshop, "", &format!("{wait}; ulimit -c; ulimit -Hn")).await.unwrap();
    let (core, files) = said.split_once('\n').unwrap();
    assert_eq!(core, "0");
    assert!(files.parse::<u64>().unwrap() <= 16_384, "{files}");
    let said = bash(&workshop, "read = [\"/proc\"]", "grep -E 'NoNewPrivs|CapEff' /proc/self/status").await.unwrap();
    let value = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
    assert_eq!(value("NoNewPrivs:"), "1");
    // CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYS_MODULE, CAP_NET_ADMIN, CAP_BPF.
    let forbidden = [21, 19, 16, 12, 39].into_iter().fold(0_u64, |bits, bit| bits | 1 << bit);
    assert_eq!(u64::from_str_radix(&value("CapEff:"), 16).unwrap() & forbidden, 0, "{said}");
}
