//! The pages of a running device: their address, and the link that opens them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anstream::eprintln;
use nuncio_core::Code;
use nuncio_core::ids::ScopeId;
use nuncio_device::pages::{NotificationTool, PageAccess, PagesPath, SharedPagesState, serve, welcome};
use nuncio_device::prompt::Prompt;
use nuncio_device::tools::{Desktop, Notify, Tools};
use nuncio_device::{Device, DeviceConfig};
use nuncio_engine::ports::Clock as _;
use nuncio_server::{SystemClock, SystemEntropy};
use owo_colors::OwoColorize as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::home::{text_of, wrong};
use super::written;
use crate::output::fault;

/// Default port of the device pages.
const PORT: u16 = 7480;

/// The device pages before they are served.
pub(super) struct Pages {
    listener: std::net::TcpListener,
    rooms: SharedPagesState,
    pub(super) opener: Opener,
}

/// Makes one-time links that open the pages.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    at: SocketAddr,
    door: Arc<PageAccess>,
}

impl Opener {
    pub(super) fn link(&self) -> String {
        self.door.link(self.at, &SystemEntropy, SystemClock.now())
    }
}

impl Pages {
    /// Listens at the given port of this machine; without one at the default port, or any that is free.
    pub(super) async fn at(port: Option<u16>, home: &Path) -> anyhow::Result<Self> {
        let here = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match port {
            Some(port) => here(port).await.map_err(|why| {
                fault(Code::ListenFailed, format!("the pages cannot use port {port}: {why}; choose another --port"))
            })?,
            None => match here(PORT).await {
                Ok(listener) => listener,
                Err(_) => here(0).await?,
            },
        };
        let at = listener.local_addr()?;
        let rooms = SharedPagesState::new(Arc::new(SystemClock), pages_path(home)?);
        let opener = Opener { at, door: Arc::clone(&rooms.door) };
        Ok(Self { listener: listener.into_std()?, rooms, opener })
    }

    pub(super) fn prompt(&self) -> Arc<dyn Prompt> {
        Arc::clone(&self.rooms.desk) as _
    }

    /// These tools, with notices that are shown on the pages where there is no desktop.
    pub(super) fn noticing(&self, tools: Tools) -> anyhow::Result<Tools> {
        let scope = ScopeId::parse("notification:send").map_err(|why| fault(Code::Internal, why.to_string()))?;
        let board = Arc::clone(&self.rooms.board);
        Ok(tools.under(scope, Arc::new(NotificationTool { desktop: Notify::on(Desktop::here()), board })))
    }

    /// Serves the enrolment page, on which the person makes this machine a device; `None` if they stop before that.
    pub(super) async fn welcome(
        &self,
        config: DeviceConfig,
        stop: CancellationToken,
    ) -> anyhow::Result<Option<Device>> {
        let listener = TcpListener::from_std(self.listener.try_clone()?)?;
        Ok(welcome(config, Arc::clone(&self.rooms.door), listener, stop).await?)
    }

    /// Serves the pages until `stop`.
    pub(super) async fn serve(self, device: Device, stop: CancellationToken) {
        let served = async { serve(device, self.rooms, TcpListener::from_std(self.listener)?, stop).await };
        if let Err(error) = served.await {
            eprintln!("{} {error}", "The pages of the device ended:".red());
        }
    }
}

/// The base path of the pages, made at the first start, so that bookmarks still work after a restart.
fn pages_path(home: &Path) -> anyhow::Result<PagesPath> {
    let file = home.join("pages.path");
    if let Some(text) = text_of(&file)? {
        let invalid = || wrong(&file, &"this is not a path of the pages; delete the file, and a new one is made");
        return PagesPath::parse(text.trim()).ok_or_else(invalid);
    }
    let path = PagesPath::random(&SystemEntropy);
    written(&file, path.as_str()).map_err(|why| wrong(&file, &why))?;
    Ok(path)
}
