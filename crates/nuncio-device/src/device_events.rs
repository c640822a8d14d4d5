//! Notifications about changes on a device, so that open pages reload.

use nuncio_core::ids::AgentId;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeviceEvent {
    /// The audit log has a new entry.
    #[serde(rename = "happened")]
    AuditChanged,
    /// The access request, grants or keys of an agent changed.
    Agent {
        agent: AgentId,
    },
    Devices,
    /// A chat message with the agent arrived, or its delivery state changed.
    Talk {
        agent: AgentId,
    },
}
