//! Error messages of MCP connections, without addresses and secrets.

use std::error::Error;
use std::io::ErrorKind;

use rmcp::ServiceError;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::fetch::causes;
use crate::runners::process::printable;

/// Failure to open an MCP connection.
pub(super) enum McpConnectError {
    /// The server refused this kind of handshake.
    Hello(String),
    Other(String),
}

/// Converts a handshake failure to a connection error.
pub(super) fn refused(error: &ClientInitializeError) -> McpConnectError {
    McpConnectError::Other(match error {
        ClientInitializeError::JsonRpcError(error) => {
            return McpConnectError::Hello(format!("it refused the initialization: {}", error.message));
        }
        ClientInitializeError::ConnectionClosed(_) => "it ended before the initialization was complete".into(),
        ClientInitializeError::TransportError { error, .. } => {
            transport(error, "it ended before the initialization was complete")
        }
        error => text(error),
    })
}

/// Describes why a request on an MCP connection failed.
pub(super) fn lost(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportClosed => "it ended".into(),
        ServiceError::TransportSend(error) => transport(error, "it ended"),
        error => text(error),
    }
}

fn transport(error: &DynamicTransportError, ended: &str) -> String {
    let error: &(dyn Error + 'static) = &*error.error;
    if let Some(error) = error.downcast_ref::<std::io::Error>()
        && error.kind() == ErrorKind::BrokenPipe
    {
        return ended.to_owned();
    }
    match error.downcast_ref() {
        // The outermost error names the URL, whose query may contain a token; the innermost does not.
        Some(StreamableHttpError::<reqwest::Error>::Client(error)) => text(causes(error).last().unwrap_or(error)),
        Some(StreamableHttpError::AuthRequired(_)) => "it requires other credentials".into(),
        _ => text(error),
    }
}

fn text(error: &dyn Error) -> String {
    printable(&error.to_string()).chars().take(500).collect()
}
