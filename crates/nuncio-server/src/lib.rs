//! Assembles the server: settings, data directory, middleware, listeners, the DIDs of the server, operator commands.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod access_state;
pub mod admin;
mod agent_hooks;
mod agent_peers;
mod agents;
mod anp_identities;
pub mod backup;
mod checkpoints;
pub mod command_socket;
mod data;
pub mod dids;
mod endpoint;
mod environment;
mod error;
mod fronts;
mod hosting;
mod http;
mod keyring;
mod listen;
mod memory;
mod messages;
mod metrics;
mod node;
mod offers;
mod programs;
mod registry;
mod rekey;
mod retention;
mod serve;
mod server_url;
pub mod settings;
pub mod store_copy;
mod system;
pub mod telemetry;
mod webhooks;

pub use access_state::KeylessAccess;
pub use agents::{AgentFilesSource, load as load_agents};
pub use data::{DataDir, SECRET_KEY_VARIABLE, SecretKeySource, StoreLocation};
pub use endpoint::{ListenAddress, TlsFiles};
pub use environment::{MissingEnvironmentFindings, check_environment};
pub use error::OperatorError;
pub use fronts::fronts;
pub use http::{AnsweredRequest, RequestObserver};
pub use nuncio_auth::NetworkExposure;
pub use nuncio_backend::fetch;
pub use nuncio_backend::runners::{
    McpOfferedTool, McpServerTools, McpStartOptions, ServerReachability, ToolEffect, downloads_packages,
};
pub use nuncio_http::front::ProtocolFront;
pub use offers::{local_runners_config, mcp_offers, reach_servers};
pub use programs::{describe_confinement, program_notes};
pub use serve::{ServeOptions, Server, open_engine};
pub use system::{SystemClock, SystemEntropy};
