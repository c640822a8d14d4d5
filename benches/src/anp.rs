//! `cargo xtask bench anp`: signed requests, descriptions and negotiation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::HeaderMap;
use nuncio_anp::negotiate;
use nuncio_anp::negotiation::{
    AcceptedInterfaceOrDraft, InterfaceExecutionMode, InterfaceOffer, InterfaceType, PreparedInterfaceOffers,
    SecurityProfile,
};
use nuncio_anp::wire::AnpRequest;
use nuncio_core::agent::Capability;
use nuncio_core::ids::CapabilityId;
use nuncio_core::time::Timestamp;
use nuncio_identity::http_signature::{SignatureParameters, sign};
use nuncio_identity::{
    AcceptedSigningSchemes, BoundDidDocument, Did, DidAccessTokenService, DidDocument, K1ProofRule, NewDidDocument,
    ParsedCredentials, SignableRequest, SignaturePolicy, SigningKey,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::aap::measure_gets;
use crate::process::Server;
use crate::report::{heading, row};

/// Number of interfaces that the negotiation chooses from.
const INTERFACES: usize = 1000;
const URL: &str = "https://hotel.example/agents/hotel/rpc";

pub(crate) async fn run(nuncio: &Path, verifier: &Path, quick: bool) -> anyhow::Result<()> {
    let scale = if quick { 10 } else { 1 };
    signed(verifier, 2000 / scale)?;
    described(nuncio, 100_000 / scale).await?;
    negotiated(500 / scale)
}

/// A caller with a DID, and the requests that it signed.
struct DidCaller {
    bound: BoundDidDocument,
    document: Value,
    body: String,
    requests: Vec<HeaderMap>,
}

impl DidCaller {
    fn new(count: usize, now: Timestamp) -> anyhow::Result<Self> {
        let key = SigningKey::from_seed(&[7; 32]);
        let did = Did::for_key("caller.example", None, &["agents", "ada"], &key).map_err(anyhow::Error::msg)?;
        let document = NewDidDocument::new(&did, now).sign(&key);
        let bound = DidDocument::from_json(document.clone()).map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
        let bound = bound.bind(&did, now, K1ProofRule::Optional).map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
        let body = json!({
            "jsonrpc": "2.0", "id": "1", "method": "search_rooms",
            "params": {"check_in": "2027-01-01", "check_out": "2027-01-03", "guests": 2},
        })
        .to_string();
        let key_id = did.url("key-1");
        let requests = (0..count).map(|number| {
            let nonce = format!("{number:032x}");
            let expires = Some(now.after(Duration::from_secs(300)));
            let options = SignatureParameters { key_id: &key_id, created: now, expires, nonce: &nonce };
            let none: [(&str, &str); 0] = [];
            let request = SignableRequest { method: "POST", target_uri: URL, headers: &none, body: body.as_bytes() };
            let fields = sign(&request, &key, &options).map_err(anyhow::Error::msg)?.into_fields();
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(http::HeaderName::try_from(name)?, value.try_into()?);
            }
            Ok(headers)
        });
        let requests = requests.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self { bound, document, body, requests })
    }

    fn write(&self, file: &Path) -> anyhow::Result<()> {
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let fields = |headers: &HeaderMap| -> Value {
            headers.iter().map(|(name, value)| (name.as_str().to_owned(), json!(text(value)))).collect()
        };
        let headers: Vec<_> = self.requests.iter().map(fields).collect();
        let whole =
            json!({"document": self.document, "method": "POST", "url": URL, "body": self.body, "headers": headers});
        Ok(std::fs::write(file, whole.to_string())?)
    }
}

/// Checks a request as the server does and issues a token. The server then stores the nonce; that commit is measured
/// with the requests of the other protocols.
fn check(
    caller: &DidCaller,
    headers: &HeaderMap,
    tokens: &DidAccessTokenService,
    now: Timestamp,
) -> anyhow::Result<()> {
    let policy = SignaturePolicy::default();
    let wrong = |fault: nuncio_identity::DidAuthError| anyhow::anyhow!("{fault}");
    let request = SignableRequest { method: "POST", target_uri: URL, headers, body: caller.body.as_bytes() };
    let ParsedCredentials::Signature(claim) =
        ParsedCredentials::read(headers, AcceptedSigningSchemes::default()).map_err(wrong)?
    else {
        anyhow::bail!("it is signed");
    };
    claim.check(&request, now, &policy).map_err(wrong)?;
    let verified = claim.verify(&request, &caller.bound).map_err(wrong)?;
    ensure!(verified.nonce.is_some());
    let grant = tokens.issue(&verified.did, now);
    ensure!(!grant.access_token.is_empty());
    Ok(())
}

/// Compares the verification of signed requests with that of the `anp` crate.
fn signed(verifier: &Path, count: usize) -> anyhow::Result<()> {
    // The crate reads the system clock itself, so the requests are signed now.
    let now = Timestamp::from_millis(clock_gettime(ClockId::Realtime).tv_sec * 1000);
    let caller = DidCaller::new(count, now)?;
    let key = SigningKey::from_seed(&[9; 32]);
    let tokens =
        DidAccessTokenService::new(&key, "did:wba:hotel.example", "https://hotel.example", Duration::from_secs(3600));
    // The measurement is split into batches, of which the fastest counts.
    let mut ours = f64::MAX;
    for piece in caller.requests.chunks(100) {
        let began = cpu_micros();
        for headers in piece {
            check(&caller, headers, &tokens, now)?;
        }
        ours = ours.min((cpu_micros() - began) / piece.len() as f64);
    }

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("requests.json");
    caller.write(&file)?;
    let output =
        std::process::Command::new(verifier).arg(&file).output().with_context(|| verifier.display().to_string())?;
    ensure!(output.status.success(), "the crate's verifier: {}", String::from_utf8_lossy(&output.stderr));
    let measured: Value = serde_json::from_slice(&output.stdout)?;
    let micros: Vec<f64> = measured["micros"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    // The first requests of the crate are its fastest, because its list of used nonces is still short.
    let theirs = micros.iter().copied().fold(f64::MAX, f64::min);

    println!("| a signed request, fully checked | CPU each | of the crate's |\n|---|---|---|");
    println!("| the `anp` crate, nothing remembered, HS256 tokens | {theirs:.1} µs | 1 |");
    if let Some(last) = micros.last().filter(|_| micros.len() > 1) {
        println!("| the `anp` crate, {count} nonces remembered | {last:.1} µs | {:.2} |", last / theirs);
    }
    println!("| ours, before the nonce is stored | {ours:.1} µs | {:.2} |\n", ours / theirs);
    Ok(())
}

/// Compares the cost of serving an agent description with that of a plain response of the same bytes.
async fn described(nuncio: &Path, requests: usize) -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let path = data.path().join("data").display().to_string();
    let ours = Server::start(nuncio, &["--json", "serve", "--listen", "localhost:0", "--data", &path]).await?;
    let ad = "/agents/hotel-assistant/ad.json";
    let bytes = crate::client::RawHttpConnection::open(&ours.address).await?.get(ad).await?;
    let file = data.path().join("ad.json");
    std::fs::write(&file, &bytes)?;
    let program = std::env::current_exe()?;
    let bare = Server::start(&program, &["bare", "--document", &file.display().to_string()]).await?;
    heading();
    let (here, there) = (measure_gets(&ours, ad, requests).await?, measure_gets(&bare, "/document", requests).await?);
    row(&format!("GET ad.json, {} bytes", bytes.len()), here, "a bare response of the same bytes", there);
    println!();
    Ok(())
}

/// Measures the choice among many interfaces, from request body to response body.
fn negotiated(rounds: usize) -> anyhow::Result<()> {
    let now = Timestamp::from_millis(1_800_000_000_000);
    let offers: Vec<_> = (0..INTERFACES).map(offer).collect::<anyhow::Result<_>>()?;
    let request = json!({
        "jsonrpc": "2.0", "id": "r1", "method": "anp.negotiate",
        "params": {
            "meta": {
                "profile": "anp.meta.negotiation.v1", "security_profile": "transport-protected",
                "target": {"kind": "agent", "did": "did:wba:hotel.example"}, "operation_id": "o1", "created_at": now,
            },
            "body": {
                "intent": {
                    "name": "Book a room", "description": "Book a room by the sea for two guests and two nights",
                    "intentTags": ["travel.hotel.booking.create"],
                },
                "callerCapabilities": {"supportedContentTypes": ["application/json"], "supportedSecurityProfiles": ["transport-protected"]},
                "constraints": {"maxLatencyMs": 5000, "preferredInterfaceTypes": ["StructuredInterface"]},
            },
        },
    })
    .to_string();
    let prepared = PreparedInterfaceOffers::new(offers.clone());
    let choose = |offers: &PreparedInterfaceOffers| -> anyhow::Result<usize> {
        let request = AnpRequest::read(request.as_bytes()).map_err(|refused| anyhow::anyhow!("{}", refused.1))?;
        let body = negotiate::read(&request.body).map_err(|error| anyhow::anyhow!("{error}"))?;
        let verdict = offers.choose(&negotiate::request(&body, &request.meta), now);
        let Ok(AcceptedInterfaceOrDraft::Accepted(accepted)) = verdict else {
            anyhow::bail!("nothing was chosen: {verdict:?}")
        };
        let result = negotiate::result(&accepted, "n1".to_owned(), now.after(Duration::from_secs(600)));
        Ok(json!(result).to_string().len())
    };
    let (mut prepare, mut chosen) = (f64::MAX, f64::MAX);
    for _ in 0..rounds.max(10) {
        let given = offers.clone();
        let began = cpu_micros();
        let made = PreparedInterfaceOffers::new(given);
        prepare = prepare.min(cpu_micros() - began);
        drop(made);
        let began = cpu_micros();
        choose(&prepared)?;
        chosen = chosen.min(cpu_micros() - began);
    }
    println!("| negotiation over {INTERFACES} interfaces | CPU |\n|---|---|");
    println!("| preparing what is offered | {prepare:.0} µs |");
    println!("| reading, choosing, answering | {chosen:.0} µs |");
    println!("| together, of 1 ms | {:.2} |", (prepare + chosen) / 1000.0);
    Ok(())
}

fn offer(number: usize) -> anyhow::Result<InterfaceOffer> {
    const KINDS: [&str; 5] = ["booking", "search", "cancel", "review", "invoice"];
    const TOWNS: [&str; 4] = ["by the sea", "in the hills", "in town", "at the airport"];
    let (kind, town) = (KINDS[number % KINDS.len()], TOWNS[number % TOWNS.len()]);
    let capability = Capability {
        id: CapabilityId::parse(&format!("cap.hotel{number}.{kind}")).map_err(anyhow::Error::msg)?,
        name: format!("Hotel {number}: {kind}"),
        description: format!("{kind} of rooms {town}, for guests who stay some nights, number {number}."),
        intent_tags: vec![format!("travel.hotel.{kind}"), format!("number.{number}")],
        tools: Vec::new(),
        human_authorization: number.is_multiple_of(7),
    };
    Ok(InterfaceOffer {
        id: format!("interface.hotel{number}.tools"),
        kind: if number % 10 == 9 { InterfaceType::NaturalLanguage } else { InterfaceType::Structured },
        protocol: "openrpc".to_owned(),
        profile: Some("anp.rpc.v1".to_owned()),
        security_profiles: vec![SecurityProfile::TransportProtected],
        content_types: vec!["application/json".to_owned()],
        execution_modes: vec![InterfaceExecutionMode::DirectStructuredCall],
        abilities: vec![Arc::new(capability).into()],
        human_authorization: number.is_multiple_of(7),
        latency_ms: Some(u64::try_from(number % 900)?),
        timeout_ms: Some(30_000),
        url: format!("https://hotel.example/agents/hotel{number}/interfaces/tools.json"),
        description: format!("OpenRPC interface of hotel {number}."),
        granted: number % 20 != 19,
    })
}

/// CPU time of this thread, in microseconds.
pub(crate) fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
