//! Tests of the conditions for each of the nine error codes of a refused negotiation.

use super::*;

fn market() -> PreparedInterfaceOffers {
    PreparedInterfaceOffers::new(vec![structured(), conversation()])
}

fn with(change: impl FnOnce(&mut InterfaceRequest)) -> InterfaceRequest {
    let mut request = request();
    change(&mut request);
    request
}

#[test]
fn each_unsupported_requirement_is_refused_with_its_own_error_code() {
    let market = market();
    for (request, cause, unsupported) in [
        (
            with(|it| it.caller.supported_profiles = Some(texts(&["anp.rpc.v2"]))),
            AnpErrorCode::UnsupportedCandidateProfile,
            vec!["supportedProfiles"],
        ),
        (
            with(|it| it.candidate_protocols = texts(&["anp.weather.v1", "https://example.com/p"])),
            AnpErrorCode::UnsupportedCandidateProfile,
            vec!["candidateProtocols"],
        ),
        (
            with(|it| it.constraints.required_security_profile = Some("direct-e2ee".to_owned())),
            AnpErrorCode::UnsupportedCandidateSecurity,
            vec!["requiredSecurityProfile"],
        ),
        (
            with(|it| it.caller.supported_security_profiles = Some(texts(&["direct-e2ee"]))),
            AnpErrorCode::UnsupportedCandidateSecurity,
            vec!["supportedSecurityProfiles"],
        ),
        (
            with(|it| it.caller.supported_content_types = Some(texts(&["image/*"]))),
            AnpErrorCode::UnsupportedCandidateContent,
            vec!["supportedContentTypes"],
        ),
        (
            with(|it| it.required_capabilities = texts(&["cap.hotel.booking", "cap.weather"])),
            AnpErrorCode::NoMatchingInterface,
            vec!["requiredCapabilities"],
        ),
        (
            with(|it| it.candidate_interfaces = texts(&["interface.other"])),
            AnpErrorCode::NoMatchingInterface,
            vec!["candidateInterfaceRefs"],
        ),
        (
            with(|it| it.caller.supported_execution_modes = Some(texts(&["stream"]))),
            AnpErrorCode::NoMatchingInterface,
            vec!["supportedExecutionModes"],
        ),
    ] {
        assert_eq!(refused(&market, &request), (cause, unsupported), "{request:?}");
    }
}

#[test]
fn unsatisfiable_combination_of_constraints_is_refused_with_the_nearest_interface() {
    let market = market();
    // The structured interface is fast enough but needs approval; the caller refuses natural language.
    let request = with(|it| {
        it.constraints.requires_human_authorization = Some(false);
        it.constraints.allow_natural_language_fallback = Some(false);
    });
    assert_eq!(refused(&market, &request), (AnpErrorCode::NoMatchingInterface, vec!["requiresHumanAuthorization"]));
    // As in the specification's error example: the profile exists, but on another interface.
    let mut safe = conversation();
    safe.security_profiles.push(SecurityProfile::DirectE2ee);
    safe.abilities.clear();
    let market = PreparedInterfaceOffers::new(vec![structured(), safe]);
    let request = with(|it| {
        it.constraints.required_security_profile = Some("direct-e2ee".to_owned());
        it.constraints.allow_natural_language_fallback = Some(false);
    });
    let refusal = market.choose(&request, NOW).unwrap_err();
    assert_eq!(refusal.cause, AnpErrorCode::NoMatchingInterface);
    assert_eq!(refusal.unsupported.names(), ["requiredSecurityProfile"]);
    assert_eq!(refusal.nearest.as_deref(), Some("interface.booking.structured.v1"));
}

#[test]
fn interface_slower_than_the_requested_latency_is_refused() {
    let market = PreparedInterfaceOffers::new(vec![structured()]);
    let within = |millis| with(|it| it.constraints.max_latency_ms = Some(millis));
    assert_eq!(accepted(&market, &within(120)).timeout_ms, Some(120));
    assert_eq!(refused(&market, &within(119)), (AnpErrorCode::NoMatchingInterface, vec!["maxLatencyMs"]));
    let unmeasured = PreparedInterfaceOffers::new(vec![InterfaceOffer { latency_ms: None, ..structured() }]);
    assert_eq!(accepted(&unmeasured, &within(1)).score.latency, 0);
}

#[test]
fn slow_capability_does_not_exclude_a_fast_one_of_the_same_interface() {
    let slow = OfferedCapability { latency_ms: Some(5000), ..booking().into() };
    let fast = capability("cap.hotel.search", "Search rooms", &["hotel.search"]);
    let fast = OfferedCapability { latency_ms: Some(20), timeout_ms: Some(50), ..fast.into() };
    let market = PreparedInterfaceOffers::new(vec![InterfaceOffer { abilities: vec![slow, fast], ..structured() }]);
    assert_eq!(refused(&market, &with(|_| ())), (AnpErrorCode::NoMatchingInterface, vec!["maxLatencyMs"]));
    let search = with(|it| {
        it.required_capabilities = texts(&["cap.hotel.search"]);
        it.intent.intent_tags = texts(&["hotel.search"]);
    });
    assert_eq!(accepted(&market, &search).timeout_ms, Some(50));
}

#[test]
fn caller_granted_one_capability_of_an_interface_cannot_use_the_others() {
    let search = capability("cap.hotel.search", "Search rooms", &["hotel.search"]);
    let open = InterfaceOffer { abilities: vec![search.into()], ..structured() };
    let closed = InterfaceOffer { granted: false, ..structured() };
    let market = PreparedInterfaceOffers::new(vec![open, closed]);
    assert_eq!(refused(&market, &with(|_| ())).0, AnpErrorCode::AuthorizationRequired);
    let search = with(|it| it.required_capabilities = texts(&["cap.hotel.search"]));
    assert_eq!(accepted(&market, &search).alternatives, []);
}

#[test]
fn unknown_or_unoffered_negotiation_mode_is_refused() {
    for mode in ["", "Structured_Selection", "PT=00", "natural_language_protocol_drafting"] {
        let request = with(|it| it.mode = Some(mode.to_owned()));
        assert_eq!(refused(&market(), &request).0, AnpErrorCode::UnsupportedNegotiationMode, "{mode}");
    }
}

#[test]
fn intent_without_usable_words_is_refused_unless_a_capability_is_named() {
    let empty = with(|it| {
        it.intent = Intent {
            name: Some("…".to_owned()),
            intent_tags: texts(&["."]),
            description: Some("to the".to_owned()),
            ..Intent::default()
        };
        it.required_capabilities.clear();
    });
    let refusal = market().choose(&empty, NOW).unwrap_err();
    assert_eq!(refusal.cause, AnpErrorCode::MoreInformationRequired);
    assert_eq!(refusal.missing, ["intent.intentTags", "intent.description"]);
    // A required capability is sufficient without an intent.
    let named = with(|it| it.intent = Intent::default());
    assert_eq!(accepted(&market(), &named).offer.kind, InterfaceType::Structured);
}

#[test]
fn ungranted_interface_is_neither_chosen_nor_disclosed() {
    let closed = InterfaceOffer { granted: false, ..structured() };
    let request = with(|it| it.constraints.allow_natural_language_fallback = Some(false));
    let market = PreparedInterfaceOffers::new(vec![closed.clone()]);
    let refusal = market.choose(&request, NOW).unwrap_err();
    assert_eq!((refusal.cause, refusal.nearest), (AnpErrorCode::AuthorizationRequired, None));
    assert!(!refusal.message.contains("interface."));
    // An accessible interface is chosen, and the inaccessible one is not mentioned.
    let market = PreparedInterfaceOffers::new(vec![closed, conversation()]);
    let it = accepted(&market, &with(|_| ()));
    assert_eq!((it.offer.kind, it.alternatives.len()), (InterfaceType::NaturalLanguage, 0));
}

#[test]
fn request_older_than_five_minutes_or_over_a_minute_in_the_future_is_refused() {
    let at = |millis: i64| with(|it| it.created_at = Some(Timestamp::from_millis(NOW.as_millis() + millis)));
    for (millis, cause) in [
        (-300_000, None),
        (-300_001, Some(AnpErrorCode::NegotiationExpired)),
        (60_000, None),
        (60_001, Some(AnpErrorCode::NegotiationRejected)),
    ] {
        assert_eq!(market().choose(&at(millis), NOW).err().map(|refusal| refusal.cause), cause, "{millis}");
    }
}

#[test]
fn negotiation_without_offers_fails_with_no_matching_interface() {
    assert_eq!(refused(&PreparedInterfaceOffers::default(), &request()).0, AnpErrorCode::NoMatchingInterface);
}
