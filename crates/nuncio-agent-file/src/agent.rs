//! The `[agent]` section: name, version, owner and publication.

use semver::Version;
use url::Url;

use super::reader::{LocatedTomlValue, TomlTableReader};
use super::scopes::local_text;
use super::skill::{self, SkillDefaultSource, SkillIdReader, moment};
use super::source::cut;
use nuncio_core::agent::{DiscoveryVisibility, Owner, OwnerKind, Skill};
use nuncio_core::ids::AgentName;
use nuncio_core::text::TextByLanguage;
use nuncio_core::time::Timestamp;

/// Content of the `[agent]` section.
pub(super) struct AgentSection {
    pub(super) name: AgentName,
    pub(super) title: Option<TextByLanguage>,
    pub(super) version: Version,
    pub(super) description: Option<TextByLanguage>,
    pub(super) examples: Vec<TextByLanguage>,
    pub(super) ask: bool,
    pub(super) owner: Option<Owner>,
    pub(super) skill: Option<Skill>,
    pub(super) created: Option<Timestamp>,
    pub(super) presence: DiscoveryVisibility,
}

/// Upper limit of `examples`.
const MAX_EXAMPLES: usize = 8;
const MAX_EXAMPLE_CHARACTERS: usize = 200;

/// Last part of the skill id of an agent that is published as a whole.
const WHOLE_AGENT_SKILL: &str = "ask";

pub(super) fn read(root: &TomlTableReader<'_>, publisher: &SkillIdReader) -> Option<AgentSection> {
    let table = root.required("agent", "[agent] with a name and a version")?.table()?;
    let name = table.name("name", AgentName::parse);
    let title = table.item("title").and_then(|item| local_text(&item));
    let version = table.required("version", r#"a text such as "1.0.0""#).and_then(|item| version(&item));
    let description = table.item("description").and_then(|item| local_text(&item));
    let examples = examples(&table);
    let ask = table.flag("ask").unwrap_or(true);
    let owner = table.table("owner").and_then(|table| owner(&table));
    let skill = table.table("skill").and_then(|skill| {
        if !table.has("description") && !skill.has("description") {
            skill.missing::<()>("description", "what it does, here or in [agent]");
        }
        let subject = SkillDefaultSource {
            part: Some(WHOLE_AGENT_SKILL),
            name: title.as_ref().map(TextByLanguage::in_english).or(name.as_ref().map(AgentName::as_str)),
            description: description.as_ref().map(TextByLanguage::in_english),
            scope: None,
            input: None,
        };
        skill::read(&skill, &subject, publisher)
    });
    let created = table.item("created").and_then(|item| moment(&item));
    let presence = table.table("anp").map(|table| presence(&table)).unwrap_or_default();
    table.finish();
    Some(AgentSection {
        name: name?,
        title,
        version: version?,
        description,
        examples,
        ask,
        owner,
        skill,
        created,
        presence,
    })
}

/// Reads `examples = […]`: messages that a person could begin with.
fn examples(table: &TomlTableReader<'_>) -> Vec<TextByLanguage> {
    let items = table.list("examples", "a list of messages, each a text or one for each language").unwrap_or_default();
    if let Some(one_more) = items.get(MAX_EXAMPLES) {
        one_more.position.fault(format!("one of {} examples", items.len()), format!("allowed: at most {MAX_EXAMPLES}"));
    }
    items.iter().filter_map(example).collect()
}

fn example(item: &LocatedTomlValue<'_>) -> Option<TextByLanguage> {
    let text = local_text(item)?;
    let longest = text.languages().map(|(_, text)| text.chars().count()).max().unwrap_or_default();
    if longest > MAX_EXAMPLE_CHARACTERS {
        return item.position.reject(
            format!("has {longest} characters"),
            format!("allowed: at most {MAX_EXAMPLE_CHARACTERS}, so that it fits on a button"),
        );
    }
    Some(text)
}

fn version(item: &LocatedTomlValue<'_>) -> Option<Version> {
    let text = item.any_text()?;
    match Version::parse(text) {
        Ok(version) => Some(version),
        Err(error) => item.position.reject(
            format!("{:?} is not a version: {error}", cut(text)),
            r#"allowed: MAJOR.MINOR.PATCH, such as "1.0.0""#,
        ),
    }
}

fn owner(table: &TomlTableReader<'_>) -> Option<Owner> {
    let kind = table.item("type").and_then(|item| item.choice(&OwnerKind::ALL.map(|kind| (kind.as_str(), kind))));
    let name = table.text("name");
    let url = table.item("url").and_then(|item| web_address(&item));
    let email = table.item("email").and_then(|item| email(&item));
    table.finish();
    Some(Owner { kind: kind.unwrap_or_default(), name: name?, url, email })
}

fn email(item: &LocatedTomlValue<'_>) -> Option<String> {
    let text = item.any_text()?;
    let parts = text.split_once('@').filter(|(who, host)| !who.is_empty() && !host.is_empty() && !host.contains('@'));
    if parts.is_none() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return item.position.reject(format!("{:?} is not an e-mail address", cut(text)), "allowed: NAME@HOST");
    }
    Some(text.to_owned())
}

/// `anp = { … }`: visibility in ANP discovery.
fn presence(table: &TomlTableReader<'_>) -> DiscoveryVisibility {
    let default = DiscoveryVisibility::default();
    let listed = table.flag("listed").unwrap_or(default.listed);
    let conversation = table.flag("conversation").unwrap_or(default.conversation);
    table.finish();
    DiscoveryVisibility { listed, conversation }
}

/// Reads an `http:` or `https:` URL.
pub(super) fn web_address(item: &LocatedTomlValue<'_>) -> Option<Url> {
    let text = item.any_text()?;
    if ["{{", "{%"].iter().any(|mark| text.contains(mark)) {
        return item.position.reject(
            "this address is not a template, so nothing would be filled in",
            "allowed: the whole address; a secret goes into a header, or where a key is named",
        );
    }
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
