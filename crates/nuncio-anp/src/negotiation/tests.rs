//! Tests of negotiation: the nine error codes, downgrade attempts, and properties of arbitrary offers.

mod causes;
mod downgrade;
mod laws;

use std::sync::Arc;

use nuncio_core::agent::Capability;
use nuncio_core::ids::CapabilityId;

use super::*;
use crate::wire::{CallerCapabilities, Constraints, Intent};

const NOW: Timestamp = Timestamp::from_millis(1_794_740_400_000);

fn capability(id: &str, name: &str, tags: &[&str]) -> Arc<Capability> {
    Arc::new(Capability {
        id: CapabilityId::parse(id).unwrap(),
        name: name.to_owned(),
        description: String::new(),
        intent_tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        tools: Vec::new(),
        human_authorization: false,
    })
}

fn booking() -> Arc<Capability> {
    capability("cap.hotel.booking", "Hotel room booking", &["hotel.booking", "reservation.create"])
}

/// Structured interface of the specification's example.
fn structured() -> InterfaceOffer {
    InterfaceOffer {
        id: "interface.booking.structured.v1".to_owned(),
        kind: InterfaceType::Structured,
        protocol: "openrpc".to_owned(),
        profile: Some("anp.rpc.v1".to_owned()),
        security_profiles: vec![SecurityProfile::TransportProtected],
        content_types: vec!["application/json".to_owned()],
        execution_modes: vec![InterfaceExecutionMode::DirectStructuredCall],
        abilities: vec![booking().into()],
        human_authorization: true,
        latency_ms: Some(120),
        timeout_ms: Some(30_000),
        url: "https://grand-hotel.com/api/booking.openrpc.json".to_owned(),
        description: "Structured booking interface for room reservation.".to_owned(),
        granted: true,
    }
}

/// Natural-language interface of the specification's example.
fn conversation() -> InterfaceOffer {
    InterfaceOffer {
        id: "interface.conversation.nl.v1".to_owned(),
        kind: InterfaceType::NaturalLanguage,
        protocol: "ANP".to_owned(),
        profile: Some("anp.direct.base.v1".to_owned()),
        content_types: vec!["text/plain".to_owned(), "application/json".to_owned()],
        execution_modes: vec![InterfaceExecutionMode::DirectMessage, InterfaceExecutionMode::NaturalLanguage],
        human_authorization: false,
        latency_ms: None,
        url: "https://grand-hotel.com/anp".to_owned(),
        description: "Natural language conversation interface.".to_owned(),
        ..structured()
    }
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Request of the specification's example (§7.2), without `requiresHumanAuthorization`.
fn request() -> InterfaceRequest {
    InterfaceRequest {
        mode: Some("structured_selection".to_owned()),
        intent: Intent {
            name: Some("book_hotel_room".to_owned()),
            description: Some("Book a hotel room for two people next Friday.".to_owned()),
            intent_tags: texts(&["hotel.booking", "reservation.create"]),
            ..Intent::default()
        },
        required_capabilities: texts(&["cap.hotel.booking"]),
        caller: CallerCapabilities {
            supported_profiles: Some(texts(&["anp.core.binding.v1", "anp.direct.base.v1", "anp.rpc.v1"])),
            supported_security_profiles: Some(texts(&["transport-protected", "direct-e2ee"])),
            supported_content_types: Some(texts(&["application/json", "text/plain"])),
            ..CallerCapabilities::default()
        },
        constraints: Constraints {
            preferred_interface_types: texts(&["StructuredInterface", "NaturalLanguageInterface"]),
            max_latency_ms: Some(3000),
            allow_natural_language_fallback: Some(true),
            ..Constraints::default()
        },
        candidate_interfaces: texts(&["interface.booking.structured.v1", "interface.conversation.nl.v1"]),
        created_at: Some(NOW),
        ..InterfaceRequest::default()
    }
}

fn accepted<'a>(offers: &'a PreparedInterfaceOffers, request: &InterfaceRequest) -> ChosenInterface<'a> {
    match offers.choose(request, NOW) {
        Ok(AcceptedInterfaceOrDraft::Accepted(accepted)) => accepted,
        other => panic!("{other:?}"),
    }
}

fn refused(offers: &PreparedInterfaceOffers, request: &InterfaceRequest) -> (AnpErrorCode, Vec<&'static str>) {
    let refusal = offers.choose(request, NOW).unwrap_err();
    assert!(!refusal.message.is_empty());
    (refusal.cause, refusal.unsupported.names())
}

#[test]
fn negotiation_example_of_the_specification_selects_structured_interface() {
    let offers = PreparedInterfaceOffers::new(vec![conversation(), structured()]);
    let mut wanted = request();
    wanted.constraints.requires_human_authorization = Some(true);
    let it = accepted(&offers, &wanted);
    assert_eq!(it.offer.id, "interface.booking.structured.v1");
    assert_eq!(it.ability.unwrap().capability.id.as_str(), "cap.hotel.booking");
    assert_eq!((it.security, it.content_type), (SecurityProfile::TransportProtected, Some("application/json")));
    assert_eq!((it.mode, it.timeout_ms), (Some(InterfaceExecutionMode::DirectStructuredCall), Some(3000)));
    assert!(it.offer.human_authorization);
    let score = InterfaceScore {
        intent: 1000,
        intent_by: IntentScoreBasis::Tags,
        interface_type: 300,
        content_type: 0,
        latency: 44,
        total: 1344,
    };
    assert_eq!(it.score, score);
    let [other] = it.alternatives.as_slice() else { panic!("{:?}", it.alternatives) };
    assert_eq!(other.offer.id, "interface.conversation.nl.v1");
    assert_eq!(other.lost.to_string(), "does not satisfy requiresHumanAuthorization");
    assert_eq!(other.score.total, 1150);
}

#[test]
fn preferred_interface_and_content_types_decide_between_suitable_interfaces() {
    let offers = PreparedInterfaceOffers::new(vec![structured(), conversation()]);
    let mut wanted = request();
    wanted.constraints.preferred_interface_types = texts(&["NaturalLanguageInterface", "StructuredInterface"]);
    let it = accepted(&offers, &wanted);
    assert_eq!(it.offer.kind, InterfaceType::NaturalLanguage);
    assert_eq!(it.alternatives[0].lost, NotChosenReason::FewerPoints(106));
    // The caller's preferred content type wins; without a preference, the one that the offer prefers.
    wanted.constraints.preferred_content_types = texts(&["application/*", "text/plain"]);
    assert_eq!(accepted(&offers, &wanted).content_type, Some("application/json"));
    wanted.constraints.preferred_content_types.clear();
    assert_eq!(accepted(&offers, &wanted).content_type, Some("text/plain"));
}

#[test]
fn intent_is_matched_by_its_tags_or_without_tags_by_its_words() {
    let rooms = |id: &str, capabilities: Vec<Arc<Capability>>| {
        let abilities = capabilities.into_iter().map(OfferedCapability::from).collect();
        InterfaceOffer { id: id.to_owned(), abilities, ..structured() }
    };
    let search = capability("cap.search", "查找空房", &[]);
    let book = capability("cap.book", "预订客房", &[]);
    let create = capability("cap.create", "Create", &["hotel.booking.create"]);
    let offers =
        PreparedInterfaceOffers::new(vec![rooms("a", vec![search.clone(), book]), rooms("b", vec![create, search])]);
    let ask = |intent| InterfaceRequest { intent, ..InterfaceRequest::default() };
    let by_words = ask(Intent { description: Some("我想预订一间客房".to_owned()), ..Intent::default() });
    let it = accepted(&offers, &by_words);
    assert_eq!((it.ability.unwrap().capability.id.as_str(), it.score.intent_by), ("cap.book", IntentScoreBasis::Words));
    let by_tags = ask(Intent { intent_tags: texts(&["hotel.booking"]), ..Intent::default() });
    let it = accepted(&offers, &by_tags);
    assert_eq!((it.ability.unwrap().capability.id.as_str(), it.score.intent), ("cap.create", 900));
    assert_eq!(it.alternatives[0].lost.to_string(), "does not satisfy intent");
}

#[test]
fn protocol_drafting_is_selected_only_if_requested_and_no_structured_interface_fits() {
    let mut drafting = conversation();
    drafting.execution_modes.push(InterfaceExecutionMode::Drafting);
    let offers = PreparedInterfaceOffers::new(vec![drafting, structured()]);
    let mut wanted = request();
    wanted.mode = Some("natural_language_protocol_drafting".to_owned());
    assert_eq!(accepted(&offers, &wanted).offer.kind, InterfaceType::Structured);
    wanted.required_capabilities.clear();
    wanted.intent = Intent { name: Some("forecast weather".to_owned()), ..Intent::default() };
    let Ok(AcceptedInterfaceOrDraft::Draft(draft)) = offers.choose(&wanted, NOW) else { panic!("nothing was drafted") };
    assert_eq!(draft.offer.kind, InterfaceType::NaturalLanguage);
    let lost: Vec<_> = draft.alternatives.iter().map(|it| it.lost.to_string()).collect();
    assert_eq!(lost, ["is a natural-language interface, and a protocol was requested", "does not satisfy intent"]);
    wanted.constraints.allow_natural_language_fallback = Some(false);
    assert_eq!(refused(&offers, &wanted).0, AnpErrorCode::NoMatchingInterface);
    // A caller that does not support drafting is refused with that reason.
    let talks = texts(&["direct_message", "direct_structured_call"]);
    let mut cannot = wanted.clone();
    cannot.constraints.allow_natural_language_fallback = None;
    cannot.caller.supported_execution_modes = Some(talks);
    assert_eq!(refused(&offers, &cannot), (AnpErrorCode::NoMatchingInterface, vec!["supportedExecutionModes"]));
    // In the default mode, the natural-language interface is chosen instead of drafting.
    wanted.constraints.allow_natural_language_fallback = Some(true);
    wanted.mode = None;
    let it = accepted(&offers, &wanted);
    assert_eq!((it.offer.kind, it.mode), (InterfaceType::NaturalLanguage, Some(InterfaceExecutionMode::DirectMessage)));
}
