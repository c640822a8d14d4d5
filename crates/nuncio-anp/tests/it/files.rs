//! Tests of the information files that an agent publishes.

use nuncio_anp::project::HostDocumentSettings;
use serde_json::{Value, json};

use crate::{agent, example};

const AGENT: &str = r#"
[agent]
name = "a"
version = "1.0.0"
[[information]]
type = "Product"
description = "Rooms with a view."
file = "products/rooms.json"
[[information]]
type = "Information"
description = "How to come."
file = "way.json"
[[information]]
type = "VideoObject"
description = "A tour."
url = "https://example.com/tour.mp4"
"#;

fn served(which: usize, document: &Value) -> Result<Value, String> {
    let agent = agent(AGENT);
    let host = HostDocumentSettings::new("https://example.com");
    let bytes = document.to_string();
    let served = host.published_file(&agent, &agent.information[which], bytes.as_bytes());
    served.map_err(|report| report.to_string())
}

#[test]
fn missing_members_of_a_product_file_are_filled_from_the_agent_file() {
    let found = served(0, &json!({"sku": "R-1"})).unwrap();
    let expected = json!({
        "protocolType": "ANP",
        "protocolVersion": "1.0.0",
        "type": "Product",
        "url": "https://example.com/agents/a/information/rooms.json",
        "name": "rooms",
        "description": "Rooms with a view.",
        "security": {"nosec_sc": {"scheme": "nosec", "in": "auto"}},
        "sku": "R-1",
    });
    assert_eq!(found, expected);
    let whole = example("product");
    assert_eq!(served(0, &whole).unwrap(), whole, "what is said is left alone");
}

#[test]
fn each_fault_of_an_invalid_product_file_is_reported_with_its_path() {
    let said = served(0, &json!({"type": "Room", "name": "", "image": {}})).unwrap_err();
    assert_eq!(
        said,
        "Product: invalid\nerror: /image must be a list (found an object)\n\
         error: /name must not be empty (expected some text, found \"\")\nerror: /type must be \"Product\" (found Room)"
    );
    assert_eq!(
        served(0, &json!([])).unwrap_err(),
        "Product: invalid\nerror: the document must be an object (found a list)"
    );
}

#[test]
fn information_file_that_is_no_product_is_served_unchanged_if_it_is_valid_json() {
    let any = json!([1, {"a": null}]);
    assert_eq!(served(1, &any).unwrap(), any);
    let any = json!({"type": "Way"});
    assert_eq!(served(1, &any).unwrap(), any);
    assert!(served(2, &any).is_err(), "what is elsewhere is not ours to serve");
    let agent = agent(AGENT);
    let host = HostDocumentSettings::new("https://example.com");
    let huge = format!("\"{}\"", "x".repeat(1 << 20));
    for bad in ["", "{", r#"{"a":1,"a":2}"#, &"[".repeat(100), &huge] {
        assert!(host.published_file(&agent, &agent.information[1], bad.as_bytes()).is_err());
    }
}
