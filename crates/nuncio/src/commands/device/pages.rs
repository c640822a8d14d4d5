//! The pages of a running device: their address, and the link that opens them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anstream::eprintln;
use nuncio_core::ErrorCode;
use nuncio_core::ids::ScopeId;
use nuncio_device::pages::{
    NotificationTool, NotifyingPrompt, PageAccess, SecretPagesPath, SharedPagesState, serve, welcome,
};
use nuncio_device::prompt::PermissionPrompt;
use nuncio_device::tools::{DesktopEnvironment, DesktopNotificationTool, LocalTools};
use nuncio_device::{Device, DeviceDependencies};
use nuncio_engine::ports::Clock as _;
use nuncio_server::{SystemClock, SystemEntropy};
use owo_colors::OwoColorize as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::home::{config_error, text_of};
use super::write_private_file;
use crate::commands::language::user_language;
use crate::output::fault;

/// Default port of the device pages.
const PORT: u16 = 7480;

/// The device pages before they are served.
pub(super) struct PagesListener {
    listener: std::net::TcpListener,
    state: SharedPagesState,
    pub(super) links: OneTimePageLinks,
}

/// Makes one-time links to the device pages.
#[derive(Debug, Clone)]
pub(super) struct OneTimePageLinks {
    address: SocketAddr,
    access: Arc<PageAccess>,
}

impl OneTimePageLinks {
    pub(super) fn link(&self) -> String {
        self.access.link(self.address, &SystemEntropy, SystemClock.now())
    }
}

impl PagesListener {
    /// Listens on `port` of this machine; if it is `None`, on the default port or any free one.
    pub(super) async fn at(port: Option<u16>, home: &Path) -> anyhow::Result<Self> {
        let here = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match port {
            Some(port) => here(port).await.map_err(|why| {
                fault(
                    ErrorCode::ListenFailed,
                    format!("the pages cannot use port {port}: {why}; choose another --port"),
                )
            })?,
            None => match here(PORT).await {
                Ok(listener) => listener,
                Err(_) => here(0).await?,
            },
        };
        let at = listener.local_addr()?;
        let state = SharedPagesState::new(Arc::new(SystemClock), pages_path(home)?);
        let links = OneTimePageLinks { address: at, access: Arc::clone(&state.access) };
        Ok(Self { listener: listener.into_std()?, state, links })
    }

    /// Prompt on the pages, with a desktop notification for each question.
    pub(super) fn prompt(&self) -> Arc<dyn PermissionPrompt> {
        Arc::new(NotifyingPrompt {
            prompt: Arc::clone(&self.state.prompts) as _,
            desktop: DesktopNotificationTool(DesktopEnvironment::here()),
            language: user_language(),
        })
    }

    /// Adds a notification tool, which shows notifications on the device pages if there is no desktop.
    pub(super) fn with_notifications(&self, tools: LocalTools) -> anyhow::Result<LocalTools> {
        let scope = ScopeId::parse("notification:send").map_err(|why| fault(ErrorCode::Internal, why.to_string()))?;
        let notices = Arc::clone(&self.state.notices);
        Ok(tools.under(
            scope,
            Arc::new(NotificationTool { desktop: DesktopNotificationTool(DesktopEnvironment::here()), notices }),
        ))
    }

    /// Serves the enrolment page, on which the person makes this machine a device; `None` if they stop before that.
    pub(super) async fn welcome(
        &self,
        config: DeviceDependencies,
        stop: CancellationToken,
    ) -> anyhow::Result<Option<Device>> {
        let listener = TcpListener::from_std(self.listener.try_clone()?)?;
        Ok(welcome(config, Arc::clone(&self.state.access), listener, stop).await?)
    }

    /// Serves the device pages until `stop`.
    pub(super) async fn serve(self, device: Device, stop: CancellationToken) {
        let serving = async { serve(device, self.state, TcpListener::from_std(self.listener)?, stop).await };
        if let Err(error) = serving.await {
            eprintln!("{} {error}", "The pages of the device ended:".red());
        }
    }
}

/// Secret base path of the device pages, made at the first start, so that bookmarks still work after a restart.
fn pages_path(home: &Path) -> anyhow::Result<SecretPagesPath> {
    let file = home.join("pages.path");
    if let Some(text) = text_of(&file)? {
        let invalid =
            || config_error(&file, &"this is not a path of the pages; delete the file, and a new one is made");
        return SecretPagesPath::parse(text.trim()).ok_or_else(invalid);
    }
    let path = SecretPagesPath::random(&SystemEntropy);
    write_private_file(&file, path.as_str()).map_err(|why| config_error(&file, &why))?;
    Ok(path)
}
