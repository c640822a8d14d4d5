//! Where the person is, as far as they say so themselves.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{LocalTool, ToolFailure};

/// A place the person set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// In degrees, north is positive.
    pub latitude: f64,
    /// In degrees, east is positive.
    pub longitude: f64,
    /// What they call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[async_trait]
impl LocalTool for Place {
    async fn run(&self, _: &Value, _: Duration) -> Result<Value, ToolFailure> {
        Ok(
            json!({"latitude": self.latitude, "longitude": self.longitude, "label": self.label, "source": "set_by_person"}),
        )
    }
}
