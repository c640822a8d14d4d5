//! Connected devices and agents. Each device and each agent has at most one connection; a newer one replaces it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nuncio_core::ids::{AgentId, DeviceId};
use tokio::sync::Notify;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SocketOwner {
    Device(DeviceId),
    Agent(AgentId),
}

#[derive(Debug, Default, Clone)]
pub(super) struct SocketSlots(Arc<Mutex<HashMap<SocketOwner, Arc<Notify>>>>);

/// The one connection slot of a device or agent; released on drop.
#[derive(Debug)]
pub(super) struct SocketSlot {
    slots: SocketSlots,
    owner: SocketOwner,
    taken: Arc<Notify>,
}

impl SocketSlots {
    /// Takes the slot of a device or agent, and notifies the connection that held it.
    pub(super) fn take(&self, owner: SocketOwner) -> SocketSlot {
        let taken = Arc::new(Notify::new());
        let before = self.lock().insert(owner.clone(), Arc::clone(&taken));
        if let Some(before) = before {
            // `notify_one` is remembered if the other connection is not waiting at the moment.
            before.notify_one();
        }
        SocketSlot { slots: self.clone(), owner, taken }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SocketOwner, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketSlot {
    pub(super) async fn wait_until_taken_over(&self) {
        self.taken.notified().await;
    }
}

impl Drop for SocketSlot {
    fn drop(&mut self) {
        let mut slots = self.slots.lock();
        if slots.get(&self.owner).is_some_and(|taken| Arc::ptr_eq(taken, &self.taken)) {
            slots.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn newer_connection_replaces_the_older_of_the_same_device() {
        let slots = SocketSlots::default();
        let owner = |id: &str| SocketOwner::Device(DeviceId::parse(id).unwrap());
        let (first, other) = (slots.take(owner("dev_1")), slots.take(owner("dev_2")));
        assert!(first.wait_until_taken_over().now_or_never().is_none());
        let second = slots.take(owner("dev_1"));
        assert!(first.wait_until_taken_over().now_or_never().is_some());
        assert!(other.wait_until_taken_over().now_or_never().is_none());
        drop(first);
        assert_eq!(slots.lock().len(), 2);
        assert!(second.wait_until_taken_over().now_or_never().is_none());
        drop((second, other));
        assert!(slots.lock().is_empty());
    }
}
