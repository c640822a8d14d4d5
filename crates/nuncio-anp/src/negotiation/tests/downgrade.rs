//! Tests that no request results in a weaker security profile than it asks for.

use SecurityProfile::{DirectE2ee, GroupE2ee, TransportProtected};

use super::*;

fn offer(id: &str, profiles: &[SecurityProfile]) -> InterfaceOffer {
    InterfaceOffer { id: id.to_owned(), security_profiles: profiles.to_vec(), ..structured() }
}

fn plain() -> InterfaceRequest {
    InterfaceRequest { candidate_interfaces: Vec::new(), ..request() }
}

#[test]
fn required_security_profile_must_match_exactly() {
    let weak = PreparedInterfaceOffers::new(vec![offer("a", &[TransportProtected]), offer("b", &[TransportProtected])]);
    for required in [
        "direct-e2ee",
        "group-e2ee",
        "Direct-E2EE",
        "direct-e2ee ",
        " transport-protected",
        "TRANSPORT-PROTECTED",
        "transport-protected\u{200b}",
        "direct-e2ee,transport-protected",
        "transport-protected;direct-e2ee",
        "none",
        "*",
        "",
        "null",
        "direct-е2ее",
    ] {
        let mut request = plain();
        request.constraints.required_security_profile = Some(required.to_owned());
        let (cause, unsupported) = refused(&weak, &request);
        assert_eq!(cause, AnpErrorCode::UnsupportedCandidateSecurity, "{required:?}");
        assert!(unsupported.contains(&"requiredSecurityProfile"), "{required:?}");
    }
}

#[test]
fn request_without_a_common_and_sufficient_security_profile_is_refused() {
    let strong = PreparedInterfaceOffers::new(vec![offer("a", &[DirectE2ee])]);
    let weak = PreparedInterfaceOffers::new(vec![offer("a", &[TransportProtected])]);
    for (offers, known, required, least) in [
        // The caller requires a profile that it does not support itself.
        (&strong, &["transport-protected"][..], Some("direct-e2ee"), None),
        // Both sides support a profile, but not the required one.
        (&weak, &["transport-protected", "direct-e2ee"], Some("direct-e2ee"), None),
        (&strong, &["transport-protected", "direct-e2ee"], Some("transport-protected"), None),
        // Both sides have no common profile.
        (&weak, &["direct-e2ee"], None, None),
        (&weak, &[], None, None),
        (&weak, &["transport"], None, None),
        // The request was sent under a stronger profile than the offer has.
        (&weak, &["transport-protected", "direct-e2ee"], None, Some(DirectE2ee)),
        (&weak, &["transport-protected"], Some("transport-protected"), Some(DirectE2ee)),
        (&weak, &["transport-protected"], None, Some(GroupE2ee)),
    ] {
        let mut request = plain();
        request.caller.supported_security_profiles = Some(texts(known));
        request.constraints.required_security_profile = required.map(str::to_owned);
        request.security_profile = least;
        let (cause, _) = refused(offers, &request);
        assert_eq!(cause, AnpErrorCode::UnsupportedCandidateSecurity, "{known:?} {required:?} {least:?}");
    }
}

#[test]
fn strongest_common_security_profile_is_chosen_unless_another_is_required() {
    let both = PreparedInterfaceOffers::new(vec![offer("a", &[DirectE2ee, TransportProtected])]);
    assert_eq!(accepted(&both, &plain()).security, DirectE2ee);
    let mut request = plain();
    request.caller.supported_security_profiles = None;
    assert_eq!(accepted(&both, &request).security, DirectE2ee);
    request.constraints.required_security_profile = Some("transport-protected".to_owned());
    assert_eq!(accepted(&both, &request).security, TransportProtected);
}

#[test]
fn interface_with_stronger_security_wins_over_one_with_higher_score() {
    let weak = InterfaceOffer { latency_ms: Some(0), ..offer("a-weak", &[TransportProtected]) };
    let strong = InterfaceOffer {
        abilities: vec![capability("cap.hotel.booking", "x", &["hotel"]).into()],
        latency_ms: None,
        ..offer("z-strong", &[TransportProtected, DirectE2ee])
    };
    let offers = PreparedInterfaceOffers::new(vec![weak, strong]);
    let it = accepted(&offers, &plain());
    assert_eq!((it.offer.id.as_str(), it.security), ("z-strong", DirectE2ee));
    assert!(it.score.total < it.alternatives[0].score.total);
    assert_eq!(it.alternatives[0].lost.to_string(), "would only be transport-protected");
}
