//! `GET /metrics` in the OpenMetrics text format that Prometheus reads.
//!
//! Each server has its own registry. Label values are bounded: agents, tools and routes that exist, and enums. Current
//! values are read at each scrape; counters count turns, calls, commits and requests, never deltas.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use nuncio_a2h::server::SocketMetrics;
use nuncio_core::audit::{AuditDecision, AuditOutcome, AuditRecord};
use nuncio_core::execution::Execution;
use nuncio_core::ids::AgentName;
use nuncio_core::manifest;
use nuncio_core::opaque_debug;
use nuncio_core::turn::TurnOutcome;
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

/// Content type of the OpenMetrics text format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Histogram buckets in seconds for turns: from a millisecond to ten minutes, the usual limit of a turn.
const TURN_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0, 600.0];
/// Histogram buckets in seconds for short operations: from a tenth of a millisecond to ten seconds.
const OPERATION_BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];
/// Histogram buckets for the number of callers that shared a transaction.
const GROUP_SIZE_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Declares the label sets of metrics.
macro_rules! labels {
    ($($name:ident { $($label:ident: $type:ty),* })*) => {$(
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $name {
            $($label: $type,)*
        }
    )*};
}

labels! {
    AgentLabels { agent: String }
    StopLabels { agent: String, stop: &'static str }
    ToolLabels { agent: String, tool: String }
    OutcomeLabels { agent: String, tool: String, protocol: &'static str, outcome: &'static str, code: &'static str }
    StatusLabels { route: String, method: &'static str, status: &'static str }
    RouteLabels { route: String }
    StateLabels { skill: String, state: &'static str }
    SizeLabels { large: &'static str, breaking: &'static str }
}

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// Declares the metrics: field, type and initial value; name and unit; description.
macro_rules! metrics {
    ($($field:ident: $type:ty = $initial:expr, $name:literal $(in $unit:ident)?, $help:literal;)*) => {
        pub(crate) struct Metrics {
            registry: Registry,
            $($field: $type,)*
        }

        impl Metrics {
            pub(crate) fn new() -> Self {
                let mut registry = Registry::default();
                let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
                registry.register("nuncio_build", "This server", version);
                $(
                    let $field: $type = $initial;
                    let unit = Option::<Unit>::None$(.or(Some(Unit::$unit)))?;
                    match unit {
                        Some(unit) => registry.register_with_unit($name, $help, unit, $field.clone()),
                        None => registry.register($name, $help, $field.clone()),
                    }
                )*
                #[cfg(all(target_os = "linux", not(nuncio_portable)))]
                registry.register_collector(Box::new(process::ProcessCollector));
                Self { registry, $($field,)* }
            }
        }
    };
}

metrics! {
    turns_started: Family<AgentLabels, Counter> = Family::default(), "nuncio_turns_started", "Turns started";
    turns_ended: Family<StopLabels, Counter> = Family::default(),
        "nuncio_turns_ended", "Turns ended, by stop reason";
    turn_seconds: HistogramFamily<AgentLabels> = Family::new_with_constructor(long),
        "nuncio_turn_duration" in Seconds, "Duration of turns, from their start until they are stored";
    calls: Family<OutcomeLabels, Counter> = Family::default(), "nuncio_tool_calls", "Tool calls, by outcome";
    call_seconds: HistogramFamily<ToolLabels> = Family::new_with_constructor(long),
        "nuncio_tool_call_duration" in Seconds, "Duration of the tool calls that ran";
    executions: Family<StateLabels, Counter> = Family::default(),
        "nuncio_executions", "Executions ended, by outcome";
    open_executions: Gauge = Gauge::default(), "nuncio_executions_open", "Executions accepted and not yet ended";
    requests: Family<StatusLabels, Counter> = Family::default(), "nuncio_http_requests", "Requests answered";
    request_seconds: HistogramFamily<RouteLabels> = Family::new_with_constructor(short),
        "nuncio_http_request_duration" in Seconds, "Time until the response to a request began";
    commit_seconds: Histogram = short(),
        "nuncio_store_commit" in Seconds, "Duration of a transaction, including its sync to disk";
    commit_callers: Histogram = Histogram::new(GROUP_SIZE_BUCKETS),
        "nuncio_store_commit_callers", "Callers that shared a transaction";
    queued_commits: Gauge = Gauge::default(), "nuncio_store_queue", "Commits waiting for the writer";
    history_messages: Counter = Counter::default(), "nuncio_history_messages_read",
        "Messages that turns read from the store, because they were not in memory";
    history_bytes: Counter = Counter::default(),
        "nuncio_history_read" in Bytes, "Size of the messages that turns read from the store";
    running_turns: Gauge = Gauge::default(), "nuncio_turns_running", "Running turns";
    open_streams: Gauge<i64, AtomicI64> = Gauge::default(), "nuncio_streams_open", "Open event streams";
    manifests: Family<SizeLabels, Counter> = Family::default(),
        "nuncio_manifests_published", "Manifests published, by whether the change was large and needed new consent";
    open_sockets: Gauge<i64, AtomicI64> = Gauge::default(), "nuncio_sockets_open", "WebSockets of people and agents";
    events_sent: Counter = Counter::default(), "nuncio_events_sent", "Events sent over WebSockets";
    pending_approvals: Gauge = Gauge::default(), "nuncio_approvals_pending", "Calls waiting for an operator";
}

fn long() -> Histogram {
    Histogram::new(TURN_BUCKETS)
}

fn short() -> Histogram {
    Histogram::new(OPERATION_BUCKETS)
}

impl Metrics {
    /// Counts an answered request; `route` is the pattern that it matched, if any.
    pub(crate) fn answered(&self, route: Option<&str>, method: &http::Method, status: u16, took: Duration) {
        // The pattern of a nested router's fallback contains `{*` and is not a route.
        let route = route.filter(|route| !route.contains("{*")).unwrap_or("other");
        let labels =
            StatusLabels { route: route.to_owned(), method: method_label(method), status: status_class(status) };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&RouteLabels { route: labels.route }).observe(took.as_secs_f64());
    }

    /// All metrics as text, with the current values.
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
        self.turns_started.get_or_create(&AgentLabels { agent: agent.to_string() }).inc();
    }

    fn turn_ended(&self, agent: &AgentName, stop: &TurnOutcome, took: Duration) {
        let name = if stop.cancelled { "cancelled" } else { stop.stop_reason.as_str() };
        let labels = StopLabels { agent: agent.to_string(), stop: name };
        self.turns_ended.get_or_create(&labels).inc();
        self.turn_seconds.get_or_create(&AgentLabels { agent: labels.agent }).observe(took.as_secs_f64());
    }

    fn call_ended(&self, record: &AuditRecord, declared: bool) {
        let (outcome, code) = match (&record.outcome, &record.decision) {
            (AuditOutcome::Completed, _) => ("completed", ""),
            (AuditOutcome::Failed { code }, _) => ("failed", code.as_str()),
            (AuditOutcome::NotRun, AuditDecision::Refused { code, .. }) => ("refused", code.as_str()),
            // Allowed, but the turn ended while the call waited for a free slot.
            (AuditOutcome::NotRun, AuditDecision::Allowed { .. }) => ("not_run", ""),
        };
        let tool = if declared { record.tool.to_string() } else { "unknown".to_owned() };
        let labels =
            OutcomeLabels { agent: record.agent.to_string(), tool, protocol: record.protocol.as_str(), outcome, code };
        self.calls.get_or_create(&labels).inc();
        if let Some(started) = record.started_at {
            let took = started.until(record.ended_at);
            let labels = ToolLabels { agent: labels.agent, tool: labels.tool };
            self.call_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    fn execution_ended(&self, execution: &Execution) {
        let labels = StateLabels { skill: execution.order.skill.to_string(), state: execution.state.as_str() };
        self.executions.get_or_create(&labels).inc();
    }

    fn stream_opened(&self) {
        self.open_streams.inc();
    }

    fn stream_closed(&self) {
        self.open_streams.dec();
    }

    fn manifest_published(&self, bytes: usize, breaking: bool) {
        let yes_no = |yes| if yes { "yes" } else { "no" };
        let labels = SizeLabels { large: yes_no(bytes >= manifest::LARGE_BYTES), breaking: yes_no(breaking) };
        self.manifests.get_or_create(&labels).inc();
    }

    fn history_read(&self, messages: usize, bytes: usize) {
        self.history_messages.inc_by(messages as u64);
        self.history_bytes.inc_by(bytes as u64);
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

opaque_debug!(Metrics);

fn method_label(method: &http::Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| method.as_str() == *known).unwrap_or("other")
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
