//! Every error under the paths of Skill Sharing has the envelope of its specification (Skill Sharing §8.2).

use nuncio_testkit::Gateway;
use serde_json::Value;

use crate::agents::{DESK, desk, tool};
use crate::executions::OPEN;

const CODES: [&str; 7] = [
    "SKILL_NOT_FOUND",
    "VALIDATION_ERROR",
    "AUTH_REQUIRED",
    "PERMISSION_DENIED",
    "INVOCATION_TIMEOUT",
    "ENDPOINT_UNREACHABLE",
    "VERSION_INCOMPATIBLE",
];

#[tokio::test]
async fn unknown_paths_and_methods_below_skills_are_refused_in_the_error_format_of_skill_sharing() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[tool("fine", "cat", OPEN)])).start().await;
    for path in [
        "/skills",
        "/skills/",
        "/skills.json",
        "/skills/none",
        "/skills/%ff",
        "/skills//none",
        &format!("/skills/{DESK}/none.json"),
        &format!("/skills/{DESK}/none/invoke"),
        "/executions",
        "/executions/",
        "/executions/none",
        "/executions/%ff",
        "/executions/none/other",
        "/executions/none/cancel",
        "/executions/none/result",
        "/registry",
        "/registry/skills/none",
        "/.well-known/skill-sharing/",
        "/.well-known/skill-sharing/none",
        "/.well-known/skill-sharing.json",
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
            let head = format!("{head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}");
            let answer = gateway.raw(head).await.unwrap();
            assert!((400..500).contains(&answer.status), "{method} {path}: {answer:?}");
            let body: Value = serde_json::from_str(&answer.body).unwrap();
            let code = body["error"]["code"].as_str().unwrap_or_else(|| panic!("{method} {path}: {body}"));
            assert!(CODES.contains(&code), "{method} {path}: {body}");
            let message = body["error"]["message"].as_str().unwrap();
            assert!(!message.contains("/aap"), "{method} {path}: {message}");
        }
    }
}

#[tokio::test]
async fn unknown_path_is_answered_with_the_entry_point_of_its_protocol_or_server() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    for (path, entry) in [
        ("/aap/none", "/aap/meta"),
        ("/none", "/openapi.json"),
        ("/skills", "/.well-known/skill-sharing"),
        ("/a2h/none", "/a2h/agents"),
        ("/agents/none/none", "/.well-known/agent-descriptions"),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = gateway.raw(head).await.unwrap();
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(answer.body.contains(entry), "{path}: {answer:?}");
    }
}
