//! Whether the device can work with its server, as its person must know it.

use nuncio_core::ErrorCode;
use nuncio_core::string_enum;

use crate::error::DeviceError;

string_enum! {
    pub enum ServerConnectionState {
        /// The device has not tried yet.
        Connecting = "connecting",
        Connected = "connected",
        /// The server does not answer; the device keeps trying.
        Unreachable = "unreachable",
        /// The server no longer accepts this device: it was removed or revoked, or its person was.
        Removed = "removed",
    }
}

impl ServerConnectionState {
    /// State after a request failed.
    pub(crate) fn after(error: &DeviceError) -> Self {
        match error.code {
            ErrorCode::DeviceRefused
            | ErrorCode::Unauthorized
            | ErrorCode::DeviceNotFound
            | ErrorCode::PersonNotFound => Self::Removed,
            _ => Self::Unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_credentials_mean_removed_and_other_errors_mean_unreachable() {
        for (code, state) in [
            (ErrorCode::DeviceRefused, ServerConnectionState::Removed),
            (ErrorCode::Unauthorized, ServerConnectionState::Removed),
            (ErrorCode::EndpointUnreachable, ServerConnectionState::Unreachable),
            (ErrorCode::RateLimited, ServerConnectionState::Unreachable),
        ] {
            assert_eq!(ServerConnectionState::after(&DeviceError::new(code, "")), state, "{code}");
        }
    }
}
