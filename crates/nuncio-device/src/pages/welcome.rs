//! The page of a machine that is no device yet: it becomes one by an invite, or one that was backed up again.

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
use nuncio_pages::sender::{Fields, field};
use nuncio_pages::{see, written};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::below_path;
use super::door::{self, Door, Doorway};
use super::frame::{Form, Frame, Visit};
use crate::backup::BackupFile;
use crate::device::{Device, DeviceConfig, reaches_safely};
use crate::error::DeviceError;

/// The page of the device to which it leads.
const DEVICES: &str = "/devices";

/// For how long requests that are under way hold up the device's own pages.
const LAST: Duration = Duration::from_secs(2);

/// What the page is made of.
#[derive(Clone)]
struct Hall {
    config: DeviceConfig,
    door: Arc<Door>,
    /// The device, once there is one.
    came: Arc<Mutex<Option<Device>>>,
    /// Held by whoever makes it one: one at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Ends the page.
    done: CancellationToken,
}

impl Doorway for Hall {
    fn door(&self) -> &Door {
        &self.door
    }

    fn now(&self) -> Timestamp {
        self.config.clock.now()
    }

    fn entropy(&self) -> &dyn Entropy {
        &*self.config.entropy
    }
}

/// Serves the page by which this machine becomes a device, until it is one or is told to stop; none when it was told to
/// stop. Whoever came in stays in: serve the device's own pages with the same door, at the same address.
///
/// # Errors
/// The address is not of this machine alone, or cannot be listened at.
pub async fn welcome(
    config: DeviceConfig,
    door: Arc<Door>,
    listener: TcpListener,
    stop: CancellationToken,
) -> std::io::Result<Option<Device>> {
    let at = listener.local_addr()?;
    if !at.ip().is_loopback() {
        return Err(std::io::Error::other("the pages of a device are for this machine alone: listen at 127.0.0.1"));
    }
    let (came, done) = (Arc::default(), stop.child_token());
    let hall = Hall { config, door, came: Arc::clone(&came), turn: Arc::default(), done: done.clone() };
    let inside = Router::new()
        .route("/", get(show))
        .route("/join", get(elsewhere).post(join))
        .route("/restore", get(elsewhere).post(restore))
        .fallback(elsewhere)
        .layer(middleware::from_fn_with_state(hall.clone(), door::inside::<Hall>));
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
    filled: Filled,
    wrong: Option<String>,
}

/// What stands in the fields.
#[derive(Default)]
struct Filled {
    address: String,
    code: String,
    fingerprint: String,
    name: String,
    file: String,
}

impl Filled {
    /// What was sent, so that nobody has to write it again; never a passphrase.
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

async fn show(visit: Visit) -> Response {
    page(&visit, Filled::default(), None)
}

/// Every other page is one of the device's: they are there when it is. Whoever follows the way there while this page
/// still ends is sent it again.
async fn elsewhere(State(hall): State<Hall>, visit: Visit) -> Response {
    see(&visit.to(if hall.done.is_cancelled() { DEVICES } else { "/" }))
}

fn page(visit: &Visit, mut filled: Filled, wrong: Option<(StatusCode, String)>) -> Response {
    if filled.name.trim().is_empty() {
        filled.name.clone_from(&visit.text.welcome.name_usual);
    }
    let (status, wrong) = wrong.map_or((StatusCode::OK, None), |(status, wrong)| (status, Some(wrong)));
    written(status, &WelcomePage { frame: visit.bare_frame(), filled, wrong })
}

/// `POST /join`
async fn join(State(hall): State<Hall>, Form { visit, sent }: Form) -> Response {
    let invitation = match invitation(&visit, &sent) {
        Ok(invitation) => invitation,
        Err(wrong) => return page(&visit, Filled::again(&sent), Some((StatusCode::UNPROCESSABLE_ENTITY, wrong))),
    };
    let _turn = hall.turn.lock().await;
    let name = field(&sent, "name").map(plain).unwrap_or_default();
    let name = if name.trim().is_empty() { visit.text.welcome.name_usual.clone() } else { name };
    let device = Device::enrol(hall.config.clone(), &invitation, name.trim()).await;
    if let Ok(device) = &device
        && let Err(error) = device.peer().publish_keys().await
    {
        // It is a device all the same, and shows its keys when it runs.
        tracing::warn!(%error, "the keys of the new device are not at the relay yet");
    }
    hall.became(&visit, &sent, device)
}

/// What the fields of an invite say.
fn invitation(visit: &Visit, sent: &Fields) -> Result<Invitation, String> {
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
async fn restore(State(hall): State<Hall>, Form { visit, sent }: Form) -> Response {
    let file: Result<BackupFile, _> = serde_json::from_str(field(&sent, "file").unwrap_or_default());
    let Ok(file) = file else {
        let wrong = visit.text.welcome.wrong_file.clone();
        return page(&visit, Filled::again(&sent), Some((StatusCode::UNPROCESSABLE_ENTITY, wrong)));
    };
    let _turn = hall.turn.lock().await;
    let passphrase = field(&sent, "passphrase").unwrap_or_default();
    let device = Device::restore(hall.config.clone(), &file, passphrase).await;
    hall.became(&visit, &sent, device)
}

impl Hall {
    /// The way on, to the device's own pages; or what was wrong.
    fn became(&self, visit: &Visit, sent: &Fields, device: Result<Device, DeviceError>) -> Response {
        match device {
            Ok(device) => {
                *self.came.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
                self.done.cancel();
            }
            // Pressed twice: it is one already.
            Err(_) if self.done.is_cancelled() => {}
            Err(error) => {
                tracing::warn!(code = %error.code, %error, "no device yet");
                return page(visit, Filled::again(sent), Some((StatusCode::CONFLICT, visit.text.trouble(&error))));
            }
        }
        see(&visit.to(DEVICES))
    }
}
