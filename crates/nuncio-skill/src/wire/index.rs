//! The index of a host's skills (§4.3).

use super::{AccessPolicy, CapabilityType, ProtocolVersion, SkillVersion, document};

document! {
    /// Index of the skills of one host, published at `/.well-known/skill-sharing`.
    published struct SkillIndex {
        /// Protocol version that the index follows.
        protocol: ProtocolVersion,
        /// Person or organisation that provides the skills.
        provider: IndexProvider,
        /// Skills of the host; their ids are unique.
        skills: Vec<SkillIndexEntry>,
    }
}

document! {
    /// Person or organisation that provides the skills of an index.
    nested struct IndexProvider {
        /// Name of the person or organisation.
        name: String,
        /// Website of the provider.
        url: Option<String>,
    }
}

document! {
    /// One skill in an index.
    published struct SkillIndexEntry {
        /// Identifier of the skill, unique in the index.
        id: String,
        /// Display name of the skill.
        name: String,
        /// Capability type of the skill.
        capability_type: CapabilityType,
        /// Short description of what the skill does.
        description: String,
        /// URL of the skill descriptor.
        descriptor_url: String,
        /// Who may find and invoke the skill.
        access: AccessPolicy,
        /// Version of the skill: MAJOR.MINOR.PATCH.
        version: SkillVersion,
    }
}
