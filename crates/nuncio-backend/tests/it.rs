//! Integration tests of the HTTP client, the runners and the brains with real sockets, processes and MCP servers.

#![expect(clippy::unwrap_used, reason = "a test stops at the first step that fails")]

#[path = "it/anp.rs"]
mod anp;
#[path = "it/command.rs"]
mod command;
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
#[path = "it/confined.rs"]
mod confined;
#[path = "it/examples.rs"]
mod examples;
#[path = "it/fetch.rs"]
mod fetch;
#[path = "it/http.rs"]
mod http;
#[path = "it/mcp.rs"]
mod mcp;
#[path = "it/mcp_reference_server.rs"]
mod mcp_reference_server;
#[path = "it/model.rs"]
mod model;
#[path = "it/package_runners.rs"]
mod package_runners;
#[path = "it/process_brain.rs"]
mod process_brain;
#[path = "it/processes.rs"]
mod processes;
#[path = "it/skill.rs"]
mod skill;
#[path = "it/test_brain.rs"]
mod test_brain;
#[path = "it/test_http_server.rs"]
mod test_http_server;
#[path = "it/test_mcp_server.rs"]
mod test_mcp_server;
#[path = "it/test_runners.rs"]
mod test_runners;
