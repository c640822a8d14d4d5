//! What a document is made of, in the words of the seed's §9.2. The types of [`crate::wire`] say this
//! about themselves, and the three published forms are written from it.

use nuncio_core::agent::SkillVersion;
use serde_json::{Map, Value};

/// What stands in one place of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Any text.
    Text,
    /// Any number.
    Number,
    /// Yes or no.
    Boolean,
    /// One of these words.
    Words(Vec<&'static str>),
    /// A list.
    List(Box<Shape>),
    /// An object whose names are free.
    Record(Box<Shape>),
    /// Anything.
    Unknown,
    /// A definition with a published name.
    Named(&'static str),
    /// A definition without one, written where it is used.
    Nested(Definition),
}

/// An object with known fields. Other fields may always be there too.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its name in code.
    pub name: &'static str,
    /// What it is.
    pub doc: String,
    /// Its fields, in the order they are written.
    pub fields: Vec<Field>,
}

/// One field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name in the document.
    pub name: &'static str,
    /// What it says.
    pub doc: String,
    /// Whether it must be there.
    pub required: bool,
    /// What it holds.
    pub shape: Shape,
}

/// What a field's word asks of the fields beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The field.
    pub field: &'static str,
    /// When it says one of these,
    pub is: &'static [&'static str],
    /// these must be there
    pub requires: &'static [&'static str],
    /// and these must not; `a/b` is the field `b` of `a`.
    pub forbids: &'static [&'static str],
}

/// A type that says what it looks like in a document.
pub trait Described {
    /// Whether a field of this type must be there.
    const REQUIRED: bool = true;

    /// What it looks like where it is used.
    fn shape() -> Shape;

    /// Whether this value is left out of a document.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T: Described> Described for Option<T> {
    const REQUIRED: bool = false;

    fn shape() -> Shape {
        T::shape()
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Described> Described for Vec<T> {
    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }
}

impl<T: Described> Described for std::collections::BTreeMap<String, T> {
    fn shape() -> Shape {
        Shape::Record(Box::new(T::shape()))
    }
}

impl Described for Map<String, Value> {
    fn shape() -> Shape {
        Shape::Record(Box::new(Shape::Unknown))
    }
}

impl Described for String {
    fn shape() -> Shape {
        Shape::Text
    }
}

impl Described for SkillVersion {
    fn shape() -> Shape {
        Shape::Text
    }
}

impl Described for bool {
    fn shape() -> Shape {
        Shape::Boolean
    }
}

impl Described for Value {
    fn shape() -> Shape {
        Shape::Unknown
    }
}

/// The lines of a doc comment as one text.
#[must_use]
pub fn doc(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// A field's name as it is written in a document.
#[must_use]
pub fn field_name(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}
