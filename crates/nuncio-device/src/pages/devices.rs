//! Pages of the person's devices: list, invite, removal, backup and recovery.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;
use nuncio_http::pages::sender::field;
use nuncio_http::pages::{see, written};
use nuncio_identity::seal::backup::SHORTEST;

use super::frame::{CompletedActionQuery, NavEntry, PageFrame, SignedInForm, SignedInRequest};
use super::{DevicePages, download};
use crate::devices::{DeviceInvite, OwnDevice, OwnDeviceTrust};
use crate::error::DeviceError;

#[derive(Template)]
#[template(path = "devices.html")]
struct DevicesPage {
    frame: PageFrame,
    devices: Vec<DeviceView>,
    /// User name under which password managers store the passphrase.
    owner: String,
    /// Minimum length of a backup passphrase, in characters.
    shortest: usize,
    /// Notice about the result of the previous action.
    news: Option<&'static str>,
    wrong: Option<String>,
}

struct DeviceView {
    id: String,
    name: String,
    since: Timestamp,
    until: Option<Timestamp>,
    class: &'static str,
    standing: &'static str,
    hint: &'static str,
    compare: Option<DeviceComparisonText>,
    /// Key fingerprint that the confirmation form sends; set only for devices that wait for confirmation.
    trust: Option<String>,
    remove: Option<String>,
}

/// Six digits or a key fingerprint that the person compares on both screens.
struct DeviceComparisonText {
    words: &'static str,
    groups: Vec<String>,
}

impl DeviceView {
    fn new(visit: &SignedInRequest, own: &OwnDevice) -> Self {
        let text = &visit.text.devices;
        let (class, standing, hint): (_, &'static str, &'static str) = match own.standing {
            OwnDeviceTrust::This => ("this", &text.this, ""),
            OwnDeviceTrust::Trusted => ("trusted", &text.trusted, &text.trusted_hint),
            OwnDeviceTrust::Waiting => ("waiting", &text.waiting, &text.waiting_hint),
            OwnDeviceTrust::NoKeys => ("no-keys", &text.no_keys, &text.no_keys_hint),
            OwnDeviceTrust::Removed => ("removed", &text.removed, &text.removed_hint),
        };
        let words: Option<&'static str> = match (own.standing, &own.number) {
            (OwnDeviceTrust::Waiting, Some(_)) => Some(&text.compare_number),
            (OwnDeviceTrust::Waiting, None) => Some(&text.compare_key),
            (OwnDeviceTrust::This, Some(_)) => Some(&text.own_number),
            (OwnDeviceTrust::This, None) => Some(&text.own_key),
            _ => None,
        };
        let code = own.number.clone().unwrap_or_else(|| own.fingerprint.grouped());
        let compare = words
            .map(|words| DeviceComparisonText { words, groups: code.split_whitespace().map(str::to_owned).collect() });
        let removable = !matches!(own.standing, OwnDeviceTrust::This | OwnDeviceTrust::Removed);
        let name = plain(&own.name);
        Self {
            name: if name.trim().is_empty() { own.id.to_string() } else { name },
            since: own.enrolled_at,
            until: own.revoked_at,
            class,
            standing,
            hint,
            compare,
            trust: (own.standing == OwnDeviceTrust::Waiting).then(|| own.fingerprint.to_string()),
            remove: removable.then(|| visit.to(&format!("/devices/{}/remove", own.id))),
            id: own.id.to_string(),
        }
    }
}

/// `GET /devices`: page with the person's devices.
pub(super) async fn list(
    State(pages): State<DevicePages>,
    Query(shown): Query<CompletedActionQuery>,
    visit: SignedInRequest,
) -> Response {
    let text = &visit.text.devices;
    let news: Option<&'static str> = match shown.after.as_deref() {
        Some("trusted") => Some(&text.was_trusted),
        Some("removed") => Some(&text.was_removed),
        Some("recovered") => Some(&text.was_recovered),
        _ => None,
    };
    page(&pages, &visit, StatusCode::OK, news, None).await
}

/// `GET` of a path that expects a form, as after a language switch: redirects to the list of devices.
pub(super) async fn again(visit: SignedInRequest) -> Response {
    see(&visit.to("/devices"))
}

/// Renders the list of devices, with a notice or an error message about the previous action.
async fn page(
    pages: &DevicePages,
    visit: &SignedInRequest,
    status: StatusCode,
    news: Option<&'static str>,
    wrong: Option<String>,
) -> Response {
    let devices = match pages.device.own_devices().list().await {
        Ok(devices) => devices,
        Err(error) => return visit.failed(&error),
    };
    // Removed devices are listed last.
    let (gone, there): (Vec<_>, Vec<_>) =
        devices.into_iter().partition(|device| device.standing == OwnDeviceTrust::Removed);
    let devices = there.into_iter().chain(gone).map(|own| DeviceView::new(visit, &own)).collect();
    let frame = visit.frame(pages, NavEntry::Devices);
    let owner = pages.device.identity().person.to_string();
    written(status, &DevicesPage { frame, devices, owner, shortest: SHORTEST, news, wrong })
}

async fn wrong(pages: &DevicePages, visit: &SignedInRequest, error: &DeviceError) -> Response {
    tracing::warn!(code = %error.code, %error, "an action on the devices page failed");
    page(pages, visit, StatusCode::CONFLICT, None, Some(visit.text.trouble(error))).await
}

/// Redirects to the list of devices after an action, or renders the list with the error message of the action.
async fn finish(
    pages: &DevicePages,
    visit: &SignedInRequest,
    action: &str,
    result: Result<(), DeviceError>,
) -> Response {
    match result {
        Ok(()) => see(&visit.to(&format!("/devices?after={action}"))),
        Err(error) => wrong(pages, visit, &error).await,
    }
}

#[derive(Template)]
#[template(path = "device-invite.html")]
struct InvitePage {
    frame: PageFrame,
    url: String,
    code: String,
    fingerprint: String,
    link: String,
    expires_at: Timestamp,
}

/// `POST /devices/invite`: creates an invite and shows it once.
pub(super) async fn invite(State(pages): State<DevicePages>, SignedInForm { visit, .. }: SignedInForm) -> Response {
    let DeviceInvite { url, code, fingerprint, expires_at, link } = match pages.device.own_devices().invite().await {
        Ok(invite) => invite,
        Err(error) => return wrong(&pages, &visit, &error).await,
    };
    let (frame, fingerprint) = (visit.frame(&pages, NavEntry::Devices), fingerprint.grouped());
    written(StatusCode::OK, &InvitePage { frame, url: url.to_string(), code, fingerprint, link, expires_at })
}

fn unknown(visit: &SignedInRequest) -> Response {
    visit.message(StatusCode::NOT_FOUND, &visit.text.frame.not_found, &visit.text.devices.unknown)
}

/// `POST /devices/:id/trust`: confirms a device if it still has the key that the page showed.
pub(super) async fn trust(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    let key = field(&form.sent, "key").and_then(Digest::parse);
    let (Ok(device), Some(key)) = (DeviceId::parse(&id), key) else { return unknown(&form.visit) };
    let trusted = pages.device.own_devices().trust(&device, Some(&key)).await;
    finish(&pages, &form.visit, "trusted", trusted).await
}

#[derive(Template)]
#[template(path = "device-remove.html")]
struct RemoveDevicePage {
    frame: PageFrame,
    id: String,
    name: String,
    since: Timestamp,
}

/// `GET /devices/:id/remove`: asks the person to confirm the removal.
pub(super) async fn ask_remove(
    State(pages): State<DevicePages>,
    Path(id): Path<String>,
    visit: SignedInRequest,
) -> Response {
    let devices = match pages.device.own_devices().list().await {
        Ok(devices) => devices,
        Err(error) => return visit.failed(&error),
    };
    let Some(own) = devices.into_iter().find(|own| own.id.as_str() == id) else { return unknown(&visit) };
    let view = DeviceView::new(&visit, &own);
    if view.remove.is_none() {
        return see(&visit.to("/devices"));
    }
    let frame = visit.frame(&pages, NavEntry::Devices);
    written(StatusCode::OK, &RemoveDevicePage { frame, id: view.id, name: view.name, since: view.since })
}

/// `POST /devices/:id/remove`: removes a device.
pub(super) async fn remove(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    let Ok(device) = DeviceId::parse(&id) else { return unknown(&form.visit) };
    let removed = pages.device.own_devices().remove(&device).await;
    finish(&pages, &form.visit, "removed", removed).await
}

/// `POST /devices/backup`: creates a backup and returns the backup file.
pub(super) async fn back_up(State(pages): State<DevicePages>, SignedInForm { visit, sent }: SignedInForm) -> Response {
    let text = &visit.text.devices;
    let passphrase = field(&sent, "passphrase").unwrap_or_default();
    if passphrase.chars().count() < SHORTEST {
        let short = text.short.replace("{count}", &SHORTEST.to_string());
        return page(&pages, &visit, StatusCode::UNPROCESSABLE_ENTITY, None, Some(short)).await;
    }
    if field(&sent, "again") != Some(passphrase) {
        let differ = Some(text.differ.clone());
        return page(&pages, &visit, StatusCode::UNPROCESSABLE_ENTITY, None, differ).await;
    }
    let file = match pages.device.backups().create(passphrase).await {
        Ok(file) => serde_json::to_string_pretty(&file),
        Err(error) => return wrong(&pages, &visit, &error).await,
    };
    let Ok(file) = file else {
        let error = DeviceError::new(ErrorCode::Internal, "the backup could not be written");
        return visit.failed(&error);
    };
    let name = format!("nuncio-{}.backup.json", pages.device.identity().device);
    download(file, "application/json", &name)
}

/// `POST /devices/recover`: endorses this device with the keys of a lost one from the backup at the relay.
pub(super) async fn recover(State(pages): State<DevicePages>, SignedInForm { visit, sent }: SignedInForm) -> Response {
    let recovered = pages.device.backups().recover(field(&sent, "passphrase").unwrap_or_default()).await;
    finish(&pages, &visit, "recovered", recovered.map(drop)).await
}
