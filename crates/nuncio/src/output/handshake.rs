//! Readable texts for the TLS errors of libraries.

/// The prefix of certificate errors in messages of the TLS library.
const CERTIFICATE_ERROR_PREFIX: &str = "invalid peer certificate: ";

/// Certificate error names of the TLS library with readable texts. Other errors are readable already.
const CERTIFICATE_FAULTS: [(&str, &str); 9] = [
    ("CaUsedAsEndEntity", "it is the certificate of an authority; a server needs one that an authority issued to it"),
    ("UnknownIssuer", "no trusted authority signed it; --extra-ca FILE adds one"),
    ("UnsupportedCertVersion", "it is of an old version; version 3 is needed"),
    ("BadSignature", "its signature is wrong"),
    ("BadEncoding", "it cannot be read"),
    ("Revoked", "it was revoked"),
    ("NotValidYet", "it is not valid yet"),
    ("Expired", "it is no longer valid"),
    ("InvalidPurpose", "it is not for servers"),
];

/// Texts for errors caused by http on a TLS port, or TLS on an http port.
const WRONG_SCHEME: [(&str, &str); 2] = [
    ("received corrupt message of type InvalidContentType", "it does not use TLS on this port; perhaps it is at http:"),
    ("invalid HTTP version parsed", "it does not use plain http on this port; perhaps it is at https:"),
];

/// Replaces error names of the TLS library in a message by readable texts.
pub(crate) fn readable_error(message: &str) -> String {
    let message = WRONG_SCHEME.iter().fold(message.to_owned(), |message, (name, text)| message.replace(name, text));
    let Some((before, error)) = message.split_once(CERTIFICATE_ERROR_PREFIX) else { return message };
    let (name, rest) = error.find(';').map_or((error, ""), |end| error.split_at(end));
    // Errors of the certificate verifier are wrapped twice.
    let bare = name.trim_start_matches("Other(OtherError(").trim_end_matches(')');
    match CERTIFICATE_FAULTS.iter().find(|(fault, _)| *fault == bare) {
        Some((_, text)) => format!("{before}its certificate is not accepted: {text}{rest}"),
        None => format!("{before}its certificate is not accepted: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_error_name_is_replaced_by_a_readable_text() {
        let explain = |fault: &str| readable_error(&format!("a cannot be reached: invalid peer certificate: {fault}"));
        let prefix = "a cannot be reached: its certificate is not accepted: ";
        let authority = explain("Other(OtherError(CaUsedAsEndEntity))");
        assert!(authority.starts_with(&format!("{prefix}it is the certificate of an authority")));
        assert_eq!(explain("BadSignature; try again"), format!("{prefix}its signature is wrong; try again"));
        let sentence = "certificate not valid for name \"a\"; certificate is only valid for DnsName(\"b\")";
        assert_eq!(explain(sentence), format!("{prefix}{sentence}"), "a readable error stays as it is");
    }

    #[test]
    fn error_of_http_on_a_tls_port_or_the_reverse_names_the_right_scheme() {
        assert!(readable_error("a: received corrupt message of type InvalidContentType").contains("at http:"));
        assert!(readable_error("a: invalid HTTP version parsed").contains("at https:"));
        assert_eq!(readable_error("a: Connection refused"), "a: Connection refused");
    }
}
