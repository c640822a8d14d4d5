//! Verifies the requests of a file with the `anp` crate, and prints the CPU time of each, in microseconds.
//!
//! The crate issues its cheapest tokens (HS256) and gets the caller's DID document, so the result includes neither RSA
//! nor network access.

use std::collections::BTreeMap;

use anp::authentication::{DidWbaVerifier, DidWbaVerifierConfig};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct SignedRequests {
    document: Value,
    method: String,
    url: String,
    body: String,
    /// Header fields of each signed request.
    headers: Vec<BTreeMap<String, String>>,
}

fn main() {
    let file = std::env::args().nth(1).expect("name the file of requests");
    let requests: SignedRequests = serde_json::from_slice(&std::fs::read(file).expect("it can be read")).expect("it is JSON");
    let mut verifier = DidWbaVerifier::new(DidWbaVerifierConfig {
        jwt_private_key: Some("0123456789abcdef0123456789abcdef".to_owned()),
        jwt_algorithm: "HS256".to_owned(),
        ..DidWbaVerifierConfig::default()
    });
    // Measured in batches, because the crate searches all used nonces at each request, so later requests take longer.
    let pieces = requests.headers.chunks(100).map(|piece| {
        let began = cpu_micros();
        for headers in piece {
            let verified = futures_executor::block_on(verifier.verify_request_with_did_document(
                &requests.method,
                &requests.url,
                headers,
                Some(requests.body.as_bytes()),
                None,
                &requests.document,
            ));
            verified.expect("the request is good");
        }
        (cpu_micros() - began) / piece.len() as f64
    });
    let micros: Vec<f64> = pieces.collect();
    println!("{}", json!({ "micros": micros }));
}

fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
