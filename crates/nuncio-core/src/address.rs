//! Parsing and display of server addresses that people type.

use url::{Host, Url};

use crate::text::plain;

/// Parses an `http:` or `https:` URL, or a domain with optional port and path. A bare domain means `https:`, or `http:`
/// on this machine. An address with a user name or password is refused.
///
/// The error text states the reason and does not repeat the address.
pub fn read(text: &str) -> Result<Url, String> {
    let has_scheme = text.contains("://");
    let whole = if has_scheme { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&whole).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http: and https: are supported".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a user name or password".to_owned());
    }
    if has_scheme || !is_local(&url) {
        return Ok(url);
    }
    // The text is parsed again with `http:`, because the first parse dropped a port 443 as the default of `https:`.
    Url::parse(&format!("http://{text}")).map_err(|error| error.to_string())
}

/// Whether the host is a loopback name or address.
#[must_use]
pub fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The root URL of the same server: path `/` and no query.
#[must_use]
pub fn root(url: &Url) -> Url {
    let mut root = url.clone();
    root.set_path("/");
    root.set_query(None);
    root.set_fragment(None);
    root
}

/// Host of a URL for display, with the port unless it is the default of the scheme.
#[must_use]
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The URL as shown in messages: without user info, query and fragment, and cut to 500 characters.
#[must_use]
pub fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    plain(url.as_str())
}

/// Whether requests to this URL cross the network unencrypted.
#[must_use]
pub fn is_in_clear(url: &Url) -> bool {
    url.scheme() == "http" && !is_local(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_scheme_gets_https_or_http_for_localhost() {
        for (text, url) in [
            ("localhost:7400", "http://localhost:7400/"),
            ("localhost", "http://localhost/"),
            ("[::1]:7400", "http://[::1]:7400/"),
            ("127.0.0.1:80", "http://127.0.0.1/"),
            ("localhost:443/x", "http://localhost:443/x"),
            ("agents.example", "https://agents.example/"),
            ("agents.example:8443/x?y", "https://agents.example:8443/x?y"),
            ("https://localhost:1/", "https://localhost:1/"),
            ("http://agents.example", "http://agents.example/"),
        ] {
            assert_eq!(read(text).unwrap().as_str(), url);
        }
    }

    #[test]
    fn displayed_url_omits_credentials_query_and_fragment() {
        let url: Url = "https://ada:word@agents.example:8443/x?key=secret#part".parse().unwrap();
        assert_eq!(display_url(&url), "https://agents.example:8443/x");
        assert_eq!((root(&url).path(), authority(&url).as_str()), ("/", "agents.example:8443"));
    }

    #[test]
    fn address_with_credentials_other_scheme_or_no_host_is_refused() {
        for bad in ["", "ftp://a", "https://user:word@a", "a b", "https://", "user@a"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn plain_http_counts_as_unencrypted_except_to_localhost() {
        assert!(is_in_clear(&"http://agents.example".parse().unwrap()));
        assert!(!is_in_clear(&"http://localhost:1".parse().unwrap()));
        assert!(!is_in_clear(&"https://agents.example".parse().unwrap()));
    }
}
