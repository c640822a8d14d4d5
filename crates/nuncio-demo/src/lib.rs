//! Real MCP servers over stdio, so that Nuncio can serve agents before its user has written any.
//!
//! - `nuncio demo hotel` – [`hotel()`]: the Grand Hotel. Twelve rooms in a SQLite file, and tools to find, book, look
//!   up and cancel.
//! - `nuncio demo script` – [`script()`]: `add`, `lookup`, `echo` and `fail`, whose answers are known in advance, for
//!   scripted agents and conformance runs.
//! - `nuncio demo conformance` – [`conformance()`]: the tools that the conformance suite of MCP asks for.
//!
//! Standard output carries the MCP protocol, so this crate prints nothing to it.

use std::path::Path;

pub mod conformance;
pub mod hotel;
mod mcp;
pub mod script;

/// Serves the Grand Hotel on standard input and output until the client disconnects.
///
/// `db` is the hotel's ledger; it is created with its folder and rooms at the first start. Several processes may serve
/// the same file.
pub async fn hotel(db: &Path) -> anyhow::Result<()> {
    let server = hotel::HotelMcpServer::open(db)?;
    mcp::serve_stdio(server).await
}

/// Serves the scripted demo tools on standard input and output until the client disconnects.
pub async fn script() -> anyhow::Result<()> {
    mcp::serve_stdio(script::DemoMcpServer::new()).await
}

/// Serves the tools of MCP's conformance suite on standard input and output until the client disconnects.
pub async fn conformance() -> anyhow::Result<()> {
    mcp::serve_stdio(conformance::ConformanceMcpServer::new()).await
}
