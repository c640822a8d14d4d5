//! Tools from an OpenAPI document: each operation becomes an HTTP tool.
//!
//! OpenAPI 3.0 and 3.1: <https://spec.openapis.org/oas/v3.1.1.html>

use std::path::Path;
use std::time::Duration;

use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_core::ErrorCode;
use nuncio_core::schema::Schema;
use nuncio_engine::ports::Fetch as _;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use nuncio_server::ToolEffect;
use url::Url;

use super::sections::{self, GeneratedAgentParts, NeededSecret};
use crate::output::{counted, fault};
use document::OpenApiDocument;
use operation::{ImportedOperation, MAX_NAME};
use security::SecuritySchemeConverter;

mod document;
mod operation;
mod schema;
mod security;

/// Size limit of a document, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of imported operations: more tools than this are of no use to an agent.
const MAX_OPERATIONS: usize = 128;

/// Reads a document from a file or URL and makes tools of its operations. `scope_prefix` begins the ids of the scopes.
pub(super) async fn import(place: &str, scope_prefix: &str) -> anyhow::Result<GeneratedAgentParts> {
    let failed = |why: String| fault(ErrorCode::OpenapiInvalid, format!("--from-openapi {place}: {why}"));
    let (text, url) = load(place).await.map_err(failed)?;
    let document = OpenApiDocument::parse(&text).map_err(failed)?;
    convert(&document, url.as_ref(), scope_prefix).map_err(failed)
}

async fn load(place: &str) -> Result<(String, Option<Url>), String> {
    if !place.starts_with("http://") && !place.starts_with("https://") {
        let length = std::fs::metadata(place).map_err(|error| format!("it cannot be read: {error}"))?.len();
        if usize::try_from(length).unwrap_or(usize::MAX) > MAX_BYTES {
            return Err(format!("it has more than {MAX_BYTES} bytes"));
        }
        let text = std::fs::read_to_string(Path::new(place)).map_err(|error| format!("it cannot be read: {error}"))?;
        return Ok((text, None));
    }
    let url = Url::parse(place).map_err(|error| error.to_string())?;
    nuncio_server::fetch::install_crypto();
    let fetch = GuardedFetch::new(AllowedAddresses::none(), true, None)?;
    let request = FetchRequest {
        method: "GET",
        url: url.clone(),
        headers: vec![("accept".to_owned(), "application/json, application/yaml, */*".to_owned())],
        body: None,
        trust: AddressTrust::Configured,
        timeout: FETCH_TIMEOUT,
        max_bytes: MAX_BYTES,
    };
    let answer = fetch.fetch(request).await.map_err(|error| error.to_string())?;
    match answer.status {
        200 => {}
        300..400 => {
            let target = answer.header("location").unwrap_or("another address");
            return Err(format!("it is a redirect; import {target} instead"));
        }
        status => return Err(format!("the server answered with status {status}")),
    }
    let text = String::from_utf8(answer.body.to_vec()).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok((text, Some(url)))
}

fn convert(document: &OpenApiDocument, url: Option<&Url>, scope_prefix: &str) -> Result<GeneratedAgentParts, String> {
    let mut security = SecuritySchemeConverter::new(document);
    let (mut operations, mut skipped) = (Vec::<ImportedOperation>::new(), Vec::new());
    let found = document.operations(&mut skipped)?;
    for (path, item, method, declared) in found.iter().take(MAX_OPERATIONS) {
        let place = format!("{} {path}", method.as_str());
        let imported = document
            .base_url(url, item, declared)
            .and_then(|base| operation::import(document, &base, &mut security, (path, item, *method, declared)));
        match imported.and_then(|operation| compiled(operation, scope_prefix)) {
            Ok(mut operation) => {
                operation.name = unused(&operation.name, &operations);
                skipped.extend(operation.left_out.iter().map(|what| format!("{place}: {what}")));
                operations.push(operation);
            }
            Err(why) => skipped.push(format!("{place}: {why}")),
        }
    }
    if found.len() > MAX_OPERATIONS {
        let rest = counted((found.len() - MAX_OPERATIONS) as u64, "operation");
        skipped.push(format!("{rest} more: at most {MAX_OPERATIONS} are imported; remove what you do not need"));
    }
    if operations.is_empty() {
        let why = match &skipped[..] {
            [] => " it has none".to_owned(),
            [only] => format!(" {only}"),
            all => all.iter().map(|why| format!("\n  {why}")).collect(),
        };
        return Err(format!("no operation can be imported:{why}"));
    }
    let effects: Vec<ToolEffect> = operations.iter().map(ImportedOperation::effect).collect();
    let title = document.title().unwrap_or_else(|| "an OpenAPI document".to_owned());
    Ok(GeneratedAgentParts {
        about: format!(" with the operations of {title}"),
        description: format!("Uses the operations of {title}."),
        sections: sections::scopes(scope_prefix, &effects),
        names: operations.iter().map(|operation| operation.name.clone()).collect(),
        tools: operations.iter().map(|operation| operation.section(scope_prefix)).collect(),
        secrets: security.into_secrets(),
        skipped,
        ..GeneratedAgentParts::default()
    })
}

/// Checks that the agent file will accept the operation's schema and section.
fn compiled(operation: ImportedOperation, scope_prefix: &str) -> Result<ImportedOperation, String> {
    Schema::compile_arguments(operation.input.clone())
        .map_err(|error| format!("its input schema does not compile: {error}"))?;
    let secrets: Vec<_> = operation.secrets().into_iter().map(|name| NeededSecret { name, form: "" }).collect();
    let file = format!(
        "[agent]\nname = \"a\"\nversion = \"0.1.0\"\n[brain]\nkind = \"script\"\n{}{}{}",
        sections::secrets(&secrets),
        sections::scopes(scope_prefix, &[operation.effect()]),
        operation.section(scope_prefix)
    );
    match nuncio_agent_file::parse("agent.toml", &file) {
        Ok(_) => Ok(operation),
        Err(faults) => Err(format!(
            "it does not give a valid tool: {}",
            faults.0.first().map(|fault| fault.found.as_str()).unwrap_or_default()
        )),
    }
}

fn unused(name: &str, taken: &[ImportedOperation]) -> String {
    let is_taken = |name: &str| taken.iter().any(|operation| operation.name == name);
    let numbered = (2..).map(|number: usize| {
        let suffix = format!("_{number}");
        // Names of operations are ASCII.
        let stem = &name[..name.len().min(MAX_NAME - suffix.len())];
        format!("{stem}{suffix}")
    });
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
