//! Origin checks, cookies and form fields of page requests.

use axum::body::{Body, to_bytes};
use http::{HeaderMap, HeaderName, StatusCode, Uri, header};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Size limit of a form, in bytes.
const MAX_FORM: usize = 1024 * 1024;

/// Names and values of a submitted form.
pub type FormFields = [(String, String)];

/// Reads the fields of a posted form. The caller sets a time limit.
pub async fn form(headers: &HeaderMap, body: Body) -> Result<Vec<(String, String)>, StatusCode> {
    is_form(headers)?;
    let bytes = to_bytes(body, MAX_FORM).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    Ok(form_fields(&bytes))
}

/// Checks that the content type is that of a form.
pub fn is_form(headers: &HeaderMap) -> Result<(), StatusCode> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    Ok(())
}

/// Parses the body of a form.
#[must_use]
pub fn form_fields(body: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(body).into_owned().collect()
}

/// The first value of a form field.
#[must_use]
pub fn field<'a>(form: &'a FormFields, name: &str) -> Option<&'a str> {
    form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Origin of a request according to browser headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A page of this server, or an address typed by a person.
    OwnPage,
    /// The request was sent by a page on another site or port.
    OtherSite,
    /// Neither `Sec-Fetch-Site` nor `Origin` was sent, so no current browser sent the request.
    NoBrowser,
}

/// Determines which page sent a request. `Sec-Fetch-Site` decides if it is present, because no page can forge it;
/// otherwise `Origin` is compared with the host.
#[must_use]
pub fn sender(headers: &HeaderMap, host: Option<&str>) -> RequestOrigin {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return if site == "same-origin" || site == "none" { RequestOrigin::OwnPage } else { RequestOrigin::OtherSite };
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return RequestOrigin::NoBrowser };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    match authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host)) {
        true => RequestOrigin::OwnPage,
        false => RequestOrigin::OtherSite,
    }
}

/// Whether a page of this server sent the request. A request without browser headers does not count.
#[must_use]
pub fn is_from_here(headers: &HeaderMap, uri: &Uri) -> bool {
    let typed = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "none");
    !typed && sender(headers, host(headers, uri)) == RequestOrigin::OwnPage
}

/// Whether the request follows a link from another site. The browser then does not send `SameSite=Strict` cookies.
#[must_use]
pub fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// The host that the request names.
#[must_use]
pub fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    // HTTP/2 has the host in the URI instead of a header.
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| uri.authority().map(http::uri::Authority::as_str))
}

/// Cookie that browsers send only to pages below `path`.
#[derive(Debug, Clone, Copy)]
pub struct PathCookie<'a> {
    /// Prefix of the cookie name. The port is appended, because cookies are shared between ports and several servers
    /// may run on one host.
    pub name: &'a str,
    pub path: &'a str,
}

impl PathCookie<'_> {
    fn full_name(self, headers: &HeaderMap) -> String {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let port = host.and_then(|host| host.rsplit_once(':')).and_then(|(_, port)| port.parse::<u16>().ok());
        port.map_or_else(|| self.name.to_owned(), |port| format!("{}-{port}", self.name))
    }

    /// The value of the cookie in a request.
    #[must_use]
    pub fn of(self, headers: &HeaderMap) -> Option<&str> {
        let wanted = self.full_name(headers);
        let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
    }

    /// `Set-PathCookie` header; an empty value deletes the cookie. It is `Secure` if the request's `Origin` is
    /// `https:`.
    #[must_use]
    pub fn set(self, headers: &HeaderMap, value: &str) -> String {
        // A page that was reached by TLS, here or at a proxy, has `https` in its origin.
        let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        let by_tls = origin.is_some_and(|origin| origin.starts_with("https://"));
        let secure = if by_tls { "; Secure" } else { "" };
        let end = if value.is_empty() { "; Max-Age=0" } else { "" };
        format!("{}={value}; Path={}; HttpOnly; SameSite=Strict{secure}{end}", self.full_name(headers), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: PathCookie<'static> = PathCookie { name: "nuncio-console", path: "/console" };

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn request_is_from_an_own_page_only_if_browser_headers_show_it() {
        let uri = Uri::from_static("/console/tasks");
        for (good, pairs) in [
            (true, &[("sec-fetch-site", "same-origin")][..]),
            (true, &[("origin", "http://localhost:7400"), ("host", "localhost:7400")]),
            (false, &[("host", "localhost:7400")]),
            (false, &[("origin", "null"), ("host", "localhost:7400")]),
            (false, &[("origin", "http://localhost:7401"), ("host", "localhost:7400")]),
            (false, &[("origin", "http://evil.example"), ("host", "localhost:7400")]),
            (
                false,
                &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:7400"), ("host", "localhost:7400")],
            ),
            (false, &[("sec-fetch-site", "cross-site")]),
            (false, &[("sec-fetch-site", "none")]),
        ] {
            assert_eq!(is_from_here(&headers(pairs), &uri), good, "{pairs:?}");
        }
        let by_http2 = Uri::from_static("https://inbox.example/console/tasks");
        assert!(is_from_here(&headers(&[("origin", "https://inbox.example")]), &by_http2));
    }

    #[test]
    fn cookie_is_limited_to_its_path_and_has_the_secure_flag_only_with_https() {
        let plain = CONSOLE.set(&headers(&[("origin", "http://localhost:7400")]), "x");
        assert_eq!(plain, "nuncio-console=x; Path=/console; HttpOnly; SameSite=Strict");
        let by_tls = CONSOLE.set(&headers(&[("origin", "https://inbox.example")]), "x");
        assert_eq!(by_tls, "nuncio-console=x; Path=/console; HttpOnly; SameSite=Strict; Secure");
        assert!(CONSOLE.set(&headers(&[]), "").ends_with("Max-Age=0"));
    }

    #[test]
    fn cookie_is_found_by_its_name_and_port_among_other_cookies() {
        assert_eq!(CONSOLE.of(&headers(&[("cookie", "a=b; nuncio-console=x; c=d")])), Some("x"));
        assert_eq!(CONSOLE.of(&headers(&[("cookie", "nuncio-console2=x")])), None);
        let beside = headers(&[("cookie", "nuncio-console-1=x; nuncio-console-2=y"), ("host", "localhost:2")]);
        assert_eq!(CONSOLE.of(&beside), Some("y"));
    }
}
