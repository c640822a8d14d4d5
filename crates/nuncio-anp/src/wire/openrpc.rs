//! OpenRPC documents (ANP-07, "openrpc 接口描述文档").

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::open;

open! {
    struct OpenRpc {
        openrpc: String,
        info: Info,
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<Vec<Server>>,
        methods: Vec<Method>,
        /// Schemas and methods that the document refers to.
        #[serde(skip_serializing_if = "Option::is_none")]
        components: Option<Map<String, Value>>,
    }
}

open! {
    struct Info {
        title: String,
        version: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Always `ANP`.
        #[serde(rename = "x-anp-protocol-type", skip_serializing_if = "Option::is_none")]
        protocol_type: Option<String>,
        #[serde(rename = "x-anp-protocol-version", skip_serializing_if = "Option::is_none")]
        protocol_version: Option<String>,
    }
}

open! {
    struct Server {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    }
}

open! {
    /// A method, or a reference to one (`$ref` in `extra`).
    struct Method {
        /// Method name; empty in a reference.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        param_structure: Option<ParamStructure>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Vec<ContentDescriptor>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<ContentDescriptor>,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParamStructure {
    /// Arguments in an object.
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
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Whether the parameter is required; absent means false.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        required: Option<bool>,
        /// JSON Schema of the parameter; null in a reference.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        schema: Value,
    }
}
