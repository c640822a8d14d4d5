//! Two real servers that find, verify, negotiate with and call each other over ANP, and the commands that show other
//! agents.

use serde_json::{Value, json};

use crate::home::TestAgentFolder;
use crate::process::{ProcessOutput, Server};

const STAY: [&str; 4] = ["-i", "check_in=2027-01-01", "-i", "check_out=2027-01-02"];

fn host(server: &Server) -> &str {
    server.url().trim_start_matches("http://")
}

fn ad(server: &Server, agent: &str) -> String {
    format!("{}/agents/{agent}/ad.json", server.url())
}

fn serve(home: &TestAgentFolder) -> Server {
    home.serve().arg("--dev").start()
}

fn run(home: &TestAgentFolder, arguments: &[&str]) -> ProcessOutput {
    home.nuncio(arguments).run()
}

fn events(ran: &ProcessOutput) -> Vec<Value> {
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn did(home: &TestAgentFolder, server: &Server, agent: &str) -> String {
    let shown = run(home, &["--json", "show", &ad(server, agent)]).json();
    shown["description"]["did"].as_str().unwrap().to_owned()
}

#[test]
fn two_servers_discover_verify_negotiate_and_call_each_other() {
    let hotel_home = TestAgentFolder::hotel();
    let hotel = serve(&hotel_home);
    let hotel_did = did(&hotel_home, &hotel, "hotel-assistant");
    // One tool names the hotel's agent by DID, another by URL, and the third negotiates the method.
    let travel_home = TestAgentFolder::with_agent(&format!(
        "[agent]\nname = \"travel\"\nversion = \"1.0.0\"\ndescription = \"Travels.\"\n[brain]\nkind = \"script\"\n\
         [[tool]]\nname = \"rooms\"\ndescription = \"Finds rooms.\"\ninput = {{ type = \"object\" }}\n\
         run = {{ anp = {hotel_did:?}, method = \"search_rooms\" }}\n\
         [[tool]]\nname = \"search_rooms\"\ndescription = \"Finds rooms.\"\ninput = {{ type = \"object\" }}\n\
         run = {{ anp = {:?} }}\n\
         [[tool]]\nname = \"stay\"\ndescription = \"Finds rooms.\"\ninput = {{ type = \"object\" }}\n\
         run = {{ anp = {hotel_did:?}, intent = \"search free rooms\" }}\n",
        ad(&hotel, "hotel-assistant")
    ));
    let travel = serve(&travel_home);
    let travel_did = did(&travel_home, &travel, "travel");
    for (home, agent) in [(&hotel_home, &hotel_did), (&travel_home, &travel_did)] {
        let shown = run(home, &["--json", "show", agent, "--dev"]).json();
        let verified = |subject: &str| {
            shown["checks"].as_array().unwrap().iter().any(|it| it["subject"] == subject && it["outcome"] == "verified")
        };
        assert!(["did", "service", "proof", "domain", "address"].iter().all(|it| verified(it)), "{}", shown["checks"]);
    }

    for tool in ["rooms", "search_rooms", "stay"] {
        let ran = run(&travel_home, &[&["--json", "invoke", &ad(&travel, "travel"), tool][..], &STAY].concat());
        let output = events(&ran).pop().unwrap()["output"].to_string();
        assert!(output.contains("room-101"), "{output}");
    }
    let agreements = travel_home.data().join("agreements.json");
    assert!(
        std::fs::read_to_string(agreements).unwrap().contains(&hotel_did),
        "agreements last when the server restarts"
    );
    // Invalid arguments are reported with the hotel's error message.
    let ran = run(&travel_home, &["--json", "invoke", &ad(&travel, "travel"), "rooms"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.contains("check_in"), "{ran:?}");
    let audit = run(&hotel_home, &["--json", "audit", "list"]).json();
    let callers: Vec<_> =
        audit["records"].as_array().unwrap().iter().map(|it| it["record"]["caller"].clone()).collect();
    assert_eq!(callers, vec![json!(travel_did); 3], "the hotel knows who called: {audit}");

    // In the other direction, a command negotiates with the agent of the travel server.
    let agreed = run(&hotel_home, &["--json", "negotiate", &travel_did, "--dev", "--intent", "find rooms"]).json();
    assert_eq!(agreed["result"]["selected"]["interface"], "interface.travel.tools", "{agreed}");
    let arguments = [&["--json", "invoke", &hotel_did, "--dev", "--intent", "search free rooms"][..], &STAY].concat();
    let events = events(&run(&travel_home, &arguments));
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["described", "agreed", "result"]);
    assert!(events[1]["result"]["negotiationDigest"].as_str().unwrap().starts_with("sha-256:"));
}

#[test]
fn invoke_reports_all_invalid_arguments_of_an_agent_call_at_once() {
    let home = TestAgentFolder::hotel();
    let hotel = serve(&home);
    let arguments = ["--json", "invoke", &ad(&hotel, "hotel-assistant"), "search_rooms", "-i", "guests=many"];
    let ran = run(&home, &arguments);
    let report: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((ran.status, &report["code"]), (Some(1), &json!("invalid_arguments")), "{ran:?}");
    for expected in ["guests", "check_in", "check_out"] {
        assert!(report["error"].as_str().unwrap().contains(expected), "{expected}: {report}");
    }
}

#[test]
fn agent_call_without_a_required_credential_is_refused_with_the_options_that_give_one() {
    let home = TestAgentFolder::hotel();
    let key = home.key(&[]);
    let hotel = serve(&home);
    let target = ad(&hotel, "hotel-assistant");
    let arguments = [&["invoke", &target, "search_rooms", "-i", "guests=2"][..], &STAY].concat();
    let ran = run(&home, &arguments);
    assert!(ran.status == Some(1) && ran.stderr.contains("--key or NUNCIO_KEY"), "{ran:?}");
    let ran = run(&home, &[&arguments[..], &["--key", &key]].concat());
    assert!(ran.status == Some(0) && ran.stdout.contains("room-102"), "{ran:?}");
}

#[test]
fn discover_show_and_negotiate_print_agents_methods_and_verification_results() {
    let home = TestAgentFolder::hotel();
    let hotel = serve(&home);
    let ran = run(&home, &["discover", host(&hotel)]);
    for expected in [
        "4 skills",
        "1 agent\n",
        "Grand Hotel Assistant",
        &format!("next: nuncio show {}", ad(&hotel, "hotel-assistant")),
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    let both = run(&home, &["--json", "discover", host(&hotel)]).json();
    assert_eq!(both["anp"]["agents"][0]["url"], json!(ad(&hotel, "hotel-assistant")));
    assert_eq!(both["index"]["skills"].as_array().unwrap().len(), 4);

    for target in [host(&hotel).to_owned(), ad(&hotel, "hotel-assistant")] {
        let ran = run(&home, &["show", &target]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        for expected in [
            "Verification",
            "  verified proof",
            "cap.hotel-assistant.search_rooms",
            "interface.hotel-assistant.tools  StructuredInterface",
            "search_rooms(check_in, check_out, [guests], [room_type])",
        ] {
            assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
        }
    }
    let ran = run(&home, &["negotiate", host(&hotel), "--intent", "find a free room"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for expected in [
        "capability  cap.hotel-assistant.search_rooms",
        "how         direct structured call",
        "because ",
        "until ",
        "Instead of",
        "conversation",
        "digest sha-256:",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    let (code, expected) =
        run(&home, &["--json", "negotiate", host(&hotel), "--intent", "find", "--security", "direct-e2ee"]).failure();
    assert!(
        code == "negotiation_failed" && expected.contains("does not support direct-e2ee now"),
        "{code}: {expected}"
    );
    for wrong in [
        &["negotiate", host(&hotel)][..],
        &["negotiate", "x", "--intent", "y", "--security", "none"],
        &["show", "did:web:a"],
        &["invoke", &ad(&hotel, "hotel-assistant")],
    ] {
        assert_eq!(run(&home, wrong).status, Some(2), "{wrong:?}");
    }
    let ran = run(&home, &["invoke", host(&hotel), "serch_rooms"]);
    assert_eq!(ran.status, Some(1));
    for expected in ["has no method \"serch_rooms\"; it has search_rooms", "more: nuncio explain tool_not_found"] {
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
}

#[test]
fn validate_detects_the_document_kind_and_reports_the_path_of_each_error() {
    let home = TestAgentFolder::hotel();
    let hotel = serve(&home);
    let did = did(&home, &hotel, "hotel-assistant");
    let did_path = did.split(':').skip(3).collect::<Vec<_>>().join("/");
    for (path, kind) in [
        ("agents/hotel-assistant/ad.json".to_owned(), "AgentDescription"),
        ("agents/hotel-assistant/interfaces/tools.json".to_owned(), "OpenRPC"),
        (".well-known/agent-descriptions".to_owned(), "CollectionPage"),
        (format!("{did_path}/did.json"), "DID document"),
        (".well-known/skill-sharing".to_owned(), "SkillIndex"),
    ] {
        let report = run(&home, &["--json", "validate", &format!("{}/{path}", hotel.url())]).json();
        assert_eq!((&report["valid"], &report["kind"]), (&json!(true), &json!(kind)), "{path}: {report}");
    }
    let shown = run(&home, &["--json", "show", &ad(&hotel, "hotel-assistant")]).json();
    let mut description = shown["description"].clone();
    description["interfaces"][2]["url"] = json!("tools.json");
    description["securityDefinitions"]["didwba_sc"]["in"] = json!("air");
    let mut document = shown["did_document"].clone();
    document["service"][0]["serviceEndpoint"] = json!("https://evil.example/ad.json");
    for (name, value, path) in [
        ("ad.json", &description, "/interfaces/2/url"),
        ("ad.json", &description, "/securityDefinitions/didwba_sc/in"),
        ("did.json", &document, "/proof"),
        ("did.json", &json!({"id": "did:wba:a.example", "verificationMethod": 7}), "/verificationMethod"),
        ("did.json", &json!({"id": "did:wba:UPPER.example"}), "/id"),
    ] {
        std::fs::write(home.path(name), value.to_string()).unwrap();
        let ran = run(&home, &["validate", name]);
        assert_eq!(ran.status, Some(1));
        assert!(ran.stdout.contains(&format!("error: {path}: ")), "{path}: {}", ran.stdout);
    }
}
