//! An agent whose DID vouches for its keys, and a relay that slipped in others at first contact.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::bundle::SealMode;
use nuncio_core::grant::Term;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::DeviceId;
use nuncio_device::guard::Floors;
use nuncio_device::prompt::{Said, Verified};
use nuncio_engine::ports::fetch::{FetchError, Incoming, Outgoing};
use nuncio_engine::ports::{Clock as _, Fetch};
use nuncio_identity::seal::{Keep, MemoryKeep, NewParty, Party};
use nuncio_identity::{Did, DidUrl, NewDocument, SigningKey};
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{Reached, SealedAgent, Way};
use nuncio_testkit::eventually;
use serde_json::{Value, json};

use super::scene::Scene;

/// A way out on which a DID's host can be reached, and on which the relay shows more keys than the agent has.
#[derive(Debug)]
struct Crooked {
    real: Arc<dyn Fetch>,
    url: String,
    document: String,
    slipped_in: Value,
}

#[async_trait]
impl Fetch for Crooked {
    async fn fetch(&self, request: Outgoing) -> Result<Incoming, FetchError> {
        if request.url.as_str() == self.url {
            return Ok(Incoming { status: 200, headers: Vec::new(), body: self.document.clone().into() });
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
async fn a_did_stands_for_the_keys_it_vouches_for_and_no_others() {
    let scene = Scene::start().await;
    let key = SigningKey::from_seed(&[7; 32]);
    let did = Did::for_key("agent.example", None, &["notes"], &key).unwrap();
    let document = NewDocument::new(&did, scene.clock.now()).sign(&key).to_string();

    // The scene's own agent stands for whoever has the keys that are slipped in.
    let path = format!("/keys/agents/{}", scene.id);
    let slipped_in = scene.server.send(Method::GET, &path, Some(&scene.token), None).await.data()[0].clone();
    // The agent itself, with keys that its DID vouches for.
    let keep: Arc<dyn Keep> = Arc::new(MemoryKeep::new());
    let named = Some((Recipient::Agent(scene.id.clone()), DeviceId::parse("dev_vouched").unwrap()));
    let new = NewParty { named, mode: SealMode::Stateful, now: scene.clock.now() };
    let mut party = Party::create(Arc::clone(&keep), &new).unwrap();
    party.vouch_by_did(&DidUrl::parse(&did.url("key-1")).unwrap(), &key).unwrap();
    drop(party);
    // It does not connect, since to the relay both are one.
    let way = Way::straight().by_clock(&scene.clock);
    let named = (scene.id.as_str(), scene.token.as_str());
    let agent = SealedAgent::start(&way, &scene.gateway.url(), named, keep, Reached::Hooks).await;

    let real = Way::straight().fetch;
    let out = Arc::new(Crooked { real, url: did.resolution_url(), document, slipped_in });
    let ada = scene.device_by(&Way { fetch: out, ..Way::straight() }, "ada", Floors::default()).await;
    scene.allow(&ada, &["filesystem:read"], Term::UntilRevoked).await;
    let verified = || ada.prompt.asked.lock().unwrap().last().unwrap().verified.clone();
    // Nobody hears the answer: what counts is what the device makes of it.
    let calls = async |agent: &SealedAgent, count: usize| {
        let ended = eventually("it has ended", async || (ada.device.audit().unwrap().len() == count).then_some(()));
        let called = async {
            let _ = agent.call("ada", "read_file", json!({})).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = ended => {}
            () = called => {}
        }
    };

    ada.prompt.will_say(&[Said::Yes]);
    calls(&agent, 1).await;
    assert_eq!((ada.tool.runs(), verified()), (1, Verified::Did { did: did.to_string() }));
    calls(&agent, 2).await;
    assert_eq!((ada.tool.runs(), ada.prompt.count()), (2, 1), "not asked again");
    // The yes was to the agent, and the slipped-in keys are not known to be its own.
    ada.prompt.will_say(&[Said::No]);
    calls(&scene.agent, 3).await;
    assert_eq!((ada.prompt.count(), ada.tool.runs()), (2, 2));
    assert_eq!(verified(), Verified::FirstContact);
}
