//! Which descriptors a consumer can read (§6.3, §6.4).

use serde_json::{Value, json};

use crate::wire::{ErrorCode, ErrorResponse, SkillVersion};

/// Whether a consumer of one protocol version can read a descriptor of another, by the seed's rule: a higher
/// MAJOR is incompatible, an equal or lower one is compatible; MINOR and PATCH do not matter.
///
/// # Errors
/// It cannot; the skill must not be invoked.
pub fn compatibility(descriptor: SkillVersion, consumer: SkillVersion) -> Result<(), Incompatible> {
    VersionRule::Seed.check(descriptor, consumer)
}

/// How versions are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VersionRule {
    /// As the seed says: every MAJOR up to the consumer's own.
    #[default]
    Seed,
    /// Stricter: the consumer's own MAJOR alone.
    SameMajor,
}

impl VersionRule {
    /// Whether a consumer of one protocol version can read a descriptor of another.
    ///
    /// # Errors
    /// It cannot; the skill must not be invoked.
    pub fn check(self, descriptor: SkillVersion, consumer: SkillVersion) -> Result<(), Incompatible> {
        let compatible = match self {
            Self::Seed => descriptor.major <= consumer.major,
            Self::SameMajor => descriptor.major == consumer.major,
        };
        if compatible { Ok(()) } else { Err(Incompatible { descriptor, consumer, rule: self, upgrade_url: None }) }
    }

    /// The versions a consumer can read, as a range.
    #[must_use]
    pub fn range(self, consumer: SkillVersion) -> String {
        let lowest = match self {
            Self::Seed => 0,
            Self::SameMajor => consumer.major,
        };
        match consumer.major.checked_add(1) {
            Some(next) => format!(">={lowest}.0.0 <{next}.0.0"),
            None => format!(">={lowest}.0.0"),
        }
    }
}

/// A descriptor follows a version of the protocol that the consumer cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Protocol version {descriptor} is not compatible with consumer version {consumer}")]
pub struct Incompatible {
    /// The version the descriptor follows.
    pub descriptor: SkillVersion,
    /// The version the consumer speaks.
    pub consumer: SkillVersion,
    /// How they were compared.
    pub rule: VersionRule,
    /// Where the descriptor's version is explained, when it says.
    pub upgrade_url: Option<String>,
}

impl Incompatible {
    /// The details of the error (§8.3.7), with what the protocol's other document asks for beside them.
    #[must_use]
    pub fn details(&self) -> Value {
        let mut details = json!({
            "descriptor_version": self.descriptor,
            "consumer_version": self.consumer,
            "supported_major": self.consumer.major,
            "consumer_supported_range": self.rule.range(self.consumer),
        });
        if let Some(url) = &self.upgrade_url {
            details["upgrade_url"] = url.as_str().into();
        }
        details
    }

    /// The error to answer with: `VERSION_INCOMPATIBLE`.
    #[must_use]
    pub fn to_error(&self) -> ErrorResponse {
        ErrorResponse::new(ErrorCode::VersionIncompatible, self.to_string()).with_details(self.details())
    }
}

/// The protocol version a document says it follows, even when it is not valid: a newer one may well not be.
#[must_use]
pub fn declared_protocol(document: &Value) -> Option<SkillVersion> {
    SkillVersion::parse(document.pointer("/protocol/version")?.as_str()?)
}
