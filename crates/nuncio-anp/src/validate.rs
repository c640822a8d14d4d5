//! What is wrong with a document: every fault at once, each with its place and plain words.
//!
//! A document is read within bounds, then held against its specification. What breaks a rule is an error;
//! what is allowed but will be misread, or refused by software in use, is a warning. Proofs and DIDs are not
//! checked here: that needs keys and a network.

mod description;
mod desk;
mod openrpc;
mod product;
mod security;

use nuncio_core::json::{self, Unreadable};
use nuncio_core::schema::{MAX_DEPTH, depth};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use nuncio_core::report::{Fault, MAX_FAULTS};

use crate::wire::{AgentDescription, CollectionPage, OpenRpc, Product};
use desk::{Desk, Node};

/// What a validation found.
pub type Report = nuncio_core::report::Report<Kind>;

/// Validates a document.
#[must_use]
pub fn validate(kind: Kind, document: &[u8]) -> Report {
    match json::read(document, kind.max_bytes()) {
        Ok(value) => check(kind, &value),
        Err(error) => Report::unreadable(kind, &error),
    }
}

/// Validates a document that is JSON already.
#[must_use]
pub fn check(kind: Kind, document: &Value) -> Report {
    if depth(document) > MAX_DEPTH {
        return Report::unreadable(kind, &Unreadable::TooDeep);
    }
    let mut desk = Desk::default();
    let node = Node::root(document);
    match kind {
        Kind::AgentDescription => description::check(&mut desk, &node),
        Kind::OpenRpc => openrpc::check(&mut desk, &node),
        Kind::Product => product::check(&mut desk, &node),
        Kind::CollectionPage => description::check_page(&mut desk, &node),
    }
    Report::new(kind, desk.errors, desk.warnings)
}

/// Reads a valid document of the wanted type.
///
/// # Errors
/// What is wrong with it.
pub fn parse<T: Document>(document: &[u8]) -> Result<T, Report> {
    let read = json::read(document, T::KIND.max_bytes());
    let value = read.map_err(|error| Report::unreadable(T::KIND, &error))?;
    let report = check(T::KIND, &value);
    if !report.valid {
        return Err(report);
    }
    serde_json::from_value(value).map_err(|error| {
        let fault = Fault::new("", format!("cannot be read: {error}"), T::KIND.name(), Value::Null);
        Report::new(T::KIND, vec![fault], Vec::new())
    })
}

/// A type that is a whole document.
pub trait Document: Serialize + DeserializeOwned {
    /// Which document it is.
    const KIND: Kind;
}

macro_rules! documents {
    ($($name:ident),*) => {$(
        impl Document for $name {
            const KIND: Kind = Kind::$name;
        }
    )*};
}

documents!(AgentDescription, OpenRpc, Product, CollectionPage);

/// The documents that travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An agent's description (ANP-07).
    AgentDescription,
    /// Methods (ANP-07).
    OpenRpc,
    /// Something on offer (ANP-07).
    Product,
    /// A host's agents (ANP-08).
    CollectionPage,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::AgentDescription, Self::OpenRpc, Self::Product, Self::CollectionPage];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AgentDescription => "AgentDescription",
            Self::OpenRpc => "OpenRPC",
            Self::Product => "Product",
            Self::CollectionPage => "CollectionPage",
        }
    }

    /// How many bytes it may have.
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::AgentDescription | Self::OpenRpc => 4 << 20,
            Self::Product | Self::CollectionPage => 1 << 20,
        }
    }

    /// What a document seems to be, by what it says of itself.
    #[must_use]
    pub fn of(document: &Value) -> Option<Self> {
        if document.get("openrpc").is_some() {
            return Some(Self::OpenRpc);
        }
        if document.get("@type").and_then(Value::as_str) == Some("CollectionPage") {
            return Some(Self::CollectionPage);
        }
        let is_anp = document.get("protocolType").is_some() || document.get("securityDefinitions").is_some();
        match document.get("type").and_then(Value::as_str) {
            Some(AgentDescription::TYPE) => Some(Self::AgentDescription),
            // Some software writes descriptions of agents as products.
            Some(Product::TYPE) if document.get("interfaces").is_some() => Some(Self::AgentDescription),
            Some(Product::TYPE) if is_anp => Some(Self::Product),
            _ => document.get("securityDefinitions").map(|_| Self::AgentDescription),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
