//! State that all parts of a device share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_a2h::client::{HttpRelayClient, SignFn};
use nuncio_a2h::peer::Peer;
use nuncio_core::manifest::ScopePresets;
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Entropy;
use tokio::sync::{broadcast, watch};

use crate::audit::AuditLog;
use crate::device::{DeviceDependencies, DeviceIdentity};
use crate::device_events::DeviceEvent;
use crate::record_store::RecordStore;
use crate::server_connection::ServerConnectionState;

pub(crate) struct DeviceContext {
    pub(crate) config: DeviceDependencies,
    pub(crate) identity: DeviceIdentity,
    pub(crate) records: RecordStore,
    pub(crate) relay: Arc<HttpRelayClient>,
    pub(crate) peer: Peer,
    pub(crate) sign: SignFn,
    pub(crate) lock: Mutex<()>,
    pub(crate) events: broadcast::Sender<DeviceEvent>,
    pub(crate) connection: watch::Sender<ServerConnectionState>,
}

impl DeviceContext {
    /// The person that owns this device.
    pub(crate) fn me(&self) -> RelayParty {
        RelayParty::Person(self.identity.person.clone())
    }

    /// Lock to hold while records are read and written back changed.
    pub(crate) fn state_lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.records.clone())
    }

    pub(crate) fn notify(&self, event: DeviceEvent) {
        // Without subscribers the event is dropped.
        let _ = self.events.send(event);
    }

    /// Sets the state of the connection to the server; subscribers are woken only if it changed.
    pub(crate) fn set_connection(&self, state: ServerConnectionState) {
        self.connection.send_if_modified(|known| std::mem::replace(known, state) != state);
    }

    pub(crate) fn presets(&self) -> &ScopePresets {
        &self.config.presets
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.config.clock.now()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.config.entropy
    }

    pub(crate) async fn pause(&self, time: Duration) {
        self.config.clock.sleep_until(self.now().after(time)).await;
    }
}
