//! Version compatibility of descriptors (§6.3, §6.4).

use serde_json::{Value, json};

use crate::wire::SkillVersion;

/// Checks whether a consumer can read a descriptor of another protocol version. A higher MAJOR is incompatible; MINOR
/// and PATCH do not matter (§6.3).
///
/// # Errors
/// Fails if the consumer must not invoke the skill.
pub fn compatibility(descriptor: SkillVersion, consumer: SkillVersion) -> Result<(), IncompatibleProtocolVersion> {
    ProtocolVersionRule::Seed.check(descriptor, consumer)
}

/// Comparison rule for protocol versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProtocolVersionRule {
    /// Accepts every MAJOR up to the consumer's own, as §6.3 says.
    #[default]
    Seed,
    /// Accepts only the consumer's own MAJOR.
    SameMajor,
}

impl ProtocolVersionRule {
    /// Checks whether a consumer can read a descriptor of another protocol version.
    ///
    /// # Errors
    /// Fails if the consumer must not invoke the skill.
    pub fn check(self, descriptor: SkillVersion, consumer: SkillVersion) -> Result<(), IncompatibleProtocolVersion> {
        let compatible = match self {
            Self::Seed => descriptor.major <= consumer.major,
            Self::SameMajor => descriptor.major == consumer.major,
        };
        if compatible {
            Ok(())
        } else {
            Err(IncompatibleProtocolVersion { descriptor, consumer, rule: self, upgrade_url: None })
        }
    }

    /// Range of protocol versions that a consumer can read, such as `>=0.0.0 <2.0.0`.
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

/// Error: the descriptor follows a protocol version that the consumer cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Protocol version {descriptor} is not compatible with consumer version {consumer}")]
pub struct IncompatibleProtocolVersion {
    pub descriptor: SkillVersion,
    pub consumer: SkillVersion,
    pub rule: ProtocolVersionRule,
    /// `changelog_url` of the descriptor's protocol version.
    pub upgrade_url: Option<String>,
}

impl IncompatibleProtocolVersion {
    /// Details of the error (§8.3.7), with the supported range of the consumer (§6.4).
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
}

/// Declared protocol version, read even from an invalid document, because a newer version may not validate.
#[must_use]
pub fn declared_protocol(document: &Value) -> Option<SkillVersion> {
    SkillVersion::parse(document.pointer("/protocol/version")?.as_str()?)
}
