//! Tests that the examples of the specifications are parsed, valid, and written back unchanged.

use nuncio_anp::validate::{self, AnpDocumentType};
use nuncio_anp::wire::{
    AgentDescription, AnpErrorCode, AnpRequest, AnpResponse, Intent, Interface, NegotiateBody, NegotiationResult,
    NegotiationStatus, OpenRpc, Product, ProtocolArtifact, SecurityDefinition, SecurityLocation, SecurityReferences,
    ServiceCapabilities,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::example;

fn round_trip<T: Serialize + DeserializeOwned>(document: &Value) -> T {
    let read: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *document);
    read
}

fn assert_valid(kind: AnpDocumentType, document: &Value, warnings: &[&str]) {
    let report = validate::validate(kind, document.to_string().as_bytes());
    assert!(report.valid, "{report}");
    let paths: Vec<_> = report.warnings.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, warnings, "{report}");
    assert_eq!(AnpDocumentType::of(document), Some(kind));
}

#[test]
fn description_example_round_trips() {
    let document = example("description");
    // The specification leaves the inline interface empty ("see below"), which is not a valid OpenRPC document.
    let report = validate::check(AnpDocumentType::AgentDescription, &document);
    let paths: Vec<_> = report.errors.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, ["/interfaces/3/content/info", "/interfaces/3/content/methods", "/interfaces/3/content/openrpc"]);
    let mut whole = document.clone();
    whole["interfaces"][3]["content"] = example("openrpc");
    assert_valid(AnpDocumentType::AgentDescription, &whole, &[]);
    let read: AgentDescription = round_trip(&document);
    assert_eq!(read.information.unwrap().len(), 4);
    let interfaces = read.interfaces.unwrap();
    assert_eq!(interfaces.len(), 6);
    assert!(interfaces[1].asks_a_person() && !interfaces[0].asks_a_person());
    assert_eq!(read.security_definitions["didwba_sc"], SecurityDefinition::didwba());
}

#[test]
fn information_list_is_accepted_under_every_known_spelling_of_its_name() {
    for name in ["Infomations", "Informations", "informations"] {
        let mut document = example("description");
        let list = document.as_object_mut().unwrap().shift_remove("Infomations").unwrap();
        document[name] = list.clone();
        let read: AgentDescription = serde_json::from_value(document).unwrap();
        assert_eq!(read.information.as_ref().unwrap().len(), 4, "{name}");
        assert_eq!(serde_json::to_value(&read).unwrap()["Infomations"], list);
    }
}

#[test]
fn product_and_openrpc_examples_round_trip() {
    let product = example("product");
    assert_valid(AnpDocumentType::Product, &product, &[]);
    let read: Product = round_trip(&product);
    assert!(matches!(read.security, Some(SecurityReferences::Inline(_))));
    assert_eq!(read.extra["brand"]["name"], "Grand Hotel");
    let methods = example("openrpc");
    assert_valid(AnpDocumentType::OpenRpc, &methods, &[]);
    let read: OpenRpc = round_trip(&methods);
    assert_eq!(read.methods[0].params.as_ref().unwrap()[0].required, Some(true));
}

#[test]
fn security_definition_round_trips_every_credential_location() {
    let definitions = &example("security")["securityDefinitions"];
    round_trip::<SecurityDefinition>(&definitions["didwba_sc"]);
    for index in SecurityLocation::ALL {
        let mut definition = json!({"scheme": "didwba", "in": index.as_str()});
        if index != SecurityLocation::Auto {
            definition["name"] = json!("x");
        }
        assert_eq!(round_trip::<SecurityDefinition>(&definition).r#in, index);
    }
    assert!(serde_json::from_value::<SecurityDefinition>(json!({"scheme": "x", "in": "trailer"})).is_err());
}

#[test]
fn negotiation_examples_round_trip() {
    let interface: Interface = round_trip(&example("negotiation_interface"));
    assert_eq!(interface.r#type, Interface::META);
    let description = example("negotiating_description");
    assert_valid(AnpDocumentType::AgentDescription, &description, &["/description"]);
    let read: AgentDescription = round_trip(&description);
    assert_eq!(read.negotiation().unwrap().id.as_deref(), Some("interface.negotiation.default"));
    assert!(read.interface("interface.booking.structured.v1").unwrap().asks_a_person());
    assert_eq!(read.capabilities.unwrap()[0].intent_tags.as_ref().unwrap().len(), 3);
    let wanted = example("interface_to_look_for");
    assert_eq!(wanted, json!({"type": Interface::META, "profile": "anp.meta.negotiation.v1"}));
    round_trip::<Intent>(&example("intent"));
    let mut drafting = example("drafting");
    drafting["intent"] = example("intent");
    let body: NegotiateBody = round_trip(&drafting);
    assert_eq!(body.mode.as_deref(), Some("natural_language_protocol_drafting"));
    let artifact: ProtocolArtifact = round_trip(&example("artifact"));
    assert!(!artifact.is_intact(), "its digest is a placeholder");
    let artifact = artifact.sealed();
    assert!(artifact.is_intact());
    assert!(!ProtocolArtifact { version: Some("1.1".to_owned()), ..artifact.clone() }.is_intact());
    assert!(!ProtocolArtifact { digest: None, ..artifact }.is_intact());
    let response = example("negotiate_response");
    let result: NegotiationResult = round_trip(&response["result"]);
    assert_eq!((result.status, result.execution.unwrap().timeout_ms), (NegotiationStatus::Accepted, Some(3000)));
}

#[test]
fn request_and_response_examples_round_trip() {
    let request = example("negotiate_request");
    let body: NegotiateBody = round_trip(&request["params"]["body"]);
    assert_eq!(body.candidate_interface_refs.len(), 2);
    // The proof in this example has a form that cannot be verified, so it is only parsed.
    let read = AnpRequest::read(request.to_string().as_bytes()).unwrap();
    assert_eq!(read.to_json(), request);
    assert_eq!(read.auth.unwrap().scheme, None);
    let request = example("capabilities_request");
    let read = AnpRequest::read(request.to_string().as_bytes()).unwrap();
    assert_eq!(read.to_json(), request);
    assert_eq!(read.meta.created_at.unwrap().to_string(), "2026-06-27T12:00:00.000Z");
    let response = example("capabilities_response");
    round_trip::<ServiceCapabilities>(&response["result"]);
    let error = example("error_response");
    let read = AnpResponse::read(error.to_string().as_bytes(), 10_000, &json!("req-neg-001")).unwrap();
    assert_eq!(read.to_json(), error);
    let AnpResponse::Error { error, .. } = read else { panic!("{read:?}") };
    assert_eq!(error.known_code(), Some(AnpErrorCode::NoMatchingInterface));
    assert_eq!(error.anp_code(), Some("meta.no_matching_interface"));
}
