//! Every example agent as each protocol shows it, and what the protocol has no words for.
//!
//! `NUNCIO_BLESS=1 cargo test -p nuncio-server golden` writes the snapshots anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nuncio_http::front::Front;
use nuncio_server::{AgentSource, fronts, load_agents};
use nuncio_testkit::Gateway;

fn examples() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = folders
        .filter(|folder| folder.join("agent.toml").is_file())
        .map(|folder| (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "there are examples");
    found
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn assert_golden(name: &str, found: &str) {
    let path = golden().join(name);
    if std::env::var_os("NUNCIO_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, kept, "{name} is not as it was; if that is right, run the tests with NUNCIO_BLESS=1");
}

#[tokio::test]
async fn every_example_matches_its_aap_snapshot() {
    for (name, folder) in examples() {
        let gateway = Gateway::builder().agents_from(folder).start().await;
        let (status, meta) = gateway.aap().get("/meta").await;
        assert_eq!(status, 200);
        assert_golden(&format!("{name}.aap.json"), &(serde_json::to_string_pretty(&meta).unwrap() + "\n"));
    }
}

#[test]
fn inexpressible_parts_of_every_example_match_their_snapshot() {
    for (name, folder) in examples() {
        let agents = load_agents(&AgentSource::Path(folder)).unwrap();
        let parts = |front: &'static dyn Front| {
            let parts = agents.iter().flat_map(move |(_, declared)| front.inexpressible(&declared.agent));
            parts.map(move |part| format!("{}: {part}\n", front.name()))
        };
        assert_golden(&format!("{name}.unsaid.txt"), &fronts().flat_map(parts).collect::<String>());
    }
}

#[test]
fn every_snapshot_belongs_to_an_example() {
    let examples: BTreeSet<_> = examples().into_iter().map(|(name, _)| name).collect();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.split('.').next().unwrap();
        assert!(examples.contains(name), "{file} is left over");
    }
}
