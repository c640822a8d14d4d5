//! Images in messages: allowed by capability, media type and size.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;
use nuncio_core::message::{Block, Message};
use url::Url;

use crate::error::EngineError;

/// Maximum decoded size of an inline image, in bytes.
const MAX_BYTES: usize = 5 * 1024 * 1024;
/// Maximum length of an image URL, in bytes.
const MAX_URL: usize = 8 * 1024;

/// Accepted image types, each with its possible leading bytes.
const IMAGE_TYPES: [(&str, &[&[u8]]); 4] = [
    ("image/png", &[b"\x89PNG\r\n\x1a\n"]),
    ("image/jpeg", &[b"\xff\xd8\xff"]),
    ("image/gif", &[b"GIF87a", b"GIF89a"]),
    ("image/webp", &[b"RIFF"]),
];

/// Checks every image in the messages against the agent's capabilities.
pub(crate) fn check<'a>(agent: &Agent, messages: impl IntoIterator<Item = &'a Message>) -> Result<(), EngineError> {
    for message in messages {
        let content = match message {
            Message::User { content, .. } | Message::Assistant { content, .. } | Message::Tool { content, .. } => {
                content
            }
            Message::System { .. } => continue,
        };
        for block in content.blocks() {
            if let Block::Image { url, .. } = block {
                check_address(agent, url)?;
            }
        }
    }
    Ok(())
}

fn check_address(agent: &Agent, address: &str) -> Result<(), EngineError> {
    let bad = |why: &str| Err(EngineError::new(ErrorCode::BadImage, format!("image: {why}")));
    let undeclared = |what: &str| {
        let message = format!("agent {} does not accept images by {what}; see its capabilities", agent.name);
        Err(EngineError::new(ErrorCode::CapabilityMissing, message))
    };
    let scheme = address.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("https") if !agent.capabilities.image_https => undeclared("https: address"),
        Some("https") if address.len() > MAX_URL => bad("the address is too long"),
        Some("https") => match Url::parse(address) {
            Ok(url) if url.has_host() && url.username().is_empty() && url.password().is_none() => Ok(()),
            _ => bad("the address is not a valid https: URL without a user name"),
        },
        Some("data") if !agent.capabilities.image_data => undeclared("data: URI"),
        Some("data") => check_data(&address[5..]).or_else(|why| bad(&why)),
        Some("http") => bad("plain http: is refused; use https: or a data: URI"),
        _ => bad("the address must begin with https: or data:"),
    }
}

/// Checks an image given as `data:` URI, without its scheme.
fn check_data(rest: &str) -> Result<(), String> {
    let (head, data) = rest.split_once(',').ok_or("a data: URI has a comma before its data")?;
    let kind = head.strip_suffix(";base64").ok_or("a data: URI must be base64: data:image/png;base64,…")?;
    let kind = kind.split(';').next().unwrap_or(kind).to_ascii_lowercase();
    let Some((_, beginnings)) = IMAGE_TYPES.iter().find(|(name, _)| *name == kind) else {
        let allowed: Vec<_> = IMAGE_TYPES.iter().map(|(name, _)| *name).collect();
        return Err(format!("{kind:?} is not allowed; allowed are {}", allowed.join(", ")));
    };
    if data.len() / 4 * 3 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let bytes = STANDARD.decode(data).map_err(|_| "the data is not valid base64".to_owned())?;
    if !beginnings.iter().any(|beginning| bytes.starts_with(beginning)) {
        return Err(format!("the data is not {kind}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_data_uri_of_wrong_type_encoding_or_size_is_refused() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\nrest");
        assert_eq!(check_data(&format!("image/png;base64,{png}")), Ok(()));
        assert_eq!(check_data(&format!("IMAGE/PNG;charset=x;base64,{png}")), Ok(()));
        for (bad, why) in [
            (format!("image/jpeg;base64,{png}"), "not image/jpeg"),
            (format!("image/svg+xml;base64,{png}"), "not allowed"),
            (format!("image/png,{png}"), "must be base64"),
            ("image/png;base64,%%%".to_owned(), "not valid base64"),
            ("image/png;base64".to_owned(), "comma"),
            (format!("image/png;base64,{}", "A".repeat(MAX_BYTES * 2)), "larger"),
        ] {
            let error = check_data(&bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
