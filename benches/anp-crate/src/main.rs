//! Verifies the requests of a file with the `anp` crate, and prints the CPU each took, in microseconds.
//!
//! Its tokens are of the cheapest kind it makes (HS256), and it is given the caller's document: neither RSA nor a
//! network is in the number.

use std::collections::BTreeMap;

use anp::authentication::{DidWbaVerifier, DidWbaVerifierConfig};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Requests {
    document: Value,
    method: String,
    url: String,
    body: String,
    /// The header fields of each.
    headers: Vec<BTreeMap<String, String>>,
}

fn main() {
    let file = std::env::args().nth(1).expect("name the file of requests");
    let requests: Requests = serde_json::from_slice(&std::fs::read(file).expect("it can be read")).expect("it is JSON");
    let mut verifier = DidWbaVerifier::new(DidWbaVerifierConfig {
        jwt_private_key: Some("0123456789abcdef0123456789abcdef".to_owned()),
        jwt_algorithm: "HS256".to_owned(),
        ..DidWbaVerifierConfig::default()
    });
    // In pieces: it goes through all it remembers at each request, so that later ones take longer.
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
