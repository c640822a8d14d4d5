//! OpenTelemetry traces (request → turn → step → tool call), sent as OTLP over HTTP. The standard variables
//! (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, …) configure them; without an endpoint
//! nothing is sent.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch, install_crypto};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

/// The variables of which one must be set for traces to be sent.
const ENDPOINT_VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/// Time limit of one export request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The trace exporter. Dropping it flushes pending spans.
#[derive(Debug)]
pub(super) struct TraceExporter {
    provider: SdkTracerProvider,
}

/// Starts the exporter if the environment names an endpoint; an error says why it cannot.
pub(super) fn from_environment() -> Result<Option<TraceExporter>, String> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !ENDPOINT_VARIABLES.into_iter().any(set) {
        return Ok(None);
    }
    install_crypto();
    let fetch = GuardedFetch::new(AllowedAddresses::parse([])?, false, None)?;
    let runtime = Handle::try_current().map_err(|error| error.to_string())?;
    let client = RuntimeHttpClient { client: fetch.client_for_configured(), runtime };
    let exporter =
        SpanExporter::builder().with_http().with_http_client(client).build().map_err(|error| error.to_string())?;
    let resource = Resource::builder();
    let resource = if set("OTEL_SERVICE_NAME") { resource } else { resource.with_service_name("nuncio") };
    let provider = SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build();
    Ok(Some(TraceExporter { provider }))
}

impl TraceExporter {
    /// Exports only spans of this workspace, whatever the log filter is.
    pub(super) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("nuncio"))
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("nuncio")))
            .boxed()
    }
}

impl Drop for TraceExporter {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::debug!(%error, "the last traces were not sent");
        }
    }
}

pub(super) fn continue_trace(span: &tracing::Span, headers: &HeaderMap) {
    let sender = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    if sender.has_active_span() {
        // A span that is not recorded needs no parent.
        let _ = span.set_parent(sender);
    }
}

/// An HTTP client for the exporter, whose own thread has no runtime: requests run on the server's runtime.
#[derive(Debug)]
struct RuntimeHttpClient<C> {
    client: C,
    runtime: Handle,
}

#[async_trait::async_trait]
impl<C: HttpClient + Clone + 'static> HttpClient for RuntimeHttpClient<C> {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = async move { tokio::time::timeout(EXPORT_TIMEOUT, client.send_bytes(request)).await };
        self.runtime.spawn(sent).await??
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::SpanData;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct ExportedSpans(Arc<Mutex<Vec<SpanData>>>);

    impl opentelemetry_sdk::trace::SpanExporter for ExportedSpans {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    #[test]
    fn request_continues_the_trace_in_its_traceparent_header() {
        let exported = ExportedSpans::default();
        let traces =
            TraceExporter { provider: SdkTracerProvider::builder().with_simple_exporter(exported.clone()).build() };
        let registry = tracing_subscriber::registry().with(traces.layer());
        tracing::subscriber::with_default(registry, || {
            let mut headers = HeaderMap::new();
            let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            headers.insert("traceparent", parent.parse().unwrap());
            let request = tracing::debug_span!(target: "nuncio_server", "request");
            continue_trace(&request, &headers);
            let _entered = request.enter();
            tracing::debug_span!(target: "nuncio_engine", "turn").in_scope(|| {});
            tracing::debug_span!(target: "hyper", "not ours").in_scope(|| {});
        });
        let spans = exported.0.lock().unwrap();
        let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
        assert_eq!(names, ["turn", "request"]);
        let (turn, request) = (&spans[0], &spans[1]);
        assert_eq!(request.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(request.parent_span_id.to_string(), "b7ad6b7169203331");
        assert_eq!(turn.parent_span_id, request.span_context.span_id());
    }
}
