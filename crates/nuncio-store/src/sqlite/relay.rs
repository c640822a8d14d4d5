//! Dispatch of relay changes and reads to their statements.

use async_trait::async_trait;
use nuncio_core::bundle::{BundleId, KeyBundle, OneTimeKey};
use nuncio_core::conversation::{Conversation, ConversationMessage, MessageRef, ToolCallClaim};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId, PersonName};
use nuncio_core::notification::Recipient;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::relay::{Delivery, DeliveryLog, MemberView, Webhook};
use nuncio_engine::ports::store::{KeyBundleStore, RelayChange, RelayStore, StoreError, WebhookStore};
use rusqlite::Connection;

use super::problem::SqlProblem;
use super::{SqliteStore, bundles, relayed, webhooks};

/// Number of messages and bytes up to which a page is read on the calling thread.
const SHORT_PAGE: (usize, usize) = (32, 64 * 1024);

/// Applies one change in the open transaction.
pub(super) fn apply(connection: &Connection, change: &RelayChange) -> Result<(), SqlProblem> {
    match change {
        RelayChange::CreateConversation(conversation) => relayed::create(connection, conversation),
        RelayChange::UpdateConversation(conversation) => relayed::update(connection, conversation),
        RelayChange::PostMessage { conversation, revision, at, post, to } => {
            relayed::post(connection, conversation, *revision, *at, post, to)
        }
        RelayChange::ReadConversation { conversation, reader, seq } => {
            relayed::read_up_to(connection, conversation, reader, *seq)
        }
        RelayChange::ClaimMessage { place, claim } => relayed::claim(connection, place, claim),
        RelayChange::ForgetMessages { before, limit } => relayed::forget(connection, *before, *limit),
        RelayChange::PutBundle(bundle) => bundles::put(connection, bundle),
        RelayChange::EndorseBundle { id, endorsement } => bundles::endorse(connection, id, endorsement),
        RelayChange::PutOneTimeKeys { id, keys, most } => bundles::put_one_time(connection, id, keys, *most),
        RelayChange::TakeOneTimeKey { id, key_id } => bundles::take_one_time(connection, id, key_id),
        RelayChange::RemoveBundle(id) => bundles::remove(connection, id),
        RelayChange::PutBackup { person, content, at } => bundles::put_backup(connection, person, content, *at),
        RelayChange::RemoveBackup(person) => bundles::remove_backup(connection, person),
        RelayChange::PutWebhook(webhook) => webhooks::put(connection, webhook),
        RelayChange::RemoveWebhook(agent) => webhooks::remove(connection, agent),
        RelayChange::EndDelivery { agent, seq, logged } => webhooks::end(connection, agent, *seq, logged),
        RelayChange::DelayDelivery { agent, seq, attempts, due } => {
            webhooks::delay(connection, agent, *seq, *attempts, *due)
        }
        RelayChange::HastenDeliveries { agent, due } => webhooks::hasten(connection, agent, *due),
        RelayChange::ForgetDeliveryLog { before, limit } => webhooks::forget_log(connection, *before, *limit),
    }
}

#[async_trait]
impl RelayStore for SqliteStore {
    async fn member_view(&self, id: &ConversationId, member: &Recipient) -> Result<Option<MemberView>, StoreError> {
        self.readers.point(|connection| relayed::held(connection, id, member))
    }

    async fn conversation_of_pair(&self, pair: &str) -> Result<Option<Conversation>, StoreError> {
        self.readers.point(|connection| relayed::of_pair(connection, pair))
    }

    async fn conversations_of(
        &self,
        member: &Recipient,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<Vec<MemberView>, StoreError> {
        let (member, after) = (member.clone(), after.cloned());
        self.readers.list(move |connection| relayed::held_by(connection, &member, after.as_ref(), limit)).await
    }

    async fn relayed(&self, place: &MessageRef) -> Result<Option<ConversationMessage>, StoreError> {
        self.readers.point(|connection| relayed::one(connection, place))
    }

    async fn relayed_by_client_id(
        &self,
        conversation: &ConversationId,
        sender: &Recipient,
        client_id: &ClientMessageId,
    ) -> Result<Option<ConversationMessage>, StoreError> {
        self.readers.point(|connection| relayed::by_client_id(connection, conversation, sender, client_id))
    }

    async fn relayed_after(
        &self,
        conversation: &ConversationId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ConversationMessage>, StoreError> {
        let short = self
            .readers
            .point(|connection| relayed::after_short(connection, conversation, after, limit, SHORT_PAGE))?;
        if let Some(messages) = short {
            return Ok(messages);
        }
        let conversation = conversation.clone();
        self.readers.list(move |connection| relayed::after(connection, &conversation, after, limit)).await
    }

    async fn claim(&self, place: &MessageRef) -> Result<Option<ToolCallClaim>, StoreError> {
        self.readers.point(|connection| relayed::claim_of(connection, place))
    }

    async fn is_any_relayed_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        self.readers.point(|connection| relayed::is_any_before(connection, time))
    }
}

#[async_trait]
impl KeyBundleStore for SqliteStore {
    async fn bundle(&self, id: &BundleId) -> Result<Option<KeyBundle>, StoreError> {
        self.readers.point(|connection| bundles::one(connection, id))
    }

    async fn bundles(&self, owner: &Recipient) -> Result<Vec<KeyBundle>, StoreError> {
        let owner = owner.clone();
        self.readers.list(move |connection| bundles::of(connection, &owner)).await
    }

    async fn bundle_owners(&self, device: &DeviceId, limit: usize) -> Result<Vec<Recipient>, StoreError> {
        self.readers.point(|connection| bundles::owners(connection, device, limit))
    }

    async fn one_time_key(&self, id: &BundleId) -> Result<Option<OneTimeKey>, StoreError> {
        self.readers.point(|connection| bundles::one_time(connection, id))
    }

    async fn one_time_keys_left(&self, id: &BundleId) -> Result<usize, StoreError> {
        self.readers.point(|connection| bundles::one_time_left(connection, id))
    }

    async fn backup(&self, person: &PersonName) -> Result<Option<(String, Timestamp)>, StoreError> {
        let person = person.clone();
        self.readers.list(move |connection| bundles::backup(connection, &person)).await
    }
}

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn webhook(&self, agent: &AgentId) -> Result<Option<Webhook>, StoreError> {
        self.readers.point(|connection| webhooks::one(connection, agent))
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>, StoreError> {
        self.readers.list(webhooks::every).await
    }

    async fn deliveries(&self, by: Timestamp, except: &[AgentId], limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let except = except.to_vec();
        self.readers.list(move |connection| webhooks::due(connection, by, &except, limit)).await
    }

    async fn first_delivery(&self, agent: &AgentId) -> Result<Option<Delivery>, StoreError> {
        self.readers.point(|connection| webhooks::first_of(connection, agent))
    }

    async fn delivery_log(&self, agent: &AgentId, before: u64, limit: usize) -> Result<Vec<DeliveryLog>, StoreError> {
        let agent = agent.clone();
        self.readers.list(move |connection| webhooks::log(connection, &agent, before, limit)).await
    }

    async fn is_any_delivery_logged_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        self.readers.point(|connection| webhooks::is_any_logged_before(connection, time))
    }
}
