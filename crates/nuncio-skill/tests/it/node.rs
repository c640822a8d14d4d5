//! Tests of the published schemas with Ajv and the TypeScript compiler.

use std::path::PathBuf;
use std::process::Command;

use nuncio_skill::validate::SkillDocumentType;
use serde_json::{Value, json};

use crate::sample::{changed, example, published_file, whole};

fn tool_path(name: &str) -> PathBuf {
    let path = std::env::var_os(name).map(PathBuf::from);
    path.unwrap_or_else(|| panic!("{name} must name a file of an npm package: run `cargo xtask test`"))
}

fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

const JUDGE: &str = r##"
const fs = require("fs");
const Ajv = require(process.argv[2]).default;
const ajv = new Ajv({ strictTypes: false, allErrors: true });
ajv.addSchema(JSON.parse(fs.readFileSync("schema.json", "utf8")), "s");
const judges = {};
const verdicts = JSON.parse(fs.readFileSync("corpus.json", "utf8")).map(([name, document]) => {
  judges[name] ??= name === "SkillDescriptor" ? ajv.getSchema("s") : ajv.compile({ $ref: "s#/$defs/" + name });
  return judges[name](document);
});
process.stdout.write(JSON.stringify(verdicts));
"##;

#[test]
fn ajv_and_own_validator_accept_the_same_documents() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let mut corpus: Vec<(SkillDocumentType, Value)> = Vec::new();
    for (kind, document) in whole().into_iter().filter(|(kind, _)| *kind != SkillDocumentType::ErrorResponse) {
        corpus.extend(changed(&document).into_iter().map(|other| (kind, other)));
        corpus.push((kind, document));
    }
    let by_name: Vec<_> = corpus.iter().map(|(kind, document)| (kind.as_str(), document)).collect();
    file("corpus.json", &json!(by_name).to_string());
    file("judge.cjs", JUDGE);
    file("schema.json", &published_file("schema.json"));
    let (fine, text) =
        run(Command::new("node").current_dir(folder.path()).arg("judge.cjs").arg(tool_path("NUNCIO_TEST_AJV")));
    assert!(fine, "{text}");
    let theirs: Vec<bool> = serde_json::from_str(&text).unwrap();
    let ours: Vec<bool> = corpus.iter().map(|(kind, document)| kind.fits_schema(document)).collect();
    assert_eq!(theirs.len(), ours.len());
    for (((kind, document), theirs), ours) in corpus.iter().zip(&theirs).zip(&ours) {
        assert_eq!(theirs, ours, "{} {document}", kind.as_str());
    }
    let taken = ours.iter().filter(|taken| **taken).count();
    assert!(taken > 1000 && ours.len() - taken > 1000, "{taken} of {} are taken", ours.len());
}

#[test]
fn valid_examples_compile_with_published_typescript_types_and_invalid_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let typed = |name: &str, index: usize, document: &Value| {
        format!("import type {{ {name} }} from \"./schema\";\nexport const value{index}: {name} = {document};\n")
    };
    let compile = |files: &[(String, String)]| {
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let mut command = Command::new("node");
        command.current_dir(folder.path()).arg(tool_path("NUNCIO_TEST_TYPESCRIPT"));
        command.args([
            "--strict",
            "--noEmit",
            "--exactOptionalPropertyTypes",
            "--target",
            "es2022",
            "--module",
            "esnext",
        ]);
        command.args(["--moduleResolution", "bundler", "--pretty", "false"]);
        run(command.args(files.iter().map(|(name, _)| name)))
    };
    let mut good = vec![("schema.ts".to_owned(), published_file("schema.ts"))];
    for (index, (kind, document)) in
        whole().iter().filter(|(kind, _)| *kind != SkillDocumentType::ErrorResponse).enumerate()
    {
        good.push((format!("good{index}.ts"), typed(kind.as_str(), index, document)));
    }
    for (index, line) in [649, 661, 680, 702].into_iter().enumerate() {
        good.push((format!("auth{index}.ts"), typed("AuthConfig", index, &example(line)["auth"])));
    }
    good.push(("protocol.ts".to_owned(), typed("ProtocolVersion", 0, &example(596)["protocol"])));
    let (fine, text) = compile(&good);
    assert!(fine, "{text}");

    // A document that the schema refuses for its types must not compile.
    let document = |path: &str, value: Value| {
        let mut document = example(247);
        *document.pointer_mut(path).unwrap() = value;
        document
    };
    let wrong = [
        document("/capability_type", json!("service")),
        document("/endpoint/method", json!("PATCH")),
        document("/version", json!(2)),
        document("/inputs/0/required", json!("yes")),
        document("/tags", json!([1])),
        document("/access", json!(null)),
        document("/provider", json!({})),
        document("/output", json!({"schema": {}})),
    ];
    let mut bad = Vec::new();
    for (index, document) in wrong.iter().enumerate() {
        assert!(!SkillDocumentType::SkillDescriptor.fits_schema(document));
        bad.push((format!("bad{index}.ts"), typed("SkillDescriptor", index, document)));
    }
    let (fine, text) = compile(&bad);
    assert!(!fine);
    for (name, _) in &bad {
        assert!(text.contains(name), "{name} was accepted: {text}");
    }
}
