//! The index of a host's skills (§4.3).

use super::{AccessPolicy, CapabilityType, ProtocolVersion, SkillVersion, document};

document! {
    /// The skills of one host, as found at `/.well-known/skill-sharing`.
    published struct SkillIndex {
        /// The version of the protocol this index follows.
        protocol: ProtocolVersion,
        /// Who provides the skills.
        provider: IndexProvider,
        /// The skills; no two have the same id.
        skills: Vec<SkillIndexEntry>,
    }
}

document! {
    /// Who provides the skills of an index.
    nested struct IndexProvider {
        /// A person or an organisation.
        name: String,
        /// Their page.
        url: Option<String>,
    }
}

document! {
    /// One skill in an index.
    published struct SkillIndexEntry {
        /// The skill's identifier, unique in the index.
        id: String,
        /// The skill's name for people.
        name: String,
        /// What sort of thing the skill is.
        capability_type: CapabilityType,
        /// What the skill does, in short.
        description: String,
        /// Where its descriptor is.
        descriptor_url: String,
        /// Who may find and invoke it.
        access: AccessPolicy,
        /// The skill's version: MAJOR.MINOR.PATCH.
        version: SkillVersion,
    }
}
