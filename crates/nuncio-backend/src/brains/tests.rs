use futures_util::future::BoxFuture;
use nuncio_core::time::Timestamp;

use super::*;
use crate::fetch::{AllowedAddresses, GuardedFetch};
use crate::runners::ToolRunnerConfig;
use nuncio_engine::ports::Clock;

const HOTEL: &str = include_str!("../../../../examples/hotel/agent.toml");
const SCRIPT: &str = include_str!("../../../../examples/script/agent.toml");

#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_794_740_400_000)
    }

    fn sleep_until(&self, _moment: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[derive(Debug)]
struct ZeroEntropy;

impl nuncio_engine::ports::Entropy for ZeroEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn declared(text: &str) -> Arc<Agent> {
    let declared = nuncio_agent_file::parse("agent.toml", text).unwrap_or_else(|faults| panic!("{faults}"));
    assert!(declared.notes.is_empty(), "an example must have no notes: {:?}", declared.notes);
    Arc::new(declared.agent)
}

fn brains() -> LocalBrainFactory {
    let fetch = GuardedFetch::new(AllowedAddresses::none(), false, None).unwrap();
    LocalBrainFactory::new(&ToolRunner::new(ToolRunnerConfig {
        http: fetch.client_for_configured(),
        fetch: Arc::new(fetch),
        clock: Arc::new(StoppedClock),
        entropy: Arc::new(ZeroEntropy),
        local_dids: nuncio_anp::client::LocalDidUrlScheme::default(),
        executable: "/bin/true".into(),
        working_dir: "/".into(),
        confined: false,
        mcp_start: crate::runners::McpStartOptions::default(),
    }))
}

#[test]
fn hotel_script_and_starter_agent_files_get_their_declared_brain() {
    let brains = brains();
    for (text, brain) in [(HOTEL, "RulesBrain"), (SCRIPT, "ScriptBrain"), (nuncio_agent_file::STARTER, "RulesBrain")] {
        let made = brains.brain(&declared(text)).unwrap();
        assert!(format!("{made:?}").starts_with(brain));
    }
}

#[test]
fn script_example_has_expected_tools_options_and_capabilities() {
    let agent = declared(SCRIPT);
    assert_eq!(agent.name.as_str(), "script");
    assert_eq!(
        agent.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["add", "lookup", "echo", "fail"]
    );
    let options: Vec<_> = agent.options.iter().map(|option| (option.name.as_str(), option.default.as_str())).collect();
    assert_eq!(options, [("language", "English"), ("model", "small"), ("apiKey", "")]);
    let all = nuncio_core::agent::AapCapabilities { image_https: true, image_data: true, ..Default::default() };
    assert_eq!(agent.capabilities, all);
}

#[test]
fn hotel_example_has_english_and_chinese_labels_and_no_human_approval() {
    let agent = declared(HOTEL);
    assert_eq!(agent.name.as_str(), "hotel-assistant");
    for scope in &agent.scopes {
        assert_eq!(scope.label.languages().map(|(tag, _)| tag).collect::<Vec<_>>(), ["en", "zh-CN"]);
    }
    assert!(agent.tools.iter().all(|tool| tool.exposed && !tool.human_authorization));
}
