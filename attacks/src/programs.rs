//! Section "Programs that agents run".

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, bail, ensure};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::{Value, json};

use crate::{Attack, CommandOutput, Pace, Server, Target};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "command_tool_reads_no_key_of_the_server",
        before: "read secret.key and the DID key",
        pace: Pace::Quick,
        run: |target| Box::pin(command_tool_reads_no_key_of_the_server(target)),
    },
    Attack {
        name: "command_tool_reads_no_environment_of_other_processes",
        before: "read a secret from /proc",
        pace: Pace::Quick,
        run: |target| Box::pin(command_tool_reads_no_environment_of_other_processes(target)),
    },
    Attack {
        name: "command_tool_gives_the_server_no_orders",
        before: "created a key with all scopes",
        pace: Pace::Quick,
        run: |target| Box::pin(command_tool_gives_the_server_no_orders(target)),
    },
    Attack {
        name: "order_without_token_is_refused",
        before: "created a key with all scopes",
        pace: Pace::Quick,
        run: |target| Box::pin(order_without_token_is_refused(target)),
    },
    Attack {
        name: "command_tool_changes_no_agent_file",
        before: "changed agent.toml, which the server took over",
        pace: Pace::Quick,
        run: |target| Box::pin(command_tool_changes_no_agent_file(target)),
    },
    Attack {
        name: "approvals_beside_unconfined_programs_are_refused",
        before: "served, and the program approved its own call",
        pace: Pace::Quick,
        run: |target| Box::pin(approvals_beside_unconfined_programs_are_refused(target)),
    },
    Attack {
        name: "orders_are_in_the_audit_record",
        before: "keys and grants left no record",
        pace: Pace::Quick,
        run: |target| Box::pin(orders_are_in_the_audit_record(target)),
    },
];

/// An agent with one tool, a skill for everyone, that runs a command. The data directory is at `../data` from where it
/// runs.
fn agent(command: &[&str]) -> String {
    format!(
        r#"
[agent]
name = "desk"
version = "1.0.0"

[brain]
kind = "script"

[[tool]]
name = "try"
description = "Runs a program."
input = {{ type = "object" }}
run = {{ command = {} }}
skill = {{ type = "task", access = "public", auth = "none" }}
"#,
        json!(command)
    )
}

/// Has the tool run, and returns what the caller sees.
fn invoke(server: &Server) -> anyhow::Result<CommandOutput> {
    let port = server.url().rsplit(':').next().context("no port")?;
    server.run_plain(&["--json", "invoke", &format!("desk/try@localhost:{port}"), "--input", "{}"])
}

async fn command_tool_reads_no_key_of_the_server(target: Target) -> anyhow::Result<String> {
    let script = "cd ../data; cat secret.key keys/*.json | base64 | tr -d '\\n'; echo; ls; true";
    let server = target.server().agent(agent(&["bash", "-c", script])).start()?;
    let seen = invoke(&server)?;
    ensure!(seen.status == Some(0), "the tool did not run: {seen:?}");
    ensure!(seen.stdout.contains("\"output\":\"\""), "the program read something: {seen:?}");
    Ok("Permission denied for every file".to_owned())
}

async fn command_tool_reads_no_environment_of_other_processes(target: Target) -> anyhow::Result<String> {
    let script = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a HUNTER; true";
    let server = target.server().agent(agent(&["bash", "-c", script])).env("HUNTER", "hunter22").start()?;
    let seen = invoke(&server)?;
    ensure!(seen.status == Some(0), "the tool did not run: {seen:?}");
    ensure!(!seen.stdout.contains("hunter22"), "the program read the server's environment: {seen:?}");
    Ok("no environment was readable".to_owned())
}

async fn command_tool_gives_the_server_no_orders(target: Target) -> anyhow::Result<String> {
    let command = ["nuncio", "key", "create", "--data", "../data"];
    let server = target.server().agent(agent(&command)).start()?;
    let seen = invoke(&server)?;
    ensure!(!seen.stdout.contains("nk_"), "the program created a key: {seen:?}");
    let keys = server.run(&["--json", "key", "list"])?.json()?;
    ensure!(keys["keys"].as_array().is_some_and(Vec::is_empty), "there is a key: {keys}");
    Ok("the socket was refused, no key exists".to_owned())
}

async fn order_without_token_is_refused(target: Target) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let order = |order: Value| -> anyhow::Result<String> {
        let mut socket = UnixStream::connect(server.data().join("admin.sock"))?;
        socket.write_all(format!("{order}\n").as_bytes())?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    };
    for token in [json!(null), json!(""), json!("0123456789")] {
        let mut create = json!({"do": "key_create", "name": null, "person": null, "scopes": []});
        if !token.is_null() {
            create["token"] = token;
        }
        let answer = order(create)?;
        ensure!(answer.contains("unauthorized"), "the server answered {answer}");
    }
    let keys = server.run(&["--json", "key", "list"])?.json()?;
    ensure!(keys["keys"].as_array().is_some_and(Vec::is_empty), "there is a key: {keys}");
    Ok("unauthorized, no key exists".to_owned())
}

async fn command_tool_changes_no_agent_file(target: Target) -> anyhow::Result<String> {
    let declared = agent(&["bash", "-c", "echo '# more' >> agent.toml"]);
    let server = target.server().agent(declared.as_str()).start()?;
    let seen = invoke(&server)?;
    let file = std::fs::read_to_string(server.agent_folder().join("agent.toml"))?;
    ensure!(file == declared, "the program changed its agent file: {seen:?}");
    Ok("Permission denied".to_owned())
}

async fn approvals_beside_unconfined_programs_are_refused(target: Target) -> anyhow::Result<String> {
    let asks = "\n[[tool]]\nname = \"pay\"\ndescription = \"Pays.\"\ninput = { type = \"object\" }\n\
                run = { answer = \"paid\" }\nhuman_authorization = true\n";
    let builder = || target.server().agent(agent(&["true"]) + asks);
    let refused = start_without_landlock(builder().prepare()?)?;
    let Err(why) = refused else { bail!("the server started") };
    ensure!(why.contains("programs_unconfined") || why.contains("--unconfined"), "it failed otherwise: {why}");
    let accepted = start_without_landlock(builder().flag("--unconfined").prepare()?)?;
    ensure!(accepted.is_ok(), "--unconfined does not start it: {accepted:?}");
    builder().start().context("with Landlock")?;
    Ok("refused without Landlock; --unconfined starts it".to_owned())
}

/// Starts a server on a thread, and so in a process, for which Landlock does not exist.
fn start_without_landlock(mut server: Server) -> anyhow::Result<Result<Server, String>> {
    /// The system call that makes a Landlock ruleset, on every architecture.
    const LANDLOCK_CREATE_RULESET: i64 = 444;
    const ENOSYS: u32 = 38;
    let rules = BTreeMap::from([(LANDLOCK_CREATE_RULESET, Vec::new())]);
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(ENOSYS), arch)?;
    let filter = BpfProgram::try_from(filter)?;
    let thread = std::thread::spawn(move || -> anyhow::Result<_> {
        seccompiler::apply_filter(&filter)?;
        Ok(match server.start() {
            Ok(()) => Ok(server),
            Err(error) => Err(format!("{error:#}")),
        })
    });
    thread.join().map_err(|_| anyhow::anyhow!("the thread failed"))?
}

async fn orders_are_in_the_audit_record(target: Target) -> anyhow::Result<String> {
    let server = target.server().start()?;
    server.create_key(&["--name", "app"])?;
    let orders: &[(&str, &[&str])] = &[
        ("grant_create", &["grant", "create", "anonymous", "desk", "rooms:read"]),
        ("key_revoke", &["key", "revoke", "app"]),
        ("user_invite", &["user", "invite", "ada"]),
        ("did_rotate", &["did", "rotate", "desk"]),
        ("registry_follow", &["registry", "follow", "example.com"]),
    ];
    for (action, arguments) in orders {
        let done = server.run(arguments)?;
        ensure!(done.status == Some(0), "{action}: {done:?}");
    }
    let missing = server.run(&["approve", "allow", "apr_none"])?;
    ensure!(missing.status == Some(1), "{missing:?}");
    let listed = server.run(&["--json", "audit", "list"])?.json()?;
    let records = listed["records"].as_array().context("no records")?;
    let has = |action: &str, happened: &str| {
        records.iter().map(|link| &link["record"]).any(|record| {
            record["action"] == action
                && record["happened"] == happened
                && record["by"] == "local"
                && record["account"].is_string()
        })
    };
    for (action, _) in orders.iter().chain([&("key_create", [].as_slice())]) {
        ensure!(has(action, "operator_ordered") && has(action, "operator_order_done"), "{action}: {listed}");
    }
    ensure!(has("approve_allow", "operator_order_failed"), "approve_allow: {listed}");
    ensure!(!listed.to_string().contains("nk_"), "a key is in the record: {listed}");
    let verified = server.run(&["audit", "verify"])?;
    ensure!(verified.status == Some(0), "{verified:?}");
    Ok("each order with who gave it and under which account".to_owned())
}
