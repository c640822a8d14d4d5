//! Wake-up notices between tasks and processes. The store is authoritative; a notice only says that reading it is
//! worthwhile.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use nuncio_core::ids::GrantId;
use nuncio_core::notification::RelayParty;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusNotice {
    /// An approval was created, decided or closed.
    Approvals,
    /// Keys, grants, DID links or consents changed.
    Access {
        /// Process that made the change and knows it already; empty if unknown.
        by: Arc<str>,
    },
    /// A one-time grant was used.
    GrantUsed(GrantId),
    /// A human task was created or changed.
    Tasks,
    /// These recipients have new mail; an empty list means unknown recipients.
    Mail(Arc<[RelayParty]>),
}

#[async_trait]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    async fn publish(&self, notice: BusNotice);

    /// Notices published from now on. A slow listener may miss some; it then gets one of each kind instead, with
    /// `Access` in place of `GrantUsed`.
    fn subscribe(&self) -> BoxStream<'static, BusNotice>;
}
