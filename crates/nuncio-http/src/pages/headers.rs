//! Security headers of pages: load and run only our own files, connect only to this server, forbid framing. Texts of
//! agents and peers therefore cannot become code.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Content security policy of pages without forms.
const WITHOUT_FORMS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Content security policy of pages without forms that show images of other servers.
const WITH_IMAGES: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data: https:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Content security policy of pages with forms.
const WITH_FORMS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Sets the security headers of a public page without forms.
pub fn guard_open(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(WITHOUT_FORMS));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    guard(headers);
}

/// Like [`guard_open`], for a page that may show images of other servers.
pub fn guard_with_images(headers: &mut HeaderMap) {
    guard_open(headers);
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(WITH_IMAGES));
}

/// Sets the security headers of a page with forms, which is for one reader and is not cached.
pub fn guard_private(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(WITH_FORMS));
    // Under `no-referrer` a browser would send a form with `Origin: null`.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    guard(headers);
}

fn guard(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
