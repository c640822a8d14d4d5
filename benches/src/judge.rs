//! Change judge: cost of a verdict compared with parsing, canonicalising and hashing the same two manifests.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use anyhow::Context as _;
use nuncio_core::digest::Digest;
use nuncio_core::json;
use nuncio_core::manifest::{MAX_BYTES, Manifest, ScopePresets};
use nuncio_judge::{ChangeJudgingPolicy, ManifestChangeVerdict, manifests};
use serde_json::{Map, Value, json};

/// Limit of CPU milliseconds for a verdict on two manifests of maximum size.
const MOST: f64 = 10.0;

pub(crate) fn run(quick: bool) -> anyhow::Result<()> {
    let rounds = if quick { 3 } else { 50 };
    let old = manifest();
    let checked = Manifest::check(old.clone(), &ScopePresets::default()).context("the manifest is a valid one")?;
    let count = checked.manifest.tools.len();
    println!("## A pair of manifests of {} bytes and {count} tools each\n", checked.canonical.len());
    let bare = bare_limit(&old, rounds)?;
    println!("Reading, canonicalising and hashing both: {bare:.2} ms of CPU.\n");
    let mut beyond = Vec::new();
    println!("| change | breaking | findings | notices | CPU | of the bare limit |");
    println!("|---|---|---|---|---|---|");
    for (what, new) in changes(&old) {
        let (verdict, cost) = measure(&old, &new, rounds)?;
        let ManifestChangeVerdict { breaking, findings, notices, .. } = verdict;
        println!(
            "| {what} | {breaking} | {} | {} | {cost:.2} ms | {:.2} |",
            findings.len(),
            notices.len(),
            cost / bare
        );
        if cost >= MOST {
            beyond.push(what);
        }
    }
    if beyond.is_empty() {
        println!("\nAll within {MOST} ms.");
    } else {
        println!("\nBeyond {MOST} ms: {}.", beyond.join("; "));
    }
    println!("\n## Schemas made to be slow\n");
    println!(
        "Each pair has {} steps, both ways together twice as many.\n",
        ChangeJudgingPolicy::default().budget.steps()
    );
    println!("| schema | bytes | breaking | proved | CPU |");
    println!("|---|---|---|---|---|");
    for (what, old, new) in hostile() {
        let (verdict, cost) = measure(&old, &new, 1)?;
        let proved = verdict.findings.iter().any(|finding| finding.witness.is_some());
        println!("| {what} | {} | {} | {proved} | {cost:.1} ms |", old.to_string().len(), verdict.breaking);
    }
    Ok(())
}

/// Computes a verdict; returns it with its CPU milliseconds.
fn measure(old: &Value, new: &Value, rounds: u32) -> anyhow::Result<(ManifestChangeVerdict, f64)> {
    let policy = ChangeJudgingPolicy::default();
    let verdict = manifests(Some(old), Some(new), &[], &policy);
    let cost = cpu(rounds, || drop(black_box(manifests(Some(black_box(old)), Some(new), &[], &policy))))?;
    Ok((verdict, cost))
}

/// CPU milliseconds to parse, canonicalise and hash both manifests, the lower bound for a verdict.
fn bare_limit(manifest: &Value, rounds: u32) -> anyhow::Result<f64> {
    let text = manifest.to_string();
    cpu(rounds, || {
        for _ in 0..2 {
            let read = json::read(black_box(text.as_bytes()), 4 * MAX_BYTES).unwrap_or_default();
            black_box(Digest::of_json(&read));
        }
    })
}

/// Average CPU milliseconds of a round of `work`, as the kernel counts them for this thread.
fn cpu(rounds: u32, mut work: impl FnMut()) -> anyhow::Result<f64> {
    let spent =
        || -> Option<f64> { fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok() };
    let (began, before) = (Instant::now(), spent());
    (0..rounds).for_each(|_| work());
    let nanoseconds = match (before, spent()) {
        (Some(before), Some(after)) => after - before,
        // Where the kernel does not report CPU time, elapsed time is an upper bound.
        _ => began.elapsed().as_secs_f64() * 1e9,
    };
    Ok(nanoseconds / 1e6 / f64::from(rounds))
}

/// A manifest of maximum size with realistic tools.
fn manifest() -> Value {
    let mut tools = Vec::new();
    loop {
        tools.push(tool(tools.len()));
        let manifest = whole(&tools);
        if nuncio_core::digest::canonical(&manifest).len() > MAX_BYTES {
            tools.pop();
            return whole(&tools);
        }
    }
}

fn whole(tools: &[Value]) -> Value {
    let scope = |id: &str, sensitivity: &str| {
        let key = id.replace(':', "_");
        json!({"id": id, "label_i18n_key": format!("agent.scope.{key}.label"),
            "description_i18n_key": format!("agent.scope.{key}.description"), "sensitivity": sensitivity})
    };
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "tools": tools,
        "permission_scopes": [scope("filesystem:read", "medium"), scope("clipboard:read", "medium"), scope("location:read", "high")],
        "capability_flags": {"supports_streaming": true, "supports_artifacts": true},
    })
}

const SCOPES: [&str; 3] = ["filesystem:read", "clipboard:read", "location:read"];

fn tool(index: usize) -> Value {
    json!({
        "name": format!("tool_{index}"),
        "description_i18n_key": format!("agent.cap.tool_{index}.description"),
        "description_fallback": {"en": "Does one thing with a file on this device.", "zh-CN": "对此设备上的文件进行处理。"},
        "permission_scope": SCOPES[index % 3],
        "required": false,
        "timeout_ms": 5000,
        "input_schema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Where the file is"},
                "encoding": {"enum": ["utf-8", "utf-16", "latin-1"], "default": "utf-8"},
                "lines": {"type": "array", "items": {"$ref": "#/$defs/range"}, "maxItems": 32},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000 + index},
                "name": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,31}$"},
                "options": {
                    "type": "object",
                    "properties": {"follow": {"type": "boolean"}, "depth": {"type": "integer", "minimum": 0}},
                    "additionalProperties": false,
                },
            },
            "required": ["path"],
            "additionalProperties": false,
            "$defs": {"range": {
                "type": "object",
                "properties": {"from": {"type": "integer", "minimum": 1}, "to": {"type": "integer", "minimum": 1}},
                "required": ["from", "to"],
                "additionalProperties": false,
            }},
        },
    })
}

fn changes(old: &Value) -> Vec<(&'static str, Value)> {
    let every = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        new["tools"].as_array_mut().into_iter().flatten().for_each(change);
        new
    };
    let mut small = old.clone();
    small["tools"][7]["input_schema"]["properties"]["encoding"]["enum"] = json!(["utf-8", "utf-16"]);
    let mut turned = old.clone();
    if let Some(tools) = turned["tools"].as_array_mut() {
        tools.reverse();
    }
    vec![
        ("none", old.clone()),
        ("tools in another order", turned),
        ("one enum value gone in one tool", small),
        ("other words in every tool", every(&|tool| tool["description_fallback"]["en"] = json!("Does another thing."))),
        ("another description in every schema", every(&|tool| tool["input_schema"]["description"] = json!("said"))),
        (
            "one more optional argument in every tool",
            every(&|tool| tool["input_schema"]["properties"]["more"] = json!({"type": "boolean"})),
        ),
        (
            "a bound relaxed in every tool",
            every(&|tool| tool["input_schema"]["properties"]["limit"]["maximum"] = json!(100_000)),
        ),
        (
            "one more required argument in every tool",
            every(&|tool| tool["input_schema"]["required"] = json!(["path", "limit"])),
        ),
        (
            "an enum value gone in every tool",
            every(&|tool| tool["input_schema"]["properties"]["encoding"]["enum"] = json!(["utf-8"])),
        ),
        (
            "another type behind a reference in every tool",
            every(&|tool| tool["input_schema"]["$defs"]["range"]["properties"]["to"]["type"] = json!("number")),
        ),
        (
            "every schema replaced",
            every(
                &|tool| tool["input_schema"] = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}),
            ),
        ),
    ]
}

/// Pairs of manifests whose comparison takes exponential time in a simple implementation.
fn hostile() -> Vec<(&'static str, Value, Value)> {
    let only = |schema: Value| {
        let mut one = tool(0);
        one["input_schema"] = schema;
        whole(&[one])
    };
    let taking = |schema: Value| only(json!({"type": "object", "properties": {"a": schema}}));
    let pair = |make: &dyn Fn(usize) -> Value| (make(0), make(1));
    let mut list = Vec::new();
    let mut add = |what: &'static str, (old, new): (Value, Value)| list.push((what, old, new));
    add(
        "nested as deep as allowed",
        pair(&|last| taking((0..28).fold(json!({"minimum": last}), |inner, _| json!({"items": inner})))),
    );
    add(
        "a circle of references",
        pair(&|last| {
            let defs: Map<String, Value> = (0..500)
            .map(|index| (format!("d{index}"), json!({"minProperties": last, "properties": {"a": {"$ref": format!("#/$defs/d{}", (index * 7 + 1) % 500)}}})))
            .collect();
            only(json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs}))
        }),
    );
    add(
        "a product of unions",
        pair(&|last| {
            let unions: Vec<Value> = (0..40)
            .map(|index| json!({"anyOf": [{"type": "integer", "multipleOf": 2 * index + 3}, {"type": "number", "minimum": index + last}, {"type": "string", "minLength": index}]}))
            .collect();
            taking(json!({"allOf": unions}))
        }),
    );
    add(
        "a tower of doubled references",
        pair(&|last| {
            let mut defs = Map::new();
            for level in 0..40 {
                let next = format!("#/$defs/l{}", level + 1);
                defs.insert(
                    format!("l{level}"),
                    json!({"anyOf": [
                    {"type": "array", "minItems": 1, "items": {"$ref": next}},
                    {"type": "object", "required": ["a"], "properties": {"a": {"$ref": next}}},
                    ]}),
                );
            }
            defs.insert("l40".to_owned(), json!({"type": "integer", "minimum": last}));
            taking(json!({"$ref": "#/$defs/l0"})).pointer("/tools/0/input_schema").map_or(Value::Null, |schema| {
                let mut schema = schema.clone();
                schema["$defs"] = defs.clone().into();
                only(schema)
            })
        }),
    );
    add(
        "exactly one of many",
        pair(&|last| {
            let branches: Vec<Value> =
                (0..400).map(|index| json!({"type": "integer", "minimum": index + last})).collect();
            taking(json!({"oneOf": branches}))
        }),
    );
    add(
        "patterns with large counters",
        pair(&|last| {
            taking(json!({"type": "string", "pattern": format!("^(a{{1,100}}b{{1,100}}){{{},50}}$", last + 1)}))
        }),
    );
    add("a list of many values", pair(&|last| taking(json!({"enum": (last..last + 4900).collect::<Vec<_>>()}))));
    add(
        "many properties",
        pair(&|last| {
            let properties: Map<String, Value> =
                (0..1600).map(|index| (format!("p{index}"), json!({"minimum": last}))).collect();
            only(json!({"type": "object", "properties": properties}))
        }),
    );
    add(
        "the whole manifest of products",
        pair(&|last| {
            let tools: Vec<Value> = (0..40)
            .map(|index| {
                let mut tool = tool(index);
                let unions: Vec<Value> = (0..24)
                    .map(|index| json!({"anyOf": [{"type": "integer", "multipleOf": 2 * index + 3}, {"type": "number", "minimum": index + last}, {"type": "string", "minLength": index}]}))
                    .collect();
                tool["input_schema"] = json!({"type": "object", "properties": {"a": {"allOf": unions}}});
                tool
            })
            .collect();
            whole(&tools)
        }),
    );
    list
}
