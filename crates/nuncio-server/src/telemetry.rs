//! Logs, as text or JSON, and with the feature `otel` traces. Request bodies, headers and keys are never logged.

use std::io::IsTerminal as _;

use http::HeaderMap;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

#[cfg(feature = "otel")]
mod traces;

const QUIET_TARGETS: [&str; 6] =
    ["rmcp=warn", "hyper=warn", "hyper_util=warn", "h2=warn", "reqwest=warn", "rustls=warn"];

type TracingLayers = Vec<Box<dyn Layer<Registry> + Send + Sync>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Log lines as text for people.
    #[default]
    Text,
    Json,
}

/// The running log and trace output. Dropping it flushes pending traces.
#[derive(Debug)]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    _traces: Option<traces::TraceExporter>,
}

/// Starts logging to standard error; an invalid `level` counts as `info`. Does nothing if logging was started before.
pub fn start(level: &str, format: LogFormat) -> Telemetry {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    // These libraries would log the data that passes through them, so they stay silent at every level.
    let filter =
        QUIET_TARGETS.iter().filter_map(|directive| directive.parse().ok()).fold(filter, EnvFilter::add_directive);
    let logs = fmt::layer().with_writer(std::io::stderr);
    #[cfg_attr(not(feature = "otel"), expect(unused_mut, reason = "there are no more"))]
    let mut layers: TracingLayers = vec![match format {
        LogFormat::Text => {
            logs.with_ansi(std::io::stderr().is_terminal()).with_target(false).with_filter(filter).boxed()
        }
        LogFormat::Json => logs.json().flatten_event(true).with_filter(filter).boxed(),
    }];
    #[cfg(feature = "otel")]
    let (traces, trouble) = match traces::from_environment() {
        Ok(traces) => (traces, None),
        Err(trouble) => (None, Some(trouble)),
    };
    #[cfg(feature = "otel")]
    layers.extend(traces.as_ref().map(traces::TraceExporter::layer));
    // A second start, as in tests, keeps the first logger.
    let _ = tracing_subscriber::registry().with(layers).try_init();
    #[cfg(feature = "otel")]
    if let Some(trouble) = trouble {
        tracing::warn!(trouble, "no traces are sent");
    }
    Telemetry {
        #[cfg(feature = "otel")]
        _traces: traces,
    }
}

/// Makes the request's span a child of the span in the client's `traceparent` header (W3C Trace Context).
#[cfg_attr(not(feature = "otel"), expect(unused_variables, reason = "spans go nowhere without the feature"))]
pub(crate) fn continue_trace(span: &tracing::Span, headers: &HeaderMap) {
    #[cfg(feature = "otel")]
    traces::continue_trace(span, headers);
}
