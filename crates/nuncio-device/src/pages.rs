//! Web pages of a device for its person: served on loopback only, opened by a one-time link, and protected from other
//! sites in the same browser.
//!
//! | module | content |
//! |---|---|
//! | `page_access` | access: one-time link, session, origin of a request |
//! | `prompt_queue` | pending prompts and the person's answers |
//! | `events` | event stream to open pages |
//! | `frame` | layout and request context of every page |
//! | `texts` | one catalog per language in `locales/` |
//! | `calls`, `agents`, … | one page each |
//!
//! Templates are in `templates/`, static files in `assets/`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_engine::ports::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::device::Device;

mod agents;
mod calls;
mod devices;
mod events;
mod files;
mod frame;
mod happened;
mod notices;
mod page_access;
mod path;
mod prompt_queue;
mod talk;
mod texts;
mod welcome;
mod wording;

pub use nuncio_http::pages::Language;

pub use notices::{NoticeChannel, NotificationTool, NotifyingPrompt};
pub use page_access::PageAccess;
pub use path::SecretPagesPath;
pub use prompt_queue::PromptQueue;
pub use welcome::welcome;

use frame::{PageRequest, SignedInRequest};
use page_access::PageAccessRouteState;

/// State that the pages share with the prompt, the notification tool and the command line.
#[derive(Debug, Clone)]
pub struct SharedPagesState {
    pub prompts: Arc<PromptQueue>,
    pub access: Arc<PageAccess>,
    pub notices: Arc<NoticeChannel>,
}

impl SharedPagesState {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, path: SecretPagesPath) -> Self {
        Self {
            prompts: Arc::new(PromptQueue::new(clock)),
            access: Arc::new(PageAccess::new(path)),
            notices: Arc::default(),
        }
    }
}

#[derive(Clone)]
struct DevicePages {
    device: Device,
    shared: SharedPagesState,
    /// Cancelled to end open event streams.
    stop: CancellationToken,
}

/// Serves the pages of a device until `stop`.
///
/// # Errors
/// The address is not a loopback address, or listening fails.
pub async fn serve(
    device: Device,
    shared: SharedPagesState,
    listener: TcpListener,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let address = loopback_address(&listener)?;
    let pages = DevicePages { device, shared, stop: stop.clone() };
    axum::serve(listener, routes(pages, address)).with_graceful_shutdown(stop.cancelled_owned()).await
}

fn loopback_address(listener: &TcpListener) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => {
            Err(std::io::Error::other("the pages of a device can be opened only on this machine: listen on 127.0.0.1"))
        }
    }
}

fn routes(pages: DevicePages, address: SocketAddr) -> Router {
    let inside = Router::new()
        .route("/", get(calls::home))
        .route("/calls", get(calls::list))
        .route("/calls/{id}", post(calls::answer))
        .route("/events", get(events::listen))
        .route("/agents", get(agents::list))
        .route("/agents/find", get(agents::find))
        .route("/agents/{id}", get(agents::show))
        .route("/agents/{id}/allow", post(agents::allow))
        .route("/agents/{id}/revoke", post(agents::revoke))
        .route("/agents/{id}/stricter", post(agents::stricter))
        .route("/agents/{id}/keys", post(agents::accept_keys))
        .route("/talk/{id}", get(talk::show).post(talk::send))
        .route("/talk/{id}/lines", get(talk::lines))
        .route("/talk/{id}/again", post(talk::again))
        .route("/talk/{id}/drop", post(talk::drop_failed))
        .route("/happened", get(happened::list))
        .route("/happened/export", get(happened::export))
        .route("/happened/arguments", get(happened::list).post(happened::set_arguments))
        .route("/devices", get(devices::list))
        .route("/devices/invite", get(devices::again).post(devices::invite))
        .route("/devices/backup", get(devices::again).post(devices::back_up))
        .route("/devices/recover", get(devices::again).post(devices::recover))
        .route("/devices/{id}/trust", get(devices::again).post(devices::trust))
        .route("/devices/{id}/remove", get(devices::ask_remove).post(devices::remove))
        .route("/leave", post(page_access::leave))
        .fallback(not_found);
    let access = PageAccessRouteState::new(&pages.shared.access, &pages.device.context().config);
    below_path(access, inside.with_state(pages), address)
}

/// Router that requires a session for `inside`, adds routes that need none, and puts all below the unguessable path.
fn below_path(state: PageAccessRouteState, inside: Router, address: SocketAddr) -> Router {
    let path = state.access.path().clone();
    let inside = inside.layer(middleware::from_fn_with_state(state.clone(), page_access::inside));
    let pages = Router::new()
        .route("/open", get(page_access::show_link).post(page_access::use_link))
        .route("/assets/{version}/{file}", get(file))
        .with_state(state)
        .merge(inside);
    let first_page = path.as_str().to_owned();
    Router::new()
        .route(&format!("{first_page}/"), get(async move |RawQuery(query): RawQuery| first_page_at(&first_page, query)))
        .nest(path.as_str(), pages)
        .fallback(PageRequest::outside)
        .layer(middleware::map_response(add_security_headers))
        .layer(middleware::from_fn_with_state(address, page_access::is_this_machine))
}

/// Redirects a request for the first page with a trailing slash to its path without one.
fn first_page_at(path: &str, query: Option<String>) -> Redirect {
    Redirect::to(&query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}

async fn add_security_headers(mut response: Response) -> Response {
    let cache_control = response.headers().get(header::CACHE_CONTROL).cloned();
    nuncio_http::pages::headers::guard_private(response.headers_mut());
    // Static files set their own cache lifetime.
    if let Some(cache_control) = cache_control {
        response.headers_mut().insert(header::CACHE_CONTROL, cache_control);
    }
    response
}

/// `GET /assets/:version/:file`: a static file.
async fn file(Path((version, file)): Path<(String, String)>, headers: HeaderMap) -> Response {
    files::FILES.answer(&version, &file, &headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
}

async fn not_found(visit: SignedInRequest) -> Response {
    visit.message(StatusCode::NOT_FOUND, &visit.text.frame.not_found, &visit.text.frame.not_found_why)
}

/// Response that the browser saves as a file.
fn download(content: String, content_type: &'static str, file_name: &str) -> Response {
    let disposition = format!("attachment; filename=\"{file_name}\"");
    let headers = [(header::CONTENT_TYPE, content_type), (header::CONTENT_DISPOSITION, disposition.as_str())];
    (headers, content).into_response()
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}
