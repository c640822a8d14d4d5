//! What the agent file fixes about a tool's HTTP request: its origin, and headers that no author may set. Arguments fill
//! in the rest of the URL and cannot change the origin.

use std::fmt;

use url::Url;

/// Headers that only the HTTP client itself may set, in lower case.
pub const TRANSPORT_HEADERS: [&str; 5] = ["connection", "content-length", "host", "transfer-encoding", "upgrade"];

/// Part of a URL template before its first placeholder, which fixes scheme, host and port.
#[derive(Debug)]
pub struct UrlTemplateOrigin<'a> {
    prefix: &'a str,
    origin: Url,
}

impl<'a> UrlTemplateOrigin<'a> {
    /// Parses the fixed part of a URL template.
    ///
    /// # Errors
    ///
    /// The template does not fix an HTTP origin, or carries a user name, a dot segment, a space or a control character;
    /// the text says which.
    pub fn new(template: &'a str) -> Result<Self, String> {
        let wrong = |what: &str| {
            let shown: String = template.chars().take(120).collect();
            format!("the address {shown:?} {what}")
        };
        let no_host = || wrong("must begin with https:// or http:// and a host");
        let places = ["{{", "{%", "{#"].into_iter().filter_map(|mark| template.find(mark)).min();
        let prefix = &template[..places.unwrap_or(template.len())];
        let (_, rest) = prefix.split_once("://").ok_or_else(no_host)?;
        if prefix.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(wrong("contains a space, a backslash or a control character"));
        }
        // A placeholder before the slash would be part of the host or port.
        if places.is_some() && !rest.contains(['/', '?', '#']) {
            return Err(wrong("must contain its host and port and a slash after them before the first {{ … }}"));
        }
        let origin = Url::parse(prefix).map_err(|error| wrong(&format!("is not valid: {error}")))?;
        if !matches!(origin.scheme(), "http" | "https") || origin.host().is_none() {
            return Err(no_host());
        }
        if !origin.username().is_empty() || origin.password().is_some() {
            return Err(format!(
                "the address {:?} contains a user name or password; put them into a header",
                origin.host_str().unwrap_or_default()
            ));
        }
        if has_dot_segment(rest) {
            return Err(wrong("contains `.` or `..` as a segment of its path"));
        }
        Ok(Self { prefix, origin })
    }

    /// The fixed part of the URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.origin
    }

    /// Checks that the filled URL has the origin and path prefix of the template.
    ///
    /// # Errors
    ///
    /// The arguments would change the origin or climb in the path.
    pub fn admit(&self, filled: &str) -> Result<Url, String> {
        let moved = || format!("the arguments would move the request outside {self}");
        let rest = filled.strip_prefix(self.prefix).ok_or_else(moved)?;
        // Checks the whole path, because a value may complete a dot segment that the template began.
        let (_, after_scheme) = filled.split_once("://").ok_or_else(moved)?;
        if has_dot_segment(after_scheme) {
            return Err("an argument would add a `.` or `..` segment to the path of the address".into());
        }
        let url =
            Url::parse(filled).map_err(|error| format!("the address is not valid with these arguments: {error}"))?;
        let same = url.scheme() == self.origin.scheme()
            && url.host() == self.origin.host()
            && url.port_or_known_default() == self.origin.port_or_known_default()
            && url.username().is_empty()
            && url.password().is_none();
        if !same || rest.contains(char::is_control) {
            return Err(moved());
        }
        Ok(url)
    }
}

impl fmt::Display for UrlTemplateOrigin<'_> {
    /// Writes scheme, host and port, which are not secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin.origin().ascii_serialization())
    }
}

/// Whether a path contains a dot segment in any encoding that URL parsers resolve.
fn has_dot_segment(after_scheme: &str) -> bool {
    let end = after_scheme.find(['?', '#']).unwrap_or(after_scheme.len());
    after_scheme[..end].split(['/', '\\']).skip(1).any(|step| {
        let step = step.to_ascii_lowercase().replace("%2e", ".");
        step == "." || step == ".."
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_template_without_fixed_http_origin_or_with_user_or_dot_segment_is_refused() {
        for bad in [
            "https://{{ args.host }}/",
            "https://api.example{{ args.path }}",
            "https://api.example:{{ args.port }}/",
            "https://{{ args.user }}@api.example/",
            "{{ args.url }}",
            "https://{% if args.a %}a{% endif %}.example/",
            "ftp://a/{{ args.x }}",
            "https://user:pw@api.example/{{ args.x }}",
            "https:///{{ args.x }}",
            "//a/{{ args.x }}",
            "https://a\\{{ args.x }}/",
            "https://a /{{ args.x }}",
            "https://{# #}a/",
            "https://a/../{{ args.x }}",
        ] {
            assert!(UrlTemplateOrigin::new(bad).is_err(), "{bad} passed");
        }
        for good in [
            "https://api.example/{{ args.x }}",
            "http://127.0.0.1:8080/?q={{ args.q }}",
            "https://api.example",
            "https://[::1]:1/{{ args.x }}",
        ] {
            assert!(UrlTemplateOrigin::new(good).is_ok(), "{good} was refused");
        }
    }

    #[test]
    fn arguments_cannot_change_origin_or_path_prefix() {
        let fixed_origin = UrlTemplateOrigin::new("https://api.example/rooms/{{ args.id }}/beds").unwrap();
        assert_eq!(fixed_origin.to_string(), "https://api.example");
        assert!(fixed_origin.admit("https://api.example/rooms/12/beds").is_ok());
        assert!(fixed_origin.admit("https://api.example/rooms/..%2F..%2Fadmin/beds").is_ok());
        for bad in [
            "https://api.example/rooms/%2E%2E/beds",
            "https://api.example/rooms/../beds",
            "https://api.example/rooms/.%2e/beds",
            "https://api.example/rooms/%2e/beds",
            "https://evil.example/rooms/1/beds",
            "https://api.example.evil/rooms/1",
            "https://api.example/rooms/\\..\\x",
        ] {
            assert!(fixed_origin.admit(bad).is_err(), "{bad} passed");
        }
    }
}
