//! HTTP status of error codes, shared by all protocols.

use http::StatusCode;
use nuncio_core::ErrorCode;

/// Status of an error response with this code.
#[must_use]
pub fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Unauthorized | ErrorCode::KeyExpired | ErrorCode::SkillAuthRequired | ErrorCode::DeviceRefused => {
            StatusCode::UNAUTHORIZED
        }
        ErrorCode::CrossOriginRefused
        | ErrorCode::HostRefused
        | ErrorCode::ForwardedRefused
        | ErrorCode::NotAdmitted
        | ErrorCode::ScopeNotGranted
        | ErrorCode::Denied
        | ErrorCode::NotOwner
        | ErrorCode::InviteInvalid
        | ErrorCode::RelationRequired
        | ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorCode::NotFound
        | ErrorCode::SessionNotFound
        | ErrorCode::HistoryNotOffered
        | ErrorCode::TurnNotFound
        | ErrorCode::ApprovalNotFound
        | ErrorCode::SkillNotFound
        | ErrorCode::ExecutionNotFound
        | ErrorCode::PersonNotFound
        | ErrorCode::DeviceNotFound
        | ErrorCode::RelationNotFound
        | ErrorCode::ConversationNotFound
        | ErrorCode::MessageNotFound
        | ErrorCode::StreamNotFound
        | ErrorCode::KeysNotFound
        | ErrorCode::BackupNotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::TurnRunning
        | ErrorCode::ApprovalClosed
        | ErrorCode::ManifestStale
        | ErrorCode::RelationExists
        | ErrorCode::LimitReached
        | ErrorCode::MessageClash
        | ErrorCode::MessageClaimed => StatusCode::CONFLICT,
        ErrorCode::BodyTooLarge | ErrorCode::ManifestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        ErrorCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::IdempotencyMismatch
        | ErrorCode::ManifestInvalid
        | ErrorCode::ManifestScopeReserved
        | ErrorCode::ManifestScopeUndeclared
        | ErrorCode::ManifestToolDuplicate
        | ErrorCode::ManifestSchemaInvalid
        | ErrorCode::ManifestFallbackMissing
        | ErrorCode::ManifestSensitivityBelowFloor
        | ErrorCode::ScopeUnknown
        | ErrorCode::ScopeRequired
        | ErrorCode::ConsentForged
        | ErrorCode::BundleRefused => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::ConsentUnsigned => StatusCode::PRECONDITION_REQUIRED,
        ErrorCode::RateLimited | ErrorCode::QueueFull => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::ShuttingDown
        | ErrorCode::StoreUnavailable
        | ErrorCode::ServerBusy
        | ErrorCode::ComputationQueueFull
        | ErrorCode::IssuerUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
        ErrorCode::Internal | ErrorCode::LedgerBroken => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
