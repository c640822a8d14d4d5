//! Reads of stored messages that are reported to the meter.

use async_trait::async_trait;
use nuncio_core::ids::SessionId;

use crate::converse::ConversationService;
use crate::ports::Meter;
use crate::ports::store::{EncodedMessage, MessageStore, SessionStore, StoreError};

/// The stored messages as turns read them.
pub(super) struct HistoryReader<'a> {
    store: &'a dyn SessionStore,
    meter: &'a dyn Meter,
}

impl ConversationService {
    pub(super) fn history_reader(&self) -> HistoryReader<'_> {
        HistoryReader { store: &*self.store, meter: &*self.context.meter }
    }
}

impl HistoryReader<'_> {
    fn reported(&self, read: Vec<EncodedMessage>) -> Vec<EncodedMessage> {
        self.meter.history_read(read.len(), read.iter().map(|message| message.json.len()).sum());
        read
    }
}

#[async_trait]
impl MessageStore for HistoryReader<'_> {
    async fn messages(&self, session: &SessionId, from: u64) -> Result<Vec<EncodedMessage>, StoreError> {
        Ok(self.reported(self.store.messages(session, from).await?))
    }

    async fn messages_before(
        &self,
        session: &SessionId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<EncodedMessage>, StoreError> {
        Ok(self.reported(self.store.messages_before(session, before, limit).await?))
    }

    async fn system_messages(&self, session: &SessionId, before: u64) -> Result<Vec<EncodedMessage>, StoreError> {
        Ok(self.reported(self.store.system_messages(session, before).await?))
    }
}
