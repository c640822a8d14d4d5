//! Documents with few commands.

use serde_json::Value;

use super::document_run::DocumentRun;

pub(super) fn a2h(run: &mut DocumentRun) {
    run.prepare("nuncio init my-agent --device");
    let (server, _) = run.other_server("my-agent");
    let link = run.run("nuncio user invite ada");
    let link = link.split_whitespace().find(|word| word.starts_with("http")).unwrap().to_owned();
    run.prepare(&format!("nuncio device join '{link}' --no-run"));
    assert!(run.run("nuncio user list").contains("ada"));
    let device = run.json("nuncio --json user devices ada")["devices"][0]["id"].as_str().unwrap().to_owned();
    assert!(run.run("nuncio user devices ada").contains(&device));
    run.fill("dev_…", &device);
    run.run("nuncio user revoke ada");
    run.shell.stop(&server);
}

pub(super) fn agent_file(run: &mut DocumentRun) {
    run.prepare("nuncio init my-agent");
    run.run("nuncio explain --schema > my-agent/.agent.schema.json");
    let schema = std::fs::read_to_string(run.path("my-agent/.agent.schema.json")).unwrap();
    assert!(serde_json::from_str::<Value>(&schema).unwrap()["properties"]["tool"].is_object());
}

pub(super) fn bring_your_agent(run: &mut DocumentRun) {
    run.run("nuncio init my-agent --process python");
    let server = run.serve("nuncio serve my-agent");
    run.chat("nuncio chat localhost:");
    run.shell.stop(&server);
    for package in ["langgraph", "openai-agents"] {
        run.run("cd my-agent");
        run.leave_out("python3 -m venv .venv", "only the packages below are installed in it");
        let install = format!(".venv/bin/pip install {package}");
        run.leave_out(&install, "it needs the network; bring_your_agent.rs runs the example with the package");
        run.prepare("cd ..");
    }
}

pub(super) fn change_judge(run: &mut DocumentRun) {
    let cases = include_str!("../../../../nuncio-judge/tests/vectors/a2h/manifest_diff.json");
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    let case = cases.into_iter().find(|case| case["id"] == "mixed").unwrap();
    run.write("published.json", &case["old"].to_string());
    run.write("next.json", &case["new"].to_string());
    run.write("old.schema.json", r#"{"type": "string"}"#);
    run.write("new.schema.json", r#"{"type": ["string", "null"]}"#);
    run.write("changes.jsonl", r#"{"old": {"type": "string"}, "new": {"type": ["string", "null"]}}"#);
    assert!(run.run_with("nuncio diff published.json next.json", 1, "").contains("breaking"));
    run.run_with("nuncio diff --json published.json next.json", 1, "");
    run.run("nuncio diff --schema old.schema.json new.schema.json");
    run.run("nuncio diff --pairs changes.jsonl");
}
