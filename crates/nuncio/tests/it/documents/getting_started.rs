//! `docs/getting-started.md`, in English and Chinese.

use std::fs;

use super::document_run::{DocumentRun, free_port, in_terminal};

pub(super) fn run(run: &mut DocumentRun) {
    run.leave_out("cargo install", "it compiles the program, for minutes");
    run.run("nuncio --version");
    run.run("nuncio init my-agent");
    run.run("nuncio lint my-agent");
    let server = run.serve("nuncio serve my-agent");
    let said = run.chat("nuncio chat localhost:");
    assert!(said.contains("Ask me what time it is.") && said.contains(" it is "), "{said}");

    let weekday = run.block("toml", "name = \"weekday\"");
    save(run, "1.0.1", &weekday);
    // The prompt for the new tool is not shown there, and without an answer the call is denied.
    let said = run.chat("nuncio chat localhost:");
    assert!(said.contains("→ weekday"), "{said}");

    run.run("nuncio init my-assistant --model anthropic/");
    run.fill("KEY=…", "KEY=sk-1");
    run.run("export ANTHROPIC_API_KEY=");
    let port = free_port();
    run.fill(":7401", &format!(":{port}"));
    let assistant = run.serve_at("nuncio serve my-assistant", port);
    run.shell.stop(&assistant);
    run.run("mkdir notes");
    run.run("nuncio init my-files --from-mcp");
    let allowed = run.prepare("grep -A1 -F '[allow]' my-files/agent.toml");
    assert!(allowed.contains("read = [") && allowed.contains("/notes\"]"), "{allowed}");

    let document = r#"{"openapi": "3.0.3", "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://shop.example"}],
        "paths": {"/items": {"get": {"operationId": "list_items"}}}}"#;
    run.write("shop.json", document);
    run.fill("https://api.example.com/openapi.json", "shop.json");
    run.run("nuncio init my-shop --from-openapi");
    run.run("nuncio init my-helper --device");
    run.run("nuncio init my-program --process python");

    save(run, "1.0.2", "human_authorization = true");
    let url = run.url();
    let chat = in_terminal(&format!("nuncio chat {}", url.trim_start_matches("http://")));
    let chat = run.shell.start(&chat, "what day is it?\ny\n");
    let id = run.until("nuncio --json approve list", |listed| listed["approvals"][0]["id"].as_str().map(str::to_owned));
    assert!(run.run("nuncio approve list").contains(&id));
    run.fill("APPROVAL_ID", &id);
    run.run("nuncio approve allow");
    let said = run.shell.wait_for_end(&chat);
    assert!(said.stdout.contains("day"), "{said:?}");

    let key = run.run("nuncio key create --name my-app");
    run.fill("nk_…", key.trim());
    run.run("export NUNCIO_KEY=");
    run.chat("nuncio chat localhost:");
    assert!(run.run("nuncio audit list").contains("clock"));
    run.run("nuncio audit verify");
    run.shell.stop(&server);
}

/// Adds lines to the end of the agent file and waits until the server has reloaded it, which its version shows.
fn save(run: &mut DocumentRun, version: &str, lines: &str) {
    let file = run.path("my-agent/agent.toml");
    let text = fs::read_to_string(&file).unwrap();
    let line = text.lines().find(|line| line.starts_with("version = ")).unwrap().to_owned();
    let text = text.replace(&line, &format!("version = {version:?}"));
    fs::write(&file, format!("{text}\n{lines}\n")).unwrap();
    let meta = format!("curl -s {}/aap/meta", run.url());
    run.until(&meta, |meta| meta["agents"].to_string().contains(version).then(String::new));
}
