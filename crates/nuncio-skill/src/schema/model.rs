//! Schema model after §9.2. The types of [`crate::wire`] describe themselves with it, and the three published formats
//! are generated from it.

use nuncio_core::agent::SkillVersion;
use serde_json::{Map, Value};

/// Type of a value in a document.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueShape {
    Text,
    Number,
    Boolean,
    /// String that must be one of the listed values.
    Enum(Vec<&'static str>),
    List(Box<ValueShape>),
    /// Object with arbitrary keys and values of one shape.
    Record(Box<ValueShape>),
    Unknown,
    /// Reference to a published definition.
    Reference(&'static str),
    /// Unpublished definition, inlined where it is used.
    Nested(ObjectDefinition),
}

/// Object with known fields. Objects are open, so other fields are allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectDefinition {
    pub name: &'static str,
    pub doc: String,
    /// Fields in the order of serialisation.
    pub fields: Vec<FieldDefinition>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FieldDefinition {
    /// Name of the field in a document.
    pub name: &'static str,
    pub doc: String,
    pub required: bool,
    pub shape: ValueShape,
}

/// Dependency between the value of a field and the presence of other fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldDependencyRule {
    pub field: &'static str,
    /// Values of `field` for which the rule applies.
    pub is: &'static [&'static str],
    /// Fields that must be present if the rule applies.
    pub requires: &'static [&'static str],
    /// Fields that must be absent if the rule applies; `a/b` is the field `b` of `a`.
    pub forbids: &'static [&'static str],
}

/// Type that describes its own schema.
pub trait HasShape {
    /// Whether a field of this type is required.
    const REQUIRED: bool = true;

    fn shape() -> ValueShape;

    /// Whether this value is omitted when serialised.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T: HasShape> HasShape for Option<T> {
    const REQUIRED: bool = false;

    fn shape() -> ValueShape {
        T::shape()
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: HasShape> HasShape for Vec<T> {
    fn shape() -> ValueShape {
        ValueShape::List(Box::new(T::shape()))
    }
}

impl<T: HasShape> HasShape for std::collections::BTreeMap<String, T> {
    fn shape() -> ValueShape {
        ValueShape::Record(Box::new(T::shape()))
    }
}

/// Implements [`HasShape`] with a fixed shape for each listed type.
macro_rules! shapes {
    ($($type:ty => $shape:expr,)*) => {$(
        impl crate::schema::model::HasShape for $type {
            fn shape() -> crate::schema::model::ValueShape {
                $shape
            }
        }
    )*};
}

pub(crate) use shapes;

shapes! {
    Map<String, Value> => ValueShape::Record(Box::new(ValueShape::Unknown)),
    String => ValueShape::Text,
    SkillVersion => ValueShape::Text,
    bool => ValueShape::Boolean,
    Value => ValueShape::Unknown,
}

/// Joins the lines of a doc comment.
#[must_use]
pub fn doc(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Serialised name of a Rust field, such as `type` for `r#type`.
#[must_use]
pub fn field_name(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}
