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
    // The packages are stubs, so that no network is needed; bring_your_agent.rs runs the examples with the real ones.
    run.write("wheel.py", STUB_WHEEL);
    run.prepare("export PIP_NO_INDEX=1 PIP_FIND_LINKS=$PWD/wheels");
    let brain = run.path("my-agent/brain.py");
    let text = std::fs::read_to_string(&brain).unwrap();
    for (package, module) in [("langgraph", "langgraph"), ("openai-agents", "agents")] {
        run.prepare(&format!("python3 wheel.py {package} {module}"));
        run.run("python3 -m venv my-agent/.venv");
        run.run(&format!("my-agent/.venv/bin/pip install {package}"));
        std::fs::write(&brain, format!("import {module}\n{text}")).unwrap();
        run.prepare(
            "sed -i 's|^command = .*brain.py.*|command = [\".venv/bin/python\", \"brain.py\"]|' my-agent/agent.toml",
        );
        assert!(run.prepare("grep command my-agent/agent.toml").contains(".venv/bin/python"));
        let (server, port) = run.other_server("my-agent");
        let said = run.prepare(&format!("echo hello | nuncio chat localhost:{port}"));
        assert!(said.contains("You said: hello"), "{said}");
        run.shell.stop(&server);
    }
}

/// Writes a wheel of an empty package: arguments are the names of package and module.
const STUB_WHEEL: &str = r#"
import os, sys, zipfile
package, module = sys.argv[1:]
name = package.replace("-", "_")
os.makedirs("wheels", exist_ok=True)
files = {
    f"{module}/__init__.py": "",
    f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
    f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
record = f"{name}-1.0.dist-info/RECORD"
files[record] = "".join(f"{path},,\n" for path in [*files, record])
with zipfile.ZipFile(f"wheels/{name}-1.0-py3-none-any.whl", "w") as wheel:
    for path, text in files.items():
        wheel.writestr(path, text)
"#;

pub(super) fn chat(run: &mut DocumentRun) {
    let (hotel, _) = run.server_at(run.port(), "");
    let said = run.run_with("nuncio chat localhost:", 0, "hello\n");
    assert!(said.contains("room"), "{said}");

    run.prepare("nuncio init concierge");
    let (concierge, port) = run.other_server("concierge --data concierge-data");
    run.fill("agents.example --agent", &format!("localhost:{port} --agent"));
    let said = run.run_with("nuncio chat agents.example", 0, "hello\n");
    assert!(said.contains("Ask me what time it is."), "{said}");

    let key = run.prepare("nuncio key create --data concierge-data").trim().to_owned();
    let said = run.prepare(&format!("echo hello | NUNCIO_KEY={key} nuncio chat localhost:{port} 2>&1"));
    let session = said.split_whitespace().find(|word| word.starts_with("ses_")).unwrap();
    run.fill("NUNCIO_KEY=…", &format!("NUNCIO_KEY={key}"));
    run.fill("https://agents.example/v3", &format!("http://localhost:{port}/aap"));
    run.fill("ses_…", session);
    let said = run.run_with("NUNCIO_KEY=", 0, "/session\n");
    assert!(said.contains(session), "{said}");
    run.shell.stop(&concierge);

    let said = run.run_with("nuncio chat localhost:", 0, "/options\n");
    assert!(said.contains("中文"), "{said}");
    run.shell.stop(&hotel);
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
