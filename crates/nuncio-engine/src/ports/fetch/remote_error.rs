//! Error types of clients for other hosts.

/// Defines the error type of a client: a boxed struct with the reason, a message and advice for people, and details for
/// machines. Further fields have a function that computes their first value from the reason.
///
/// The type of the reason has the variants `Refused`, `Unreachable`, `TooSlow`, `TooLarge`, `Redirected` and `WrongType`.
#[macro_export]
macro_rules! remote_error {
    (
        $(#[$meta:meta])*
        pub struct $error:ident($content:ident, $reason:ident {
            $($(#[$field_meta:meta])* $visibility:vis $field:ident: $type:ty = $initial:expr,)*
        })
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $error(Box<$content>);

        #[doc = concat!("Content of a [`", stringify!($error), "`].")]
        #[derive(Debug, Clone, PartialEq)]
        pub struct $content {
            pub reason: $reason,
            /// What was wrong in the exchange with the other host, and where.
            pub message: String,
            /// What the user can do about the error.
            pub advice: Option<String>,
            /// Machine-readable details of the error.
            pub details: Option<serde_json::Value>,
            /// HTTP status of the response.
            pub status: Option<u16>,
            $($(#[$field_meta])* $visibility $field: $type,)*
        }

        impl $error {
            pub(super) fn new(reason: $reason, message: impl Into<String>) -> Self {
                let message = message.into();
                $(let $field: fn($reason) -> $type = $initial;)*
                let ($($field,)*) = ($($field(reason),)*);
                Self(Box::new($content { reason, message, advice: None, details: None, status: None, $($field,)* }))
            }

            pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
                self.0.advice = Some(advice.into());
                self
            }

            pub(super) fn details(mut self, details: serde_json::Value) -> Self {
                self.0.details = Some(details);
                self
            }

            /// Error for a request without a response.
            pub(super) fn unfetched(error: &$crate::ports::fetch::FetchError) -> Self {
                use $crate::ports::fetch::FetchError;
                let reason = match error {
                    FetchError::Refused { .. } => $reason::Refused,
                    FetchError::Unreachable { .. } => $reason::Unreachable,
                    FetchError::TooSlow { .. } => $reason::TooSlow,
                    FetchError::TooLarge { .. } => $reason::TooLarge,
                };
                let failure = Self::new(reason, error.to_string()).details(error.details());
                match reason {
                    $reason::Refused => failure.advice(
                        "the address came from a document of another host; name that host yourself if you trust it",
                    ),
                    _ => failure,
                }
            }

            /// Error for a redirect, which clients do not follow.
            pub(super) fn redirected(url: &url::Url, response: &$crate::ports::fetch::FetchResponse) -> Self {
                let (url, status) = (nuncio_core::address::display_url(url), response.status);
                let location = response.header("location").map(nuncio_core::text::plain).unwrap_or_default();
                Self::new($reason::Redirected, format!("{url} answered {status} with a redirect to {location:?}"))
                    .details(serde_json::json!({"url": url, "status": status, "location": location}))
                    .advice("redirects are not followed; name the final address if you trust it")
            }

            /// Fails for a response that is not declared as JSON; the error message quotes `rule`, which requires JSON.
            pub(super) fn check_json_type(
                url: &url::Url,
                response: &$crate::ports::fetch::FetchResponse,
                rule: &str,
            ) -> Result<(), Self> {
                let declared = response.header("content-type").unwrap_or_default();
                if nuncio_core::json::is_json(declared) {
                    return Ok(());
                }
                let essence = nuncio_core::json::essence(declared);
                let found = if essence.is_empty() { "no type".to_owned() } else { nuncio_core::text::plain(essence) };
                let url = nuncio_core::address::display_url(url);
                let error = Self::new($reason::WrongType, format!("{url} answered with {found}, where {rule} application/json"));
                Err(error.details(serde_json::json!({"content_type": found})))
            }
        }

        impl std::ops::Deref for $error {
            type Target = $content;

            fn deref(&self) -> &$content {
                &self.0
            }
        }

        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0.message)?;
                match &self.0.advice {
                    Some(advice) => write!(f, "; {advice}"),
                    None => Ok(()),
                }
            }
        }

        impl std::error::Error for $error {}
    };
}
