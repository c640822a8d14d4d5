//! An agent whose DID vouches for its keys, and a relay that adds foreign keys to the agent's.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::bundle::SealMode;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::prompt::{AgentVerification, PromptAnswer};
use nuncio_engine::ports::fetch::{FetchError, FetchRequest, FetchResponse};
use nuncio_engine::ports::{Clock as _, Fetch};
use nuncio_identity::seal::{KeyStore, MemoryKeyStore, NewSealIdentity, SealIdentity};
use nuncio_identity::{Did, DidUrl, NewDidDocument, SigningKey};
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{AgentTransport, PeerDependencies, SealedAgent};
use nuncio_testkit::eventually;
use serde_json::{Value, json};

use super::scene::RelayAndAgentFixture;

/// HTTP client that answers for the DID's host, and adds foreign keys to the relay's answers.
#[derive(Debug)]
struct DidTamperingFetch {
    real: Arc<dyn Fetch>,
    url: String,
    document: String,
    slipped_in: Value,
}

#[async_trait]
impl Fetch for DidTamperingFetch {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        if request.url.as_str() == self.url {
            return Ok(FetchResponse { status: 200, headers: Vec::new(), body: self.document.clone().into() });
        }
        let keys = request.url.path().contains("/keys/agents/");
        let mut answer = self.real.fetch(request).await?;
        if keys {
            let mut said: Value = serde_json::from_slice(&answer.body).unwrap();
            said["data"].as_array_mut().unwrap().push(self.slipped_in.clone());
            answer.body = said.to_string().into();
        }
        Ok(answer)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_with_agent_keys_that_its_did_does_not_sign_prompts_as_unverified() {
    let scene = RelayAndAgentFixture::start().await;
    let key = SigningKey::from_seed(&[7; 32]);
    let did = Did::for_key("agent.example", None, &["notes"], &key).unwrap();
    let document = NewDidDocument::new(&did, scene.clock.now()).sign(&key).to_string();

    // The agent of the test scene holds the foreign keys.
    let path = format!("/keys/agents/{}", scene.id);
    let slipped_in = scene.server.send(Method::GET, &path, Some(&scene.token), None).await.data()[0].clone();
    // The real agent, with keys that its DID vouches for.
    let key_store: Arc<dyn KeyStore> = Arc::new(MemoryKeyStore::new());
    let named = Some((RelayParty::Agent(scene.id.clone()), DeviceId::parse("dev_vouched").unwrap()));
    let new = NewSealIdentity { named, mode: SealMode::Stateful, now: scene.clock.now() };
    let mut seal_identity = SealIdentity::create(Arc::clone(&key_store), &new).unwrap();
    seal_identity.add_did_proof(&DidUrl::parse(&did.url("key-1")).unwrap(), &key).unwrap();
    drop(seal_identity);
    // This agent uses webhooks, because the relay would treat a second connection as the same agent.
    let way = PeerDependencies::direct().with_clock(&scene.clock);
    let named = (scene.id.as_str(), scene.token.as_str());
    let agent = SealedAgent::start(&way, &scene.gateway.url(), named, key_store, AgentTransport::Hooks).await;

    let real = PeerDependencies::direct().fetch;
    let out = Arc::new(DidTamperingFetch { real, url: did.resolution_url(), document, slipped_in });
    let ada = scene
        .device_by(&PeerDependencies { fetch: out, ..PeerDependencies::direct() }, "ada", SensitivityFloors::new())
        .await;
    scene.allow(&ada, &["filesystem:read"], GrantTerm::UntilRevoked).await;
    let verified = || ada.prompt.asked.lock().unwrap().last().unwrap().verified.clone();
    // The agent gets no answer, so the test waits for the audit entry.
    let calls = async |agent: &SealedAgent, count: usize| {
        let ended =
            eventually("it has ended", async || (ada.device.audit().entries().unwrap().len() == count).then_some(()));
        let called = async {
            let _ = agent.call("ada", "read_file", json!({})).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = ended => {}
            () = called => {}
        }
    };

    ada.prompt.will_say(&[PromptAnswer::Yes]);
    calls(&agent, 1).await;
    assert_eq!((ada.tool.runs(), verified()), (1, AgentVerification::Did { did: did.to_string() }));
    calls(&agent, 2).await;
    assert_eq!((ada.tool.runs(), ada.prompt.count()), (2, 1), "not asked again");
    // The person said yes to the verified keys, so a call with the foreign keys prompts again, as unverified.
    ada.prompt.will_say(&[PromptAnswer::No]);
    calls(&scene.agent, 3).await;
    assert_eq!((ada.prompt.count(), ada.tool.runs()), (2, 2));
    assert_eq!(verified(), AgentVerification::FirstContact);
}
