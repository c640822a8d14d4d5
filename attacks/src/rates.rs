//! Attacks on the rate limits of requests.

use anyhow::{bail, ensure};
use serde_json::json;

use crate::raw::send_from;
use crate::{Attack, AttackDurationClass, AttackedBinary, HostedTestDid, Server};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "requests_of_strangers_use_up_their_own_allowance_alone",
        before: "X-API-Key, signatures, sign-in, enrolment and sockets got 429 after 2 s",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(strangers_use_up_their_own_allowance(target)),
    },
    Attack {
        name: "wrong_console_keys_slow_down_their_own_address_alone",
        before: "429 for the operator too",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(wrong_console_keys_slow_down_their_own_address(target)),
    },
    Attack {
        name: "forwarded_addresses_count_from_listed_proxies_alone",
        before: "no count by address",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(forwarded_addresses_count_from_listed_proxies(target)),
    },
];

const JSON: (&str, &str) = ("Content-Type", "application/json");
const FORM: [(&str, &str); 2] =
    [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];

/// Sends requests without a credential until one is refused by the rate limit.
async fn exhaust(server: &Server, last: u8) -> anyhow::Result<()> {
    for _ in 0..300 {
        if send_from(server, last, "GET /aap/sessions", &[], "").await?.status == 429 {
            return Ok(());
        }
    }
    bail!("300 requests of a stranger were answered")
}

async fn strangers_use_up_their_own_allowance(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().flag("--dev").settings("[limits]\nrequests_per_minute = 30\n").start()?;
    let key = server.create_key(&[])?;
    let peer = HostedTestDid::start()?;
    // All following requests come from addresses that have used up their limit of anonymous requests.
    exhaust(&server, 9).await?;
    exhaust(&server, 1).await?;
    // Callers with credentials that only the handler of the route checks.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "search", "params": {}}).to_string();
    let signed = peer.send("POST", &format!("{}/agents/desk/rpc", server.url()), &call).await?;
    ensure!(signed.status() != 429, "a signed request got 429");
    let enrol = json!({"code": "no", "device_name": "a", "public_key": "a", "signature": "a"}).to_string();
    for (line, headers, body) in [
        ("POST /a2h/auth/enroll", &[JSON][..], enrol.as_str()),
        ("POST /console/sign-in", &FORM, "key=nk_wrong"),
        ("GET /a2h/ws/human", &[], ""),
    ] {
        let answer = send_from(&server, 1, line, headers, body).await?;
        ensure!(answer.status != 429, "{line} got 429");
    }
    // Callers with a credential in a header.
    let bearer = format!("Bearer {key}");
    let answer = send_from(&server, 9, "GET /aap/sessions", &[("Authorization", &bearer)], "").await?;
    ensure!(answer.status == 200, "a bearer key got {}", answer.status);
    let caller = json!({"id": "shop", "type": "service"});
    let order = json!({"caller": caller, "skill_id": "desk/book", "inputs": {}}).to_string();
    let answer = send_from(&server, 9, "POST /skills/desk/book/invoke", &[JSON, ("X-API-Key", &key)], &order).await?;
    ensure!((200..300).contains(&answer.status), "X-API-Key got {}", answer.text);
    // An authenticated caller has a rate limit too.
    for _ in 0..60 {
        let answer = send_from(&server, 1, "GET /aap/sessions", &[("Authorization", &bearer)], "").await?;
        if answer.status == 429 {
            return Ok("429 for the stranger alone".to_owned());
        }
    }
    bail!("a known caller has no limit")
}

async fn wrong_console_keys_slow_down_their_own_address(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let key = server.create_key(&["--scope", "console:tasks"])?;
    let mut refused = false;
    for _ in 0..30 {
        refused |= send_from(&server, 9, "POST /console/sign-in", &FORM, "key=nk_wrong").await?.status == 429;
    }
    ensure!(refused, "30 wrong keys were looked at");
    let answer = send_from(&server, 1, "POST /console/sign-in", &FORM, &format!("key={key}")).await?;
    ensure!(answer.status == 303, "the operator got {}", answer.status);
    Ok("429 there, 303 for the operator".to_owned())
}

/// Sends 20 requests with `X-Forwarded-For` values from `chain`; returns how many the rate limit refuses.
async fn count_refused(server: &Server, peer: u8, chain: fn(u8) -> String) -> anyhow::Result<usize> {
    let mut refused = 0;
    for caller in 0..20 {
        let chain = chain(caller);
        let headers = [("X-Forwarded-For", chain.as_str())];
        refused += usize::from(send_from(server, peer, "GET /aap/sessions", &headers, "").await?.status == 429);
    }
    Ok(refused)
}

async fn forwarded_addresses_count_from_listed_proxies(target: AttackedBinary) -> anyhow::Result<String> {
    let limits = "[limits]\nrequests_per_minute = 5\n";
    let server = target.server().settings(limits.to_owned() + "[http]\ntrusted_proxies = [\"127.0.0.8\"]\n").start()?;
    server.create_key(&[])?;
    let unlisted = count_refused(&server, 9, |caller| format!("203.0.113.{caller}")).await?;
    ensure!(unlisted >= 10, "an unlisted peer chose its address: {unlisted} of 20 refused");
    let listed = count_refused(&server, 8, |caller| format!("203.0.113.{caller}")).await?;
    ensure!(listed == 0, "{listed} of 20 callers behind a proxy were refused");
    let pretending = count_refused(&server, 8, |caller| format!("198.51.100.{caller}, 192.0.2.7")).await?;
    ensure!(pretending >= 10, "a caller behind a proxy chose its address: {pretending} of 20 refused");
    ensure!(server.stderr().contains("trusted_proxies"), "no warning about the unlisted proxy");
    Ok("ignored from others, and the server warns".to_owned())
}
