//! Parses the inputs of `nuncio invoke`.

use std::io::Read as _;

use anyhow::Context as _;
use nuncio_skill::client::typed_input;
use nuncio_skill::wire::SkillDescriptor;
use serde_json::{Map, Value};

use crate::output::wrong_usage;

/// Size limit of a file of inputs, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Merges all inputs of a skill; later ones override earlier ones.
pub(super) fn read(descriptor: &SkillDescriptor, texts: &[String]) -> anyhow::Result<Map<String, Value>> {
    Ok(convert(parse(texts)?, |name, text| typed_input(descriptor, name, text)))
}

#[derive(Debug, Clone)]
pub(super) enum InvocationInputValue {
    Json(Value),
    /// A text that is parsed by the type of its parameter.
    Text(String),
}

/// Parses `NAME=VALUE` inputs and JSON objects, in order, before the schema is known. Reads files (`@FILE`,
/// `NAME=@FILE`) and standard input (`-`).
pub(super) fn parse(texts: &[String]) -> anyhow::Result<Vec<(String, InvocationInputValue)>> {
    let mut inputs = Vec::new();
    let entries =
        |object: Map<String, Value>| object.into_iter().map(|(name, value)| (name, InvocationInputValue::Json(value)));
    for text in texts {
        if text.trim_start().starts_with('{') {
            inputs.extend(entries(object(text)?));
        } else if text == "-" {
            inputs.extend(entries(object(&read_limited(std::io::stdin(), "standard input")?)?));
        } else if let Some(file) = text.strip_prefix('@') {
            inputs.extend(entries(object(&from_file(file)?)?));
        } else if let Some((name, value)) = text.split_once('=') {
            let value = match value.strip_prefix('@') {
                Some(literal) if literal.starts_with('@') => literal.to_owned(),
                Some(file) => from_file(file)?,
                None => value.to_owned(),
            };
            inputs.push((name.to_owned(), InvocationInputValue::Text(value)));
        } else {
            return Err(wrong_usage(format!("{text:?} is not an input; write NAME=VALUE or a JSON object")));
        }
    }
    Ok(inputs)
}

/// Converts every input to its parameter's type. A text that does not fit stays a text, so that validation reports it
/// together with all other faults.
pub(super) fn convert(
    inputs: Vec<(String, InvocationInputValue)>,
    parse_text: impl Fn(&str, &str) -> Option<Value>,
) -> Map<String, Value> {
    let convert = |(name, value): (String, InvocationInputValue)| {
        let value = match value {
            InvocationInputValue::Json(value) => value,
            InvocationInputValue::Text(text) => parse_text(&name, &text).unwrap_or_else(|| text.into()),
        };
        (name, value)
    };
    inputs.into_iter().map(convert).collect()
}

fn object(text: &str) -> anyhow::Result<Map<String, Value>> {
    serde_json::from_str(text).map_err(|error| wrong_usage(format!("the inputs are not a JSON object: {error}")))
}

fn from_file(path: &str) -> anyhow::Result<String> {
    let file = std::fs::File::open(path).with_context(|| format!("{path} cannot be read"))?;
    read_limited(file, path)
}

fn read_limited(source: impl std::io::Read, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = source.take(MAX_BYTES + 1).read_to_string(&mut text);
    let size = read.with_context(|| format!("{name} cannot be read as text"))?;
    anyhow::ensure!(u64::try_from(size).is_ok_and(|size| size <= MAX_BYTES), "{name} has more than {MAX_BYTES} bytes");
    Ok(text)
}
