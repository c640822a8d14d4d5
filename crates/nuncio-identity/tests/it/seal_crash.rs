//! Crashes at every possible save: no message is opened twice, and no ratchet key encrypts two messages.

use std::collections::HashMap;
use std::sync::Arc;

use nuncio_core::bundle::SealMode;
use nuncio_identity::seal::{Letter, MemoryKeep, OpenError, Opened, Party, SealError};
use serde_json::Value;

use crate::seal_world::{Mortal, Side, agent, at, device, pair, parse, person, say, text, told, words};

/// An agent that crashes at a chosen save, restarts from its store and repeats the failed step.
struct Life {
    disk: Arc<MemoryKeep>,
    ada: Side,
    hotel: Side,
    handed_out: Vec<(Letter, Vec<u8>)>,
    opened: HashMap<String, usize>,
}

impl Life {
    fn begin() -> Self {
        let disk = Arc::new(MemoryKeep::new());
        let mut hotel = Side::on(disk.clone(), agent("hotel"), "main", SealMode::Stateful);
        let mut ada = Side::new(person("ada"), "phone", SealMode::Stateful);
        ada.meet(&hotel);
        hotel.meet(&ada);
        Self { disk, ada, hotel, handed_out: Vec::new(), opened: HashMap::new() }
    }

    /// Reloads the agent from its store; it will crash at the n-th save from now.
    fn revive(&mut self, dies_at: usize, after: bool) {
        let saves = std::sync::atomic::AtomicUsize::new(0);
        let keep = Mortal { disk: Arc::clone(&self.disk), dies_at, after, saves };
        self.hotel.party = Party::load(Arc::new(keep)).unwrap().unwrap();
    }

    fn count(&mut self, opened: &Opened) {
        *self.opened.entry(opened.header.client_message_id.to_string()).or_default() += 1;
    }

    fn run(&mut self, dies_at: usize, after: bool) -> usize {
        self.revive(dies_at, after);
        let mut deaths = 0;
        for round in 0..4 {
            for number in 0..3 {
                let letter = words(&format!("a{round}{number}"), "to the agent");
                let envelope = self.ada.seal(&letter, &mut self.hotel).unwrap();
                // Delivered until it is acknowledged, as relays do; then once more.
                loop {
                    match self.hotel.open(&told(&letter, &self.ada), &envelope) {
                        Ok(opened) => self.count(&opened),
                        Err(OpenError::Keep(_)) => {
                            deaths += 1;
                            self.revive(usize::MAX, false);
                            continue;
                        }
                        Err(error) => assert_eq!(error, OpenError::Replayed),
                    }
                    break;
                }
                let again = self.hotel.open(&told(&letter, &self.ada), &envelope);
                assert!(matches!(again, Err(OpenError::Replayed | OpenError::Keep(_))), "{again:?}");
            }
            let letter = words(&format!("h{round}"), "to the person");
            let envelope = loop {
                match self.hotel.seal(&letter, &mut self.ada) {
                    Ok(envelope) => break envelope,
                    Err(SealError::Keep(_)) => {
                        deaths += 1;
                        self.revive(usize::MAX, false);
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            self.handed_out.push((letter.clone(), envelope.clone()));
            assert_eq!(text(&self.ada.open(&told(&letter, &self.hotel), &envelope).unwrap()), "to the person");
        }
        deaths
    }
}

#[test]
fn crash_at_any_save_opens_no_message_twice_and_reuses_no_key() {
    let mut died = 0;
    for after in [false, true] {
        for dies_at in 0..17 {
            let mut life = Life::begin();
            died += life.run(dies_at, after);
            for (message, count) in &life.opened {
                assert_eq!(*count, 1, "{message} {dies_at} {after}");
            }
            // A crash after the save may lose the message it happened at, and no other.
            let missing = 12 - life.opened.len();
            assert!(missing <= usize::from(after), "{missing} {dies_at} {after}");
            let mut wraps: Vec<String> = life.handed_out.iter().map(|(_, envelope)| ratchet_place(envelope)).collect();
            let all = wraps.len();
            wraps.sort();
            wraps.dedup();
            assert_eq!(wraps.len(), all, "{dies_at} {after}");
        }
    }
    assert!(died >= 32, "{died} deaths");
}

/// The ratchet key and chain index that an Olm message names in plaintext, after any pre-key part.
fn ratchet_place(envelope: &[u8]) -> String {
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
fn process_recovers_after_failed_saves() {
    let (mut ada, mut hotel) = pair(SealMode::Stateful);
    say(&mut ada, &mut hotel, "m0").unwrap();
    let disk = Arc::new(MemoryKeep::new());
    let mut hotel2 = Side::on(disk.clone(), agent("hotel2"), "main", SealMode::Stateful);
    hotel2.meet(&ada);
    ada.meet(&hotel2);
    say(&mut ada, &mut hotel2, "m1").unwrap();
    let saves = std::sync::atomic::AtomicUsize::new(0);
    let keep = Arc::new(Mortal { disk, dies_at: 0, after: false, saves });
    hotel2.party = Party::load(keep.clone()).unwrap().unwrap();
    let letter = words("m2", "still here");
    let envelope = ada.seal(&letter, &mut hotel2).unwrap();
    for _ in 0..3 {
        assert!(matches!(hotel2.open(&told(&letter, &ada), &envelope), Err(OpenError::Keep(_))));
        assert!(matches!(hotel2.seal(&words("h1", "x"), &mut ada), Err(SealError::Keep(_))));
        assert!(hotel2.party.one_time_keys(0, at(0)).is_err());
        assert!(hotel2.party.set_owner_device(agent("hotel2"), device("other"), at(5)).is_err());
        assert_eq!(hotel2.device(), device("main"));
    }
    // The store works again.
    keep.saves.store(0, std::sync::atomic::Ordering::SeqCst);
    hotel2.party = Party::load(keep.disk.clone()).unwrap().unwrap();
    assert_eq!(text(&hotel2.open(&told(&letter, &ada), &envelope).unwrap()), "still here");
    say(&mut hotel2, &mut ada, "h2").unwrap();
}
