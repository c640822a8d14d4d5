//! The `[agent]` section: name, version, owner and publication.

use semver::Version;
use url::Url;

use super::reader::{TomlItem, TomlTable};
use super::skill::{self, SkillDefaults, SkillPublisher, moment};
use super::source::cut;
use crate::agent::{DiscoveryVisibility, Owner, OwnerKind, Skill};
use crate::ids::AgentName;
use crate::time::Timestamp;

/// Content of the `[agent]` section.
pub(super) struct AgentSection {
    pub(super) name: AgentName,
    pub(super) title: Option<String>,
    pub(super) version: Version,
    pub(super) description: Option<String>,
    pub(super) owner: Option<Owner>,
    pub(super) skill: Option<Skill>,
    pub(super) created: Option<Timestamp>,
    pub(super) presence: DiscoveryVisibility,
}

/// Last part of the skill id of an agent that is published as a whole.
const WHOLE_AGENT_SKILL: &str = "ask";

pub(super) fn read(root: &TomlTable<'_>, publisher: &SkillPublisher) -> Option<AgentSection> {
    let table = root.required("agent", "[agent] with a name and a version")?.table()?;
    let name = table.name("name", AgentName::parse);
    let title = table.optional_text("title");
    let version = table.required("version", r#"a text such as "1.0.0""#).and_then(|item| version(&item));
    let description = table.optional_text("description");
    let owner = table.table("owner").and_then(|table| owner(&table));
    let skill = table.table("skill").and_then(|skill| {
        if !table.has("description") && !skill.has("description") {
            skill.missing::<()>("description", "what it does, here or in [agent]");
        }
        let subject = SkillDefaults {
            part: Some(WHOLE_AGENT_SKILL),
            name: title.as_deref().or(name.as_ref().map(AgentName::as_str)),
            description: description.as_deref(),
            scope: None,
            input: None,
        };
        skill::read(&skill, &subject, publisher)
    });
    let created = table.item("created").and_then(|item| moment(&item));
    let presence = table.table("anp").map(|table| presence(&table)).unwrap_or_default();
    table.finish();
    Some(AgentSection { name: name?, title, version: version?, description, owner, skill, created, presence })
}

fn version(item: &TomlItem<'_>) -> Option<Version> {
    let text = item.any_text()?;
    match Version::parse(text) {
        Ok(version) => Some(version),
        Err(error) => item.position.reject(
            format!("{:?} is not a version: {error}", cut(text)),
            r#"allowed: MAJOR.MINOR.PATCH, such as "1.0.0""#,
        ),
    }
}

fn owner(table: &TomlTable<'_>) -> Option<Owner> {
    let kind = table.item("type").and_then(|item| item.choice(&OwnerKind::ALL.map(|kind| (kind.as_str(), kind))));
    let name = table.text("name");
    let url = table.item("url").and_then(|item| web_address(&item));
    let email = table.item("email").and_then(|item| email(&item));
    table.finish();
    Some(Owner { kind: kind.unwrap_or_default(), name: name?, url, email })
}

fn email(item: &TomlItem<'_>) -> Option<String> {
    let text = item.any_text()?;
    let parts = text.split_once('@').filter(|(who, host)| !who.is_empty() && !host.is_empty() && !host.contains('@'));
    if parts.is_none() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return item.position.reject(format!("{:?} is not an e-mail address", cut(text)), "allowed: NAME@HOST");
    }
    Some(text.to_owned())
}

/// `anp = { … }`: visibility in ANP discovery.
fn presence(table: &TomlTable<'_>) -> DiscoveryVisibility {
    let default = DiscoveryVisibility::default();
    let listed = table.flag("listed").unwrap_or(default.listed);
    let conversation = table.flag("conversation").unwrap_or(default.conversation);
    table.finish();
    DiscoveryVisibility { listed, conversation }
}

/// Reads an `http:` or `https:` URL.
pub(super) fn web_address(item: &TomlItem<'_>) -> Option<Url> {
    let text = item.any_text()?;
    let problem = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => return Some(url),
        Ok(url) => format!("its scheme is {:?}", url.scheme()),
        Err(error) => error.to_string(),
    };
    item.position.reject(
        format!("{:?} is not a web address: {problem}", cut(text)),
        r#"allowed: an address beginning with "https://" or "http://""#,
    )
}
