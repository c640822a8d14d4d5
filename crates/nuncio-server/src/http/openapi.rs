//! The OpenAPI document: our own part, and each protocol's below the path it is mounted at.

use bytes::Bytes;
use serde_json::{Map, Value};

/// Paths of the server itself and shared components.
const OWN: &str = include_str!("openapi.json");

pub(super) struct OpenApiPart {
    pub(super) prefix: &'static str,
    /// `paths`, relative to that.
    pub(super) paths: &'static str,
    pub(super) components: String,
}

/// The whole document, as it is sent.
pub(super) fn document(parts: &[OpenApiPart]) -> Bytes {
    let mut document = read(OWN);
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for part in parts {
        let paths = object(&mut document, "paths");
        for (path, item) in read(part.paths).as_object_mut().map(std::mem::take).unwrap_or_default() {
            paths.insert(format!("{}{path}", part.prefix), item);
        }
        for (kind, members) in read(&part.components).as_object_mut().map(std::mem::take).unwrap_or_default() {
            let components = object(&mut document, "components");
            let mine = components.entry(kind).or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(mine), Value::Object(theirs)) = (mine, members) {
                mine.extend(theirs);
            }
        }
    }
    Bytes::from(document.to_string())
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
    use super::super::protocols::parts;
    use super::*;

    #[test]
    fn openapi_document_lists_exactly_the_served_routes() {
        let document: Value = serde_json::from_slice(&document(&parts())).unwrap();
        let written: BTreeSet<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let own = operators::table().into_iter().map(|(path, _)| path.to_owned());
        let aap = nuncio_aap::server::paths().map(|path| format!("/aap{path}"));
        let skill = nuncio_skill::server::paths().flat_map(|path| match path {
            // One route for ids of any length; two things to ask for.
            "/skills/{*path}" => vec!["/skills/{id}.json".to_owned(), "/skills/{id}/invoke".to_owned()],
            path => vec![path.to_owned()],
        });
        let dids = crate::dids::paths().map(str::to_owned);
        let anp = nuncio_anp::server::paths().map(str::to_owned);
        let a2h = nuncio_a2h::server::paths().map(str::to_owned);
        assert_eq!(written, own.chain(a2h).chain(aap).chain(skill).chain(anp).chain(dids).collect());
    }
}
