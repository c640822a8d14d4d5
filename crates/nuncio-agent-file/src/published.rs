//! The `[[information]]`, `[[capability]]` and `[[interface]]` sections, published over ANP.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::agent::web_address;
use super::external::ExternalTarget;
use super::names::DeclaredNames;
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::source::cut;
use nuncio_core::agent::{
    Capability, ExternalInterface, InformationDocument, InformationLocation, InterfaceKind, Tool,
};
use nuncio_core::ids::{BackendName, CapabilityId, InformationPath, ToolName};

/// Upper limit of `[[information]]`, `[[capability]]` or `[[interface]]` sections, each.
const MAX_SECTIONS: usize = 256;

pub(super) fn information(root: &TomlTableReader<'_>) -> Vec<InformationDocument> {
    let tables = root.tables("information", "description");
    bounded(&tables, "information");
    let mut taken = BTreeMap::new();
    tables.iter().filter_map(|table| one_information(table, &mut taken)).collect()
}

fn one_information(table: &TomlTableReader<'_>, taken: &mut BTreeMap<String, usize>) -> Option<InformationDocument> {
    let kind = table.text("type");
    let description = table.text("description");
    let given = table.one_of(&["url", "file"]);
    let url = table.item("url").and_then(|item| web_address(&item)).map(InformationLocation::Url);
    let file = table.item("file").and_then(|item| file(&item, taken)).map(InformationLocation::File);
    table.finish();
    let source = match given? {
        "url" => url,
        _ => file,
    };
    Some(InformationDocument { kind: kind?, description: description?, source: source? })
}

/// Reads the name of a published file. It must be unique without its folder, which is not part of the published URL.
fn file(item: &LocatedTomlValue<'_>, taken: &mut BTreeMap<String, usize>) -> Option<InformationPath> {
    let path = item.name(InformationPath::parse)?;
    if let Some(line) = taken.get(path.stem()) {
        item.position.fault(
            format!("the file at line {line} already has the name {:?}", path.stem()),
            "allowed: a name that no other file has, whatever its folder",
        );
    } else {
        taken.insert(path.stem().to_owned(), item.position.line());
    }
    item.position.refer_to(ExternalTarget::InformationFile(path.clone()));
    Some(path)
}

/// Reads the `[[capability]]` sections.
pub(super) fn abilities(root: &TomlTableReader<'_>, names: &DeclaredNames<'_>, tools: &[Arc<Tool>]) -> Vec<Capability> {
    let tables = root.tables("capability", "id");
    bounded(&tables, "capability");
    tables.iter().filter_map(|table| ability(table, names, tools)).collect()
}

fn ability(table: &TomlTableReader<'_>, names: &DeclaredNames<'_>, declared: &[Arc<Tool>]) -> Option<Capability> {
    let id = table.name("id", CapabilityId::parse);
    let name = table.text("name");
    let description = table.text("description");
    let tags = table.read_or("tags", Vec::new(), LocatedTomlValue::distinct_texts);
    let tools = table.read_or("tools", Vec::new(), |item| tools(item, names));
    table.finish();
    let tools = tools?;
    let is_one = |tool: &Tool| tools.is_empty() || tools.contains(&tool.name);
    let human_authorization = declared.iter().any(|tool| tool.exposed && tool.human_authorization && is_one(tool));
    Some(Capability { id: id?, name: name?, description: description?, intent_tags: tags?, tools, human_authorization })
}

fn tools(item: &LocatedTomlValue<'_>, names: &DeclaredNames<'_>) -> Option<Vec<ToolName>> {
    // Every item is read, so that the faults of all items are reported.
    let tools: Vec<_> = item.some_list("a list of tools")?.iter().map(|item| names.tool(item)).collect();
    tools.into_iter().collect()
}

/// Reads the `[[interface]]` sections.
pub(super) fn interfaces(root: &TomlTableReader<'_>) -> Vec<ExternalInterface> {
    let tables = root.tables("interface", "name");
    bounded(&tables, "interface");
    tables.iter().filter_map(interface).collect()
}

fn interface(table: &TomlTableReader<'_>) -> Option<ExternalInterface> {
    let name = table.name("name", BackendName::parse);
    let kinds = InterfaceKind::ALL.map(|kind| (kind.as_str(), kind));
    let kind = table.read_or("type", InterfaceKind::Structured, |item| item.choice(&kinds));
    let protocol = table.text("protocol");
    let version = table.optional_text("version");
    let url = table.required("url", "the address of its description").and_then(|item| web_address(&item));
    let description = table.text("description");
    let human_authorization = table.flag("human_authorization").unwrap_or(false);
    table.finish();
    Some(ExternalInterface {
        name: name?,
        kind: kind?,
        protocol: protocol?,
        version,
        url: url?,
        description: description?,
        human_authorization,
    })
}

fn bounded(tables: &[TomlTableReader<'_>], section: &str) {
    if let Some(one_more) = tables.get(MAX_SECTIONS) {
        one_more.position.fault(
            format!("one of {} sections [[{}]]", tables.len(), cut(section)),
            format!("allowed: at most {MAX_SECTIONS}"),
        );
    }
}
