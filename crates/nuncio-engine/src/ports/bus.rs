//! Waking up whoever waits for something, here or in another process. The store holds the truth;
//! the bus only says that it is worth looking.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use nuncio_core::happening::Recipient;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An approval was asked for, decided or closed.
    Approvals,
    /// Keys or grants changed.
    Access,
    /// Work for people was added, taken, done or withdrawn.
    Tasks,
    /// People or agents were told something: these, or nobody knows who when there are none.
    Mail(Arc<[Recipient]>),
}

/// A bus.
#[async_trait]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    /// Tells everyone who listens.
    async fn publish(&self, notice: Notice);

    /// Everything published from now on. A slow listener may miss some, but never the last of a
    /// kind.
    fn subscribe(&self) -> BoxStream<'static, Notice>;
}
