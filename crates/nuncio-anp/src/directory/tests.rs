use serde_json::json;

use super::*;

fn described(more: &Value) -> AgentDescription {
    let mut whole = json!({
        "protocolType": "ANP", "protocolVersion": "1.0.0", "type": "AgentDescription", "name": "Hotel",
        "securityDefinitions": {}, "security": [],
    });
    for (name, value) in more.as_object().unwrap() {
        whole[name] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn row(url: &str, more: &Value) -> (String, Arc<DirectoryRow>) {
    let url = Url::parse(url).unwrap();
    (url.to_string(), Arc::new(DirectoryRow::new(url, ListedAgentSummary::of(&described(more)), None)))
}

fn wanted(query: &[(&str, &str)]) -> DirectorySearchQuery {
    DirectorySearchQuery::read(query.iter().copied()).unwrap()
}

#[test]
fn tag_search_matches_the_tag_and_its_subtags_only() {
    for (tag, looked_for, is) in [
        ("hotel.booking.create", "hotel.booking", true),
        ("hotel.booking", "hotel.booking", true),
        ("hotel:booking", "hotel", true),
        ("hotel/booking", "hotel", true),
        ("hotels", "hotel", false),
        ("hotel", "hotel.booking", false),
        ("a.hotel", "hotel", false),
    ] {
        assert_eq!(is_below(tag, looked_for), is, "{tag} {looked_for}");
    }
}

#[test]
fn listed_agent_has_single_line_text_and_limited_tags_and_capabilities() {
    let tags: Vec<_> = (0..500).map(|n| format!("tag{n}")).collect();
    let abilities: Vec<_> = (0..500).map(|n| json!({"id": format!("cap{n}"), "intentTags": ["same"]})).collect();
    let long = format!("\u{1b}[31mred\u{202e}\n{}", "x".repeat(10_000));
    let listed =
        ListedAgentSummary::of(&described(&json!({"description": long, "tags": tags, "capabilities": abilities})));
    let description = listed.description.unwrap();
    assert!(!description.contains(['\u{1b}', '\u{202e}', '\n']) && description.len() < 1000, "{description:?}");
    assert_eq!((listed.tags.len(), listed.capabilities.len()), (MAX_TAGS, MAX_CAPABILITIES));
}

#[test]
fn listed_agent_round_trips_through_json() {
    let mut listed = ListedAgentSummary::of(&described(&json!({
        "did": "did:wba:a.example", "owner": {"name": "Ada"}, "capabilities": [{"id": "c", "intentTags": ["t"]}],
    })));
    listed.verified = vec!["did".to_owned()];
    let text = serde_json::to_string(&listed).unwrap();
    assert_eq!(serde_json::from_str::<ListedAgentSummary>(&text).unwrap(), listed);
}

#[test]
fn agent_search_pages_of_any_size_return_each_agent_once() {
    let catalogue = AgentCatalogue::default();
    let own: Vec<_> = (0..17).map(|n| row(&format!("https://h{n}.example/ad.json"), &json!({}))).collect();
    let mut all: Vec<_> = own.iter().map(|(url, _)| url.clone()).collect();
    all.sort();
    let own: Vec<_> = own.into_iter().map(|(_, row)| row).collect();
    for limit in [1, 2, 5, 16, 17, 18] {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let mut query = vec![("limit".to_owned(), limit.to_string())];
            query.extend(cursor.take().map(|cursor| ("cursor".to_owned(), cursor)));
            let query: Vec<_> = query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let found = wanted(&query).find(&catalogue, &own);
            assert!(found.items.len() <= limit);
            seen.extend(found.items.into_iter().map(|item| item.id));
            match found.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, all, "{limit}");
    }
}

#[test]
fn agent_search_requires_every_word_ignoring_case() {
    let (_, sea) =
        row("https://a.example/ad.json", &json!({"description": "Rooms by the SEA", "owner": {"name": "Ada"}}));
    let takes = |query: &[(&str, &str)]| wanted(query).takes("https://a.example/ad.json", &sea);
    assert!(takes(&[("q", "sea rooms ada")]) && takes(&[("q", "")]) && takes(&[("unknown", "x")]));
    assert!(!takes(&[("q", "sea hills")]));
    assert!(!takes(&[("capability", "x")]) && !takes(&[("tag", "x")]));
}
