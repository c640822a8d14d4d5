//! Tests of the whole server in one process, with real sockets, databases and programs and a manual clock.

#![expect(clippy::unwrap_used, reason = "a test stops at the first step that fails")]

#[path = "it/a2h.rs"]
mod a2h;
#[path = "it/access.rs"]
mod access;
#[path = "it/admission.rs"]
mod admission;
#[path = "it/agents.rs"]
mod agents;
#[path = "it/anp.rs"]
mod anp;
#[path = "it/approvals.rs"]
mod approvals;
#[path = "it/callbacks.rs"]
mod callbacks;
#[path = "it/console_tasks.rs"]
mod console_tasks;
#[path = "it/credentials.rs"]
mod credentials;
#[path = "it/cross_origin.rs"]
mod cross_origin;
#[path = "it/deadlines.rs"]
mod deadlines;
#[path = "it/dids.rs"]
mod dids;
#[path = "it/directory.rs"]
mod directory;
#[path = "it/execution_lifecycle.rs"]
mod execution_lifecycle;
#[path = "it/executions.rs"]
mod executions;
#[path = "it/golden.rs"]
mod golden;
#[path = "it/history.rs"]
mod history;
#[path = "it/history_summary.rs"]
mod history_summary;
#[path = "it/hot_path.rs"]
mod hot_path;
#[path = "it/http2.rs"]
mod http2;
#[path = "it/inbox.rs"]
mod inbox;
#[path = "it/keys.rs"]
mod keys;
#[path = "it/limits.rs"]
mod limits;
#[path = "it/mcp.rs"]
mod mcp;
#[path = "it/oauth.rs"]
mod oauth;
#[path = "it/openapi.rs"]
mod openapi;
#[path = "it/operators.rs"]
mod operators;
#[path = "it/postgres.rs"]
mod postgres;
#[path = "it/postgres_audit.rs"]
mod postgres_audit;
#[path = "it/registry.rs"]
mod registry;
#[path = "it/request_heads.rs"]
mod request_heads;
#[path = "it/restarts.rs"]
mod restarts;
#[path = "it/resume.rs"]
mod resume;
#[path = "it/retention.rs"]
mod retention;
#[path = "it/same_in_every_protocol.rs"]
mod same_in_every_protocol;
#[path = "it/session_cache.rs"]
mod session_cache;
#[path = "it/signature.rs"]
mod signature;
#[path = "it/skill_envelope.rs"]
mod skill_envelope;
#[path = "it/storage_limits.rs"]
mod storage_limits;
#[path = "it/turns.rs"]
mod turns;
