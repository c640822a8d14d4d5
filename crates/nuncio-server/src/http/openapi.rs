//! The OpenAPI document: the server's own part, and the part of each front.

use bytes::Bytes;
use nuncio_http::front::ProtocolFront;
use serde_json::{Map, Value};

use crate::dids;
use crate::fronts::fronts;

/// OpenAPI paths of the server itself, and shared components.
const SERVER_OPENAPI: &str = include_str!("openapi.json");

/// The complete OpenAPI document as JSON text.
pub(super) fn document() -> Bytes {
    let mut document = read(SERVER_OPENAPI);
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for part in fronts().map(ProtocolFront::openapi) {
        add(&mut document, part.prefix, part.paths, &part.components);
    }
    add(&mut document, "", dids::OPENAPI, "{}");
    Bytes::from(document.to_string())
}

fn add(document: &mut Value, prefix: &str, more_paths: &str, more_components: &str) {
    let paths = object(document, "paths");
    for (path, item) in read(more_paths).as_object_mut().map(std::mem::take).unwrap_or_default() {
        paths.insert(format!("{prefix}{path}"), item);
    }
    for (kind, members) in read(more_components).as_object_mut().map(std::mem::take).unwrap_or_default() {
        let components = object(document, "components");
        let mine = components.entry(kind).or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(mine), Value::Object(theirs)) = (mine, members) {
            mine.extend(theirs);
        }
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("the parts are compiled in, and a test reads them")
}

fn object<'a>(document: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    document[key].as_object_mut().expect("our own part has it")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::operators;
    use super::*;

    #[test]
    fn openapi_document_lists_exactly_the_served_routes() {
        let document: Value = serde_json::from_slice(&document()).unwrap();
        let written: BTreeSet<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let own = operators::table().into_iter().map(|(path, _)| path).chain(dids::paths()).map(str::to_owned);
        assert_eq!(written, own.chain(fronts().flat_map(|front| front.openapi().routes)).collect());
    }
}
