//! Documents about skills and agents of other hosts, with a second server in the place of the other host.

use serde_json::{Value, json};

use super::commands::path_of;
use super::document_run::DocumentRun;

fn example(name: &str) -> String {
    path_of("examples").join(name).display().to_string()
}

pub(super) fn registry(run: &mut DocumentRun) {
    let port = run.port();
    let (own, _) = run.server_at(port, "");
    let (other, port) = run.other_server(&format!("{} --data other --dev", example("hotel")));
    run.fill("https://example.com/agents/hotel/", &format!("http://localhost:{port}/agents/hotel-assistant/"));
    run.fill("example.com", &format!("localhost:{port}"));
    let followed = run.run("nuncio registry follow");
    assert!(followed.contains("skills listed"), "{followed}");
    assert!(run.run("nuncio registry list").contains(&port.to_string()));
    run.run("nuncio registry unfollow");
    let found: Value = serde_json::from_str(&run.run("curl 'localhost:")).unwrap();
    assert!(found["skills"].is_array(), "{found}");

    let found: Value = serde_json::from_str(&run.run("curl 'localhost:")).unwrap();
    assert!(found["items"].is_array(), "{found}");
    run.run("nuncio registry add");
    assert!(run.run("nuncio registry agents").contains("listed"));
    let id = run.json("nuncio --json registry agents")["agents"][0]["id"].as_str().unwrap().to_owned();
    run.fill("ID", &id);
    run.run("nuncio registry remove");
    run.shell.stop(&other);
    run.shell.stop(&own);
}

pub(super) fn consuming(run: &mut DocumentRun) {
    let port = run.port();
    let (script, _) = run.server_at(port, &example("script"));
    run.run("nuncio discover localhost:");
    run.run("nuncio show script/echo@localhost:");
    assert!(run.run("nuncio invoke script/echo@localhost:").contains("hi"));
    run.prepare(&format!("curl -s {}/skills/script/echo.json > descriptor.json", run.url()));
    run.run("nuncio validate descriptor.json");

    let (hotel, port) = run.other_server(&format!("{} --data hotel-data --dev", example("hotel")));
    let description = format!("http://localhost:{port}/agents/hotel-assistant/ad.json");
    run.prepare(&format!("curl -s {description} > ad.json"));
    run.run("nuncio discover localhost:");
    run.fill("https://example.com/agents/hotel/ad.json", &description);
    run.fill("example.com", &format!("localhost:{port}"));
    run.fill("hotel.booking", "travel");
    run.run("nuncio show http");
    run.run("nuncio negotiate");
    run.run("nuncio invoke");
    run.run("nuncio invoke");
    run.run("nuncio validate ad.json");
    run.shell.stop(&hotel);
    run.shell.stop(&script);
}

/// A brain that drafts a protocol.
const DRAFTER: &str = r#"#!/bin/sh
IFS= read -r step
case $step in
*"Draft a small protocol"*) cat drafted ;;
*) echo '{"text":"Yes, room 7."}' ;;
esac
"#;

pub(super) fn anp(run: &mut DocumentRun) {
    let file = |name: &str, brain: &str| {
        format!("[agent]\nname = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"Talks.\"\n\n[brain]\n{brain}\n")
    };
    for folder in ["concierge", "host"] {
        run.prepare(&format!("mkdir {folder}"));
    }
    run.write("concierge/agent.toml", &file("concierge", "kind = \"script\""));
    run.write("host/agent.toml", &file("host", "kind = \"process\"\ncommand = [\"sh\", \"brain.sh\"]"));
    run.write("host/brain.sh", DRAFTER);
    let definition = json!({
        "description": "Hold a table.",
        "methods": [{
            "name": "table.hold", "description": "Holds a table.",
            "request_schema": {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]},
            "response_schema": {"type": "object", "required": ["held"]},
        }],
        "examples": [{"method": "table.hold", "request": {"guests": 2}, "response": {"held": true}}],
        "test_cases": [{"name": "nobody", "method": "table.hold", "request": {}, "expected": "invalid"}],
    });
    run.write("host/drafted", &format!("{}\n", json!({"text": definition.to_string()})));
    let port = run.port();
    let (own, _) = run.server_at(port, "concierge --dev");
    let (host, port) = run.other_server("host --data host-data --dev");
    let agent = format!("http://localhost:{port}/agents/host/ad.json");
    run.fill("AGENT", &agent);
    assert!(run.run("nuncio negotiate").contains("A protocol was drafted"));
    let draft = run.json(&format!("nuncio --json negotiate {agent} --intent 'hold a table' --draft --as concierge"));
    let draft = &draft["result"]["protocolDraft"];
    run.fill("drf_…", draft["protocolId"].as_str().unwrap());
    run.fill("sha-256:…", draft["digest"].as_str().unwrap());
    run.run("nuncio negotiate");

    let did = run.json("nuncio --json did show host --data host-data")["dids"][0]["did"].as_str().unwrap().to_owned();
    run.fill("did:wba:example.com:agents:hotel:e1_…", &did);
    assert_eq!(run.run("nuncio invoke").trim(), "Yes, room 7.");
    let say = format!("nuncio --json invoke {did} --say Hello --as concierge --no-wait");
    let sent = run.json(&say)["letter"]["id"].as_str().unwrap().to_owned();
    run.fill("msg-…", &sent);
    assert_eq!(run.run("nuncio invoke").trim(), "Yes, room 7.");
    run.shell.stop(&host);
    run.shell.stop(&own);
}
