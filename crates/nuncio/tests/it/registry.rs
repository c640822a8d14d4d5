//! Domains are followed, listed and unfollowed from the command line, with a server and without one.

use serde_json::json;

use crate::home::TestAgentFolder;

fn listed(home: &TestAgentFolder) -> Vec<(String, u64)> {
    let answer = home.json_command(&["registry", "list"]).json();
    let row = |followed: &serde_json::Value| {
        (followed["domain"].as_str().unwrap().to_owned(), followed["listed"].as_u64().unwrap())
    };
    answer["followed"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn domain_followed_at_a_running_server_is_read_at_once_and_listed_until_unfollowed() {
    let (remote, local) = (TestAgentFolder::script(), TestAgentFolder::hotel());
    let (provider, _registry) = (remote.start(), local.start());
    let domain = provider.url().trim_end_matches('/');

    let followed = local.json_command(&["registry", "follow", domain]).json();
    assert_eq!((&followed["visited"], &followed["followed"]["problem"]), (&json!(true), &json!(null)), "{followed}");
    let skills = followed["followed"]["listed"].as_u64().unwrap();
    assert!(skills >= 2, "the example's own: {followed}");
    assert_eq!(listed(&local), [(domain.to_owned(), skills)]);
    let shown = local.nuncio(&["registry", "list"]).run();
    assert!(shown.stdout.contains("LAST SEEN") && shown.stdout.contains(domain), "{shown:?}");

    // The domain can also be given without its scheme.
    let again = local.nuncio(&["registry", "follow", domain.strip_prefix("http://").unwrap()]).run();
    assert!(again.stdout.contains(&format!("{skills} skills listed")), "{again:?}");

    assert_eq!(local.json_command(&["registry", "unfollow", domain]).json()["unfollowed"], domain);
    assert!(listed(&local).is_empty());
    assert_eq!(local.json_command(&["registry", "unfollow", domain]).failure().0, "not_followed");
    let none = local.nuncio(&["registry", "list"]).run();
    assert!(none.stdout.starts_with("No domain is followed"), "{none:?}");
}

#[test]
fn unreachable_followed_domain_is_reported_with_the_next_attempt() {
    let local = TestAgentFolder::hotel();
    let _registry = local.start();
    // No HTTP server listens on port 9 (discard).
    let shown = local.nuncio(&["registry", "follow", "localhost:9"]).run();
    assert_eq!(shown.status, Some(0), "{shown:?}");
    for says in ["it could not be read yet", "note: ", "cannot be reached", "next attempt is at"] {
        assert!(shown.stdout.contains(says), "{says}: {shown:?}");
    }
}

#[test]
fn domain_followed_without_a_server_is_read_once_a_server_runs() {
    let (remote, local) = (TestAgentFolder::script(), TestAgentFolder::hotel());
    let provider = remote.start();
    let domain = provider.url().trim_end_matches('/');
    let shown = local.nuncio(&["registry", "follow", domain]).run();
    assert!(shown.stdout.contains("It is read while a server runs"), "{shown:?}");
    assert_eq!(listed(&local), [(domain.to_owned(), 0)]);
    let registry = local.start();
    // Following the domain again waits until the server has read it.
    let followed = local.json_command(&["registry", "follow", domain]).json();
    assert!(followed["followed"]["listed"].as_u64() >= Some(2), "{followed}");
    registry.stop();
    assert!(listed(&local)[0].1 >= 2, "it is on disk");
    assert_eq!(local.json_command(&["registry", "unfollow", domain]).json()["unfollowed"], domain);
}

#[test]
fn following_an_invalid_domain_exits_with_two() {
    let home = TestAgentFolder::hotel();
    for wrong in ["example.com/skills", "ftp://example.com", "a b"] {
        let ran = home.nuncio(&["registry", "follow", wrong]).run();
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("is not a domain"), "{ran:?}");
    }
    let missing = home.json_command(&["registry", "list"]).failure();
    assert_eq!(missing.0, "data_dir_unusable");
}
