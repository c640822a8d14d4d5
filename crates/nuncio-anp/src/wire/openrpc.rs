//! OpenRPC documents (ANP-07, "openrpc 接口描述文档").

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::open;

open! {
    /// Methods that can be called by JSON-RPC.
    struct OpenRpc {
        /// The version of OpenRPC.
        openrpc: String,
        /// What it is.
        info: Info,
        /// What calls need.
        #[serde(skip_serializing_if = "Option::is_none")]
        security: Option<Value>,
        /// Where calls go.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<Vec<Server>>,
        /// What can be called.
        methods: Vec<Method>,
        /// What schemas and methods refer to.
        #[serde(skip_serializing_if = "Option::is_none")]
        components: Option<Map<String, Value>>,
    }
}

open! {
    /// What a document is about.
    struct Info {
        /// Its title.
        title: String,
        /// Its version.
        version: String,
        /// What it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// `ANP`.
        #[serde(rename = "x-anp-protocol-type", skip_serializing_if = "Option::is_none")]
        protocol_type: Option<String>,
        /// The version of the protocol.
        #[serde(rename = "x-anp-protocol-version", skip_serializing_if = "Option::is_none")]
        protocol_version: Option<String>,
    }
}

open! {
    /// Where calls go.
    struct Server {
        /// What it is called.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Its address.
        url: String,
        /// What it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    }
}

open! {
    /// Something that can be called; or a reference to it, in `extra`.
    struct Method {
        /// Its name; empty in a reference.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        /// What it does, in a few words.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// What it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Whether arguments are given by name.
        #[serde(skip_serializing_if = "Option::is_none")]
        param_structure: Option<ParamStructure>,
        /// What it takes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Vec<ContentDescriptor>>,
        /// What it answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<ContentDescriptor>,
    }
}

/// How arguments are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParamStructure {
    /// In an object.
    ByName,
    /// In a list.
    ByPosition,
    /// Either way.
    Either,
}

open! {
    /// A parameter, or an answer; or a reference to one, in `extra`.
    struct ContentDescriptor {
        /// Its name; empty in a reference.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        /// What it means.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Whether it must be given; absent is no.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        required: Option<bool>,
        /// Its shape; null in a reference.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        schema: Value,
    }
}
