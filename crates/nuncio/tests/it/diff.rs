//! `nuncio diff`: breaking changes as text, as JSON, and for files of thousands of pairs.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use crate::home::TestAgentFolder;
use crate::process::nuncio;

const CASES: &str = include_str!("../../../nuncio-judge/tests/vectors/a2h/manifest_diff.json");

fn cases() -> Vec<Value> {
    serde_json::from_str(CASES).unwrap()
}

fn case(id: &str) -> Value {
    cases().into_iter().find(|case| case["id"] == id).unwrap_or_else(|| panic!("no case {id}"))
}

fn files(case: &Value) -> TestAgentFolder {
    let home = TestAgentFolder::hotel();
    for name in ["old", "new"] {
        fs::write(home.path(&format!("{name}.json")), case[name].to_string()).unwrap();
    }
    home
}

#[test]
fn diff_text_names_the_broken_tool_and_an_example_of_a_refused_call() {
    let home = files(&case("mixed"));
    let ran = home.nuncio(&["diff", "old.json", "new.json"]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""));
    let wanted = [
        "breaking  old.json → new.json",
        "needs new consent:",
        "  filesystem:read",
        "  location:read",
        "✗ required_added  read_file  filesystem:read",
        "  requires an argument that was optional",
        "    at      /tools/0/input_schema/required/1",
        "    refuses {\"path\":\"\"}",
        "· tool_added  get_loc  location:read",
    ];
    for line in wanted {
        assert!(ran.stdout.lines().any(|found| found == line), "{line:?} in\n{}", ran.stdout);
    }
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}'), "no colours in a pipe");
    let page = include_str!("../../../../docs/change-judge.md");
    let shown = ran.stdout.replace("old.json → new.json", "published.json → next.json");
    assert!(page.contains(&shown), "docs/change-judge.md shows something else than\n{shown}");
    let coloured = home.nuncio(&["diff", "old.json", "new.json"]).env("CLICOLOR_FORCE", "1").run();
    assert!(coloured.stdout.contains("\u{1b}[31m"), "{}", coloured.stdout);
}

#[test]
fn diff_truncates_long_values_and_escapes_control_characters() {
    let long = "长".repeat(200);
    let schema = |values: Value| json!({"type": "object", "properties": {"a": {"enum": values}}});
    let manifest = |schema: Value| {
        json!({"tools": [{"name": "do_it", "permission_scope": "\u{1b}[2Jx:y", "input_schema": schema}],
            "permission_scopes": [{"id": "\u{1b}[2Jx:y", "sensitivity": "low"}]})
    };
    let pair =
        json!({"old": manifest(schema(json!([long, "\u{202e}b"]))), "new": manifest(schema(json!(["\u{202e}b"])))});
    let ran = files(&pair).nuncio(&["diff", "old.json", "new.json"]).run();
    assert_eq!(ran.status, Some(1));
    assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}']), "{}", ran.stdout);
    let wide = |line: &str| line.chars().map(|c| if c == '长' { 2 } else { 1 }).sum::<usize>();
    assert!(ran.stdout.lines().all(|line| wide(line) <= 80), "{}", ran.stdout);
    assert!(ran.stdout.contains("长…"), "{}", ran.stdout);
}

#[test]
fn json_diff_prints_the_verdict_and_exits_with_one_only_if_breaking() {
    let home = files(&case("tool-moved-lower"));
    let ran = home.nuncio(&["--json", "diff", "old.json", "new.json"]).run();
    assert_eq!(ran.status, Some(1));
    let verdict: Value = serde_json::from_str(&ran.stdout).unwrap();
    let finding = json!({"rule": "tool_moved", "pointer": "/tools/0/permission_scope", "old": "location:read",
        "new": "filesystem:read", "scope": "filesystem:read", "tool": "read_file"});
    let wanted =
        json!({"breaking": true, "scopes_requiring_reauth": ["filesystem:read"], "findings": [finding], "notices": []});
    assert_eq!(verdict, wanted);

    let home = files(&case("seed-tool-removed"));
    let ran = home.nuncio(&["--json", "diff", "old.json", "new.json"]).run();
    assert_eq!((ran.status, &ran.json()["breaking"]), (Some(0), &json!(false)));
    let same = home.nuncio(&["diff", "old.json", "old.json"]).run();
    assert_eq!((same.status, same.stdout.as_str()), (Some(0), "compatible  old.json → old.json\n"));
}

#[test]
fn widened_input_is_breaking_only_with_the_reauth_on_widening_flag() {
    let home = files(&case("seed-enum-added"));
    assert_eq!(home.nuncio(&["diff", "old.json", "new.json"]).run().status, Some(0));
    let strict = home.nuncio(&["--json", "diff", "--reauth-on-widening", "old.json", "new.json"]).run();
    assert_eq!(strict.status, Some(1));
    let verdict: Value = serde_json::from_str(&strict.stdout).unwrap();
    assert_eq!(verdict["findings"][0]["rule"], "input_widened");
    assert_eq!(verdict["findings"][0]["witness"], json!({"a": "y"}));
    assert_eq!(verdict["scopes_requiring_reauth"], json!(["filesystem:read"]));
}

#[test]
fn diff_considers_earlier_manifests_and_reads_null_as_no_manifest() {
    let readded = case("tool-readded-with-other-schema");
    let home = files(&readded);
    fs::write(home.path("past.json"), readded["history"][0].to_string()).unwrap();
    fs::write(home.path("none.json"), "null").unwrap();
    assert_eq!(home.nuncio(&["diff", "old.json", "new.json"]).run().status, Some(0));
    assert_eq!(home.nuncio(&["diff", "old.json", "new.json", "--history", "past.json"]).run().status, Some(1));
    assert_eq!(home.nuncio(&["diff", "none.json", "new.json"]).run().status, Some(1));
    assert_eq!(home.nuncio(&["diff", "new.json", "none.json"]).run().status, Some(0));
}

#[test]
fn schema_diff_is_breaking_only_if_valid_values_become_invalid() {
    let pair = json!({"old": {"type": "integer"}, "new": {"type": ["number", "null"]}});
    let home = files(&pair);
    // For bare schemas a wider type is not breaking.
    let ran = home.nuncio(&["--json", "diff", "--schema", "old.json", "new.json"]).run();
    assert_eq!(ran.json(), json!({"breaking": false, "scopes_requiring_reauth": [], "findings": [], "notices": []}));
    let back = home.nuncio(&["--json", "diff", "--schema", "new.json", "old.json"]).run();
    assert_eq!(back.status, Some(1));
    let verdict: Value = serde_json::from_str(&back.stdout).unwrap();
    assert_eq!((&verdict["breaking"], &verdict["scopes_requiring_reauth"]), (&json!(true), &json!([])));
    assert!(!verdict["findings"][0]["witness"].is_i64(), "{verdict}");
}

#[test]
fn diff_with_unreadable_input_or_wrong_arguments_exits_with_two() {
    let home = files(&case("mixed"));
    fs::write(home.path("torn.json"), "{\"tools\":").unwrap();
    fs::write(home.path("twice.json"), "{\"tools\":[],\"tools\":[]}").unwrap();
    for (arguments, expected) in [
        (&["diff", "old.json", "nowhere.json"][..], "nowhere.json"),
        (&["diff", "torn.json", "new.json"], "torn.json"),
        (&["diff", "old.json", "twice.json"], "/tools must not be repeated"),
        (&["diff", "-", "-"], "standard input"),
        (&["diff", "old.json"], "NEW"),
        (&["diff", "--pairs", "nowhere.jsonl"], "nowhere.jsonl"),
        (&["diff", "--pairs", "a.jsonl", "old.json", "new.json"], "--pairs"),
        (&["diff", "--schema", "--reauth-on-widening", "old.json", "new.json"], "--reauth-on-widening"),
    ] {
        let ran = home.nuncio(arguments).run();
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
    // A JSON document that is no manifest is judged as breaking.
    fs::write(home.path("list.json"), "[]").unwrap();
    let ran = home.nuncio(&["diff", "old.json", "list.json"]).run();
    assert!(ran.status == Some(1) && ran.stdout.contains("\n  the manifest must be an object"), "{ran:?}");
    let verdict = home.nuncio(&["--json", "diff", "old.json", "list.json"]).run();
    let verdict: Value = serde_json::from_str(&verdict.stdout).unwrap();
    assert!(verdict["findings"][0]["reason"].as_str().unwrap().contains("must be an object"), "{verdict}");
}

#[test]
fn diff_pairs_prints_one_verdict_per_input_line() {
    let home = TestAgentFolder::hotel();
    let cases = cases();
    let mut lines = String::new();
    for case in &cases {
        let mut pair = json!({"old": case["old"], "new": case["new"]});
        if let Some(history) = case.get("history") {
            pair["history"] = history.clone();
        }
        writeln!(lines, "{pair}").unwrap();
    }
    fs::write(home.path("pairs.jsonl"), &lines).unwrap();
    let ran = home.nuncio(&["diff", "--pairs", "pairs.jsonl"]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""));
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), cases.len());
    for (answer, case) in answers.iter().zip(&cases) {
        assert_eq!(answer["breaking"], case["breaking"], "{}", case["id"]);
        assert_eq!(answer["scopes_requiring_reauth"], case["scopes_requiring_reauth"], "{}", case["id"]);
    }
    // If no pair is breaking, the exit status is 0.
    fs::write(home.path("quiet.jsonl"), "{\"old\":null,\"new\":null}\n\n").unwrap();
    let quiet = home.nuncio(&["diff", "--pairs", "quiet.jsonl"]).run();
    assert_eq!((quiet.status, quiet.stdout.lines().count()), (Some(0), 1));
}

#[test]
fn diff_pairs_reports_an_invalid_line_and_continues() {
    let home = TestAgentFolder::hotel();
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let lines = [
        r#"{"old":{"type":"string"},"new":{"type":"string","minLength":1}}"#.to_owned(),
        "not json".to_owned(),
        "[]".to_owned(),
        r#"{"old":true}"#.to_owned(),
        r#"{"old":true,"new":true,"history":7}"#.to_owned(),
        format!(r#"{{"old":{{"const":{}}},"new":true}}"#, deep(100)),
        format!(r#"{{"old":{{"const":{}}},"new":true}}"#, deep(100_000)),
        r#"{"old":{"maximum":1e999},"new":true}"#.to_owned(),
        r#"{"old":{"type":"string","type":"number"},"new":true}"#.to_owned(),
        r#"{"old":true,"new":true}"#.to_owned(),
    ];
    fs::write(home.path("pairs.jsonl"), lines.join("\n")).unwrap();
    let ran = home.nuncio(&["diff", "--schema", "--pairs", "pairs.jsonl"]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(2), ""));
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdict: Vec<Value> = answers
        .iter()
        .map(|answer| answer.get("breaking").or_else(|| answer.pointer("/error/code")).unwrap().clone())
        .collect();
    let wanted = json!([true, "bad_json", "bad_request", "bad_request", "bad_request", true, true, true, true, false]);
    assert_eq!(Value::from(verdict), wanted);
    assert_eq!(answers[7]["findings"][0]["rule"], "unreadable");
    assert!(answers[7]["findings"][0]["reason"].as_str().unwrap().starts_with("the document "), "{}", answers[7]);
}

#[test]
fn diff_is_listed_in_the_help() {
    let help = nuncio(&["--help"]).run().stdout;
    assert!(help.contains("\n  diff "), "{help}");
}
