//! The README, in English and Chinese.

use std::os::unix::fs::symlink;

use super::commands::path_of;
use super::document_run::{DocumentRun, free_port};

pub(super) fn run(run: &mut DocumentRun) {
    symlink(path_of("examples"), run.path("examples")).unwrap();
    let hotel = run.serve("cargo run -- serve");
    let said = run.chat("cargo run -- chat localhost:");
    assert!(said.contains("GH-"), "a reservation number: {said}");
    run.run("SESSION=$(curl ");
    run.run("say() {");
    run.run("say '");
    run.run("say '");
    let booked = run.run("say '");
    assert!(booked.contains("GH-"), "a reservation number: {booked}");
    run.run("cargo run -- discover localhost:");
    let rooms = run.run("cargo run -- invoke hotel-assistant/search_rooms@localhost:");
    assert!(rooms.contains("room-"), "{rooms}");
    run.shell.stop(&hotel);

    run.run("cargo run -- init my-agent");
    run.run("cargo run -- lint my-agent");
    let mine = run.serve("cargo run -- serve my-agent");
    run.shell.stop(&mine);
    run.run("mkdir notes");
    run.run("cargo run -- init my-files --from-mcp");
    let allowed = run.prepare("grep -A1 -F '[allow]' my-files/agent.toml");
    assert!(allowed.contains("read = [") && allowed.contains("/notes\"]"), "{allowed}");
    run.run("cargo run -- init my-program --process python");

    let port = free_port();
    run.fill(":7411", &format!(":{port}"));
    let data = run.path("script-data").display().to_string();
    run.fill("/tmp/script-data", &data);
    let script = run.serve_at("cargo run -- serve examples/script", port);
    run.leave_out("cargo run -p nuncio-conformance", "it is another program; conformance.rs runs the same checks");
    run.shell.stop(&script);
    run.leave_out("cargo xtask test", "it runs all tests, this one too");
}
