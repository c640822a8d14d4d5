//! Crashes at every possible save: no message is opened twice, and no ratchet key encrypts two messages.

use std::collections::HashMap;
use std::sync::Arc;

use nuncio_core::bundle::SealMode;
use nuncio_identity::seal::{MemoryKeyStore, OpenError, OpenedMessage, PlaintextMessage, SealError, SealIdentity};
use serde_json::Value;

use crate::seal_fixtures::{
    FailingKeyStore, TestIdentity, agent, at, device, pair, parse, person, relay_metadata, send_text, text,
    text_message,
};

/// An agent that crashes at a chosen save, restarts from its store and repeats the failed step.
struct CrashScenario {
    disk: Arc<MemoryKeyStore>,
    ada: TestIdentity,
    hotel: TestIdentity,
    sealed_messages: Vec<(PlaintextMessage, Vec<u8>)>,
    opened: HashMap<String, usize>,
}

impl CrashScenario {
    fn begin() -> Self {
        let disk = Arc::new(MemoryKeyStore::new());
        let mut hotel = TestIdentity::on(disk.clone(), agent("hotel"), "main", SealMode::Stateful);
        let mut ada = TestIdentity::new(person("ada"), "phone", SealMode::Stateful);
        ada.review_keys(&hotel);
        hotel.review_keys(&ada);
        Self { disk, ada, hotel, sealed_messages: Vec::new(), opened: HashMap::new() }
    }

    /// Reloads the agent from its store; it will crash at the n-th save from now.
    fn restart(&mut self, fails_at: usize, after: bool) {
        let saves = std::sync::atomic::AtomicUsize::new(0);
        let keep = FailingKeyStore { disk: Arc::clone(&self.disk), fails_at, after, saves };
        self.hotel.seal_identity = SealIdentity::load(Arc::new(keep)).unwrap().unwrap();
    }

    fn count(&mut self, opened: &OpenedMessage) {
        *self.opened.entry(opened.header.client_message_id.to_string()).or_default() += 1;
    }

    fn run(&mut self, fails_at: usize, after: bool) -> usize {
        self.restart(fails_at, after);
        let mut deaths = 0;
        for round in 0..4 {
            for number in 0..3 {
                let plaintext = text_message(&format!("a{round}{number}"), "to the agent");
                let envelope = self.ada.seal(&plaintext, &mut self.hotel).unwrap();
                // The relay delivers the message until it is acknowledged, then once more.
                loop {
                    match self.hotel.open(&relay_metadata(&plaintext, &self.ada), &envelope) {
                        Ok(opened) => self.count(&opened),
                        Err(OpenError::KeyStore(_)) => {
                            deaths += 1;
                            self.restart(usize::MAX, false);
                            continue;
                        }
                        Err(error) => assert_eq!(error, OpenError::Replayed),
                    }
                    break;
                }
                let again = self.hotel.open(&relay_metadata(&plaintext, &self.ada), &envelope);
                assert!(matches!(again, Err(OpenError::Replayed | OpenError::KeyStore(_))), "{again:?}");
            }
            let plaintext = text_message(&format!("h{round}"), "to the person");
            let envelope = loop {
                match self.hotel.seal(&plaintext, &mut self.ada) {
                    Ok(envelope) => break envelope,
                    Err(SealError::KeyStore(_)) => {
                        deaths += 1;
                        self.restart(usize::MAX, false);
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            self.sealed_messages.push((plaintext.clone(), envelope.clone()));
            assert_eq!(
                text(&self.ada.open(&relay_metadata(&plaintext, &self.hotel), &envelope).unwrap()),
                "to the person"
            );
        }
        deaths
    }
}

#[test]
fn crash_at_any_save_opens_no_message_twice_and_reuses_no_key() {
    let mut died = 0;
    for after in [false, true] {
        for fails_at in 0..17 {
            let mut life = CrashScenario::begin();
            died += life.run(fails_at, after);
            for (message, count) in &life.opened {
                assert_eq!(*count, 1, "{message} {fails_at} {after}");
            }
            // A crash after a save may lose the message of that save, but no other message.
            let missing = 12 - life.opened.len();
            assert!(missing <= usize::from(after), "{missing} {fails_at} {after}");
            let mut wraps: Vec<String> =
                life.sealed_messages.iter().map(|(_, envelope)| ratchet_position(envelope)).collect();
            let all = wraps.len();
            wraps.sort();
            wraps.dedup();
            assert_eq!(wraps.len(), all, "{fails_at} {after}");
        }
    }
    assert!(died >= 32, "{died} deaths");
}

/// The ratchet key and chain index that an Olm message names in plaintext, after any pre-key part.
fn ratchet_position(envelope: &[u8]) -> String {
    let wrapped: Value = parse(envelope)["to"][0].clone();
    use base64::Engine as _;
    let ct = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(wrapped["ct"].as_str().unwrap()).unwrap();
    let message = vodozemac::olm::OlmMessage::from_parts(wrapped["type"].as_u64().unwrap() as usize, &ct).unwrap();
    let message = match &message {
        vodozemac::olm::OlmMessage::Normal(message) => message,
        vodozemac::olm::OlmMessage::PreKey(message) => message.message(),
    };
    format!("{} {}", message.ratchet_key().to_base64(), message.chain_index())
}

#[test]
fn seal_identity_works_again_after_failed_saves_of_its_keys() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    send_text(&mut ada, &mut hotel, "m0").unwrap();
    let disk = Arc::new(MemoryKeyStore::new());
    let mut hotel2 = TestIdentity::on(disk.clone(), agent("hotel2"), "main", SealMode::Stateful);
    hotel2.review_keys(&ada);
    ada.review_keys(&hotel2);
    send_text(&mut ada, &mut hotel2, "m1").unwrap();
    let saves = std::sync::atomic::AtomicUsize::new(0);
    let keep = Arc::new(FailingKeyStore { disk, fails_at: 0, after: false, saves });
    hotel2.seal_identity = SealIdentity::load(keep.clone()).unwrap().unwrap();
    let plaintext = text_message("m2", "still here");
    let envelope = ada.seal(&plaintext, &mut hotel2).unwrap();
    for _ in 0..3 {
        assert!(matches!(hotel2.open(&relay_metadata(&plaintext, &ada), &envelope), Err(OpenError::KeyStore(_))));
        assert!(matches!(hotel2.seal(&text_message("h1", "x"), &mut ada), Err(SealError::KeyStore(_))));
        assert!(hotel2.seal_identity.one_time_keys(0, at(0)).is_err());
        assert!(hotel2.seal_identity.set_owner_device(agent("hotel2"), device("other"), at(5)).is_err());
        assert_eq!(hotel2.device(), device("main"));
    }
    // The store works again.
    keep.saves.store(0, std::sync::atomic::Ordering::SeqCst);
    hotel2.seal_identity = SealIdentity::load(keep.disk.clone()).unwrap().unwrap();
    assert_eq!(text(&hotel2.open(&relay_metadata(&plaintext, &ada), &envelope).unwrap()), "still here");
    send_text(&mut hotel2, &mut ada, "h2").unwrap();
}
