//! Message types: descriptions (ANP-07), discovery (ANP-08), core binding (P1) and negotiation (ANP-06).
//!
//! Documents are open: unknown fields are kept in `extra` and written back. Requests are closed where the core binding
//! says so. The types do not enforce the specifications; validate foreign documents with [`crate::validate`].

mod artifact;
mod capabilities;
mod description;
mod discovery;
mod error;
mod message;
mod negotiation;
mod openrpc;
mod product;
mod registration;
mod rpc;
mod security;

pub use artifact::{ArtifactMethod, ProtocolArtifact};
pub use capabilities::ServiceCapabilities;
pub use description::{AgentDescription, Capability, InformationItem, Interface, Owner};
pub use discovery::{CollectionItem, CollectionPage};
pub use error::{AnpErrorCode, HttpError, HttpErrorBody, RpcError};
pub use message::{DirectMessageBody, DirectMessageReceipt};
pub use negotiation::{
    Alternative, CallerCapabilities, CandidateProtocol, Constraints, Intent, InterfaceExecution, InterfaceSchemas,
    NegotiateBody, NegotiationResult, NegotiationStatus, Score, SelectedInterface,
};
pub use openrpc::{ContentDescriptor, Info, Method, OpenRpc, ParamStructure, Server};
pub use product::Product;
pub use registration::RegistrationRequest;
pub use rpc::{
    AnpRequest, AnpResponse, MAX_REQUEST_BYTES, RequestAuth, RequestMeta, RequestRejection, RequestTarget,
    RequestTargetKind,
};
pub use security::{SecurityDefinition, SecurityLocation, SecurityReferences};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::digest::Digest;
use serde_json::json;

/// Value of `protocolVersion` in the descriptions that Nuncio writes.
pub const PROTOCOL_VERSION: &str = "1.0.0";
/// Value of `protocolType` in every document.
pub const PROTOCOL_TYPE: &str = "ANP";
/// OpenRPC version of the documents that Nuncio writes.
pub const OPENRPC_VERSION: &str = "1.3.2";
/// Path of a host's list of agents.
pub const WELL_KNOWN: &str = "/.well-known/agent-descriptions";

/// Names of the ANP profiles that Nuncio supports.
pub mod profile {
    /// Profile of the request format (P1).
    pub const CORE_BINDING: &str = "anp.core.binding.v1";
    /// Profile of interface negotiation (ANP-06).
    pub const NEGOTIATION: &str = "anp.meta.negotiation.v1";
    /// Profile of messages between two agents.
    pub const DIRECT: &str = "anp.direct.base.v1";
    /// Profile of calls by OpenRPC, named as in the examples of ANP-06.
    pub const RPC: &str = "anp.rpc.v1";
}

/// Names of the ANP methods that Nuncio supports.
pub mod method {
    pub const GET_CAPABILITIES: &str = "anp.get_capabilities";
    pub const NEGOTIATE: &str = "anp.negotiate";
    pub const DIRECT_SEND: &str = "direct.send";
}

/// Defines an open object: unknown members are kept and written back. A member `name?: T` is an `Option<T>` that is not
/// written if absent, and `name[]: T` a `Vec<T>` that is not written if empty. Member names are `camelCase` unless
/// another case is given.
macro_rules! open {
    ($(#[$meta:meta])* struct $name:ident $fields:tt) => {
        open! { $(#[$meta])* "camelCase" struct $name $fields }
    };
    (
        $(#[$meta:meta])*
        $case:literal struct $name:ident {
            $(
                $(#[$field_meta:meta])*
                $field:ident $(?: $optional:ty)? $([]: $item:ty)? $(: $type:ty)?,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = $case)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                $(pub $field: $type)?
                $(
                    #[serde(skip_serializing_if = "Option::is_none")]
                    pub $field: Option<$optional>
                )?
                $(
                    #[serde(default, skip_serializing_if = "Vec::is_empty")]
                    pub $field: Vec<$item>
                )?,
            )*
            /// Members that the specification does not define.
            #[serde(flatten)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        }
    };
}

use open;

pub(crate) fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// Canonical JSON of a document, identical on every machine.
#[must_use]
pub fn canonical(document: &impl serde::Serialize) -> Vec<u8> {
    nuncio_core::digest::canonical(&json!(document))
}

/// `sha-256:` and the base64url SHA-256 of the canonical document without its digest member.
fn digest_without(document: &impl serde::Serialize, name: &str) -> String {
    let mut document = json!(document);
    if let Some(object) = document.as_object_mut() {
        object.shift_remove(name);
    }
    write_digest(&Digest::of_json(&document))
}

/// Writes a digest in the specification's form: `sha-256:` and base64url.
#[must_use]
pub fn write_digest(digest: &Digest) -> String {
    format!("sha-256:{}", URL_SAFE_NO_PAD.encode(digest.as_bytes()))
}

#[must_use]
pub fn read_digest(text: &str) -> Option<Digest> {
    let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix("sha-256:")?).ok()?;
    Digest::parse(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}
