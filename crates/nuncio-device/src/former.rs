//! Devices of the person's that are gone: what they signed in their time still counts, and nothing after it.

use nuncio_core::ids::DeviceId;
use nuncio_core::person::Device as KeyedDevice;
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{Change, KeepError};
use serde::{Deserialize, Serialize};

use crate::records::Records;

/// A device that was trusted here once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// Which.
    pub id: DeviceId,
    /// The key it signed with.
    pub key: PublicKey,
    /// Until when it counts; as the relay says, where nothing is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Former {
    pub(crate) fn is(&self, device: &KeyedDevice) -> bool {
        self.id == device.id && self.key == device.key
    }

    /// If this is it, it counts no longer than was said here.
    pub(crate) fn limit(&self, device: &mut KeyedDevice) {
        if self.is(device) {
            device.revoked_at = [self.until, device.revoked_at].into_iter().flatten().min();
        }
    }
}

fn name(id: &DeviceId) -> String {
    format!("former/{id}")
}

/// All of them.
pub(crate) fn all(records: &Records) -> Result<Vec<Former>, KeepError> {
    let names = records.names("former/")?;
    names.iter().filter_map(|name| records.get(name).transpose()).collect()
}

/// The change that keeps one.
pub(crate) fn put(former: &Former) -> Change {
    Records::put(&name(&former.id), former)
}

#[cfg(test)]
mod tests {
    use nuncio_core::ids::PersonName;

    use super::*;

    #[test]
    fn a_device_counts_no_longer_than_this_one_or_the_relay_says() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        let key = |byte| PublicKey::new([byte; 32]).unwrap();
        let shown = |revoked_at| KeyedDevice {
            id: DeviceId::parse("dev_1").unwrap(),
            person: PersonName::parse("ada").unwrap(),
            name: String::new(),
            key: key(9),
            enrolled_at: Timestamp::from_millis(0),
            revoked_at,
        };
        let former = |until, byte| Former { id: shown(None).id, key: key(byte), until };
        for (said, byte, relay, expected) in [
            (at(5), 9, None, at(5)),
            (at(5), 9, at(9), at(5)),
            (at(5), 9, at(3), at(3)),
            (None, 9, at(3), at(3)),
            (None, 9, None, None),
            // The same name with another key is another device.
            (at(5), 8, None, None),
        ] {
            let mut device = shown(relay);
            former(said, byte).limit(&mut device);
            assert_eq!(device.revoked_at, expected);
        }
    }
}
