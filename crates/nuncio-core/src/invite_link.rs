//! The link by which a person makes a machine one of their devices: `https://HOST/join#CODE.FINGERPRINT`.
//!
//! Browsers do not send what follows `#`, so the page at `/join` can explain the link while its server learns nothing
//! of the secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use url::Url;

use crate::address;
use crate::digest::Digest;

/// Last segment of the path of every link, and path of the page that explains it.
const PAGE: &str = "join";

/// Everything that a device needs to enrol: the server, its key and the invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteLink {
    pub server: Url,
    /// Invite code; one device appends an introduction for the other to it, separated by a dot.
    pub code: String,
    /// Fingerprint of the server's key, which the new device pins.
    pub fingerprint: Digest,
}

impl InviteLink {
    /// Parses a link. The error text states the reason and does not repeat the link, which is a secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut server = address::read(text.trim())?;
        let secret = server.fragment().map(str::to_owned);
        server.set_fragment(None);
        server.set_query(None);
        let path = server.path().trim_end_matches('/').strip_suffix(PAGE).map(str::to_owned);
        let Some(path) = path.filter(|path| path.ends_with('/')) else {
            return Err(format!("an invite link ends with /{PAGE}#… after the server's address"));
        };
        server.set_path(&path);
        let Some((code, fingerprint)) = secret.as_deref().and_then(|secret| secret.rsplit_once('.')) else {
            return Err("the part after # is missing or incomplete; copy the whole link".to_owned());
        };
        let fingerprint = URL_SAFE_NO_PAD.decode(fingerprint).ok().and_then(|bytes| bytes.try_into().ok());
        let fingerprint = fingerprint.map(Digest::from_bytes);
        let fingerprint = fingerprint.ok_or("the end of the link is damaged or missing; copy the whole link")?;
        if code.is_empty() {
            return Err("the part after # has no invite code; copy the whole link".to_owned());
        }
        Ok(Self { server, code: code.to_owned(), fingerprint })
    }
}

impl fmt::Display for InviteLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.as_str().trim_end_matches('/');
        let fingerprint = URL_SAFE_NO_PAD.encode(self.fingerprint.as_bytes());
        write!(f, "{server}/{PAGE}#{}.{fingerprint}", self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(server: &str, code: &str) -> InviteLink {
        InviteLink { server: Url::parse(server).unwrap(), code: code.to_owned(), fingerprint: Digest::of_bytes(b"key") }
    }

    #[test]
    fn link_is_parsed_back_with_server_code_and_fingerprint() {
        for link in [
            link("https://agents.example/", "inv_abc"),
            link("http://localhost:7400/", "inv_abc.aW50cm9kdWN0aW9u"),
            link("https://agents.example/below/", "inv_abc"),
        ] {
            let text = link.to_string();
            assert_eq!(InviteLink::parse(&text), Ok(link.clone()), "{text}");
            assert_eq!(InviteLink::parse(&format!(" {text}\n")), Ok(link));
        }
        assert!(
            link("https://agents.example/", "inv_abc").to_string().starts_with("https://agents.example/join#inv_abc.")
        );
    }

    #[test]
    fn incomplete_link_is_refused_without_repeating_its_secret() {
        let whole = link("https://agents.example/", "inv_abc").to_string();
        let cut = &whole[..whole.len() - 3];
        for wrong in [
            cut,
            "https://agents.example/join",
            "https://agents.example/join#inv_abc",
            "https://agents.example/join#.AAAA",
            "https://agents.example/#inv_abc.AAAA",
            "https://agents.example/rejoin#inv_abc.AAAA",
            "mailto:ada@agents.example",
            "",
        ] {
            let why = InviteLink::parse(wrong).unwrap_err();
            assert!(!why.is_empty() && !why.contains("inv_abc"), "{wrong}: {why}");
        }
    }
}
