//! Location tools: set by the person in a file, or found by the system's location service.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::dbus::{Arg, Bus, BusError, Object};
use super::{Desktop, LocalTool, ToolFailure};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// In degrees; north is positive.
    pub latitude: f64,
    /// In degrees; east is positive.
    pub longitude: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[async_trait]
impl LocalTool for Location {
    async fn run(&self, _: &Value, _: Duration) -> Result<Value, ToolFailure> {
        Ok(
            json!({"latitude": self.latitude, "longitude": self.longitude, "label": self.label, "source": "set_by_person"}),
        )
    }
}

/// Asks the system's location service.
///
/// GeoClue: <https://www.freedesktop.org/software/geoclue/docs/>
#[derive(Debug, Clone)]
pub struct GeoClue(Desktop);

const SERVICE: &str = "org.freedesktop.GeoClue2";
const MANAGER: Object<'static> = Object {
    service: SERVICE,
    path: "/org/freedesktop/GeoClue2/Manager",
    interface: "org.freedesktop.GeoClue2.Manager",
};
/// Desktop id of Nuncio, which the system's settings may mention.
const DESKTOP_ID: &str = "nuncio";
const EXACT: u32 = 8;

impl GeoClue {
    #[must_use]
    pub fn of(desktop: Desktop) -> Self {
        Self(desktop)
    }

    async fn find(&self) -> Result<Value, BusError> {
        let mut bus = Bus::open(self.0.system_bus()).await?;
        let client = path(bus.call(MANAGER, "GetClient", Vec::new()).await?.pop())?;
        let client = Object { service: SERVICE, path: &client, interface: "org.freedesktop.GeoClue2.Client" };
        bus.set(client, "DesktopId", Arg::text(DESKTOP_ID)).await?;
        bus.set(client, "RequestedAccuracyLevel", Arg::U32(EXACT)).await?;
        bus.listen(client).await?;
        bus.call(client, "Start", Vec::new()).await?;
        let place = path(bus.wait_signal(client, "LocationUpdated").await?.pop())?;
        let place = Object { service: SERVICE, path: &place, interface: "org.freedesktop.GeoClue2.Location" };
        let mut found = json!({"source": "system"});
        for (key, name) in [("latitude", "Latitude"), ("longitude", "Longitude"), ("accuracy_m", "Accuracy")] {
            let Arg::F64(number) = bus.property(place, name).await? else { return Err(BusError::Unreadable) };
            found[key] = json!(number);
        }
        Ok(found)
    }
}

#[async_trait]
impl LocalTool for GeoClue {
    async fn run(&self, _: &Value, time: Duration) -> Result<Value, ToolFailure> {
        let set = "write your place into place.toml";
        match tokio::time::timeout(time, self.find()).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => {
                Err(ToolFailure::Unavailable(format!("this device does not know where it is ({error}): {set}")))
            }
            Err(_) => Err(ToolFailure::Failed(format!("the system did not find this device in time: {set}"))),
        }
    }
}

/// Object path from a reply.
fn path(arg: Option<Arg>) -> Result<String, BusError> {
    let fits = |path: &str| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_".contains(&byte));
    match arg {
        Some(Arg::Path(path)) if fits(&path) => Ok(path),
        _ => Err(BusError::Unreadable),
    }
}
