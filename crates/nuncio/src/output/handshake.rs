//! What libraries say of a connection that did not come about, in words.

/// What the TLS library writes before the name of what is wrong with a certificate.
const CERTIFICATE: &str = "invalid peer certificate: ";

/// The names it has, and what they mean. The rest it says in words already.
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

/// What is said where the two sides do not speak the same protocol.
const BESIDE: [(&str, &str); 2] = [
    ("received corrupt message of type InvalidContentType", "it does not speak TLS there; perhaps it is at http:"),
    ("invalid HTTP version parsed", "it does not speak plain http there; perhaps it is at https:"),
];

/// A message in which names of a library stand in words.
pub(crate) fn in_words(message: &str) -> String {
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
    fn a_certificate_is_refused_in_words() {
        let told = |fault: &str| in_words(&format!("a cannot be reached: invalid peer certificate: {fault}"));
        let begins = "a cannot be reached: its certificate is not accepted: ";
        assert!(told("Other(OtherError(CaUsedAsEndEntity))").starts_with(&format!("{begins}it is an authority's own")));
        assert_eq!(told("BadSignature; try again"), format!("{begins}its signature is wrong; try again"));
        let said = "certificate not valid for name \"a\"; certificate is only valid for DnsName(\"b\")";
        assert_eq!(told(said), format!("{begins}{said}"), "what is in words stays");
    }

    #[test]
    fn the_wrong_scheme_is_named_and_everything_else_left_as_it_is() {
        assert!(in_words("a: received corrupt message of type InvalidContentType").contains("at http:"));
        assert!(in_words("a: invalid HTTP version parsed").contains("at https:"));
        assert_eq!(in_words("a: Connection refused"), "a: Connection refused");
    }
}
