//! `docs/operating.md`, with a server whose agent hands tasks to people.

use nuncio_test_postgres::PostgresDatabase;

use super::document_run::DocumentRun;
use super::shell::BackgroundCommand;

const AGENT: &str = r#"[agent]
name = "hotel"
version = "1.0.0"

[brain]
kind = "script"

[[tool]]
name = "pickup"
description = "Somebody picks up a parcel."
timeout_ms = 600000
input = { type = "object" }
output = { type = "object", required = ["weight_kg"], properties = { weight_kg = { type = "number" }, condition = { enum = ["intact", "damaged"] } } }
run = { human = true }
"#;

pub(super) fn run(run: &mut DocumentRun) {
    run.prepare("mkdir my-agent");
    run.write("my-agent/agent.toml", AGENT);
    let data = run.path("lib").display().to_string();
    run.fill("/var/lib/nuncio", &data);
    run.run("export NUNCIO_DATA=");
    run.run("nuncio key create --name my-app --expires 30d");
    run.run("nuncio key rotate my-app");
    let key = run.run("nuncio key rotate my-app --overlap").trim().to_owned();

    run.move_up("openssl req");
    run.run("openssl req");
    let server = run.serve("nuncio serve my-agent --listen 0.0.0.0:");
    run.run("curl --cacert cert.pem https://localhost:");
    run.shell.stop(&server);

    run.prepare("nuncio did rotate --to https://agents.example.org --yes");
    let server = run.serve("nuncio serve my-agent --public-url");
    // Nobody is asked here, so each has to be confirmed.
    run.fill("nuncio did rotate", "nuncio did rotate --yes");
    run.run("nuncio did rotate hotel");
    run.run("nuncio did rotate --service");
    run.shell.stop(&server);
    run.run("nuncio did rotate --to");

    let port = run.port();
    let (server, _) = run.server_at(port, "my-agent --public-url https://new.example.org");
    run.run("nuncio key create --person ada");
    tasks(run, &key);
    run.run("nuncio audit list --since");
    run.run("nuncio audit list --agent");
    run.run("nuncio audit list --caller");
    run.run("nuncio audit list --after");
    explain(run);

    run.run("nuncio backup nuncio.backup");
    run.run("cp -p \"$NUNCIO_DATA/secret.key\"");
    run.shell.stop(&server);
    run.run("mv ");
    run.run("mkdir -m 700");
    run.run("cp -p nuncio.secret.key");
    run.run("nuncio restore nuncio.backup");
    run.run("nuncio store check");
    run.run("nuncio audit verify");

    run.run("nuncio store rekey");
    run.run("cp -p \"$NUNCIO_DATA/secret.key\"");
    run.run("nuncio store status");
    let data = run.path("moved").display().to_string();
    run.fill("/srv/nuncio-data", &data);
    run.run("nuncio store copy");

    let database = PostgresDatabase::create();
    run.fill("postgres://nuncio@db.example.com/nuncio?sslmode=verify-full", database.url());
    run.prepare("export NUNCIO_DATA=$PWD/data-of-postgres");
    let server = run.serve("nuncio serve my-agent --store");
    run.shell.stop(&server);
    let moved = PostgresDatabase::create();
    run.fill("postgres://nuncio@db.example.com/moved?sslmode=verify-full", moved.url());
    run.run("nuncio store copy /srv/nuncio-data");

    run.leave_out("cargo install", "it compiles the program, for minutes");
    run.prepare("export NUNCIO_DATA=$PWD/hotel-data");
    let server = run.serve("OTEL_EXPORTER_OTLP_ENDPOINT=");
    run.shell.stop(&server);
    let installs = "it changes this machine, and there is no systemd";
    run.leave_out("install -m 755", installs);
    run.leave_out("install -m 644", installs);
    run.leave_out("systemd-analyze verify", installs);
    run.leave_out("systemctl daemon-reload", installs);
    let data = run.path("service").display().to_string();
    run.fill("/var/lib/nuncio", &data);
    run.run("NUNCIO_DATA=");
    let engine = "there is no container engine";
    run.leave_out("podman build", engine);
    run.leave_out("podman run --rm", engine);
    run.leave_out("podman run -d", engine);

    run.prepare("mkdir -p ~/.local/share/bash-completion/completions");
    run.run("nuncio completions bash >");
    let pages = run.path("man1").display().to_string();
    run.fill("/usr/local/share/man/man1", &pages);
    run.run("nuncio man --dir");
}

/// A call of `pickup`, which waits until somebody has finished its task.
fn call(run: &mut DocumentRun, key: &str) -> BackgroundCommand {
    let (url, script) = (
        run.url(),
        r#"{\"script\": [[{\"tool\": {\"id\": \"c1\", \"name\": \"pickup\", \"input\": {}}}], [{\"echo\": \"results\"}]]}"#,
    );
    let curl =
        format!("curl -s -H 'authorization: Bearer {key}' -H 'content-type: application/json' {url}/aap/sessions");
    let begin = r#"{"agent": {"name": "hotel", "tools": [{"name": "pickup", "trust": true}]}}"#;
    let say = format!(r#"{{"messages": [{{"role": "user", "content": "{script}"}}]}}"#);
    let session: serde_json::Value = serde_json::from_str(&run.prepare(&format!("{curl} -d '{begin}'"))).unwrap();
    let session = session["sessionId"].as_str().unwrap();
    let turn = run.shell.start(&format!("{curl}/{session}/turns -d '{say}'"), "");
    let id = run.until("nuncio --json task list", |listed| listed["tasks"][0]["id"].as_str().map(str::to_owned));
    run.fill("ID", &id);
    turn
}

fn wait(run: &mut DocumentRun, call: &BackgroundCommand, text: &str) {
    let answer = run.shell.wait_for_end(call);
    assert!(answer.stdout.contains(text), "{answer:?}");
}

fn tasks(run: &mut DocumentRun, key: &str) {
    let first = call(run, key);
    run.run("nuncio task list");
    run.run("nuncio task show");
    run.run("nuncio task take");
    run.run("nuncio task finish");
    wait(run, &first, "intact");
    let second = call(run, key);
    run.run("nuncio task finish");
    wait(run, &second, "intact");
    let third = call(run, key);
    run.prepare("nuncio task take $(nuncio --json task list | grep -o 'task_[A-Za-z0-9_-]*' | head -n1)");
    run.run("nuncio task give-back");
    run.run("nuncio task refuse");
    wait(run, &third, "empty");
}

fn explain(run: &mut DocumentRun) {
    let invite = run.json("nuncio --json user invite ada");
    let code = invite["code"].as_str().unwrap();
    let url = run.url();
    run.prepare(&format!("nuncio device enrol {url} {code}"));
    run.run("nuncio device audit --json >");
    let records = run.json("nuncio --json audit list --tool pickup");
    let call = records["records"][0]["record"]["call"].as_str().unwrap_or_else(|| panic!("{records}")).to_owned();
    run.fill("CALL", &call);
    run.run("nuncio audit explain");
}
