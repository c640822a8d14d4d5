//! Property tests of negotiation with arbitrary offers and requests.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

const TAGS: [&str; 5] = ["hotel", "hotel.booking", "hotel.booking.create", "weather.today", "天气"];
const PROFILES: [&str; 3] = ["anp.rpc.v1", "anp.direct.base.v1", "anp.other.v1"];
const CONTENT: [&str; 3] = ["application/json", "text/plain", "image/png"];

fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    subsequence(words.to_vec(), 0..=words.len()).prop_map(|words| texts(&words))
}

fn any_offer() -> impl Strategy<Value = InterfaceOffer> {
    let capabilities = prop::collection::vec((0..6_u8, subsequence(TAGS.to_vec(), 0..3)), 0..3);
    let how = (
        select(vec![InterfaceType::Structured, InterfaceType::NaturalLanguage]),
        proptest::option::of(select(PROFILES.to_vec())),
        subsequence(SecurityProfile::ALL.to_vec(), 0..=3),
        some(&CONTENT),
        subsequence(InterfaceExecutionMode::ALL.to_vec(), 0..=4),
    );
    let more = (any::<bool>(), proptest::option::of(0..2000_u64), any::<bool>(), 0..40_u8);
    (capabilities, how, more).prop_map(|(capabilities, how, more)| InterfaceOffer {
        id: format!("interface.{}", more.3),
        kind: how.0,
        profile: how.1.map(str::to_owned),
        security_profiles: how.2,
        content_types: how.3,
        execution_modes: how.4,
        abilities: capabilities
            .iter()
            .map(|(n, tags)| capability(&format!("cap.c{n}"), "Booking", tags).into())
            .collect(),
        human_authorization: more.0,
        latency_ms: more.1,
        granted: more.2,
        ..structured()
    })
}

fn any_request() -> impl Strategy<Value = InterfaceRequest> {
    let intent = (some(&TAGS), proptest::option::of(select(vec!["book a room", "天气 weather", ""])));
    let caller = (
        proptest::option::of(some(&PROFILES)),
        proptest::option::of(some(&["transport-protected", "direct-e2ee", "unknown"])),
        proptest::option::of(some(&CONTENT)),
        proptest::option::of(some(&["direct_structured_call", "direct_message", "stream"])),
    );
    let constraints = (
        some(&["StructuredInterface", "NaturalLanguageInterface"]),
        proptest::option::of(any::<bool>()),
        proptest::option::of(0..2000_u64),
        proptest::option::of(any::<bool>()),
        proptest::option::weighted(0.2, select(vec!["transport-protected", "direct-e2ee", "unknown"])),
    );
    let more = (
        subsequence(vec!["cap.c0", "cap.c1", "cap"], 0..=1),
        prop::collection::vec((0..40_u8).prop_map(|n| format!("interface.{n}")), 0..2),
        proptest::option::weighted(0.2, select(SecurityProfile::ALL.to_vec())),
        select(vec![None, Some("structured_selection"), Some("natural_language_protocol_drafting")]),
    );
    (intent, caller, constraints, more).prop_map(|(intent, caller, constraints, more)| InterfaceRequest {
        mode: more.3.map(str::to_owned),
        intent: Intent { description: intent.1.map(str::to_owned), intent_tags: intent.0, ..Intent::default() },
        required_capabilities: texts(&more.0),
        caller: CallerCapabilities {
            supported_profiles: caller.0,
            supported_security_profiles: caller.1,
            supported_content_types: caller.2,
            supported_execution_modes: caller.3,
            ..CallerCapabilities::default()
        },
        constraints: Constraints {
            preferred_interface_types: constraints.0,
            requires_human_authorization: constraints.1,
            max_latency_ms: constraints.2,
            allow_natural_language_fallback: constraints.3,
            required_security_profile: constraints.4.map(str::to_owned),
            ..Constraints::default()
        },
        candidate_interfaces: more.1,
        candidate_protocols: Vec::new(),
        security_profile: more.2,
        created_at: None,
    })
}

/// Checks each constraint independently of the implementation.
fn assert_holds(
    request: &InterfaceRequest,
    offer: &InterfaceOffer,
    security: SecurityProfile,
    mode: InterfaceExecutionMode,
) {
    let InterfaceRequest { caller, constraints, .. } = request;
    let has =
        |list: &Option<Vec<String>>, word: &str| list.as_ref().is_none_or(|list| list.iter().any(|it| it == word));
    assert!(offer.granted);
    assert!(request.candidate_interfaces.is_empty() || request.candidate_interfaces.contains(&offer.id));
    assert!(offer.profile.as_deref().is_none_or(|profile| has(&caller.supported_profiles, profile)));
    assert!(offer.security_profiles.contains(&security) && has(&caller.supported_security_profiles, security.as_str()));
    assert!(constraints.required_security_profile.as_deref().is_none_or(|required| required == security.as_str()));
    assert!(request.security_profile.is_none_or(|least| security >= least));
    assert!(
        offer.content_types.is_empty() || offer.content_types.iter().any(|it| has(&caller.supported_content_types, it))
    );
    assert!(offer.execution_modes.contains(&mode) && has(&caller.supported_execution_modes, mode.as_str()));
    for needed in &request.required_capabilities {
        let below = format!("{needed}.");
        assert!(offer.abilities.iter().any(|it| {
            let id = it.capability.id.as_str();
            id == needed || id.starts_with(&below)
        }));
    }
    assert!(constraints.requires_human_authorization.is_none_or(|asked| asked == offer.human_authorization));
    assert!(offer.latency_ms.zip(constraints.max_latency_ms).is_none_or(|(takes, most)| takes <= most));
    assert!(offer.kind == InterfaceType::Structured || constraints.allow_natural_language_fallback != Some(false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn chosen_interface_satisfies_every_hard_constraint(
        offers in prop::collection::vec(any_offer(), 0..12),
        request in any_request(),
    ) {
        let market = PreparedInterfaceOffers::new(offers);
        match market.choose(&request, NOW) {
            Ok(AcceptedInterfaceOrDraft::Accepted(it)) => {
                assert_holds(&request, it.offer, it.security, it.mode.unwrap());
                prop_assert_eq!(
                    it.score.total,
                    it.score.intent + it.score.interface_type + it.score.content_type + it.score.latency
                );
                for other in &it.alternatives {
                    let is_usable = other.offer.granted && other.offer.id != it.offer.id;
                    prop_assert!(is_usable || other.lost == NotChosenReason::NotGranted && !other.offer.granted);
                    if let NotChosenReason::FewerPoints(by) = other.lost {
                        prop_assert_eq!(other.score.total + by, it.score.total);
                    }
                }
            }
            Ok(AcceptedInterfaceOrDraft::Draft(it)) => assert_holds(&request, it.offer, it.security, InterfaceExecutionMode::Drafting),
            Err(refusal) => prop_assert!(!refusal.message.is_empty()),
        }
    }

    #[test]
    fn selected_interface_does_not_depend_on_offer_order(
        (offers, shuffled) in prop::collection::vec(any_offer(), 0..12)
            .prop_flat_map(|offers| (Just(offers.clone()), Just(offers).prop_shuffle())),
        request in any_request(),
    ) {
        let (one, other) = (PreparedInterfaceOffers::new(offers), PreparedInterfaceOffers::new(shuffled));
        prop_assert_eq!(one.choose(&request, NOW), other.choose(&request, NOW));
    }

    #[test]
    fn required_security_profile_never_turns_a_refusal_into_a_match(
        offers in prop::collection::vec(any_offer(), 1..8),
        request in any_request(),
    ) {
        let market = PreparedInterfaceOffers::new(offers);
        let stricter = InterfaceRequest {
            constraints: Constraints { required_security_profile: Some("direct-e2ee".to_owned()), ..request.constraints.clone() },
            ..request.clone()
        };
        if market.choose(&request, NOW).is_err() && request.constraints.required_security_profile.is_none() {
            prop_assert!(market.choose(&stricter, NOW).is_err());
        }
    }
}

#[test]
fn generated_test_requests_include_accepted_and_refused_ones() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let found = (0..1000).filter(|_| {
        let offers = prop::collection::vec(any_offer(), 0..12).new_tree(&mut runner).unwrap().current();
        let request = any_request().new_tree(&mut runner).unwrap().current();
        PreparedInterfaceOffers::new(offers).choose(&request, NOW).is_ok()
    });
    let found = found.count();
    assert!((50..900).contains(&found), "{found} of 1000 find something");
}
