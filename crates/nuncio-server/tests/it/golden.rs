//! Snapshots of every example agent in AAP, and of the parts that each protocol cannot express.
//!
//! `INSTA_UPDATE=always cargo test -p nuncio-server golden` rewrites the snapshots.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nuncio_http::front::ProtocolFront;
use nuncio_server::{AgentFilesSource, fronts, load_agents};
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

const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(SNAPSHOTS);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

#[tokio::test]
async fn every_example_matches_its_aap_snapshot() {
    for (name, folder) in examples() {
        let gateway = Gateway::builder().agents_from(folder).start().await;
        let (status, meta) = gateway.aap().get("/meta").await;
        assert_eq!(status, 200);
        let _settings = snapshot_settings().bind_to_scope();
        insta::assert_snapshot!(format!("{name}.aap.json"), serde_json::to_string_pretty(&meta).unwrap());
    }
}

#[test]
fn inexpressible_parts_of_every_example_match_their_snapshot() {
    for (name, folder) in examples() {
        let agents = load_agents(&AgentFilesSource::Path(folder)).unwrap();
        let parts = |front: &'static dyn ProtocolFront| {
            let parts = agents.iter().flat_map(move |(_, declared)| front.inexpressible(&declared.agent));
            parts.map(move |part| format!("{}: {part}\n", front.name()))
        };
        let _settings = snapshot_settings().bind_to_scope();
        insta::assert_snapshot!(format!("{name}.unsaid"), fronts().flat_map(parts).collect::<String>());
    }
}

#[test]
fn every_snapshot_belongs_to_an_example() {
    let examples: BTreeSet<_> = examples().into_iter().map(|(name, _)| name).collect();
    for entry in std::fs::read_dir(SNAPSHOTS).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.split('.').next().unwrap();
        assert!(examples.contains(name), "{file} is left over");
    }
}
