//! Message types for every document of the protocol.
//!
//! Objects are open: unknown fields are kept in `extra` and written back. The types describe their own shape
//! ([`crate::schema`]), so the published schemas cannot differ from them. Use [`crate::validate`] for documents of
//! other hosts; the types alone do not check all rules.

mod descriptor;
mod enums;
mod error;
mod index;
mod invocation;
mod lenient_number;

pub use descriptor::{
    AuthConfig, CustomAuth, EndpointRetry, InvocationEndpoint, OAuth2Config, OutputDefinition, ParameterDefinition,
    ProtocolVersion, Provider, SkillDescriptor,
};
pub use enums::{AuthType, ExecutionStatus};
pub use error::{ErrorBody, ErrorResponse, RetryAdvice, SkillErrorCode};
pub use index::{IndexProvider, SkillIndex, SkillIndexEntry};
pub use invocation::{
    Caller, ExecutionError, InvocationContext, InvocationCredentials, InvocationRequest, InvocationResponse, Timestamps,
};
pub use lenient_number::LenientNumber;
pub use nuncio_core::agent::{CapabilityType, SkillAccess as AccessPolicy, SkillHttpMethod, SkillVersion};
pub use nuncio_core::execution::Priority;

/// Skill Sharing version of this implementation.
pub const PROTOCOL_VERSION: SkillVersion = SkillVersion { major: 1, minor: 0, patch: 0 };

/// Path of a host's skill index.
pub const WELL_KNOWN: &str = "/.well-known/skill-sharing";

/// Placeholder for the execution id in URL templates.
pub const EXECUTION_ID: &str = "{execution_id}";

/// Defines a document type with serialisation and its schema description. `published` definitions have a name in the
/// schema, `nested` ones are inlined.
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
                #[serde(skip_serializing_if = "crate::schema::model::HasShape::is_absent")]
                $(#[serde($($serde)*)])*
                pub $field: $type,
            )*
            /// Fields that the protocol does not define; they are written back unchanged.
            #[serde(flatten)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        impl $name {
            /// Definition of the type for the published schemas.
            #[must_use]
            pub fn definition() -> crate::schema::model::ObjectDefinition {
                use crate::schema::model::{ObjectDefinition, HasShape, FieldDefinition, doc, field_name};
                ObjectDefinition {
                    name: stringify!($name),
                    doc: doc(&[$($doc),*]),
                    fields: vec![$(FieldDefinition {
                        name: field_name(stringify!($field)),
                        doc: doc(&[$($field_doc),*]),
                        required: <$type as HasShape>::REQUIRED,
                        shape: <$type as HasShape>::shape(),
                    }),*],
                }
            }
        }

        impl crate::schema::model::HasShape for $name {
            fn shape() -> crate::schema::model::ValueShape {
                document!(@$kind $name)
            }
        }
    };
    (@published $name:ident) => { crate::schema::model::ValueShape::Reference(stringify!($name)) };
    (@nested $name:ident) => { crate::schema::model::ValueShape::Nested(Self::definition()) };
}

use document;

/// Deserialises a present value, so that `null` differs from an absent field.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde::Deserialize::deserialize(reader).map(Some)
}
