//! Location tools: a location that the person wrote into a file, or one from the system's location service.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{DesktopEnvironment, LocalTool, LocalToolFailure};
use crate::dbus;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedLocationTool {
    /// Latitude in degrees; north is positive.
    pub latitude: f64,
    /// Longitude in degrees; east is positive.
    pub longitude: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[async_trait]
impl LocalTool for FixedLocationTool {
    async fn run(&self, _: &Value, _: Duration) -> Result<Value, LocalToolFailure> {
        Ok(
            json!({"latitude": self.latitude, "longitude": self.longitude, "label": self.label, "source": "set_by_person"}),
        )
    }
}

#[derive(Debug, Clone)]
pub struct GeoClueLocationTool(pub DesktopEnvironment);

#[async_trait]
impl LocalTool for GeoClueLocationTool {
    async fn run(&self, _: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        dbus::locate(self.0.system_bus(), time).await
    }
}
