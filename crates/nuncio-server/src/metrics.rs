//! `GET /metrics` in the OpenMetrics text format that Prometheus reads.
//!
//! Each server has its own registry. Labels are bounded: agents and tools by what is declared,
//! routes by what is served, everything else by an enum. What can be looked up is looked up when
//! someone asks; what must be counted is counted per turn, call, commit and request, never per delta.

use std::fmt;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use nuncio_a2h::server::SocketMetrics;
use nuncio_core::audit::{AuditDecision, AuditOutcome, AuditRecord};
use nuncio_core::execution::Execution;
use nuncio_core::ids::AgentName;
use nuncio_core::manifest;
use nuncio_core::turn::Stop;
use nuncio_engine::EngineLoad;
use nuncio_engine::ports::Meter;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

#[cfg(all(target_os = "linux", not(nuncio_portable)))]
mod process;

/// How a scrape's body is declared.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds: from a millisecond to ten minutes, a turn's usual limit.
const LONG: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0, 600.0];
/// Seconds: from a tenth of a millisecond to ten seconds, for what should be quick.
const SHORT: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];
/// Callers that shared a transaction.
const GROUPS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAgent {
    agent: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStop {
    agent: String,
    stop: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTool {
    agent: String,
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    agent: String,
    tool: String,
    protocol: &'static str,
    outcome: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStatus {
    route: String,
    method: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRoute {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    skill: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySize {
    large: &'static str,
    breaking: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

pub(crate) struct Metrics {
    registry: Registry,
    turns_started: Family<ByAgent, Counter>,
    turns_ended: Family<ByStop, Counter>,
    turn_seconds: Histograms<ByAgent>,
    calls: Family<ByOutcome, Counter>,
    call_seconds: Histograms<ByTool>,
    executions: Family<ByState, Counter>,
    open_executions: Gauge,
    requests: Family<ByStatus, Counter>,
    request_seconds: Histograms<ByRoute>,
    commit_seconds: Histogram,
    commit_callers: Histogram,
    open_streams: Gauge<i64, AtomicI64>,
    manifests: Family<BySize, Counter>,
    open_sockets: Gauge<i64, AtomicI64>,
    events_sent: Counter,
    running_turns: Gauge,
    pending_approvals: Gauge,
    queued_commits: Gauge,
}

fn long() -> Histogram {
    Histogram::new(LONG)
}

fn short() -> Histogram {
    Histogram::new(SHORT)
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            turns_started: Family::default(),
            turns_ended: Family::default(),
            turn_seconds: Family::new_with_constructor(long),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(long),
            executions: Family::default(),
            open_executions: Gauge::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(short),
            commit_seconds: short(),
            commit_callers: Histogram::new(GROUPS),
            open_streams: Gauge::default(),
            manifests: Family::default(),
            open_sockets: Gauge::default(),
            events_sent: Counter::default(),
            running_turns: Gauge::default(),
            pending_approvals: Gauge::default(),
            queued_commits: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let (seconds, registry) = (|| Unit::Seconds, &mut self.registry);
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("nuncio_build", "This server", version);
        registry.register("nuncio_turns_started", "Turns that began", self.turns_started.clone());
        registry.register("nuncio_turns_ended", "Turns that are over, by how they stopped", self.turns_ended.clone());
        let help = "How long turns took, from begun to on disk";
        registry.register_with_unit("nuncio_turn_duration", help, seconds(), self.turn_seconds.clone());
        registry.register("nuncio_tool_calls", "Tool calls, by what became of them", self.calls.clone());
        let help = "How long tool calls ran, those that ran at all";
        registry.register_with_unit("nuncio_tool_call_duration", help, seconds(), self.call_seconds.clone());
        let help = "Executions that are over, by how they ended";
        registry.register("nuncio_executions", help, self.executions.clone());
        let help = "Executions that are accepted and not over";
        registry.register("nuncio_executions_open", help, self.open_executions.clone());
        registry.register("nuncio_http_requests", "Requests answered", self.requests.clone());
        let help = "How long until a request's answer began";
        registry.register_with_unit("nuncio_http_request_duration", help, seconds(), self.request_seconds.clone());
        let help = "How long one transaction took, its sync to disk included";
        registry.register_with_unit("nuncio_store_commit", help, seconds(), self.commit_seconds.clone());
        let help = "How many callers shared one transaction";
        registry.register("nuncio_store_commit_callers", help, self.commit_callers.clone());
        registry.register("nuncio_store_queue", "Commits that wait for the writer", self.queued_commits.clone());
        registry.register("nuncio_turns_running", "Turns that run now", self.running_turns.clone());
        registry.register("nuncio_streams_open", "Event streams being read", self.open_streams.clone());
        let help = "Manifests published, by whether they were large and asked people again";
        registry.register("nuncio_manifests_published", help, self.manifests.clone());
        registry.register("nuncio_sockets_open", "WebSockets of people and agents", self.open_sockets.clone());
        registry.register("nuncio_events_sent", "Events sent over WebSockets", self.events_sent.clone());
        let help = "Calls that wait for an operator";
        registry.register("nuncio_approvals_pending", help, self.pending_approvals.clone());
        #[cfg(all(target_os = "linux", not(nuncio_portable)))]
        registry.register_collector(Box::new(process::Process));
    }

    /// A request was answered; `route` is the pattern it matched, if any.
    pub(crate) fn answered(&self, route: Option<&str>, method: &http::Method, status: u16, took: Duration) {
        // A nested fallback matches a pattern too, but it is no route.
        let route = route.filter(|route| !route.contains("{*")).unwrap_or("other");
        let labels = ByStatus { route: route.to_owned(), method: method_label(method), status: status_class(status) };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&ByRoute { route: labels.route }).observe(took.as_secs_f64());
    }

    /// The whole text, with current values looked up now.
    pub(crate) fn render(&self, load: EngineLoad, pending_approvals: Option<usize>) -> String {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.running_turns.set(count(load.running_turns));
        self.queued_commits.set(count(load.queued_commits));
        self.open_executions.set(count(load.open_executions));
        if let Some(pending) = pending_approvals {
            self.pending_approvals.set(count(pending));
        }
        let mut out = String::new();
        text::encode(&mut out, &self.registry).expect("writing to memory");
        out
    }
}

impl Meter for Metrics {
    fn turn_began(&self, agent: &AgentName) {
        self.turns_started.get_or_create(&ByAgent { agent: agent.to_string() }).inc();
    }

    fn turn_ended(&self, agent: &AgentName, stop: &Stop, took: Duration) {
        let name = if stop.cancelled { "cancelled" } else { stop.stop_reason.as_str() };
        let labels = ByStop { agent: agent.to_string(), stop: name };
        self.turns_ended.get_or_create(&labels).inc();
        self.turn_seconds.get_or_create(&ByAgent { agent: labels.agent }).observe(took.as_secs_f64());
    }

    fn call_ended(&self, record: &AuditRecord, declared: bool) {
        let (outcome, code) = match (&record.outcome, &record.decision) {
            (AuditOutcome::Completed, _) => ("completed", ""),
            (AuditOutcome::Failed { code }, _) => ("failed", code.as_str()),
            (AuditOutcome::NotRun, AuditDecision::Refused { code, .. }) => ("refused", code.as_str()),
            // Allowed, but its turn was over before there was a place for it.
            (AuditOutcome::NotRun, AuditDecision::Allowed { .. }) => ("not_run", ""),
        };
        let tool = if declared { record.tool.to_string() } else { "unknown".to_owned() };
        let labels =
            ByOutcome { agent: record.agent.to_string(), tool, protocol: record.protocol.as_str(), outcome, code };
        self.calls.get_or_create(&labels).inc();
        if let Some(started) = record.started_at {
            let took = started.until(record.ended_at);
            let labels = ByTool { agent: labels.agent, tool: labels.tool };
            self.call_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    fn execution_ended(&self, execution: &Execution) {
        let labels = ByState { skill: execution.order.skill.to_string(), state: execution.state.as_str() };
        self.executions.get_or_create(&labels).inc();
    }

    fn stream_opened(&self) {
        self.open_streams.inc();
    }

    fn stream_closed(&self) {
        self.open_streams.dec();
    }

    fn manifest_published(&self, bytes: usize, breaking: bool) {
        let word = |yes| if yes { "yes" } else { "no" };
        let labels = BySize { large: word(bytes >= manifest::LARGE_BYTES), breaking: word(breaking) };
        self.manifests.get_or_create(&labels).inc();
    }

    #[expect(clippy::cast_precision_loss, reason = "a group has at most a few hundred callers")]
    fn committed(&self, callers: usize, took: Duration) {
        self.commit_seconds.observe(took.as_secs_f64());
        self.commit_callers.observe(callers as f64);
    }
}

impl SocketMetrics for Metrics {
    fn socket_opened(&self) {
        self.open_sockets.inc();
    }

    fn socket_closed(&self) {
        self.open_sockets.dec();
    }

    fn events_sent(&self, count: usize) {
        self.events_sent.inc_by(count as u64);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

fn method_label(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn status_class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
