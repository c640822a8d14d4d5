//! `[agent]`: who it is.

use semver::Version;
use url::Url;

use super::reader::{Item, Table};
use super::source::cut;
use crate::agent::Owner;
use crate::ids::AgentName;

/// What `[agent]` says.
pub(super) struct Identity {
    pub(super) name: AgentName,
    pub(super) title: Option<String>,
    pub(super) version: Version,
    pub(super) description: Option<String>,
    pub(super) owner: Option<Owner>,
}

pub(super) fn read(root: &Table<'_>) -> Option<Identity> {
    let table = root.required("agent", "[agent] with a name and a version")?.table()?;
    let name = table.name("name", AgentName::parse);
    let title = table.optional_text("title");
    let version = table.required("version", r#"a text such as "1.0.0""#).and_then(|item| version(&item));
    let description = table.optional_text("description");
    let owner = table.table("owner").and_then(|table| owner(&table));
    table.finish();
    Some(Identity { name: name?, title, version: version?, description, owner })
}

fn version(item: &Item<'_>) -> Option<Version> {
    let text = item.any_text()?;
    match Version::parse(text) {
        Ok(version) => Some(version),
        Err(error) => {
            item.spot.fault(
                format!("{:?} is not a version: {error}", cut(text)),
                r#"allowed: MAJOR.MINOR.PATCH, such as "1.0.0""#,
            );
            None
        }
    }
}

fn owner(table: &Table<'_>) -> Option<Owner> {
    let name = table.text("name");
    let url = table.item("url").and_then(|item| web_address(&item));
    table.finish();
    Some(Owner { name: name?, url })
}

/// An `http:` or `https:` address.
pub(super) fn web_address(item: &Item<'_>) -> Option<Url> {
    let text = item.any_text()?;
    let problem = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => return Some(url),
        Ok(url) => format!("its scheme is {:?}", url.scheme()),
        Err(error) => error.to_string(),
    };
    item.spot.fault(
        format!("{:?} is not a web address: {problem}", cut(text)),
        r#"allowed: an address beginning with "https://" or "http://""#,
    );
    None
}
