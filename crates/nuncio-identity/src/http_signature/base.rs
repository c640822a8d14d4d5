//! Builds the signature base, the text that is signed (RFC 9421 §2.5).

use std::borrow::Cow;
use std::fmt::Write as _;

use super::SignableRequest;

/// The form of `@authority` in the signature base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorityForm {
    /// Lower case and without the default port, as RFC 9421 requires.
    Normal,
    /// As written in the target URI, which is what ANP's Python SDK signs.
    AsWritten,
}

/// Builds the signature base of RFC 9421 §2.5: one line per component, then the parameters as written.
///
/// # Errors
/// A covered component is missing from the request, or is unknown.
pub fn signature_base<S: AsRef<str>>(
    request: &SignableRequest<'_>,
    components: &[S],
    parameters: &str,
    authority: AuthorityForm,
) -> Result<String, String> {
    let mut base = String::with_capacity(512);
    for component in components {
        let name = component.as_ref();
        let value = component_value(request, name, authority)?;
        let _ = writeln!(base, "\"{name}\": {value}");
    }
    let _ = write!(base, "\"@signature-params\": {parameters}");
    Ok(base)
}

fn component_value<'a>(
    request: &SignableRequest<'a>,
    name: &str,
    authority: AuthorityForm,
) -> Result<Cow<'a, str>, String> {
    let value = match name {
        "@method" => Cow::Borrowed(request.method),
        "@target-uri" => Cow::Borrowed(request.target_uri),
        "@authority" => match authority {
            AuthorityForm::Normal => normal_authority(request.target_uri),
            AuthorityForm::AsWritten => {
                TargetUri::split(request.target_uri).map(|target| Cow::Borrowed(target.authority))
            }
        }
        .ok_or_else(|| "the target is not an address with a host".to_owned())?,
        "@scheme" | "@path" | "@query" | "@request-target" => {
            let target = TargetUri::split(request.target_uri).ok_or("the target is not an address with a host")?;
            match name {
                "@scheme" => Cow::Owned(target.scheme.to_ascii_lowercase()),
                "@path" => Cow::Borrowed(target.path()),
                "@query" => Cow::Owned(format!("?{}", target.query().unwrap_or_default())),
                _ if target.rest.starts_with('/') => Cow::Borrowed(target.rest),
                _ => Cow::Owned(format!("/{}", target.rest)),
            }
        }
        _ if name.starts_with('@') => return Err(format!("the component {name} is not supported")),
        _ if !is_field_name(name) => return Err(format!("{name:?} is not a field name in lower case")),
        _ => request.headers.field(name).ok_or_else(|| format!("{name} is covered, but there is no such field"))?,
    };
    // A line break inside a value could be read as another component.
    if value.contains(['\n', '\r']) {
        return Err(format!("{name} contains a line break"));
    }
    Ok(value)
}

fn is_field_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The authority of a URI in lower case, without the scheme's default port; `None` if the text is not an absolute URI
/// or has user info.
#[must_use]
pub fn normal_authority(target_uri: &str) -> Option<Cow<'_, str>> {
    let target = TargetUri::split(target_uri)?;
    let default = match target.scheme.to_ascii_lowercase().as_str() {
        "https" | "wss" => ":443",
        "http" | "ws" => ":80",
        _ => "",
    };
    let authority = target.authority.strip_suffix(default).unwrap_or(target.authority);
    if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some(Cow::Owned(authority.to_ascii_lowercase()));
    }
    Some(Cow::Borrowed(authority))
}

/// The parts of a request URI, as written.
struct TargetUri<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// Path and query, without the fragment.
    rest: &'a str,
}

impl<'a> TargetUri<'a> {
    fn split(uri: &'a str) -> Option<Self> {
        let (scheme, after) = uri.split_once("://")?;
        let (authority, rest) = after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len()));
        let rest = rest.split('#').next().unwrap_or_default();
        let userless = !authority.is_empty() && !authority.contains('@');
        userless.then_some(Self { scheme, authority, rest })
    }

    fn path(&self) -> &'a str {
        match self.rest.split('?').next() {
            None | Some("") => "/",
            Some(path) => path,
        }
    }

    fn query(&self) -> Option<&'a str> {
        self.rest.split_once('?').map(|(_, query)| query)
    }
}

/// The host of a URI in lower case, without the port; `None` if the text is not an absolute URI or has user info. The
/// legacy header signs this form.
#[must_use]
pub fn host(target_uri: &str) -> Option<String> {
    let authority = TargetUri::split(target_uri)?.authority;
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    Some(host.to_ascii_lowercase())
}
