//! ANP's own Python SDK as a server, called by the Nuncio client, which reports what it cannot verify, signs, and uses
//! the granted token.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use crate::home::TestAgentFolder;
use crate::process::{ProcessOutput, until};

/// Process with servers of the SDK, which ends when its standard input is closed.
struct SdkServerProcess {
    process: Child,
    input: Option<ChildStdin>,
    greeting: Value,
    /// Requests that the SDK received, each with its server, path, kind of credential and status.
    seen: Arc<Mutex<Vec<String>>>,
}

impl SdkServerProcess {
    fn start(home: &TestAgentFolder) -> Self {
        let python = std::env::var_os("NUNCIO_TEST_ANP_PYTHON")
            .expect("NUNCIO_TEST_ANP_PYTHON must name a Python that has the package anp: run `cargo xtask test`");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/anp_sdk_server.py");
        let mut command = Command::new(python);
        command.arg(script).env("SSL_CERT_FILE", home.path("cert.pem"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let greeting = serde_json::from_str(&lines.next().expect("it starts, or says why above")).unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let output = Arc::clone(&seen);
        std::thread::spawn(move || lines.for_each(|line| output.lock().unwrap().push(line)));
        Self { input: process.stdin.take(), process, greeting, seen }
    }

    fn url(&self, name: &str) -> &str {
        self.greeting["urls"][name].as_str().unwrap()
    }

    fn did(&self, name: &str) -> &str {
        self.greeting["dids"][name].as_str().unwrap()
    }

    async fn wait_for_requests(&self, name: &str, count: usize) -> Vec<String> {
        until("the SDK was asked", async || {
            let mut seen = self.seen.lock().unwrap();
            let of_it = |line: &String| line.split(' ').next() == Some(name);
            if seen.iter().filter(|line| of_it(line)).count() < count {
                return None;
            }
            let found = seen.iter().filter(|line| of_it(line)).cloned().collect();
            seen.retain(|line| !of_it(line));
            Some(found)
        })
        .await
    }
}

impl Drop for SdkServerProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

/// Writes a self-signed certificate for `localhost` to `cert.pem` and its key to `key.pem`.
fn certificate(home: &TestAgentFolder) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(home.path("cert.pem"), cert.pem()).unwrap();
    fs::write(home.path("key.pem"), signing_key.serialize_pem()).unwrap();
}

/// Agent file with tools that call SDK agents, named by DID or by URL.
fn agent_file(sdk: &SdkServerProcess) -> String {
    let tool = |name: &str, target: &str, method: &str| {
        format!(
            "[[tool]]\nname = {name:?}\ndescription = \"Asks a hotel.\"\ninput = {{ type = \"object\" }}\n\
             run = {{ anp = {target:?}, method = {method:?} }}\n"
        )
    };
    [
        "[agent]\nname = \"travel\"\nversion = \"1.0.0\"\ndescription = \"Travels.\"\n[brain]\nkind = \"script\"\n"
            .to_owned(),
        tool("book", sdk.did("fast"), "book"),
        tool("book_again", sdk.url("fast"), "book"),
        tool("fail", sdk.url("fast"), "fail"),
        tool("search", sdk.url("open"), "search"),
        tool("cancel", sdk.did("open"), "cancel"),
    ]
    .concat()
}

fn outcome(shown: &Value, subject: &str) -> String {
    let checks = shown["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["subject"] == subject);
    check.map_or("none", |check| check["outcome"].as_str().unwrap()).to_owned()
}

fn last(ran: &ProcessOutput) -> Value {
    serde_json::from_str(ran.stdout.lines().last().unwrap_or_else(|| panic!("it said nothing: {ran:?}"))).unwrap()
}

#[tokio::test]
async fn agents_of_the_python_sdk_are_shown_and_called_and_protected_ones_need_auth() {
    let home = TestAgentFolder::hotel();
    certificate(&home);
    let sdk = SdkServerProcess::start(&home);

    // The SDK's documents violate the specification in places; the client reads them and reports what it cannot verify.
    for (target, wanted) in [
        (sdk.url("fast"), ["verified", "verified", "unverified", "unverified", "verified"]),
        (sdk.url("open"), ["verified", "verified", "unverified", "unverified", "verified"]),
        (sdk.url("free"), ["unverified", "none", "unverified", "none", "verified"]),
        (sdk.did("fast"), ["verified", "verified", "unverified", "unverified", "verified"]),
    ] {
        let shown = home.json_command(&["show", target, "--dev"]).json();
        let outcomes = ["did", "service", "proof", "domain", "address"].map(|subject| outcome(&shown, subject));
        assert_eq!(outcomes, wanted, "{target}: {}", shown["checks"]);
    }
    let output = home.nuncio(&["show", sdk.url("open")]).run();
    for text in [
        "not verified proof",
        "note: /type must be \"AgentDescription\"; \"Product\" is what some software writes instead",
        "note: /securityDefinitions is missing",
        "interface.json requires authentication",
        "cancel(booking)",
    ] {
        assert!(output.stdout.contains(text) || output.stderr.contains(text), "{text}: {output:?}");
    }

    // An open agent is called without a credential; a protected one answers `auth_required`.
    let ran = home.json_command(&["invoke", sdk.url("free"), "search", "-i", "city=Rome"]);
    assert_eq!(last(&ran)["output"], json!({"rooms": ["Rome 101"], "caller": "anonymous"}), "{ran:?}");
    let ran = home.json_command(&["invoke", sdk.url("free"), "cancel", "-i", "booking=7"]);
    assert_eq!(last(&ran)["output"], json!({"cancelled": "7"}), "{ran:?}");
    for (target, method) in [(sdk.url("fast"), "fail"), (sdk.url("open"), "search")] {
        let ran = home.json_command(&["invoke", target, method, "-i", "{}"]);
        assert_eq!((ran.status, &last(&ran)["code"]), (Some(1), &json!("auth_required")), "{ran:?}");
    }
}

#[tokio::test]
async fn python_sdk_server_accepts_our_signature_first_and_then_its_own_token() {
    let home = TestAgentFolder::with_agent("");
    certificate(&home);
    let sdk = SdkServerProcess::start(&home);
    home.write_agent(&agent_file(&sdk));
    // The SDK resolves DIDs only over https.
    let server = home
        .serve()
        .arg("--dev")
        .arg("--tls-cert")
        .arg(home.path("cert.pem"))
        .arg("--tls-key")
        .arg(home.path("key.pem"))
        .arg("--extra-ca")
        .arg(home.path("cert.pem"))
        .start();
    let travel = format!("{}/agents/travel/ad.json", server.url());
    let ca = home.path("cert.pem").display().to_string();
    let invoke = |tool: &str, input: Value| {
        let ran = home.json_command(&["invoke", &travel, tool, "--extra-ca", &ca, "-i", &input.to_string()]);
        let mut message = last(&ran);
        // A tool without an output schema returns its result as text.
        if let Some(output) = message["output"].as_str().map(|text| serde_json::from_str(text).unwrap()) {
            message["output"] = output;
        }
        (ran.status, message)
    };
    let shown = home.json_command(&["show", &travel, "--extra-ca", &ca]).json();
    let did = shown["description"]["did"].as_str().unwrap();

    // The server `fast` publishes one document per method; the argument `stay` is a nested object.
    let stay = json!({"stay": {"day": "2027-01-01", "nights": 2}, "guest": "Ada"});
    let booked = json!({"day": "2027-01-01", "nights": 2, "guest": "Ada", "caller": did});
    for tool in ["book", "book_again", "book"] {
        let (status, message) = invoke(tool, stay.clone());
        assert_eq!((status, &message["output"]), (Some(0), &booked), "{tool}: {message}\n{}", server.stderr());
    }
    let calls: Vec<_> =
        sdk.wait_for_requests("fast", 5).await.into_iter().filter(|line| line.contains("/rpc")).collect();
    assert_eq!(calls, ["fast /rpc signature 200", "fast /rpc token 200", "fast /rpc token 200"]);

    // The command `invoke --as` signs with the same DID, and gets its own token.
    let ran =
        home.json_command(&["invoke", sdk.url("fast"), "book", "--as", "travel", "--dev", "-i", &stay.to_string()]);
    assert_eq!((ran.status, &last(&ran)["output"]), (Some(0), &booked), "{ran:?}");
    let calls: Vec<_> =
        sdk.wait_for_requests("fast", 3).await.into_iter().filter(|line| line.contains("/rpc")).collect();
    assert_eq!(calls, ["fast /rpc signature 200"]);

    // Refused arguments and errors of the SDK server are reported with its own messages.
    let (status, message) = invoke("book", json!({"guest": "Ada"}));
    assert_eq!(status, Some(1));
    assert!(message["error"].as_str().unwrap().contains("\"stay\" is a required property"), "{message}");
    let (status, message) = invoke("book", json!({"guest": "Ada", "stay": {"nights": 2}}));
    assert_eq!(status, Some(1));
    assert!(message["error"].as_str().unwrap().contains("\"day\" is a required property"), "{message}");
    let (status, message) = invoke("fail", json!({}));
    assert_eq!(status, Some(1), "{message}");
    assert!(message["error"].as_str().unwrap().contains("answered -32603: Internal error: no rooms left"), "{message}");

    // The agent `open` protects its interface document too: fetched with a signature, and called with the token.
    let (status, message) = invoke("search", json!({"city": "Rome"}));
    let found = json!({"rooms": ["Rome 101"], "caller": did});
    assert_eq!((status, &message["output"]), (Some(0), &found), "{message}\n{}", server.stderr());
    let requests = sdk.wait_for_requests("open", 4).await;
    assert!(requests.contains(&"open /hotel/interface.json nothing 401".to_owned()), "{requests:#?}");
    assert!(requests.contains(&"open /hotel/interface.json signature 200".to_owned()), "{requests:#?}");
    assert_eq!(requests.last().map(String::as_str), Some("open /hotel/rpc token 200"), "{requests:#?}");
    let (status, message) = invoke("cancel", json!({"booking": "7"}));
    assert_eq!((status, &message["output"]), (Some(0), &json!({"cancelled": "7"})), "{message}");
}
