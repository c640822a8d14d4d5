//! Readable texts for the TLS errors of libraries.

/// The prefix of certificate errors in messages of the TLS library.
const CERTIFICATE: &str = "invalid peer certificate: ";

/// Error names of the library with readable texts. Other errors are readable already.
const FAULTS: [(&str, &str); 9] = [
    ("CaUsedAsEndEntity", "it is an authority's own; a server needs one that an authority signed for it"),
    ("UnknownIssuer", "no authority that is known here signed it; --extra-ca FILE names one more"),
    ("UnsupportedCertVersion", "it is of an old version; version 3 is needed"),
    ("BadSignature", "its signature is wrong"),
    ("BadEncoding", "it cannot be read"),
    ("Revoked", "it was revoked"),
    ("NotValidYet", "it is not valid yet"),
    ("Expired", "it is no longer valid"),
    ("InvalidPurpose", "it is not for servers"),
];

/// Texts for the error of a plain-text server on a TLS connection.
const BESIDE: [(&str, &str); 2] = [
    ("received corrupt message of type InvalidContentType", "it does not speak TLS there; perhaps it is at http:"),
    ("invalid HTTP version parsed", "it does not speak plain http there; perhaps it is at https:"),
];

/// Replaces error names of the library in a message by readable texts.
pub(crate) fn readable_error(message: &str) -> String {
    let told = BESIDE.iter().fold(message.to_owned(), |told, (name, words)| told.replace(name, words));
    let Some((before, named)) = told.split_once(CERTIFICATE) else { return told };
    let (name, behind) =
        named.split_once(';').map_or((named, String::new()), |(name, more)| (name, format!(";{more}")));
    // A fault that is not among the library's own is in two wrappers.
    let bare = name.trim_start_matches("Other(OtherError(").trim_end_matches(')');
    match FAULTS.iter().find(|(fault, _)| *fault == bare) {
        Some((_, words)) => format!("{before}its certificate is not accepted: {words}{behind}"),
        None => format!("{before}its certificate is not accepted: {named}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_error_is_explained_in_a_sentence() {
        let told = |fault: &str| readable_error(&format!("a cannot be reached: invalid peer certificate: {fault}"));
        let begins = "a cannot be reached: its certificate is not accepted: ";
        assert!(told("Other(OtherError(CaUsedAsEndEntity))").starts_with(&format!("{begins}it is an authority's own")));
        assert_eq!(told("BadSignature; try again"), format!("{begins}its signature is wrong; try again"));
        let said = "certificate not valid for name \"a\"; certificate is only valid for DnsName(\"b\")";
        assert_eq!(told(said), format!("{begins}{said}"), "what is in words stays");
    }

    #[test]
    fn wrong_scheme_is_named_and_other_errors_are_unchanged() {
        assert!(readable_error("a: received corrupt message of type InvalidContentType").contains("at http:"));
        assert!(readable_error("a: invalid HTTP version parsed").contains("at https:"));
        assert_eq!(readable_error("a: Connection refused"), "a: Connection refused");
    }
}
