//! HTTP status of error codes, shared by all protocols.

use http::StatusCode;
use nuncio_core::Code;

/// Status of an error response with this code.
#[must_use]
pub fn status(code: Code) -> StatusCode {
    match code {
        Code::Unauthorized | Code::KeyExpired | Code::SkillAuthRequired | Code::DeviceRefused => {
            StatusCode::UNAUTHORIZED
        }
        Code::CrossOriginRefused
        | Code::HostRefused
        | Code::ForwardedRefused
        | Code::NotAdmitted
        | Code::ScopeNotGranted
        | Code::Denied
        | Code::NotOwner
        | Code::InviteInvalid
        | Code::RelationRequired
        | Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound
        | Code::SessionNotFound
        | Code::HistoryNotOffered
        | Code::TurnNotFound
        | Code::ApprovalNotFound
        | Code::SkillNotFound
        | Code::ExecutionNotFound
        | Code::PersonNotFound
        | Code::DeviceNotFound
        | Code::RelationNotFound
        | Code::ConversationNotFound
        | Code::MessageNotFound
        | Code::StreamNotFound
        | Code::KeysNotFound
        | Code::BackupNotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::TurnRunning
        | Code::ApprovalClosed
        | Code::ManifestStale
        | Code::RelationExists
        | Code::LimitReached
        | Code::MessageClash
        | Code::MessageClaimed => StatusCode::CONFLICT,
        Code::BodyTooLarge | Code::ManifestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::IdempotencyMismatch
        | Code::ManifestInvalid
        | Code::ManifestScopeReserved
        | Code::ManifestScopeUndeclared
        | Code::ManifestToolDuplicate
        | Code::ManifestSchemaInvalid
        | Code::ManifestFallbackMissing
        | Code::ManifestSensitivityBelowFloor
        | Code::ScopeUnknown
        | Code::ScopeRequired
        | Code::ConsentForged
        | Code::BundleRefused => StatusCode::UNPROCESSABLE_ENTITY,
        Code::ConsentUnsigned => StatusCode::PRECONDITION_REQUIRED,
        Code::RateLimited | Code::QueueFull => StatusCode::TOO_MANY_REQUESTS,
        Code::ShuttingDown
        | Code::StoreUnavailable
        | Code::ServerBusy
        | Code::ComputationQueueFull
        | Code::IssuerUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
        Code::Internal | Code::LedgerBroken => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
