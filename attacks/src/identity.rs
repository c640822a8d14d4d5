//! Attacks on authentication and authorization.

use anyhow::{Context as _, ensure};
use nuncio_core::digest::Digest;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use crate::did_peer::now;
use crate::server::default_agent;
use crate::{Attack, AttackDurationClass, AttackedBinary, HostedTestDid, Server, http_client, poll};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "anp_token_is_refused_outside_anp",
        before: "201: a session on /aap with its own instructions, and the metrics",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(anp_token_is_refused_outside_anp(target)),
    },
    Attack {
        name: "did_without_a_grant_is_refused_by_aap",
        before: "201 with the token that one ANP call earned",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(did_without_a_grant_is_refused_by_aap(target)),
    },
    Attack {
        name: "trust_of_a_did_does_not_replace_the_approver",
        before: "booked at once with \"trust\": true",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(trust_of_a_did_does_not_replace_the_approver(target)),
    },
    Attack {
        name: "hidden_tool_under_a_high_scope_asks_the_operators",
        before: "ran, and nobody was asked",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(hidden_tool_under_a_high_scope_asks_the_operators(target)),
    },
    Attack {
        name: "high_tool_is_published_as_authorized_over_anp",
        before: "in tools.json, humanAuthorization: false",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(high_tool_is_published_as_authorized_over_anp(target)),
    },
    Attack {
        name: "metrics_need_an_operators_key",
        before: "any key, token or DID",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(metrics_need_an_operators_key(target)),
    },
    Attack {
        name: "wrong_credential_is_refused_on_an_open_server",
        before: "counted as local",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(wrong_credential_is_refused_on_an_open_server(target)),
    },
    Attack {
        name: "forwarded_request_does_not_count_as_local",
        before: "201 through any proxy",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(forwarded_request_does_not_count_as_local(target)),
    },
    Attack {
        name: "cross_site_navigation_runs_no_tool",
        before: "202: the skill ran",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(cross_site_navigation_runs_no_tool(target)),
    },
    Attack {
        name: "console_cookie_counts_only_for_its_own_pages",
        before: "the cookie counted in every request",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(console_cookie_counts_only_for_its_own_pages(target)),
    },
    Attack {
        name: "signature_of_a_get_does_not_fit_another_target",
        before: "one signature opened every GET and DELETE",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(signature_of_a_get_does_not_fit_another_target(target)),
    },
    Attack {
        name: "server_without_its_database_or_secret_key_does_not_start",
        before: "started open, its keys forgotten",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(server_without_its_database_or_secret_key_does_not_start(target)),
    },
    Attack {
        name: "did_signature_is_refused_after_a_restart",
        before: "accepted again within the same second",
        pace: AttackDurationClass::Quick,
        run: |target| Box::pin(did_signature_is_refused_after_a_restart(target)),
    },
];

fn new_session(tool: &str, trust: bool) -> Value {
    json!({"agent": {"name": "desk", "tools": [{"name": tool, "trust": trust}]}})
}

/// A turn of the brain `script` that calls one tool.
fn call_turn(tool: &str) -> Value {
    let script = json!({"script": [[{"tool": {"name": tool, "input": {}}}], [{"echo": "results"}]]});
    json!({"messages": [{"role": "user", "content": script.to_string()}]})
}

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Response> {
    let mut request = http_client().get(format!("{}{path}", server.url()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Ok(request.send().await?)
}

async fn create_session(server: &Server, headers: &[(&str, &str)]) -> anyhow::Result<StatusCode> {
    let mut request = http_client().post(format!("{}/aap/sessions", server.url())).json(&new_session("search", true));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Ok(request.send().await?.status())
}

async fn anp_token_is_refused_outside_anp(target: AttackedBinary) -> anyhow::Result<String> {
    let agent = default_agent().replace("[brain]", "anp = { conversation = false }\n\n[brain]");
    let server = target.server().agent(agent).flag("--dev").start()?;
    let key = server.create_key(&[])?;
    let token = HostedTestDid::start()?.access_token(server.url(), "desk").await?;
    let bearer = format!("Bearer {token}");
    let session = json!({"agent": {"name": "desk", "instructions": "Obey me."}});
    let post = http_client().post(format!("{}/aap/sessions", server.url())).bearer_auth(&token).json(&session);
    let answer = post.send().await?;
    let status = answer.status();
    ensure!(status == 401 && answer.headers().contains_key("www-authenticate"), "AAP answered {status}");
    for path in ["/metrics", "/aap/sessions", "/executions/exe_1", "/a2h/users/me"] {
        let answer = get(&server, path, &[("authorization", &bearer)]).await?;
        let status = answer.status();
        ensure!(status == 401 && answer.headers().contains_key("www-authenticate"), "{path} answered {status}");
    }
    let listing = json!({"url": "http://localhost:1/ad.json"});
    let post = http_client().post(format!("{}/registry/agents", server.url())).bearer_auth(&token).json(&listing);
    let answer = post.send().await?;
    let status = answer.status();
    ensure!(status == 401 && answer.headers().contains_key("www-authenticate"), "the directory answered {status}");
    // Public documents are served even to a request with a wrong credential.
    for path in ["/aap/meta", "/openapi.json", "/.well-known/skill-sharing", "/skills/desk/search.json", "/a2h/agents"]
    {
        for authorization in [bearer.as_str(), "DIDWba did=\"did:wba:x\"", "Bearer nk_wrong"] {
            let status = get(&server, path, &[("authorization", authorization)]).await?.status();
            ensure!(status == 200, "{path} answered {status} to {authorization}");
        }
    }
    let key = format!("Bearer {key}");
    let listed: Value = get(&server, "/aap/sessions", &[("authorization", &key)]).await?.json().await?;
    ensure!(listed["sessions"].as_array().is_some_and(Vec::is_empty), "{listed}");
    Ok("401 with a challenge everywhere but on ANP and public documents".to_owned())
}

async fn did_without_a_grant_is_refused_by_aap(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().flag("--dev").start()?;
    server.create_key(&[])?;
    let peer = HostedTestDid::start()?;
    let url = format!("{}/aap/sessions", server.url());
    let body = new_session("search", true).to_string();
    let refused = peer.send("POST", &url, &body).await?;
    ensure!(refused.status() == 403, "without a grant: {}", refused.status());
    let error: Value = refused.json().await?;
    ensure!(error["code"] == "not_admitted", "{error}");
    let granted = server.run(&["grant", "create", peer.did(), "desk", "rooms:read"])?;
    ensure!(granted.status == Some(0), "{granted:?}");
    let status = peer.send("POST", &url, &body).await?.status();
    ensure!(status == 201, "with a grant and a signature: {status}");
    Ok("403 not_admitted without a grant, 201 with one and a signature".to_owned())
}

async fn trust_of_a_did_does_not_replace_the_approver(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().flag("--dev").start()?;
    server.create_key(&[])?;
    let peer = HostedTestDid::start()?;
    let granted = server.run(&["grant", "create", peer.did(), "desk", "booking:write"])?;
    ensure!(granted.status == Some(0), "{granted:?}");
    let sessions = format!("{}/aap/sessions", server.url());
    let made: Value = peer.send("POST", &sessions, &new_session("book", true).to_string()).await?.json().await?;
    let session = made["sessionId"].as_str().with_context(|| made.to_string())?;
    let turns = format!("{sessions}/{session}/turns");
    let body = call_turn("book").to_string();
    let turn = tokio::spawn(async move { peer.send("POST", &turns, &body).await });
    let waiting = waiting_approval(&server).await?;
    let denied = server.run(&["approve", "deny", &waiting])?;
    ensure!(denied.status == Some(0), "{denied:?}");
    let answer = turn.await??.text().await?;
    ensure!(answer.contains("denied") && !answer.contains("booked"), "{answer}");
    Ok("waits for an operator, whose no counts".to_owned())
}

async fn waiting_approval(server: &Server) -> anyhow::Result<String> {
    poll("an approval that waits", async || {
        let listed = server.run(&["--json", "approve", "list"]).ok()?.json().ok()?;
        Some(listed["approvals"].get(0)?["id"].as_str()?.to_owned())
    })
    .await
}

async fn hidden_tool_under_a_high_scope_asks_the_operators(target: AttackedBinary) -> anyhow::Result<String> {
    let hidden = default_agent().replace(
        "run = { answer = \"booked\" }\nskill = { type = \"task\", access = \"restricted\", auth = \"api_key\" }",
        "run = { answer = \"booked\" }\nexpose = false",
    );
    let server = target.server().agent(hidden).start()?;
    let sessions = format!("{}/aap/sessions", server.url());
    let body = json!({"agent": {"name": "desk"}});
    let made: Value = http_client().post(&sessions).json(&body).send().await?.json().await?;
    let session = made["sessionId"].as_str().with_context(|| made.to_string())?;
    let turn = http_client().post(format!("{sessions}/{session}/turns")).json(&call_turn("book")).send();
    let turn = tokio::spawn(turn);
    let waiting = waiting_approval(&server).await?;
    let denied = server.run(&["approve", "deny", &waiting])?;
    ensure!(denied.status == Some(0), "{denied:?}");
    let answer = turn.await??.text().await?;
    ensure!(!answer.contains("booked"), "{answer}");
    Ok("the operators are asked".to_owned())
}

async fn high_tool_is_published_as_authorized_over_anp(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let description: Value = get(&server, "/agents/desk/ad.json", &[]).await?.json().await?;
    let interfaces = description["interfaces"].as_array().context("no interfaces")?;
    let authorized =
        interfaces.iter().find(|it| it["url"].as_str().is_some_and(|url| url.ends_with("authorized.json")));
    ensure!(authorized.is_some_and(|it| it["humanAuthorization"] == true), "{description}");
    for (file, has) in [("tools", false), ("authorized", true)] {
        let path = format!("/agents/desk/interfaces/{file}.json");
        let document: Value = get(&server, &path, &[]).await?.json().await?;
        let methods = document["methods"].as_array().context("no methods")?;
        ensure!(methods.iter().any(|method| method["name"] == "book") == has, "{file}.json: {document}");
    }
    Ok("in authorized.json, humanAuthorization: true".to_owned())
}

async fn metrics_need_an_operators_key(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let status = get(&server, "/metrics", &[]).await?.status();
    ensure!(status == 200, "local, while no keys exist: {status}");
    for (flags, expected) in [
        (&["--name", "app"][..], 401),
        (&["--name", "operator", "--operator"], 200),
        (&["--name", "scraper", "--scope", "metrics:read"], 200),
        (&["--name", "other", "--scope", "rooms:read"], 401),
    ] {
        let key = format!("Bearer {}", server.create_key(flags)?);
        let status = get(&server, "/metrics", &[("authorization", &key)]).await?.status();
        ensure!(status == expected, "{flags:?}: {status}");
    }
    Ok("401 for an app's key; an operator's key and metrics:read open it".to_owned())
}

async fn wrong_credential_is_refused_on_an_open_server(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let jwt = "Bearer eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhZGEifQ.c2ln";
    let time = "1794740400";
    for headers in [
        &[("authorization", "Bearer nk_wrong")][..],
        &[("authorization", "Bearer hsk_wrong")],
        &[("authorization", jwt)],
        &[("x-api-key", "nk_wrong")],
        &[("signature-input", "sig1=(\"@method\")"), ("signature", "sig1=:AAAA:")],
        &[("x-signature", "v1=00"), ("x-signature-timestamp", time), ("x-signature-nonce", "12345678")],
    ] {
        let status = create_session(&server, headers).await?;
        ensure!(status == 401, "{headers:?}: {status}");
        let mut invoke = http_client().post(format!("{}/skills/desk/search/invoke", server.url()));
        for (name, value) in headers {
            invoke = invoke.header(*name, *value);
        }
        let status = invoke.json(&json!({"skill_id": "desk/search", "inputs": {}})).send().await?.status();
        ensure!(status == 401, "the skill, {headers:?}: {status}");
    }
    for headers in [&[("authorization", "Bearer anything")][..], &[("x-api-key", "none")], &[]] {
        let status = create_session(&server, headers).await?;
        ensure!(status == 201, "{headers:?}: {status}");
    }
    Ok("401; text that looks like no credential counts as none".to_owned())
}

async fn forwarded_request_does_not_count_as_local(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    for header in [("forwarded", "for=203.0.113.9"), ("x-forwarded-for", "127.0.0.1"), ("via", "1.1 proxy")] {
        for headers in [&[header][..], &[header, ("host", "agents.example")]] {
            let status = create_session(&server, headers).await?;
            ensure!(status == 403, "{headers:?}: {status}");
            for path in ["/healthz", "/aap/meta", "/agents/desk/ad.json"] {
                let status = get(&server, path, headers).await?.status();
                ensure!(status == 200, "{path} {headers:?}: {status}");
            }
        }
    }
    let key = format!("Bearer {}", server.create_key(&[])?);
    let status = create_session(&server, &[("x-forwarded-for", "203.0.113.9"), ("authorization", &key)]).await?;
    ensure!(status == 201, "with a key: {status}");
    Ok("403 that names `nuncio key create`; with a key 201".to_owned())
}

async fn cross_site_navigation_runs_no_tool(target: AttackedBinary) -> anyhow::Result<String> {
    let agent = default_agent().replace(
        "skill = { type = \"task\", access = \"public\", auth = \"none\" }",
        "skill = { type = \"task\", access = \"public\", auth = \"none\", method = \"GET\" }",
    );
    let server = target.server().agent(agent).start()?;
    let invoke = "/skills/desk/search/invoke";
    for (site, mode, dest) in [
        ("cross-site", "navigate", "document"),
        ("cross-site", "navigate", "iframe"),
        ("same-site", "navigate", "document"),
        ("cross-site", "no-cors", "image"),
    ] {
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
        let status = get(&server, invoke, &headers).await?.status();
        ensure!(status == 403, "{headers:?}: {status}");
    }
    let status = get(&server, invoke, &[("origin", "http://localhost:1")]).await?.status();
    ensure!(status == 403, "another port's page: {status}");
    for path in ["/", "/agents/desk/ad.json", "/openapi.json"] {
        let headers = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        let status = get(&server, path, &headers).await?.status();
        ensure!(status == 200, "a link to {path}: {status}");
    }
    for headers in [&[][..], &[("sec-fetch-site", "none")], &[("sec-fetch-site", "same-origin"), ("origin", "null")]] {
        let status = get(&server, invoke, headers).await?.status();
        ensure!(status.is_success(), "{headers:?}: {status}");
    }
    Ok("403; pages and public documents may be linked to".to_owned())
}

async fn console_cookie_counts_only_for_its_own_pages(target: AttackedBinary) -> anyhow::Result<String> {
    let server = target.server().start()?;
    let key = server.create_key(&["--scope", "console:tasks"])?;
    // A cross-site request is also detected by `Origin` alone, and over HTTP/2, which has no `Host` header.
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let client = client.http2_prior_knowledge().build()?;
    let form = client.post(format!("{}/console/sign-in", server.url())).header("origin", server.url());
    let form = form.header("content-type", "application/x-www-form-urlencoded").body(format!("key={key}"));
    let answer = form.send().await?;
    let cookie = answer.headers().get("set-cookie").and_then(|cookie| cookie.to_str().ok()?.split(';').next());
    let cookie = cookie.with_context(|| format!("not signed in over HTTP/2: {}", answer.status()))?;
    let ask = client.get(format!("{}/console/state", server.url())).header("cookie", cookie);
    let status = ask.header("origin", server.url()).send().await?.status();
    ensure!(status == 200, "its own page over HTTP/2: {status}");
    let own = ("sec-fetch-site", "same-origin");
    let form = http_client().post(format!("{}/console/sign-in", server.url())).header(own.0, own.1);
    let form = form.header("content-type", "application/x-www-form-urlencoded").body(format!("key={key}"));
    let answer = form.send().await?;
    let cookie = answer.headers().get("set-cookie").and_then(|cookie| cookie.to_str().ok()?.split(';').next());
    let cookie = ("cookie", cookie.with_context(|| format!("not signed in: {}", answer.status()))?);
    let foreign = ("origin", "http://localhost:1");
    for (headers, expected) in [
        (&[cookie, own][..], 200),
        (&[cookie], 401),
        (&[cookie, foreign], 401),
        (&[cookie, ("sec-fetch-site", "cross-site")], 401),
        (&[cookie, ("sec-fetch-site", "same-site")], 401),
        (&[cookie, own, foreign], 200),
    ] {
        let status = get(&server, "/console/state", headers).await?.status();
        ensure!(status == expected, "{headers:?}: {status}");
    }
    Ok("401 from other sites and from what is no browser".to_owned())
}

/// HMAC-SHA256 (RFC 2104) in hex, with a key of at most 64 bytes.
fn hmac(key: &str, message: &str) -> String {
    let padded = |pad: u8| -> Vec<u8> {
        let bytes = key.bytes().chain(std::iter::repeat(0)).take(64);
        bytes.map(|byte| byte ^ pad).collect()
    };
    let inner = Digest::of_bytes(&[padded(0x36), message.as_bytes().to_vec()].concat());
    Digest::of_bytes(&[padded(0x5c), inner.as_bytes().to_vec()].concat()).to_string()
}

async fn signature_of_a_get_does_not_fit_another_target(target: AttackedBinary) -> anyhow::Result<String> {
    let agent = default_agent().replace(
        "skill = { type = \"task\", access = \"public\", auth = \"none\" }",
        "skill = { type = \"task\", access = \"public\", auth = \"custom\", method = \"GET\" }",
    );
    let server = target.server().agent(agent).start()?;
    let key = server.create_key(&["--signing"])?;
    let time = (now().as_millis() / 1000).to_string();
    let send = async |path: &str, nonce: &str, signature: String| {
        let headers =
            [("x-signature", signature.as_str()), ("x-signature-timestamp", &time), ("x-signature-nonce", nonce)];
        let answer = get(&server, path, &headers).await?;
        anyhow::Ok((answer.status(), answer.text().await?))
    };
    let (path, other) = ("/skills/desk/search/invoke?a=1", "/skills/desk/search/invoke?a=2");
    let (status, text) = send(path, "nonce-01", format!("v1={}", hmac(&key, &format!("{time}.nonce-01.")))).await?;
    ensure!(status == 401 && text.contains("v2"), "version 1: {status} {text}");
    let v2 = format!("v2={}", hmac(&key, &format!("{time}\nnonce-02\nGET\n{path}\n")));
    let (status, text) = send(other, "nonce-02", v2.clone()).await?;
    ensure!(status == 401, "another target: {status} {text}");
    let (status, text) = send(path, "nonce-02", v2).await?;
    ensure!(status.is_success(), "its own target: {status} {text}");
    Ok("401 that names v2; a v2 signature opens its own target alone".to_owned())
}

async fn server_without_its_database_or_secret_key_does_not_start(target: AttackedBinary) -> anyhow::Result<String> {
    let mut server = target.server().start()?;
    server.create_key(&[])?;
    server.stop()?;
    for file in ["nuncio.db", "secret.key"] {
        let (original, moved) = (server.data().join(file), server.data().join("away"));
        std::fs::rename(&original, &moved)?;
        let refused = match server.start() {
            Ok(()) => anyhow::bail!("it started without {file}"),
            Err(error) => error.to_string(),
        };
        ensure!(refused.contains("data_dir_incomplete") && refused.contains("backup"), "{refused}");
        ensure!(!original.exists(), "{file} was made anew");
        std::fs::rename(&moved, &original)?;
    }
    server.start()?;
    let status = create_session(&server, &[]).await?;
    ensure!(status == 401, "with both files back: {status}");
    Ok("refuses to start and names the way out".to_owned())
}

async fn did_signature_is_refused_after_a_restart(target: AttackedBinary) -> anyhow::Result<String> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let listen = format!("localhost:{port}");
    let mut server = target.server().flag("--dev").flag("--listen").flag(listen).start()?;
    server.create_key(&[])?;
    let peer = HostedTestDid::start()?;
    let url = format!("{}/agents/desk/rpc", server.url());
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "no_such_method", "params": {}}).to_string();
    let fields = peer.sign("POST", &url, &body)?;
    let send = async || {
        let mut request = http_client().post(&url).header("content-type", "application/json").body(body.clone());
        for (name, value) in &fields {
            request = request.header(name, value);
        }
        anyhow::Ok(request.send().await?.status())
    };
    let status = send().await?;
    ensure!(status == 200, "the first time: {status}");
    server.kill();
    server.start()?;
    let status = send().await?;
    ensure!(status == 401, "after a restart: {status}");
    Ok("401: the nonce is on disk".to_owned())
}
