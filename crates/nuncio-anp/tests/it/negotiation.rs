//! Tests of negotiation with a declared agent through the wire types.

use nuncio_anp::negotiate;
use nuncio_anp::negotiate::draft::{self, ProtocolDraftLocations};
use nuncio_anp::negotiation::{AcceptedInterfaceOrDraft, PreparedInterfaceOffers};
use nuncio_anp::project::{
    ConversationInterfaceState, HostDocumentSettings, InterfaceOfferContext, ToolDocumentKind, ToolOfferState,
};
use nuncio_anp::wire::{AnpRequest, NegotiationResult, ProtocolArtifact, RpcError};
use nuncio_core::agent::{Agent, Tool};
use nuncio_core::digest::Digest;
use nuncio_core::ids::DraftId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::drafting::{ProtocolDefinition, ProtocolDraft, ProtocolDraftSide, ProtocolDraftState};
use serde_json::{Value, json};

use crate::example_agent;

const NOW: Timestamp = Timestamp::from_millis(1_794_740_400_000);
const OPEN: ToolOfferState =
    ToolOfferState { available: true, granted: true, latency_ms: Some(40), timeout_ms: 30_000 };

fn hotel() -> Agent {
    example_agent("hotel")
}

fn offers(tool: impl Fn(&Tool) -> ToolOfferState) -> PreparedInterfaceOffers {
    let conversation = ConversationInterfaceState {
        available: true,
        granted: true,
        latency_ms: None,
        timeout_ms: Some(60_000),
        drafts: false,
        signs: true,
    };
    let moment = InterfaceOfferContext { tool: &tool, conversation };
    PreparedInterfaceOffers::new(HostDocumentSettings::new("https://grand-hotel.example").offers(&hotel(), &moment))
}

fn negotiate(offers: &PreparedInterfaceOffers, body: &Value) -> Result<NegotiationResult, RpcError> {
    let request = json!({
        "jsonrpc": "2.0", "id": "1", "method": "anp.negotiate",
        "params": {
            "meta": {"profile": "anp.meta.negotiation.v1", "security_profile": "transport-protected"},
            "body": body,
        },
    });
    let request = AnpRequest::read(request.to_string().as_bytes()).unwrap();
    let body = negotiate::read(&request.body)?;
    match offers.choose(&negotiate::request(&body, &request.meta), NOW) {
        Ok(AcceptedInterfaceOrDraft::Accepted(accepted)) => Ok(negotiate::result(&accepted, "neg-1".to_owned(), NOW)),
        Ok(AcceptedInterfaceOrDraft::Draft(draft)) => panic!("{draft:?}"),
        Err(refusal) => Err(RpcError::from(&refusal)),
    }
}

#[test]
fn negotiation_selects_the_capability_that_matches_the_intent() {
    let offers = offers(|_| OPEN);
    // Tools under a `high` scope wait for an approver.
    for (intent, capability, set) in [
        (
            json!({"intentTags": ["hotel.booking"], "description": "Book a room"}),
            "cap.hotel-assistant.make_reservation",
            ToolDocumentKind::Authorized,
        ),
        (
            json!({"description": "Which rooms are free? Search"}),
            "cap.hotel-assistant.search_rooms",
            ToolDocumentKind::Tools,
        ),
        (json!({"name": "cancel_reservation"}), "cap.hotel-assistant.cancel_reservation", ToolDocumentKind::Authorized),
    ] {
        let result = negotiate(&offers, &json!({"intent": intent})).unwrap();
        let selected = result.selected.unwrap();
        let document = format!("https://grand-hotel.example/agents/hotel-assistant/interfaces/{}.json", set.as_str());
        let interface = format!("interface.hotel-assistant.{}", set.as_str());
        assert_eq!(selected.interface, Some(interface), "{intent}");
        assert_eq!(selected.capability.as_deref(), Some(capability), "{intent}");
        assert_eq!(selected.url.as_ref(), Some(&document));
        let execution = result.execution.unwrap();
        assert_eq!(execution.requires_human_authorization, Some(set.asks_a_person()), "{intent}");
        let schemas = result.schemas.unwrap();
        let name = capability.rsplit('.').next().unwrap();
        assert_eq!(schemas.request_schema, Some(json!(format!("{document}#/components/schemas/{name}.input"))));
    }
    // An intent without a matching tool selects the conversation.
    let result = negotiate(&offers, &json!({"intent": {"name": "天气"}})).unwrap();
    assert_eq!(result.selected.unwrap().interface.as_deref(), Some("interface.hotel-assistant.conversation"));
}

#[test]
fn negotiation_result_digest_detects_any_change() {
    let result = negotiate(&offers(|_| OPEN), &json!({"intent": {"intentTags": ["booking"]}})).unwrap();
    assert!(result.is_intact());
    let digest = result.negotiation_digest.clone().unwrap();
    assert!(digest.starts_with("sha-256:") && digest.len() == "sha-256:".len() + 43, "{digest}");
    // The digest survives re-serialisation and detects every change.
    let mut value = serde_json::to_value(&result).unwrap();
    let read: NegotiationResult = serde_json::from_str(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
    assert!(read.is_intact());
    for (path, other) in [
        ("/selected/securityProfile", json!("direct-e2ee")),
        ("/selected/url", json!("https://evil.example")),
        ("/execution/requiresHumanAuthorization", json!(false)),
        ("/validUntil", json!("2099-01-01T00:00:00Z")),
        ("/alternatives/0/reason", json!("")),
    ] {
        let kept = value.clone();
        *value.pointer_mut(path).unwrap() = other;
        let read: NegotiationResult = serde_json::from_value(value).unwrap();
        assert!(!read.is_intact(), "{path}");
        value = kept;
    }
    value["added"] = json!(1);
    assert!(!serde_json::from_value::<NegotiationResult>(value).unwrap().is_intact());
}

#[test]
fn unavailable_tool_is_not_offered() {
    let off = offers(|tool| ToolOfferState { available: tool.name.as_str() != "make_reservation", ..OPEN });
    let body = json!({
        "intent": {"name": "book"},
        "requiredCapabilities": ["cap.hotel-assistant.make_reservation"],
        "constraints": {"allowNaturalLanguageFallback": false},
    });
    let error = negotiate(&off, &body).unwrap_err();
    assert_eq!(error.code, 1601);
    let details = &error.data.unwrap()["details"];
    assert_eq!(details["unsupportedConstraints"], json!(["requiredCapabilities"]));
}

#[test]
fn tool_that_is_not_granted_requires_authorization() {
    let anonymous = offers(|tool| ToolOfferState { granted: tool.scope.is_none(), ..OPEN });
    let body = |capability: &str| {
        json!({
            "intent": {"name": "book"},
            "requiredCapabilities": [capability],
            "constraints": {"allowNaturalLanguageFallback": false},
        })
    };
    let error = negotiate(&anonymous, &body("cap.hotel-assistant.make_reservation")).unwrap_err();
    assert_eq!((error.code, error.anp_code()), (1607, Some("meta.authorization_required")));
    assert!(negotiate(&anonymous, &body("cap.hotel-assistant.search_rooms")).is_ok());
}

fn made_up(agent: &Agent, state: ProtocolDraftState) -> ProtocolDraft {
    let written = json!({
        "description": "Tell the weather.",
        "methods": [{"name": "weather.tell", "request_schema": {"type": "object"}, "response_schema": {"type": "object"}}],
        "examples": [{"method": "weather.tell", "request": {}, "response": {}}],
        "test_cases": [{"name": "no list", "method": "weather.tell", "request": [], "expected": "invalid"}],
    });
    let (id, definition) = (DraftId::parse("drf_1").unwrap(), ProtocolDefinition::read(written).unwrap());
    let document = draft::document(&id, &definition, Some("did:wba:grand-hotel.example".to_owned()));
    ProtocolDraft {
        agent: agent.name.clone(),
        with: Principal::Local,
        key: "op-1".to_owned(),
        asked: Digest::ZERO,
        digest: Digest::of_json(&document),
        document,
        definition,
        created_at: NOW,
        expires_at: NOW,
        approval: None,
        state,
        id,
    }
}

#[test]
fn open_and_accepted_drafts_have_a_result_and_expired_and_rejected_ones_an_error() {
    let agent = example_agent("process-shell");
    let conversation = ConversationInterfaceState {
        available: true,
        granted: true,
        latency_ms: None,
        timeout_ms: None,
        drafts: true,
        signs: true,
    };
    let moment = InterfaceOfferContext { tool: &|_| OPEN, conversation };
    let host = HostDocumentSettings { drafts: true, ..HostDocumentSettings::new("https://grand-hotel.example") };
    let offers = PreparedInterfaceOffers::new(host.offers(&agent, &moment));
    let body = json!({"mode": "natural_language_protocol_drafting", "intent": {"name": "天气"}});
    let body = negotiate::read(body.as_object().unwrap()).unwrap();
    let asked = json!({"jsonrpc": "2.0", "id": "1", "method": "anp.get_capabilities"});
    let meta = AnpRequest::read(asked.to_string().as_bytes()).unwrap().meta;
    let Ok(AcceptedInterfaceOrDraft::Draft(judged)) = offers.choose(&negotiate::request(&body, &meta), NOW) else {
        panic!("nothing was drafted");
    };
    let places = ProtocolDraftLocations { interface: "i".to_owned(), negotiated: "n".to_owned(), used: "u".to_owned() };
    let result = |state: ProtocolDraftState| {
        let draft = made_up(&agent, state);
        draft::result(&draft, places.clone(), draft::alternatives(&judged), "neg-1".to_owned(), NOW)
    };
    let open = result(ProtocolDraftState::Draft).unwrap();
    assert!(open.is_intact());
    assert_eq!(open.execution.unwrap().mode, "natural_language_protocol_drafting");
    let artifact: ProtocolArtifact = serde_json::from_value(open.selected.unwrap().protocol_artifact.unwrap()).unwrap();
    assert!(artifact.is_intact());
    let over = |state| result(state).unwrap_err().code;
    assert_eq!(over(ProtocolDraftState::Expired { at: NOW }), 1608);
    assert_eq!(over(ProtocolDraftState::Rejected { side: ProtocolDraftSide::Us, at: NOW, reason: None }), 1600);
    let used = result(ProtocolDraftState::Accepted { by: Principal::Operator, at: NOW }).unwrap();
    assert_eq!(
        (used.execution.unwrap().mode.as_str(), used.selected.unwrap().url.as_deref()),
        ("natural_language", Some("u"))
    );

    // The description announces drafting only where it is possible.
    let says = |host: &HostDocumentSettings, agent: &Agent| {
        let description = host.description(agent, None);
        description.negotiation().unwrap().negotiates.as_ref().unwrap().contains(&"protocol_artifacts".to_owned())
    };
    assert!(says(&host, &agent));
    assert!(!says(&host, &hotel()), "the brain of this agent cannot draft a protocol");
    assert!(!says(&HostDocumentSettings::new("https://grand-hotel.example"), &agent), "where it is off");
    let chat = |host: &HostDocumentSettings| {
        let document = json!(host.openrpc(&agent, ToolDocumentKind::Tools));
        document["methods"].as_array().unwrap().iter().find(|it| it["name"] == "chat").unwrap().to_string()
    };
    assert!(
        chat(&host).contains("protocol_id")
            && !chat(&HostDocumentSettings::new("https://x.example")).contains("protocol_id")
    );
}

#[test]
fn malformed_negotiate_body_is_refused() {
    let offers = offers(|_| OPEN);
    for body in [
        json!({}),
        json!({"intent": "book"}),
        json!({"intent": {}, "constraints": {"maxLatencyMs": -1}}),
        json!({"intent": {}, "constraints": {"maxLatencyMs": 1.5}}),
        json!({"intent": {}, "candidateProtocols": [7]}),
        json!({"intent": {"intentTags": vec!["a"; 1000]}}),
    ] {
        assert_eq!(negotiate(&offers, &body).unwrap_err().code, -32602, "{body}");
    }
    assert_eq!(negotiate(&offers, &json!({"intent": {}})).unwrap_err().code, 1606);
    let protocols = json!({"intent": {"name": "book"}, "candidateProtocols": ["x", {"profile": "anp.rpc.v1"}]});
    assert_eq!(negotiate(&offers, &protocols).unwrap().selected.unwrap().profile.as_deref(), Some("anp.rpc.v1"));
}
