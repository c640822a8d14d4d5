//! OpenRPC documents (ANP-07, "openrpc 接口描述文档").

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::open;

open! {
    struct OpenRpc {
        openrpc: String,
        info: Info,
        security?: Value,
        servers?: Vec<Server>,
        methods: Vec<Method>,
        /// Schemas and methods that the document refers to.
        components?: Map<String, Value>,
    }
}

open! {
    struct Info {
        title: String,
        version: String,
        description?: String,
        /// Always `ANP`.
        #[serde(rename = "x-anp-protocol-type")]
        protocol_type?: String,
        #[serde(rename = "x-anp-protocol-version")]
        protocol_version?: String,
    }
}

open! {
    struct Server {
        name?: String,
        url: String,
        description?: String,
    }
}

open! {
    /// A method, or a reference to one (`$ref` in `extra`).
    struct Method {
        /// Method name; empty in a reference.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        summary?: String,
        description?: String,
        param_structure?: ParamStructure,
        params?: Vec<ContentDescriptor>,
        result?: ContentDescriptor,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParamStructure {
    /// Arguments are sent as a JSON object, by the names of the parameters.
    ByName,
    /// Arguments are sent as a JSON array in the order of the parameters.
    ByPosition,
    Either,
}

open! {
    /// A parameter or result, or a reference to one (`$ref` in `extra`).
    struct ContentDescriptor {
        /// Parameter name; empty in a reference.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        description?: String,
        /// Whether the parameter is required; absent means false.
        required?: bool,
        /// JSON Schema of the parameter; null in a reference.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        schema: Value,
    }
}

impl ContentDescriptor {
    pub(crate) fn new(name: &str, description: &str, schema: Value) -> Self {
        let description = Some(description.to_owned());
        Self { name: name.to_owned(), description, required: None, schema, extra: Map::new() }
    }
}
