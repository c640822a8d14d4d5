//! ANP's own Python SDK as a client of a Nuncio server: it discovers agents, verifies, signs, calls and sends messages.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};

const HELD: [&str; 17] = [
    "crawl: the list, the description and the tools in it",
    "crawl: the interface documents behind the links",
    "crawl: a tool is called as the crawler calls it",
    "RemoteAgent: discovered, called, and told what is wrong",
    "RFC 9421: a challenge is answered",
    "RFC 9421: the same signature does not count again",
    "token: taken from Authentication-Info and used again",
    "token: a stale one is replaced by the client itself",
    "RFC 9421: a challenge is answered",
    "RFC 9421: the same signature does not count again",
    "token: taken from Authentication-Info and used again",
    "token: a stale one is replaced by the client itself",
    "k1: another kind of key does all of that too",
    "legacy: the header of older clients, once each, with both kinds of keys",
    "verify: our DID document, resolved and bound by the SDK",
    "verify: the description's proof, by both of the SDK's verifiers",
    "direct.send: answered at our message service, and the answer's proofs are good to the SDK",
];

fn agent() -> String {
    let scope =
        |id: &str| format!("\n[[scope]]\nid = {id:?}\nlabel = {id:?}\ndescription = {id:?}\nsensitivity = \"low\"\n");
    let any = "input = { type = \"object\" }\n";
    let echo = shell_tool("echo", "cat").replace(
        any,
        "input = { type = \"object\", properties = { word = { type = \"string\" } }, required = [\"word\"] }\n",
    );
    let scoped = |name: &str, line: &str, scope: &str| shell_tool(name, line) + &format!("scope = {scope:?}\n");
    let authorized = shell_tool("authorized", "printf done") + "human_authorization = true\n";
    [
        SCRIPTED.to_owned(),
        scope("counting:do"),
        scope("secrets:read"),
        echo,
        scoped("count", "printf counted", "counting:do"),
        scoped("secret", "printf secret", "secrets:read"),
        authorized,
    ]
    .concat()
}

#[test]
fn anp_python_sdk_client_discovers_verifies_calls_and_messages_our_agents() {
    let python = std::env::var_os("NUNCIO_TEST_ANP_PYTHON")
        .expect("NUNCIO_TEST_ANP_PYTHON must name a Python that has the package anp: run `cargo xtask test`");
    let home = TestAgentFolder::with_agent(&agent());
    let server = home.serve().arg("--dev").start();
    // Once a key exists, loopback requests need a credential too.
    home.key(&[]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/anp_sdk.py");
    let mut client = Command::new(python)
        .args([script, server.url()])
        .arg(home.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut errors = client.stderr.take().unwrap();
    let Some(Ok(first)) = lines.next() else {
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        panic!("it does not start: {text}");
    };
    let dids: Vec<String> = serde_json::from_str(&first).unwrap();
    for did in &dids {
        home.json_command(&["grant", "create", did, "script", "counting:do"]).json();
    }
    client.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output: Vec<String> = lines.map_while(Result::ok).collect();
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    assert!(client.wait().unwrap().success(), "{output:#?}\n{text}\n{}", server.stderr());
    assert_eq!(output, HELD.map(|name| format!("held {name}")));

    // Every audit record names the protocol ANP, and each call of `count` has one.
    let records = home.audit();
    assert!(records.iter().all(|record| record["protocol"] == "anp"), "{records:#?}");
    let counted = records.iter().filter(|record| record["tool"] == "count");
    assert_eq!(counted.count(), 1 + 2 * 4 + 2, "{records:#?}");
}
