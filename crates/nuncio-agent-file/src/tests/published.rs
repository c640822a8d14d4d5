//! `[[information]]`, `[[capability]]` and `[[interface]]`: valid sections and faults.

use super::{AGENT, GREETING, refused, refused_whole};
use crate::parse;
use nuncio_core::agent::{Agent, InformationLocation, InterfaceKind, OwnerKind};

fn agent(rest: &str) -> Agent {
    let text = format!("{AGENT}{rest}");
    parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{text}\n{faults}")).agent
}

const TOOLS: &str = r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object" }
run = { command = ["true"] }
skill = { type = "task", tags = ["hotel.search", "find"] }
[[tool]]
name = "book"
title = "Book it"
description = "Books."
input = { type = "object" }
run = { command = ["true"] }
human_authorization = true
[[tool]]
name = "hidden"
description = "Hides."
input = { type = "object" }
run = { command = ["true"] }
expose = false
"#;

#[test]
fn information_interface_owner_and_anp_settings_are_read() {
    let agent = agent(
        r#"
created = 2026-01-15
owner = { type = "Person", name = "A", email = "a@example.com" }
anp = { listed = false, conversation = false }
[[information]]
type = "Product"
description = "Rooms."
file = "products/rooms.json"
[[information]]
type = "VideoObject"
description = "A tour."
url = "https://example.com/tour.mp4"
[[interface]]
name = "tour"
protocol = "WebRTC"
version = "1.0"
url = "https://example.com/tour.yaml"
description = "A tour, live."
human_authorization = true
"#,
    );
    assert_eq!(agent.created.unwrap().to_string(), "2026-01-15T00:00:00.000Z");
    let owner = agent.owner.unwrap();
    assert_eq!((owner.kind, owner.email.as_deref()), (OwnerKind::Person, Some("a@example.com")));
    assert_eq!((agent.presence.listed, agent.presence.conversation), (false, false));
    let [rooms, tour] = agent.information.as_slice() else { panic!("{:?}", agent.information) };
    assert!(rooms.is_product());
    assert!(matches!(&rooms.source, InformationLocation::File(path) if path.stem() == "rooms"));
    assert!(matches!(&tour.source, InformationLocation::Url(url) if url.path() == "/tour.mp4"));
    let [elsewhere] = agent.interfaces.as_slice() else { panic!("{:?}", agent.interfaces) };
    assert_eq!((elsewhere.kind, elsewhere.protocol.as_str()), (InterfaceKind::Structured, "WebRTC"));
    assert!(elsewhere.human_authorization);
}

#[test]
fn agent_without_declared_capabilities_publishes_one_per_exposed_tool() {
    let abilities = agent(TOOLS).abilities();
    let shown: Vec<_> = abilities
        .iter()
        .map(|it| (it.id.as_str(), it.name.as_str(), it.intent_tags.join(" "), it.human_authorization))
        .collect();
    assert_eq!(
        shown,
        [
            ("cap.a.find", "find", "hotel.search find".to_owned(), false),
            ("cap.a.book", "Book it", "book".to_owned(), true)
        ]
    );
}

#[test]
fn declared_capabilities_replace_those_derived_from_tools() {
    let section = r#"
[[capability]]
id = "cap.hotel.booking"
name = "Booking"
description = "Books rooms."
tags = ["hotel.booking"]
tools = ["book"]
[[capability]]
id = "cap.hotel"
name = "Hotel"
description = "Everything."
"#;
    let abilities = agent(&format!("{TOOLS}{section}")).abilities();
    let [booking, hotel] = abilities.as_slice() else { panic!("{abilities:?}") };
    assert!(booking.human_authorization && hotel.human_authorization);
    assert_eq!(booking.intent_tags, ["hotel.booking"]);
    let find = nuncio_core::ids::ToolName::parse("find").unwrap();
    assert!(!booking.is_of(&find) && hotel.is_of(&find));
}

#[test]
fn more_than_256_capability_sections_are_refused() {
    let one = |n: usize| format!("[[capability]]\nid = \"c{n}\"\nname = \"C\"\ndescription = \"D.\"\n");
    let sections: String = (0..256).map(one).collect();
    assert_eq!(agent(&format!("{GREETING}{sections}")).abilities.len(), 256);
    let text = format!("{AGENT}{GREETING}{sections}{}", one(256));
    let said = super::faults(&text);
    assert!(said.contains("one of 257 sections [[capability]]\n  allowed: at most 256"), "{said}");
}

refused! {
information_without_url_or_file_is_refused:
r#"
[[information]]
type = "Product"
"#
=>
r#"
agent.toml:4:1: information[0].description: missing
  needed: a text
agent.toml:4:1: information[0]: has none of "url", "file"
  needed: one of them
"#;

information_with_url_and_file_is_refused:
r#"
[[information]]
type = "Product"
description = "Rooms."
url = "ftp://example.com"
file = "rooms.json"
"#
=>
r#"
agent.toml:7:7: information "Rooms.".url: "ftp://example.com" is not a web address: its scheme is "ftp"
  allowed: an address beginning with "https://" or "http://"
agent.toml:8:1: information "Rooms.".file: not allowed together with "url"
  allowed: only one of "url", "file"
"#;

information_files_outside_the_folder_or_with_the_same_name_are_refused:
r#"
[[information]]
type = "Product"
description = "A."
file = "../secret.json"
[[information]]
type = "Product"
description = "B."
file = "a/rooms.json"
[[information]]
type = "Product"
description = "C."
file = "b/rooms.json"
"#
=>
r#"
agent.toml:7:8: information "A.".file: "../secret.json" is not a file to publish
  allowed: 1 to 200 letters, digits, '_', '-', '.' and '/' between parts that do not begin with '.', ending in '.json'
agent.toml:15:8: information "C.".file: the file at line 11 already has the name "rooms"
  allowed: a name that no other file has, whatever its folder
"#;

all_invalid_keys_of_capabilities_are_reported:
r#"
[[capability]]
id = "cap..x"
name = "X"
description = "X."
tags = []
tools = ["find"]
[[capability]]
id = "cap.y"
name = "Y"
description = "Y."
[[capability]]
id = "cap.y"
nmae = "Y"
description = "Y."
"#
=>
r#"
agent.toml:5:6: capability "cap..x".id: "cap..x" is not a capability id
  allowed: 1 to 200 letters, digits, '_' and '-', in parts between dots
agent.toml:8:8: capability "cap..x".tags: found an empty list
  allowed: a list of texts, not empty
agent.toml:9:10: capability "cap..x".tools[0]: no [[tool]] is named "find"
  the file has no [[tool]] sections
agent.toml:14:1: capability "cap.y".name: missing
  needed: a text
agent.toml:15:6: capability "cap.y".id: the capability at line 10 already has this id
  allowed: one that no other capability has
agent.toml:16:1: capability "cap.y".nmae: unknown key
  did you mean "name"? allowed: "id", "name", "description", "tags", "tools"
"#;

all_missing_and_invalid_keys_of_an_interface_are_reported:
r#"
[[interface]]
name = "a b"
type = "telepathy"
"#
=>
r#"
agent.toml:4:1: interface "a b".protocol: missing
  needed: a text
agent.toml:4:1: interface "a b".url: missing
  needed: the address of its description
agent.toml:4:1: interface "a b".description: missing
  needed: a text
agent.toml:5:8: interface "a b".name: "a b" is not a backend name
  allowed: 1 to 64 letters, digits, '_' and '-'
agent.toml:6:8: interface "a b".type: found "telepathy"
  allowed: "structured", "natural_language"
"#;
}

refused_whole! {
invalid_created_owner_and_anp_settings_are_refused:
r#"
[agent]
name = "a"
version = "1.0.0"
created = "yesterday"
owner = { name = "A", type = "Robot", email = "a at b" }
anp = { listed = "no", hidden = true }
"#
=>
r#"
agent.toml:4:11: agent.created: found "yesterday"
  allowed: an ISO 8601 time such as "2026-01-15T08:00:00Z", or a date
agent.toml:5:30: agent.owner.type: found "Robot"
  allowed: "Organization", "Person"
agent.toml:5:47: agent.owner.email: "a at b" is not an e-mail address
  allowed: NAME@HOST
agent.toml:6:18: agent.anp.listed: found the text "no"
  allowed: true or false
agent.toml:6:24: agent.anp.hidden: unknown key
  allowed: "listed", "conversation"
"#;
}
