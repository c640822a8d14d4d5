use nuncio_core::agent::{SkillAccess, SkillVersion};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const HERE: &str = "https://here.example";
const NOW: Timestamp = Timestamp::from_millis(1_794_740_400_000);

fn skill(id: &str, kind: CapabilityType, name: &str, tags: &[&str]) -> ListedSkill {
    let entry = SkillIndexEntry {
        id: id.to_owned(),
        name: name.to_owned(),
        capability_type: kind,
        description: format!("What {name} does"),
        descriptor_url: format!("https://a.example/skills/{id}.json"),
        access: SkillAccess::Public,
        version: SkillVersion { major: 1, minor: 0, patch: 0 },
        extra: Map::from_iter([("origin".to_owned(), json!("https://evil.example"))]),
    };
    let provider = ListedProvider { name: "Grand Hotel".to_owned(), url: None };
    ListedSkill::new(entry, provider, tags.iter().map(|tag| (*tag).to_owned()).collect())
}

fn host_skills(skills: Vec<ListedSkill>) -> HostSkillListing {
    HostSkillListing::new(skills, NOW)
}

fn catalogue() -> SkillCatalogue {
    let catalogue = SkillCatalogue::default();
    let there = vec![
        skill("hotel/search", CapabilityType::Knowledge, "Find rooms", &["travel", "hotel"]),
        skill("hotel/book", CapabilityType::Task, "预订房间", &["travel"]),
    ];
    catalogue.put("https://hotel.example:8443", host_skills(there));
    catalogue
}

fn find(catalogue: &SkillCatalogue, own: Vec<ListedSkill>, query: &[(&str, &str)]) -> Vec<String> {
    let found = RegistryQuery::read(query.iter().copied()).unwrap().find(catalogue, HERE, host_skills(own));
    found.skills.into_iter().map(|skill| skill.entry.id).collect()
}

#[test]
fn registry_search_filters_by_type_words_tags_and_provider() {
    let catalogue = catalogue();
    let own = || vec![skill("echo", CapabilityType::Api, "Echo", &[])];
    let find = |query: &[(&str, &str)]| find(&catalogue, own(), query);
    assert_eq!(find(&[]), ["echo", "hotel/book", "hotel/search"], "by origin and id");
    for (query, ids) in [
        (vec![("type", "task")], vec!["hotel/book"]),
        (vec![("type", "plugin")], vec![]),
        (vec![("q", "ROOMS find")], vec!["hotel/search"]),
        (vec![("q", "rooms nothing")], vec![]),
        (vec![("q", "房间")], vec!["hotel/book"]),
        (vec![("q", "预订\u{3000}房")], vec!["hotel/book"]),
        (vec![("q", "does")], vec!["echo", "hotel/book", "hotel/search"]),
        (vec![("q", "travel")], vec!["hotel/book", "hotel/search"]),
        (vec![("q", "  ")], vec!["echo", "hotel/book", "hotel/search"]),
        (vec![("tag", "travel")], vec!["hotel/book", "hotel/search"]),
        (vec![("tag", "travel"), ("tag", "hotel")], vec!["hotel/search"]),
        (vec![("tag", "trav")], vec![]),
        (vec![("tag", "Travel")], vec![]),
        (vec![("provider", "grand hotel")], vec!["echo", "hotel/book", "hotel/search"]),
        (vec![("provider", "Hotel.example:8443")], vec!["hotel/book", "hotel/search"]),
        (vec![("provider", "https://hotel.example:8443/")], vec!["hotel/book", "hotel/search"]),
        (vec![("provider", "hotel.example")], vec![]),
        (vec![("provider", "here.example"), ("type", "api"), ("unknown", "x")], vec!["echo"]),
    ] {
        assert_eq!(find(&query), ids, "{query:?}");
    }
}

#[test]
fn error_about_an_invalid_registry_query_parameter_names_it() {
    let long = "x".repeat(501);
    let many = [("tag", "a"); 21];
    for (query, says) in [
        (&[("type", "TASK")][..], "`type` is one of plugin, api, knowledge, task"),
        (&[("limit", "0")], "`limit` must be a number from 1 to 1000"),
        (&[("limit", "1001")], "`limit` must be a number from 1 to 1000"),
        (&[("cursor", "x")], "`cursor` is not a cursor of this server"),
        (&[("q", &long)], "`q` must have at most 500 bytes"),
        (&many, "`tag` may occur at most 20 times"),
    ] {
        assert_eq!(RegistryQuery::read(query.iter().copied()).unwrap_err(), says);
    }
}

#[test]
fn registry_result_is_serialised_without_unknown_index_entry_fields() {
    let query = RegistryQuery::read([("tag", "hotel")]).unwrap();
    let found = query.find(&catalogue(), HERE, host_skills(Vec::new()));
    let expected = json!({"skills": [{
        "id": "hotel/search", "name": "Find rooms", "capability_type": "knowledge",
        "description": "What Find rooms does", "descriptor_url": "https://a.example/skills/hotel/search.json",
        "access": "public", "version": "1.0.0", "provider": {"name": "Grand Hotel"},
        "origin": "https://hotel.example:8443", "tags": ["travel", "hotel"], "last_seen": NOW,
    }]});
    assert_eq!(serde_json::from_str::<Value>(&serde_json::to_string(&found).unwrap()).unwrap(), expected);
}

#[test]
fn own_skills_replace_crawled_skills_of_this_host_in_registry_results() {
    let catalogue = catalogue();
    catalogue.put(HERE, host_skills(vec![skill("old", CapabilityType::Api, "Old", &[])]));
    let own = vec![skill("new", CapabilityType::Api, "New", &[])];
    assert_eq!(find(&catalogue, own, &[("type", "api")]), ["new"]);
    catalogue.remove("https://hotel.example:8443");
    assert!(find(&catalogue, Vec::new(), &[]).is_empty());
}

proptest! {
    /// Concatenated pages of any size equal the whole result without duplicates, and the filters by type partition it.
    #[test]
    fn registry_pages_and_type_filters_return_each_skill_once(
        hosts in prop::collection::btree_map("[a-c]{1,2}", prop::collection::btree_map("[a-z ]{1,3}", 0..4_usize, 0..8), 0..4),
        limit in 1..5_usize,
    ) {
        let catalogue = SkillCatalogue::default();
        let mut all = Vec::new();
        for (host, skills) in &hosts {
            let origin = format!("https://{host}.example");
            all.extend(skills.keys().map(|id| (origin.clone(), id.clone())));
            let listed = skills.iter().map(|(id, kind)| skill(id, CapabilityType::ALL[*kind], "n", &[])).collect();
            catalogue.put(&origin, host_skills(listed));
        }
        all.sort();
        let pages = |kind: Option<CapabilityType>| {
            let (mut seen, mut cursor, limit) = (Vec::new(), None::<String>, limit.to_string());
            loop {
                let mut query = vec![("limit", limit.as_str())];
                query.extend(kind.map(|kind| ("type", kind.as_str())));
                query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
                let found = RegistryQuery::read(query).unwrap().find(&catalogue, HERE, host_skills(Vec::new()));
                seen.extend(found.skills.into_iter().map(|skill| (skill.origin, skill.entry.id)));
                match found.next_cursor {
                    Some(next) => cursor = Some(next),
                    None => return seen,
                }
            }
        };
        prop_assert_eq!(&pages(None), &all);
        let mut divided: Vec<_> = CapabilityType::ALL.into_iter().flat_map(|kind| pages(Some(kind))).collect();
        divided.sort();
        prop_assert_eq!(divided, all);
    }
}
