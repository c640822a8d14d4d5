//! Devices of the person that were removed or are known from a backup; signatures from before removal still count.

use nuncio_core::ids::DeviceId;
use nuncio_core::person::Device as KeyedDevice;
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, SealedRecordChange};
use serde::{Deserialize, Serialize};

use crate::record_store::RecordStore;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerDevice {
    pub id: DeviceId,
    pub key: PublicKey,
    /// Time until which signatures of the device count; `None` if only the relay's revocation time limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl FormerDevice {
    pub(crate) fn is(&self, device: &KeyedDevice) -> bool {
        self.id == device.id && self.key == device.key
    }

    /// If `device` is this former device, sets its revocation time to the earlier of both times.
    pub(crate) fn limit(&self, device: &mut KeyedDevice) {
        if self.is(device) {
            device.revoked_at = [self.until, device.revoked_at].into_iter().flatten().min();
        }
    }
}

pub(crate) fn all(records: &RecordStore) -> Result<Vec<FormerDevice>, KeyStoreError> {
    records.all("former/")?.into_iter().map(|(_, former)| former).collect()
}

pub(crate) fn put(former: &FormerDevice) -> SealedRecordChange {
    RecordStore::put(&format!("former/{}", former.id), former)
}

#[cfg(test)]
mod tests {
    use nuncio_core::ids::PersonName;

    use super::*;

    #[test]
    fn former_device_is_revoked_at_the_earlier_of_local_and_relay_time() {
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
        let former = |until, byte| FormerDevice { id: shown(None).id, key: key(byte), until };
        for (said, byte, relay, expected) in [
            (at(5), 9, None, at(5)),
            (at(5), 9, at(9), at(5)),
            (at(5), 9, at(3), at(3)),
            (None, 9, at(3), at(3)),
            (None, 9, None, None),
            // A device with the same id but another key is not limited.
            (at(5), 8, None, None),
        ] {
            let mut device = shown(relay);
            former(said, byte).limit(&mut device);
            assert_eq!(device.revoked_at, expected);
        }
    }
}
