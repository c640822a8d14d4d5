//! MCP, the Model Context Protocol: every agent is an MCP server over streamable HTTP.
//!
//! Two revisions share one address. 2026-07-28 has no sessions: every request stands alone. 2025-11-25 begins with
//! `initialize`; its sessions are tokens that the client keeps ([decision 0033](../../../docs/decisions/0033-mcp-front.md)).

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod project;
pub mod server;
mod wire;
