//! Enrolment page of a machine that is no device yet: enrol with an invite, or restore a backup.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use nuncio_a2h::client::DeviceInvitation;
use nuncio_core::digest::Digest;
use nuncio_core::invite_link::InviteLink;
use nuncio_core::text::plain;
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_http::pages::sender::{FormFields, field};
use nuncio_http::pages::{see, written};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::frame::{PageFrame, SignedInForm, SignedInRequest};
use super::page_access::{PageAccess, PageAccessRouteState};
use super::{below_path, loopback_address};
use crate::backup::DeviceBackupFile;
use crate::device::{Device, DeviceDependencies, reaches_safely};
use crate::error::DeviceError;

/// Page of the enrolled device to which both forms redirect.
const DEVICES: &str = "/devices";

/// Time for open requests to end before the enrolment page stops.
const SHUTDOWN_TIME: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct EnrolmentPageState {
    config: DeviceDependencies,
    /// The enrolled or restored device; `None` before.
    enrolled: Arc<Mutex<Option<Device>>>,
    /// Lock that permits one enrolment or restore at a time.
    enrolling: Arc<tokio::sync::Mutex<()>>,
    done: CancellationToken,
}

/// Serves the enrolment page and returns the enrolled device, or `None` after `stop`. Sessions stay valid if the
/// device's own pages are then served with the same `PageAccess` and address.
///
/// # Errors
/// The address is not a loopback address, or listening fails.
pub async fn welcome(
    config: DeviceDependencies,
    access: Arc<PageAccess>,
    listener: TcpListener,
    stop: CancellationToken,
) -> std::io::Result<Option<Device>> {
    let address = loopback_address(&listener)?;
    let access = PageAccessRouteState::new(&access, &config);
    let (enrolled, done) = (Arc::default(), stop.child_token());
    let (enrolling, ending) = (Arc::default(), done.clone());
    let state = EnrolmentPageState { config, enrolled: Arc::clone(&enrolled), enrolling, done: ending };
    let inside = Router::new()
        .route("/", get(show))
        .route("/join", get(elsewhere).post(join))
        .route("/restore", get(elsewhere).post(restore))
        .fallback(elsewhere)
        .with_state(state);
    let served = axum::serve(listener, below_path(access, inside, address))
        .with_graceful_shutdown(done.clone().cancelled_owned());
    let shutdown_deadline = async {
        done.cancelled().await;
        tokio::time::sleep(SHUTDOWN_TIME).await;
    };
    tokio::select! {
        served = served.into_future() => served?,
        () = shutdown_deadline => {}
    }
    Ok(enrolled.lock().unwrap_or_else(PoisonError::into_inner).take())
}

#[derive(Template)]
#[template(path = "welcome.html")]
struct EnrolmentFormPage {
    frame: PageFrame,
    filled: EnrolmentFormValues,
    wrong: Option<String>,
}

#[derive(Default)]
struct EnrolmentFormValues {
    link: String,
    address: String,
    code: String,
    fingerprint: String,
    name: String,
    file: String,
}

impl EnrolmentFormValues {
    /// Whether the invite was entered as separate values.
    fn has_parts(&self) -> bool {
        [&self.address, &self.code, &self.fingerprint].into_iter().any(|value| !value.trim().is_empty())
    }

    /// Submitted values, to fill the form again; the passphrase is left out.
    fn submitted(sent: &FormFields) -> Self {
        let text = |name| field(sent, name).unwrap_or_default().to_owned();
        Self {
            link: text("link"),
            address: text("address"),
            code: text("code"),
            fingerprint: text("fingerprint"),
            name: text("name"),
            file: text("file"),
        }
    }
}

async fn show(visit: SignedInRequest) -> Response {
    page(&visit, EnrolmentFormValues::default(), StatusCode::OK, None)
}

/// Redirects paths of pages that exist only after enrolment: to the enrolment page, or once enrolled to `/devices`.
async fn elsewhere(State(state): State<EnrolmentPageState>, visit: SignedInRequest) -> Response {
    see(&visit.to(if state.done.is_cancelled() { DEVICES } else { "/" }))
}

/// Enrolment page with the submitted values and an error message.
fn refused(visit: &SignedInRequest, sent: &FormFields, status: StatusCode, wrong: String) -> Response {
    page(visit, EnrolmentFormValues::submitted(sent), status, Some(wrong))
}

fn page(
    visit: &SignedInRequest,
    mut filled: EnrolmentFormValues,
    status: StatusCode,
    wrong: Option<String>,
) -> Response {
    if filled.name.trim().is_empty() {
        filled.name.clone_from(&visit.text.welcome.name_usual);
    }
    written(status, &EnrolmentFormPage { frame: visit.bare_frame(), filled, wrong })
}

/// `POST /join`: enrols this machine with an invite.
async fn join(State(state): State<EnrolmentPageState>, SignedInForm { visit, sent }: SignedInForm) -> Response {
    let invitation = match invitation(&visit, &sent) {
        Ok(invitation) => invitation,
        Err(wrong) => return refused(&visit, &sent, StatusCode::UNPROCESSABLE_ENTITY, wrong),
    };
    let _lock = state.enrolling.lock().await;
    let name = field(&sent, "name").map(plain).unwrap_or_default();
    let name = if name.trim().is_empty() { visit.text.welcome.name_usual.clone() } else { name };
    let device = Device::enrol(state.config.clone(), &invitation, name.trim()).await;
    if let Ok(device) = &device
        && let Err(error) = device.peer().keys().publish_keys().await
    {
        // The device is enrolled anyway, and publishes its keys when it runs.
        tracing::warn!(%error, "cannot publish the keys of the new device yet; it tries again when it runs");
    }
    state.finish(&visit, &sent, device)
}

fn invitation(visit: &SignedInRequest, sent: &FormFields) -> Result<DeviceInvitation, String> {
    let text = &visit.text.welcome;
    let value = |name| field(sent, name).unwrap_or_default().trim();
    if !value("link").is_empty() {
        let link = InviteLink::parse(value("link")).ok().filter(|link| reaches_safely(&link.server));
        let link = link.ok_or_else(|| text.wrong_link.clone())?;
        return Ok(DeviceInvitation {
            url: link.server,
            trust: AddressTrust::Configured,
            code: link.code,
            fingerprint: Some(link.fingerprint),
        });
    }
    let url = Url::parse(value("address")).ok().filter(|url| url.has_host() && reaches_safely(url));
    let hex: String = value("fingerprint").chars().filter(|c| !c.is_whitespace()).collect();
    if value("code").is_empty() {
        return Err(text.wrong_code.clone());
    }
    Ok(DeviceInvitation {
        url: url.ok_or_else(|| text.wrong_address.clone())?,
        trust: AddressTrust::Configured,
        code: value("code").to_owned(),
        fingerprint: Some(Digest::parse(&hex).ok_or_else(|| text.wrong_fingerprint.clone())?),
    })
}

/// `POST /restore`: restores a device from a backup file.
async fn restore(State(state): State<EnrolmentPageState>, SignedInForm { visit, sent }: SignedInForm) -> Response {
    let file: Result<DeviceBackupFile, _> = serde_json::from_str(field(&sent, "file").unwrap_or_default());
    let Ok(file) = file else {
        return refused(&visit, &sent, StatusCode::UNPROCESSABLE_ENTITY, visit.text.welcome.wrong_file.clone());
    };
    let _lock = state.enrolling.lock().await;
    let passphrase = field(&sent, "passphrase").unwrap_or_default();
    let device = Device::restore(state.config.clone(), &file, passphrase).await;
    state.finish(&visit, &sent, device)
}

impl EnrolmentPageState {
    /// Redirects to the device's own pages after success, or renders the enrolment page with the error message.
    fn finish(&self, visit: &SignedInRequest, sent: &FormFields, device: Result<Device, DeviceError>) -> Response {
        match device {
            Ok(device) => {
                *self.enrolled.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
                self.done.cancel();
            }
            // The form was submitted twice, and the first submission succeeded.
            Err(_) if self.done.is_cancelled() => {}
            Err(error) => {
                tracing::warn!(code = %error.code, %error, "cannot enrol or restore the device");
                return refused(visit, sent, StatusCode::CONFLICT, visit.text.trouble(&error));
            }
        }
        see(&visit.to(DEVICES))
    }
}
