//! A server killed while publishing stores a version with all its effects, or nothing.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::PersonName;
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_engine::{Caller, Engine};

use super::world::{EnrolledPhone, TestEngine, broken_version, first_version, renumbered};

/// Environment variable with the path of the helper process's store.
const FILE: &str = "NUNCIO_ENGINE_CRASH_FILE";

const PEOPLE: u8 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn publication_interrupted_by_kill_is_stored_completely_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nuncio.db");
    for kill_after in [1, 7, 20] {
        let acknowledged = killed_after(kill_after, &file);
        let engine = TestEngine::at(&file).await.engine;
        let account = engine.accounts().search_agents("", None, 10).await.unwrap().pop().unwrap();
        assert!(account.manifest_version >= acknowledged, "an acknowledged version is stored");
        let versions = engine.manifests().manifest_history(&account.id, None, 100).await.unwrap();
        let numbers: BTreeSet<_> = versions.iter().map(|version| version.version).collect();
        assert!(versions.len() < 100 && numbers == (1..=account.manifest_version).collect());
        // Every version after the first is a breaking change.
        for number in 0..PEOPLE {
            let person = PersonName::parse(&format!("p{number}")).unwrap();
            all_or_nothing(&engine, &person, account.manifest_version).await;
        }
        let agent = engine.mailbox().mail(&RelayParty::Agent(account.id.clone()), 0, 500).await.unwrap();
        let told = agent.iter().filter(|mail| matches!(mail.notification, Notification::ReauthRequired { .. })).count();
        assert_eq!(told as u64, account.manifest_version - 1);
    }
}

async fn all_or_nothing(engine: &Engine, person: &PersonName, version: u64) {
    let relation = engine.consent().relations(person, None, 10).await.unwrap().remove(0);
    let pending = relation.pending.clone().map(|pending| pending.version);
    assert_eq!(pending, (version > 1).then_some(version), "{person}");
    let mail = engine.mailbox().mail(&RelayParty::Person(person.clone()), 0, 500).await.unwrap();
    let told: Vec<_> = mail
        .iter()
        .filter_map(|mail| match mail.notification {
            Notification::ReauthRequired { version, .. } => Some(version),
            _ => None,
        })
        .collect();
    assert_eq!(told, (2..=version).collect::<Vec<_>>(), "{person} gets one notification for each version");
    let standing = engine.consent().verify_ledger(&relation.id).await.unwrap();
    assert_eq!(standing.suspended.len(), usize::from(version > 1));
}

/// Kills the helper after `count` acknowledgements; returns the last acknowledged version.
fn killed_after(count: usize, file: &Path) -> u64 {
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::helper_process_publishes_until_killed", "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(helper.stdout.take().unwrap()).lines() {
        if let Some(version) = line.unwrap().strip_prefix("done ") {
            acknowledged.push(version.parse::<u64>().unwrap());
            if acknowledged.len() == count {
                helper.kill().unwrap();
            }
        }
    }
    let status = helper.wait().unwrap();
    assert!(!status.success() && acknowledged.len() >= count, "{status} after {}", acknowledged.len());
    acknowledged.pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn helper_process_publishes_until_killed() {
    let Ok(file) = std::env::var(FILE) else { return };
    let world = TestEngine::at(Path::new(&file)).await;
    let (agent, owner) = match world.engine.accounts().search_agents("", None, 10).await.unwrap().pop() {
        Some(account) => {
            let owner = nuncio_core::principal::Principal::from(account.owner.clone());
            (account, Caller::new(owner))
        }
        None => {
            let owner = world.device("ada", 100).await;
            let id = world.agent(&owner, &first_version()).await;
            for number in 0..PEOPLE {
                let phone: EnrolledPhone = world.device(&format!("p{number}"), number + 1).await;
                phone.allow_for(&world, &id, &[("filesystem:read", GrantTerm::UntilRevoked)]).await;
            }
            (world.engine.accounts().account(&id).await.unwrap(), owner.caller())
        }
    };
    for version in agent.manifest_version.. {
        let manifest = renumbered(&broken_version(&["path", "limit"]), usize::try_from(version).unwrap());
        let bytes = manifest.to_string().into_bytes();
        let published =
            world.engine.manifests().publish_manifest(&owner, &agent.id, Some(&bytes), None, None).await.unwrap();
        // One uncaptured write for the whole line, because a pipe takes it whole.
        std::io::stdout().lock().write_all(format!("done {}\n", published.version).as_bytes()).unwrap();
    }
}
