//! Several devices of a person: invite, removal, backup and recovery.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::{Device, DeviceBackupFile, DeviceError, OwnDevice, OwnDeviceTrust};
use nuncio_testkit::{Method, eventually};
use serde_json::json;

use super::scene::{RelayAndAgentFixture, RunningDevice, invite};

const PHRASE: &str = "correct horse battery";

fn id(running: &RunningDevice) -> &DeviceId {
    &running.device.identity().device
}

/// Entry of the device `other` in the device list of `by`.
async fn seen(by: &RunningDevice, other: &DeviceId) -> OwnDevice {
    let devices = by.device.own_devices().list().await.unwrap();
    devices.into_iter().find(|device| device.id == *other).unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, DeviceError>) -> ErrorCode {
    result.unwrap_err().code
}

#[tokio::test(flavor = "multi_thread")]
async fn invited_device_trusts_its_inviter_and_is_trusted_after_one_confirmation() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.ada(&["notification:send"]).await;
    let invited = laptop.device.own_devices().invite().await.unwrap();
    assert_eq!(invited.fingerprint, laptop.device.identity().server_key.fingerprint());
    let phone = scene.enrolled(invited.code.clone(), SensitivityFloors::new()).await;

    // The phone trusts the inviting laptop; the laptop waits for confirmation.
    assert_eq!(seen(&phone, id(&laptop)).await.standing, OwnDeviceTrust::Trusted);
    let (there, here) = (seen(&laptop, id(&phone)).await, seen(&phone, id(&phone)).await);
    assert_eq!((there.standing, here.standing), (OwnDeviceTrust::Waiting, OwnDeviceTrust::This));
    assert!(here.this && !there.this);
    assert_eq!(there.fingerprint, here.fingerprint);
    // Both screens show the same six digits.
    assert_eq!(there.number.as_ref().unwrap().len(), "123 456".len());
    assert_eq!(there.number, here.number);
    laptop.device.own_devices().trust(id(&phone), Some(&there.fingerprint)).await.unwrap();
    let (there, here) = (seen(&laptop, id(&phone)).await, seen(&phone, id(&phone)).await);
    assert_eq!((there.standing, there.number, here.number), (OwnDeviceTrust::Trusted, None, None));

    // Signatures of each device count on the other.
    laptop.stop();
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    assert_eq!((laptop.tool.runs(), phone.tool.runs()), (0, 1));
    scene.allow(&phone, &["notification:send", "filesystem:read"], GrantTerm::UntilRevoked).await;
    let known = laptop.device.consents().refresh(&scene.id).await.unwrap();
    assert!(known.standing(&laptop.device.identity().person).is_some());
    // Agent, laptop and phone have the same safety number.
    let agent = RelayParty::Agent(scene.id.clone());
    let number = laptop.device.peer().keys().safety_number(&agent).await.unwrap();
    assert!(number.is_some());
    assert_eq!(phone.device.peer().keys().safety_number(&agent).await.unwrap(), number);
    let ada = RelayParty::Person(PersonName::parse("ada").unwrap());
    assert_eq!(scene.agent.peer.keys().safety_number(&ada).await.unwrap(), number);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_invite_works_once_expires_and_gives_no_trust_without_introduction() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.device("ada").await;
    let invited = laptop.device.own_devices().invite().await.unwrap();
    // Without the introduction, which the relay does not see, the new device cannot compute the number.
    let bare = invited.code.split_once('.').unwrap().0.to_owned();
    let stranger = scene.enrolled(bare, SensitivityFloors::new()).await;
    let shown = seen(&laptop, id(&stranger)).await;
    assert_eq!(shown.standing, OwnDeviceTrust::Waiting);
    assert!(shown.number.is_some());
    assert_eq!(seen(&stranger, id(&stranger)).await.number, None);
    assert_eq!(seen(&stranger, id(&laptop)).await.standing, OwnDeviceTrust::Waiting);
    // A key other than the compared one is not trusted.
    let other = seen(&laptop, id(&laptop)).await.fingerprint;
    assert_eq!(code(laptop.device.own_devices().trust(id(&stranger), Some(&other)).await), ErrorCode::DeviceUntrusted);
    assert_eq!(seen(&laptop, id(&stranger)).await.standing, OwnDeviceTrust::Waiting);

    let again = nuncio_a2h::client::DeviceInvitation {
        url: invited.url.clone(),
        trust: nuncio_engine::ports::fetch::AddressTrust::Configured,
        code: invited.code,
        fingerprint: Some(invited.fingerprint),
    };
    assert_eq!(code(Device::enrol(scene.machine().config(), &again, "twice").await), ErrorCode::InviteInvalid);
    let late = laptop.device.own_devices().invite().await.unwrap();
    scene.clock.jump(Duration::from_secs(601));
    let late = nuncio_a2h::client::DeviceInvitation { code: late.code, ..again };
    assert_eq!(code(Device::enrol(scene.machine().config(), &late, "late").await), ErrorCode::InviteInvalid);
    // Agents cannot invite devices.
    let refused = scene.server.send(Method::POST, "/users/me/devices", Some(&scene.token), Some(&json!({}))).await;
    assert_eq!(refused.refusal(), (401, "UNAUTHORIZED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_device_loses_access_while_its_earlier_grants_stay_valid() {
    let scene = RelayAndAgentFixture::start().await;
    let laptop = scene.device("ada").await;
    let phone =
        scene.enrolled(laptop.device.own_devices().invite().await.unwrap().code, SensitivityFloors::new()).await;
    laptop.device.own_devices().trust(id(&phone), None).await.unwrap();
    // The phone signs the grant.
    scene.allow(&phone, &["notification:send"], GrantTerm::UntilRevoked).await;
    laptop.device.consents().refresh(&scene.id).await.unwrap();
    scene.call("tell", json!({})).await.unwrap();
    let before = (laptop.tool.runs(), phone.tool.runs());
    assert_eq!(before.0 + before.1, 1);

    let told = async || {
        let path = format!("/agents/{}/messages/poll?after=0&wait=0&limit=50", scene.id);
        let page = scene.server.send(Method::GET, &path, Some(&scene.token), None).await;
        let events = page.body["data"].as_array().unwrap().clone();
        events.iter().filter(|event| event["type"] == "keys.changed").count()
    };
    let already = told().await;
    laptop.device.own_devices().remove(id(&phone)).await.unwrap();
    // Agents are notified that the keys changed.
    assert_eq!(told().await, already + 1);
    // The relay accepts neither the current token nor a new login of the removed device.
    assert_eq!(code(phone.device.own_devices().list().await), ErrorCode::Unauthorized);
    scene.clock.jump(Duration::from_secs(400));
    assert_eq!(code(phone.device.own_devices().list().await), ErrorCode::DeviceRefused);
    assert_eq!(seen(&laptop, id(&phone)).await.standing, OwnDeviceTrust::Removed);
    // The grant that the removed device signed before still counts.
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": before.0 + 1})));
    assert_eq!(phone.tool.runs(), before.1);
    // The grant still counts after a refresh and a restart.
    let laptop = laptop.restart();
    let known = laptop.device.consents().refresh(&scene.id).await.unwrap();
    assert!(known.standing(&laptop.device.identity().person).is_some());
    // A signature from after the removal would not count.
    let mut late = known.clone();
    let signed_at = late.entries[0].at;
    let phone_then = late.devices.iter_mut().find(|device| device.id == *id(&phone)).unwrap();
    assert!(phone_then.revoked_at.unwrap() > signed_at);
    phone_then.revoked_at = Some(signed_at);
    assert!(late.standing(&laptop.device.identity().person).is_none());

    // Removing twice is harmless; a device cannot remove itself.
    laptop.device.own_devices().remove(id(&phone)).await.unwrap();
    assert_eq!(code(laptop.device.own_devices().remove(id(&laptop)).await), ErrorCode::BadRequest);
    let nobody = DeviceId::parse("dev_nobody").unwrap();
    assert_eq!(code(laptop.device.own_devices().remove(&nobody).await), ErrorCode::DeviceNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_restores_the_same_device_and_refuses_wrong_passphrase_or_changed_file() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    scene.call("tell", json!({})).await.unwrap();
    assert_eq!(code(ada.device.backups().create("too short").await), ErrorCode::BadRequest);
    let file = ada.device.backups().create(PHRASE).await.unwrap();
    let written = serde_json::to_string(&file).unwrap();
    let file: DeviceBackupFile = serde_json::from_str(&written).unwrap();
    let agent = RelayParty::Agent(scene.id.clone());
    let number = ada.device.peer().keys().safety_number(&agent).await.unwrap();
    assert!(number.is_some());
    ada.stop();

    // A wrong passphrase changes nothing.
    let machine = scene.machine();
    let wrong = Device::restore(machine.config(), &file, "correct horse batterx").await.unwrap_err();
    assert_eq!(wrong.code, ErrorCode::BackupUnreadable);
    assert!(wrong.message.contains("passphrase"), "{wrong}");
    assert_eq!(machine.records(), 0);
    // A backup file with a changed URL is refused.
    let mut elsewhere = file.clone();
    elsewhere.device.url = "https://evil.example".parse().unwrap();
    assert_eq!(code(Device::restore(machine.config(), &elsewhere, PHRASE).await), ErrorCode::BackupUnreadable);
    assert_eq!(machine.records(), 0);

    // The restored device has the same identity.
    scene.clock.jump(Duration::from_secs(1));
    let device = Device::restore(machine.config(), &file, PHRASE).await.unwrap();
    assert_eq!(device.identity(), ada.device.identity());
    let back = machine.run(device);
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    assert_eq!(back.device.peer().keys().safety_number(&agent).await.unwrap(), number);
    // A data directory that already holds a device is refused.
    let used = scene.machine();
    Device::restore(used.config(), &file, PHRASE).await.unwrap();
    assert_eq!(code(Device::restore(used.config(), &file, PHRASE).await), ErrorCode::DataDirInUse);
    // A removed device cannot be restored and leaves no records.
    let phone = scene.enrolled(invite(&scene.gateway, "ada").await, SensitivityFloors::new()).await;
    phone.device.own_devices().remove(id(&back)).await.unwrap();
    let machine = scene.machine();
    assert_eq!(code(Device::restore(machine.config(), &file, PHRASE).await), ErrorCode::DeviceRefused);
    assert_eq!(machine.records(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_from_backup_makes_grants_of_a_lost_device_count_on_the_new_device() {
    let scene = RelayAndAgentFixture::start().await;
    let lost = scene.ada(&["notification:send"]).await;
    scene.call("tell", json!({})).await.unwrap();
    lost.device.backups().create(PHRASE).await.unwrap();
    lost.stop();
    let phone = scene.enrolled(invite(&scene.gateway, "ada").await, SensitivityFloors::new()).await;
    let standing = async || {
        let known = phone.device.consents().refresh(&scene.id).await.unwrap();
        known.standing(&phone.device.identity().person).is_some()
    };
    assert!(!standing().await, "no known device endorses the device that signed it");
    assert_eq!(code(phone.device.backups().recover("correct horse batterx").await), ErrorCode::BackupUnreadable);
    assert!(!standing().await);
    assert_eq!(phone.device.backups().recover(PHRASE).await.unwrap(), *id(&lost));
    assert!(standing().await);
    // The lost device is removed; the device that it endorsed stays trusted.
    phone.device.own_devices().remove(id(&lost)).await.unwrap();
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    // The safety number between agent and person is unchanged.
    let ada = RelayParty::Person(PersonName::parse("ada").unwrap());
    let agent = RelayParty::Agent(scene.id.clone());
    let number = scene.agent.peer.keys().safety_number(&ada).await.unwrap();
    assert!(number.is_some());
    assert_eq!(phone.device.peer().keys().safety_number(&agent).await.unwrap(), number);
    assert_eq!(lost.device.peer().keys().safety_number(&agent).await.ok().flatten(), None);
    // Without a backup there is nothing to recover.
    let ben = scene.device("ben").await;
    assert_eq!(code(ben.device.backups().recover(PHRASE).await), ErrorCode::BackupNotFound);
    eventually("it is in order", async || phone.device.audit().verify().is_ok().then_some(())).await;
}
