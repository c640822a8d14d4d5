//! `nuncio invoke`: calls a remote skill or agent.

use std::io::{BufRead as _, IsTerminal as _};
use std::sync::Arc;

use anstream::println;
use nuncio_skill::client::oauth::Login;
use nuncio_skill::client::{
    Consumer, Credential, Execution, ResolvedSkill, Secret, SkillCall, SkillTarget, check_inputs,
};
use nuncio_skill::wire::{AuthType, InvocationContext};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{consumer, for_discovery};
use crate::cli::{CallerCredentials, Invoke};
use crate::output::WrongUsage;

mod agent;
mod browser;
mod inputs;
mod message;
mod progress;

use progress::ProgressLine;

/// Invokes a skill or an agent and prints the result.
pub(crate) async fn run(options: Invoke, json: bool) -> anyhow::Result<()> {
    if let Some(text) = &options.say {
        return message::run(&options, text, json).await;
    }
    if let Some(id) = &options.answer_to {
        return message::wait(&options, id, json).await;
    }
    if agent::is_meant(&options) {
        return agent::run(&options, json).await;
    }
    let target = SkillTarget::parse(&options.target)?;
    let line = Arc::new(ProgressLine::new(json));
    let consumer = consumer(&options.reach, ProgressLine::watcher(&line))?;
    let proof = &options.proof;
    let opens = for_discovery(proof.api_key.as_ref(), proof.token.as_ref());
    let described = tokio::select! {
        described = consumer.describe(&target, &opens) => described?,
        () = interrupted() => anyhow::bail!("interrupted; nothing was invoked"),
    };
    one_method(&described, options.method.as_deref())?;
    let context = InvocationContext {
        trace_id: options.trace_id.clone(),
        priority: options.priority,
        timeout_ms: options.timeout_ms.map(Into::into),
        ..InvocationContext::default()
    };
    let call = SkillCall {
        inputs: inputs::read(&described.descriptor, &options.inputs)?,
        credential: pick(proof, described.descriptor.auth.r#type),
        credential_for: proof.credential_for.clone(),
        context,
        idempotency_key: options.idempotency_key.clone(),
        traceparent: None,
        at_once: options.no_wait,
    };
    let mut execution = tokio::select! {
        execution = submit(&consumer, &described, &call, proof) => execution?,
        () = interrupted() => anyhow::bail!("interrupted before the provider confirmed the invocation"),
    };
    if options.no_wait {
        line.clear();
        accepted(&execution, json);
        return Ok(());
    }
    let outcome = tokio::select! {
        outcome = consumer.follow(&mut execution) => Some(outcome),
        () = interrupted() => None,
    };
    line.clear();
    let Some(outcome) = outcome else { return stop(&consumer, &execution, json).await };
    result(&execution, &outcome?, json);
    Ok(())
}

async fn submit(
    consumer: &Consumer,
    described: &ResolvedSkill,
    call: &SkillCall,
    proof: &CallerCredentials,
) -> Result<Execution, nuncio_skill::client::ConsumerError> {
    // Nobody logs in for inputs that do not fit; that they do not is said by the consumer.
    let fits = || check_inputs(&described.descriptor, &call.inputs).is_ok();
    if let Some(client_id) = proof.client_id.clone().filter(|_| proof.login && fits()) {
        let client_secret = proof.client_secret.as_deref().map(Secret::new);
        consumer.login(described, &Login { client_id, client_secret, scopes: proof.scopes.clone() }).await?;
    }
    consumer.submit(described, call).await
}

/// Refuses `--method` for a skill unless it names the skill's only method.
fn one_method(described: &ResolvedSkill, said: Option<&str>) -> anyhow::Result<()> {
    let own = described.descriptor.endpoint.method.as_str();
    match said {
        Some(said) if !said.eq_ignore_ascii_case(own) => {
            let id = clean(&described.descriptor.id).into_owned();
            Err(WrongUsage(format!("{id} has one method, {own}; leave {said:?} out")).into())
        }
        _ => Ok(()),
    }
}

/// Selects the credential that the skill requires from flags and environment.
fn pick(proof: &CallerCredentials, wanted: AuthType) -> Credential {
    let api_key = proof.api_key.as_deref().map(|key| Credential::ApiKey(Secret::new(key)));
    let token = proof.token.as_deref().map(|token| Credential::Token(Secret::new(token)));
    let signature = proof.signing_key.as_deref().map(|key| Credential::Signature(Secret::new(key)));
    let client = match (&proof.client_id, &proof.client_secret) {
        (Some(id), Some(secret)) if !proof.login => {
            Some(Credential::Client { id: id.clone(), secret: Secret::new(secret), scopes: proof.scopes.clone() })
        }
        _ => None,
    };
    let (fitting, others) = match wanted {
        AuthType::ApiKey => (api_key, [token, client, signature]),
        AuthType::OAuth2 => (token.or(client), [api_key, signature, None]),
        AuthType::Custom => (signature, [api_key, token, client]),
        AuthType::None => return Credential::None,
    };
    // What does not fit is handed on too, so that the error says that it does not.
    fitting.or_else(|| others.into_iter().flatten().next().filter(|_| !proof.login)).unwrap_or_default()
}

fn accepted(execution: &Execution, json: bool) {
    if json {
        println!("{}", json!({"event": "left", "execution_id": execution.id(), "status_url": execution.status_url()}));
        return;
    }
    println!("{}", clean(execution.id()));
    if let Some(url) = execution.status_url() {
        anstream::eprintln!("{} {}", "status:".dimmed(), clean(url.as_str()));
    }
}

fn result(execution: &Execution, output: &Value, json: bool) {
    if json {
        println!("{}", json!({"event": "result", "execution_id": execution.id(), "output": output}));
        return;
    }
    people(output);
}

fn people(output: &Value) {
    let text = match output {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    if std::io::stdout().is_terminal() {
        println!("{}", clean(&text));
    } else {
        std::println!("{text}");
    }
}

/// Handles Ctrl-C during a remote execution: asks whether to cancel the execution too.
async fn stop(consumer: &Consumer, execution: &Execution, json: bool) -> anyhow::Result<()> {
    let place = execution.status_url().map(|url| clean(url.as_str()).into_owned()).unwrap_or_default();
    let somebody_is_there = !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if somebody_is_there && asked_to_cancel(execution.id()).await {
        consumer.cancel(execution).await?;
        anyhow::bail!("cancelled at the provider too: {}", clean(execution.id()));
    }
    anyhow::bail!(
        "interrupted; {} continues at the provider. Cancel it with: curl -X DELETE {place}",
        clean(execution.id())
    )
}

async fn asked_to_cancel(id: &str) -> bool {
    anstream::eprint!("\n{} continues at the provider. Cancel it there too? [y/N] ", clean(id));
    let (send, answer) = tokio::sync::oneshot::channel();
    // A thread of its own: a read from a terminal cannot be given up.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = send.send(read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes"));
    });
    tokio::select! {
        answer = answer => answer.unwrap_or(false),
        () = interrupted() => false,
    }
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
