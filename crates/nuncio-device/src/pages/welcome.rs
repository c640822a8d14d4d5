//! Enrolment page of a machine without a device: join with an invite, or restore a backup.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Router, middleware};
use http::StatusCode;
use nuncio_a2h::client::Invitation;
use nuncio_core::digest::Digest;
use nuncio_core::text::plain;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Entropy;
use nuncio_engine::ports::fetch::Trust;
use nuncio_http::pages::sender::{Fields, field};
use nuncio_http::pages::{see, written};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::below_path;
use super::frame::{Frame, PageForm, SignedInRequest};
use super::page_access::{self, HasPageAccess, PageAccess};
use crate::backup::BackupFile;
use crate::device::{Device, DeviceConfig, reaches_safely};
use crate::error::DeviceError;

/// Page of the new device to which the forms redirect.
const DEVICES: &str = "/devices";

/// Time for open requests before the device's own pages take over.
const LAST: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct EnrolmentState {
    config: DeviceConfig,
    door: Arc<PageAccess>,
    /// The enrolled device; set once it exists.
    came: Arc<Mutex<Option<Device>>>,
    /// Lock: one enrolment or restore at a time.
    enrolling: Arc<tokio::sync::Mutex<()>>,
    done: CancellationToken,
}

impl HasPageAccess for EnrolmentState {
    fn door(&self) -> &PageAccess {
        &self.door
    }

    fn now(&self) -> Timestamp {
        self.config.clock.now()
    }

    fn entropy(&self) -> &dyn Entropy {
        &*self.config.entropy
    }
}

/// Serves the enrolment page until the machine is a device, or until `stop`, which gives `None`. Sessions stay valid:
/// serve the device's own pages with the same `PageAccess` and address.
///
/// # Errors
/// The address is not a loopback address, or listening fails.
pub async fn welcome(
    config: DeviceConfig,
    door: Arc<PageAccess>,
    listener: TcpListener,
    stop: CancellationToken,
) -> std::io::Result<Option<Device>> {
    let at = listener.local_addr()?;
    if !at.ip().is_loopback() {
        return Err(std::io::Error::other("the pages of a device are for this machine alone: listen at 127.0.0.1"));
    }
    let (came, done) = (Arc::default(), stop.child_token());
    let hall = EnrolmentState { config, door, came: Arc::clone(&came), enrolling: Arc::default(), done: done.clone() };
    let inside = Router::new()
        .route("/", get(show))
        .route("/join", get(elsewhere).post(join))
        .route("/restore", get(elsewhere).post(restore))
        .fallback(elsewhere)
        .layer(middleware::from_fn_with_state(hall.clone(), page_access::inside::<EnrolmentState>));
    let served =
        axum::serve(listener, below_path(hall, inside, at)).with_graceful_shutdown(done.clone().cancelled_owned());
    let enough = async {
        done.cancelled().await;
        tokio::time::sleep(LAST).await;
    };
    tokio::select! {
        served = served.into_future() => served?,
        () = enough => {}
    }
    Ok(came.lock().unwrap_or_else(PoisonError::into_inner).take())
}

/// `GET /`
#[derive(Template)]
#[template(path = "welcome.html")]
struct WelcomePage {
    frame: Frame,
    filled: FormValues,
    wrong: Option<String>,
}

#[derive(Default)]
struct FormValues {
    address: String,
    code: String,
    fingerprint: String,
    name: String,
    file: String,
}

impl FormValues {
    /// Submitted values, to fill the form again; never the passphrase.
    fn again(sent: &Fields) -> Self {
        let text = |name| field(sent, name).unwrap_or_default().to_owned();
        Self {
            address: text("address"),
            code: text("code"),
            fingerprint: text("fingerprint"),
            name: text("name"),
            file: text("file"),
        }
    }
}

async fn show(visit: SignedInRequest) -> Response {
    page(&visit, FormValues::default(), None)
}

/// Redirects other pages, which exist only after enrolment, to this page; during the switch to the device's pages, to
/// the devices page.
async fn elsewhere(State(hall): State<EnrolmentState>, visit: SignedInRequest) -> Response {
    see(&visit.to(if hall.done.is_cancelled() { DEVICES } else { "/" }))
}

fn page(visit: &SignedInRequest, mut filled: FormValues, wrong: Option<(StatusCode, String)>) -> Response {
    if filled.name.trim().is_empty() {
        filled.name.clone_from(&visit.text.welcome.name_usual);
    }
    let (status, wrong) = wrong.map_or((StatusCode::OK, None), |(status, wrong)| (status, Some(wrong)));
    written(status, &WelcomePage { frame: visit.bare_frame(), filled, wrong })
}

/// `POST /join`
async fn join(State(hall): State<EnrolmentState>, PageForm { visit, sent }: PageForm) -> Response {
    let invitation = match invitation(&visit, &sent) {
        Ok(invitation) => invitation,
        Err(wrong) => return page(&visit, FormValues::again(&sent), Some((StatusCode::UNPROCESSABLE_ENTITY, wrong))),
    };
    let _lock = hall.enrolling.lock().await;
    let name = field(&sent, "name").map(plain).unwrap_or_default();
    let name = if name.trim().is_empty() { visit.text.welcome.name_usual.clone() } else { name };
    let device = Device::enrol(hall.config.clone(), &invitation, name.trim()).await;
    if let Ok(device) = &device
        && let Err(error) = device.peer().publish_keys().await
    {
        // The device exists anyway and publishes its keys when it runs.
        tracing::warn!(%error, "cannot publish the keys of the new device yet; it tries again when it runs");
    }
    hall.finish(&visit, &sent, device)
}

/// Parses the fields of an invite.
fn invitation(visit: &SignedInRequest, sent: &Fields) -> Result<Invitation, String> {
    let text = &visit.text.welcome;
    let value = |name| field(sent, name).unwrap_or_default().trim();
    let url = Url::parse(value("address")).ok().filter(|url| url.has_host() && reaches_safely(url));
    let hex: String = value("fingerprint").chars().filter(|c| !c.is_whitespace()).collect();
    if value("code").is_empty() {
        return Err(text.wrong_code.clone());
    }
    Ok(Invitation {
        url: url.ok_or_else(|| text.wrong_address.clone())?,
        trust: Trust::Configured,
        code: value("code").to_owned(),
        fingerprint: Some(Digest::parse(&hex).ok_or_else(|| text.wrong_fingerprint.clone())?),
    })
}

/// `POST /restore`
async fn restore(State(hall): State<EnrolmentState>, PageForm { visit, sent }: PageForm) -> Response {
    let file: Result<BackupFile, _> = serde_json::from_str(field(&sent, "file").unwrap_or_default());
    let Ok(file) = file else {
        let wrong = visit.text.welcome.wrong_file.clone();
        return page(&visit, FormValues::again(&sent), Some((StatusCode::UNPROCESSABLE_ENTITY, wrong)));
    };
    let _lock = hall.enrolling.lock().await;
    let passphrase = field(&sent, "passphrase").unwrap_or_default();
    let device = Device::restore(hall.config.clone(), &file, passphrase).await;
    hall.finish(&visit, &sent, device)
}

impl EnrolmentState {
    /// Redirects to the device's own pages, or shows the error.
    fn finish(&self, visit: &SignedInRequest, sent: &Fields, device: Result<Device, DeviceError>) -> Response {
        match device {
            Ok(device) => {
                *self.came.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
                self.done.cancel();
            }
            // The form was submitted twice.
            Err(_) if self.done.is_cancelled() => {}
            Err(error) => {
                tracing::warn!(code = %error.code, %error, "cannot enrol or restore the device");
                return page(visit, FormValues::again(sent), Some((StatusCode::CONFLICT, visit.text.trouble(&error))));
            }
        }
        see(&visit.to(DEVICES))
    }
}
