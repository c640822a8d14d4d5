//! A person's devices: a further one, a lost one, and one that comes back.

use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::grant::Term;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_device::guard::Floors;
use nuncio_device::{BackupFile, Device, DeviceError, OwnDevice, OwnStanding};
use nuncio_testkit::{Method, eventually};
use serde_json::json;

use super::scene::{Running, Scene, invite};

const PHRASE: &str = "correct horse battery";

fn id(running: &Running) -> &DeviceId {
    &running.device.identity().device
}

/// How one stands with another.
async fn seen(by: &Running, other: &DeviceId) -> OwnDevice {
    let devices = by.device.devices().await.unwrap();
    devices.into_iter().find(|device| device.id == *other).unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, DeviceError>) -> Code {
    result.unwrap_err().code
}

#[tokio::test(flavor = "multi_thread")]
async fn a_further_device_needs_one_word_on_the_first() {
    let scene = Scene::start().await;
    let laptop = scene.ada(&["notification:send"]).await;
    let invited = laptop.device.invite().await.unwrap();
    assert_eq!(invited.fingerprint, laptop.device.identity().server_key.fingerprint());
    let phone = scene.enrolled(invited.code.clone(), Floors::default()).await;

    // The phone trusts whoever invited it; the laptop waits for its person.
    assert_eq!(seen(&phone, id(&laptop)).await.standing, OwnStanding::Trusted);
    let (there, here) = (seen(&laptop, id(&phone)).await, seen(&phone, id(&phone)).await);
    assert_eq!((there.standing, here.standing), (OwnStanding::Waiting, OwnStanding::This));
    assert!(here.this && !there.this);
    assert_eq!(there.fingerprint, here.fingerprint);
    // Six digits, the same on both screens.
    assert_eq!(there.number.as_ref().unwrap().len(), "123 456".len());
    assert_eq!(there.number, here.number);
    laptop.device.trust_key(id(&phone), &there.fingerprint).await.unwrap();
    let (there, here) = (seen(&laptop, id(&phone)).await, seen(&phone, id(&phone)).await);
    assert_eq!((there.standing, there.number, here.number), (OwnStanding::Trusted, None, None));

    // What the laptop signed counts on the phone, and the other way round.
    laptop.stop();
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    assert_eq!((laptop.tool.runs(), phone.tool.runs()), (0, 1));
    scene.allow(&phone, &["notification:send", "filesystem:read"], Term::UntilRevoked).await;
    let known = laptop.device.refresh(&scene.id).await.unwrap();
    assert!(known.standing(&laptop.device.identity().person).is_some());
    // Agents have one number for both, as before.
    let agent = Recipient::Agent(scene.id.clone());
    let number = laptop.device.peer().safety_number(&agent).await.unwrap();
    assert!(number.is_some());
    assert_eq!(phone.device.peer().safety_number(&agent).await.unwrap(), number);
    let ada = Recipient::Person(PersonName::parse("ada").unwrap());
    assert_eq!(scene.agent.peer.safety_number(&ada).await.unwrap(), number);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invite_is_for_one_device_and_not_for_long_and_introduces_nobody_else() {
    let scene = Scene::start().await;
    let laptop = scene.device("ada").await;
    let invited = laptop.device.invite().await.unwrap();
    // Somebody who has the code alone, such as the relay, knows no number.
    let bare = invited.code.split_once('.').unwrap().0.to_owned();
    let stranger = scene.enrolled(bare, Floors::default()).await;
    let shown = seen(&laptop, id(&stranger)).await;
    assert_eq!(shown.standing, OwnStanding::Waiting);
    assert!(shown.number.is_some());
    assert_eq!(seen(&stranger, id(&stranger)).await.number, None);
    assert_eq!(seen(&stranger, id(&laptop)).await.standing, OwnStanding::Waiting);
    // Another key than the one that was compared is not trusted.
    let other = seen(&laptop, id(&laptop)).await.fingerprint;
    assert_eq!(code(laptop.device.trust_key(id(&stranger), &other).await), Code::DeviceUntrusted);
    assert_eq!(seen(&laptop, id(&stranger)).await.standing, OwnStanding::Waiting);

    let again = nuncio_a2h::client::Invitation {
        url: invited.url.clone(),
        trust: nuncio_engine::ports::fetch::Trust::Configured,
        code: invited.code,
        fingerprint: Some(invited.fingerprint),
    };
    assert_eq!(code(Device::enrol(scene.machine().config(), &again, "twice").await), Code::InviteInvalid);
    let late = laptop.device.invite().await.unwrap();
    scene.clock.jump(Duration::from_secs(601));
    let late = nuncio_a2h::client::Invitation { code: late.code, ..again };
    assert_eq!(code(Device::enrol(scene.machine().config(), &late, "late").await), Code::InviteInvalid);
    // An agent invites nobody.
    let refused = scene.server.send(Method::POST, "/users/me/devices", Some(&scene.token), Some(&json!({}))).await;
    assert_eq!(refused.refusal(), (401, "UNAUTHORIZED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_is_out_its_grants_stay_and_agents_are_told() {
    let scene = Scene::start().await;
    let laptop = scene.device("ada").await;
    let phone = scene.enrolled(laptop.device.invite().await.unwrap().code, Floors::default()).await;
    laptop.device.trust(id(&phone)).await.unwrap();
    // What is allowed, the phone signed.
    scene.allow(&phone, &["notification:send"], Term::UntilRevoked).await;
    laptop.device.refresh(&scene.id).await.unwrap();
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
    laptop.device.remove(id(&phone)).await.unwrap();
    // Agents are told, and seal to it no more.
    assert_eq!(told().await, already + 1);
    // It speaks for nobody: neither with the token it has, nor for a new one.
    assert_eq!(code(phone.device.devices().await), Code::Unauthorized);
    scene.clock.jump(Duration::from_secs(400));
    assert_eq!(code(phone.device.devices().await), Code::DeviceRefused);
    assert_eq!(seen(&laptop, id(&phone)).await.standing, OwnStanding::Removed);
    // What it allowed in its time still counts.
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": before.0 + 1})));
    assert_eq!(phone.tool.runs(), before.1);
    // Also after all is looked at anew, and by the next process.
    let laptop = laptop.restart();
    let known = laptop.device.refresh(&scene.id).await.unwrap();
    assert!(known.standing(&laptop.device.identity().person).is_some());
    // What it signed once its time was over would not.
    let mut late = known.clone();
    let signed_at = late.entries[0].at;
    let phone_then = late.devices.iter_mut().find(|device| device.id == *id(&phone)).unwrap();
    assert!(phone_then.revoked_at.unwrap() > signed_at);
    phone_then.revoked_at = Some(signed_at);
    assert!(late.standing(&laptop.device.identity().person).is_none());

    // Again is nothing new, and oneself cannot be taken away.
    laptop.device.remove(id(&phone)).await.unwrap();
    assert_eq!(code(laptop.device.remove(id(&laptop)).await), Code::BadRequest);
    let nobody = DeviceId::parse("dev_nobody").unwrap();
    assert_eq!(code(laptop.device.remove(&nobody).await), Code::DeviceNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_comes_back_from_its_backup_and_is_called_again() {
    let scene = Scene::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    scene.call("tell", json!({})).await.unwrap();
    assert_eq!(code(ada.device.back_up("too short").await), Code::BadRequest);
    let file = ada.device.back_up(PHRASE).await.unwrap();
    let written = serde_json::to_string(&file).unwrap();
    let file: BackupFile = serde_json::from_str(&written).unwrap();
    let agent = Recipient::Agent(scene.id.clone());
    let number = ada.device.peer().safety_number(&agent).await.unwrap();
    assert!(number.is_some());
    ada.stop();

    // Another passphrase opens nothing and changes nothing.
    let machine = scene.machine();
    let wrong = Device::restore(machine.config(), &file, "correct horse batterx").await.unwrap_err();
    assert_eq!(wrong.code, Code::BackupUnreadable);
    assert!(wrong.message.contains("passphrase"), "{wrong}");
    assert_eq!(machine.records(), 0);
    // A file that sends it elsewhere is none.
    let mut elsewhere = file.clone();
    elsewhere.device.url = "https://evil.example".parse().unwrap();
    assert_eq!(code(Device::restore(machine.config(), &elsewhere, PHRASE).await), Code::BackupUnreadable);
    assert_eq!(machine.records(), 0);

    // Once it is opened, a new process is the same device.
    scene.clock.jump(Duration::from_secs(1));
    let device = Device::restore(machine.config(), &file, PHRASE).await.unwrap();
    assert_eq!(device.identity(), ada.device.identity());
    let back = machine.run(device);
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    assert_eq!(back.device.peer().safety_number(&agent).await.unwrap(), number);
    // A home that is used is not taken.
    let used = scene.machine();
    Device::restore(used.config(), &file, PHRASE).await.unwrap();
    assert_eq!(code(Device::restore(used.config(), &file, PHRASE).await), Code::DataDirInUse);
    // Taken away, it does not come back, and leaves nothing.
    let phone = scene.enrolled(invite(&scene.gateway, "ada").await, Floors::default()).await;
    phone.device.remove(id(&back)).await.unwrap();
    let machine = scene.machine();
    assert_eq!(code(Device::restore(machine.config(), &file, PHRASE).await), Code::DeviceRefused);
    assert_eq!(machine.records(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_everything_but_the_passphrase_goes_on_with_what_was_allowed() {
    let scene = Scene::start().await;
    let lost = scene.ada(&["notification:send"]).await;
    scene.call("tell", json!({})).await.unwrap();
    lost.device.back_up(PHRASE).await.unwrap();
    lost.stop();
    let phone = scene.enrolled(invite(&scene.gateway, "ada").await, Floors::default()).await;
    let standing = async || {
        let known = phone.device.refresh(&scene.id).await.unwrap();
        known.standing(&phone.device.identity().person).is_some()
    };
    assert!(!standing().await, "nobody vouched for the device that signed it");
    assert_eq!(code(phone.device.recover("correct horse batterx").await), Code::BackupUnreadable);
    assert!(!standing().await);
    assert_eq!(phone.device.recover(PHRASE).await.unwrap(), *id(&lost));
    assert!(standing().await);
    // The lost one is taken away; what it vouched for stays.
    phone.device.remove(id(&lost)).await.unwrap();
    assert_eq!(scene.call("tell", json!({})).await, Ok(json!({"run": 1})));
    // The agent did not have to trust anybody new: the number is the one it had.
    let ada = Recipient::Person(PersonName::parse("ada").unwrap());
    let agent = Recipient::Agent(scene.id.clone());
    let number = scene.agent.peer.safety_number(&ada).await.unwrap();
    assert!(number.is_some());
    assert_eq!(phone.device.peer().safety_number(&agent).await.unwrap(), number);
    assert_eq!(lost.device.peer().safety_number(&agent).await.ok().flatten(), None);
    // Nothing to recover where nothing was backed up.
    let ben = scene.device("ben").await;
    assert_eq!(code(ben.device.recover(PHRASE).await), Code::BackupNotFound);
    eventually("it is in order", async || phone.device.verify_audit().is_ok().then_some(())).await;
}
