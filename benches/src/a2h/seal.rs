//! Cost of sealing and opening a message compared with its cryptographic primitives alone. Both are measured in this
//! process, alternately, by the CPU time of one thread.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nuncio_core::bundle::{OneTimeKey, SealMode};
use nuncio_core::conversation::{ContentType, ConversationType};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{
    MemoryKeyStore, NewSealIdentity, PlaintextMessage, RecipientDevice, RelayMetadata, SealIdentity,
};
use serde_json::{Value, json};

use super::BenchmarkGoalResult;
use super::primitives::SealPrimitivesBaseline;
use crate::anp::cpu_micros;

/// Number of messages per measured batch; batches of sealing and of primitives alternate.
const PIECE: usize = 50;
/// Size of the plaintext of a message, in bytes.
const SAID: usize = 1024;

pub(super) fn run(rounds: usize) -> anyhow::Result<Vec<BenchmarkGoalResult>> {
    let mut goals = Vec::new();
    for (what, mode, answered) in [
        ("seal + open 1 KB, in a running session", SealMode::Stateful, false),
        ("… each letter answered (the ratchet turns)", SealMode::Stateful, true),
        ("… to a key that stays (HPKE)", SealMode::Stateless, false),
    ] {
        let (ours, bare) = measure_batches(mode, answered, rounds)?;
        let ratio = format!("{:.2} ({ours:.0} µs, the primitives {bare:.0} µs)", ours / bare);
        goals.push(BenchmarkGoalResult {
            what,
            asked: "≤ 2 × the primitives",
            measured: ratio,
            met: ours <= 2.0 * bare,
        });
    }
    Ok(goals)
}

/// CPU microseconds of a message and of its primitives, from the fastest batch, which was disturbed the least.
fn measure_batches(mode: SealMode, answered: bool, rounds: usize) -> anyhow::Result<(f64, f64)> {
    let mut pair = SealSessionPair::new(mode)?;
    let mut primitives = SealPrimitivesBaseline::new(pair.payload.to_string().len());
    let (mut ours, mut bare) = (f64::MAX, f64::MAX);
    for _ in 0..(rounds / PIECE).max(2) {
        let began = cpu_micros();
        for _ in 0..PIECE {
            pair.seal_message()?;
            if answered {
                pair.parties.reverse();
            }
        }
        ours = ours.min((cpu_micros() - began) / PIECE as f64);
        let began = cpu_micros();
        for _ in 0..PIECE {
            let succeeded = match mode {
                SealMode::Stateful => primitives.in_session(),
                SealMode::Stateless => primitives.to_key(),
            };
            ensure!(succeeded, "the primitives failed");
            if answered {
                primitives.turn();
            }
        }
        bare = bare.min((cpu_micros() - began) / PIECE as f64);
    }
    Ok((ours, bare))
}

/// Two parties with an established session; the first one sends.
struct SealSessionPair {
    parties: [SealIdentity; 2],
    payload: Value,
    count: u32,
    first_key: Option<OneTimeKey>,
}

impl SealSessionPair {
    fn new(mode: SealMode) -> anyhow::Result<Self> {
        let now = Timestamp::from_millis(1_794_740_400_000);
        let party = |owner: RelayParty, device: &str, mode| {
            let identity = Some((owner, DeviceId::parse(device)?));
            anyhow::Ok(SealIdentity::create(
                Arc::new(MemoryKeyStore::new()),
                &NewSealIdentity { named: identity, mode, now },
            )?)
        };
        let mut person = party(RelayParty::Person(PersonName::parse("ada")?), "dev_1", SealMode::Stateful)?;
        let mut agent = party(RelayParty::Agent(AgentId::parse("agt_1")?), "main", mode)?;
        let keys = agent.one_time_keys(0, now)?;
        establish_session(&mut person, &agent)?;
        establish_session(&mut agent, &person)?;
        let payload = json!({"type": "text", "text": "x".repeat(SAID)});
        let mut pair = Self { parties: [person, agent], payload, count: 0, first_key: keys.into_iter().next() };
        // A session is established after one message in each direction.
        for _ in 0..2 {
            pair.seal_message()?;
            pair.parties.reverse();
        }
        Ok(pair)
    }

    fn seal_message(&mut self) -> anyhow::Result<()> {
        self.count += 1;
        let at = Timestamp::from_millis(1_794_740_400_000).after(Duration::from_millis(self.count.into()));
        let letter = PlaintextMessage {
            conversation: ConversationId::parse("cnv_0123456789abcdefghijklmn")?,
            conversation_type: ConversationType::H2a,
            client_id: ClientMessageId::parse(&format!("0123456789abcdef-{}", self.count))?,
            content_type: ContentType::Text,
            subtype: None,
            in_reply_to: None,
            created_at: at,
            payload: self.payload.clone(),
        };
        let [from, to] = &mut self.parties;
        let bundle = to.bundle().context("it has a name")?;
        let envelope =
            from.seal(&letter, &[RecipientDevice { bundle, one_time_key: self.first_key.take().as_ref() }])?;
        let (owner, device) = from.owner_device().context("it has a name")?;
        let metadata = RelayMetadata {
            conversation: letter.conversation,
            conversation_type: letter.conversation_type,
            sender: owner.clone(),
            sender_device: Some(device.clone()),
            client_id: letter.client_id,
            content_type: letter.content_type,
            subtype: None,
        };
        let opened = to.open(&metadata, &envelope, at)?;
        ensure!(opened.payload == self.payload, "another letter was opened");
        Ok(())
    }
}

fn establish_session(one: &mut SealIdentity, other: &SealIdentity) -> anyhow::Result<()> {
    let bundle = other.bundle().context("it has a name")?;
    one.review_keys(&bundle.keys.owner, std::slice::from_ref(bundle), None)?;
    Ok(())
}
