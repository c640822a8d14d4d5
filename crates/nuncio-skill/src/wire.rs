//! What travels: every document of the seed, as types.
//!
//! Objects are open: fields we do not know are kept in `extra` and written back. The types say their own
//! shape ([`crate::schema`]), so the published schemas cannot differ from them. Read documents of strangers
//! with [`crate::validate`]; the types alone do not check what a schema and the seed ask for.

mod descriptor;
mod error;
mod index;
mod invocation;
mod quantity;
mod words;

pub use descriptor::{
    AuthConfig, CustomAuth, EndpointRetry, InvocationEndpoint, OAuth2Config, OutputDefinition, ParameterDefinition,
    ProtocolVersion, Provider, SkillDescriptor,
};
pub use error::{ErrorBody, ErrorCode, ErrorResponse, RetryAdvice};
pub use index::{IndexProvider, SkillIndex, SkillIndexEntry};
pub use invocation::{
    Caller, Credentials, ExecutionError, InvocationContext, InvocationRequest, InvocationResponse, Timestamps,
};
pub use nuncio_core::agent::{CapabilityType, SkillAccess as AccessPolicy, SkillMethod, SkillVersion};
pub use quantity::Quantity;
pub use words::{AuthType, ExecutionStatus, Priority};

/// The version of the protocol we speak.
pub const PROTOCOL_VERSION: SkillVersion = SkillVersion { major: 1, minor: 0, patch: 0 };

/// Where a host's index is.
pub const WELL_KNOWN: &str = "/.well-known/skill-sharing";

/// What stands for the execution's id in a URL template.
pub const EXECUTION_ID: &str = "{execution_id}";

/// Defines an object of the protocol: the type, how it is read and written, and what it says about its own
/// shape. `published` definitions have a name in the schema, `nested` ones are written where they are used.
macro_rules! document {
    (
        $(#[doc = $doc:literal])*
        $kind:ident struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $(#[serde($($serde:tt)*)])*
                $field:ident: $type:ty,
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $(
                $(#[doc = $field_doc])*
                #[serde(skip_serializing_if = "crate::schema::model::Described::is_absent")]
                $(#[serde($($serde)*)])*
                pub $field: $type,
            )*
            /// What else the document says, as it is.
            #[serde(flatten)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        impl $name {
            /// Its fields, for the published schemas.
            #[must_use]
            pub fn definition() -> crate::schema::model::Definition {
                use crate::schema::model::{Definition, Described, Field, doc, field_name};
                Definition {
                    name: stringify!($name),
                    doc: doc(&[$($doc),*]),
                    fields: vec![$(Field {
                        name: field_name(stringify!($field)),
                        doc: doc(&[$($field_doc),*]),
                        required: <$type as Described>::REQUIRED,
                        shape: <$type as Described>::shape(),
                    }),*],
                }
            }
        }

        impl crate::schema::model::Described for $name {
            fn shape() -> crate::schema::model::Shape {
                document!(@$kind $name)
            }
        }
    };
    (@published $name:ident) => { crate::schema::model::Shape::Named(stringify!($name)) };
    (@nested $name:ident) => { crate::schema::model::Shape::Nested(Self::definition()) };
}

use document;

/// Reads a value that is there, so that `null` differs from nothing.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde::Deserialize::deserialize(reader).map(Some)
}
