//! `nuncio invoke`: calls a remote skill or agent.

use std::io::IsTerminal as _;
use std::sync::Arc;

use anstream::println;
use nuncio_skill::client::oauth::OAuthLoginOptions;
use nuncio_skill::client::{
    RemoteExecution, ResolvedSkill, SecretString, SkillCall, SkillConsumer, SkillInvocationCredential, SkillTarget,
    check_inputs,
};
use nuncio_skill::wire::{AuthType, InvocationContext};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::confirm::confirm;
use super::consumer::{consumer, read_credential};
use crate::cli::{CallerCredentials, InvokeArguments, given};
use crate::output::{print_unchanged, wrong_usage};

mod agent;
mod inputs;
mod message;
mod progress;

use progress::ProgressLine;

pub(crate) async fn run(options: InvokeArguments, json: bool) -> anyhow::Result<()> {
    if let Some(text) = &options.say {
        return message::run(&options, text, json).await;
    }
    if let Some(id) = &options.answer_to {
        return message::wait(&options, id, json).await;
    }
    if agent::is_agent_call(&options) {
        return agent::run(&options, json).await;
    }
    let target = SkillTarget::parse(&options.target)?;
    let line = Arc::new(ProgressLine::new(json));
    let consumer = consumer(&options.outbound, ProgressLine::watcher(&line))?;
    let credentials = &options.credentials;
    let signing_key = read_signing_key(credentials)?;
    let read_credential = read_credential(&credentials.key);
    let described = tokio::select! {
        described = consumer.describe(&target, &read_credential) => described?,
        () = interrupted() => anyhow::bail!("interrupted; nothing was invoked"),
    };
    check_method(&described, options.method.as_deref())?;
    let context = InvocationContext {
        trace_id: options.trace_id.clone(),
        priority: options.priority,
        timeout_ms: options.timeout_ms.map(Into::into),
        ..InvocationContext::default()
    };
    let call = SkillCall {
        inputs: inputs::read(&described.descriptor, &options.inputs)?,
        credential: select_credential(credentials, signing_key, described.descriptor.auth.r#type),
        credential_for: credentials.credential_for.clone(),
        context,
        idempotency_key: options.idempotency_key.clone(),
        traceparent: None,
        at_once: options.no_wait,
    };
    let mut execution = tokio::select! {
        execution = submit(&consumer, &described, &call, credentials) => execution?,
        () = interrupted() => anyhow::bail!("interrupted before the provider confirmed the invocation"),
    };
    if options.no_wait {
        line.clear();
        print_accepted(&execution, json);
        return Ok(());
    }
    let outcome = tokio::select! {
        outcome = consumer.follow(&mut execution) => Some(outcome),
        () = interrupted() => None,
    };
    line.clear();
    let Some(outcome) = outcome else { return stop(&consumer, &execution, json).await };
    print_result(&execution, &outcome?, json)
}

async fn submit(
    consumer: &SkillConsumer,
    described: &ResolvedSkill,
    call: &SkillCall,
    credentials: &CallerCredentials,
) -> Result<RemoteExecution, nuncio_skill::client::SkillConsumerError> {
    // Invalid inputs cause no login; the consumer reports them.
    let fits = || check_inputs(&described.descriptor, &call.inputs).is_ok();
    if let Some(client_id) = credentials.client_id.clone().filter(|_| credentials.login && fits()) {
        let client_secret = credentials.client_secret.as_deref().map(SecretString::new);
        consumer
            .login(described, &OAuthLoginOptions { client_id, client_secret, scopes: credentials.scopes.clone() })
            .await?;
    }
    consumer.submit(described, call).await
}

/// Refuses a method argument for a skill unless it names the skill's only method.
fn check_method(described: &ResolvedSkill, given: Option<&str>) -> anyhow::Result<()> {
    let own = described.descriptor.endpoint.method.as_str();
    match given {
        Some(given) if !given.eq_ignore_ascii_case(own) => {
            let id = clean(&described.descriptor.id).into_owned();
            Err(wrong_usage(format!("{id} has one method, {own}; leave {given:?} out")))
        }
        _ => Ok(()),
    }
}

/// The shared secret for signatures: from the named file, else from the flag or the environment.
fn read_signing_key(credentials: &CallerCredentials) -> anyhow::Result<Option<String>> {
    let Some(file) = &credentials.signing_key_file else {
        return Ok(given(credentials.signing_key.as_ref()).or_else(|| credentials.key.signing()));
    };
    let unusable = |why: &dyn std::fmt::Display| wrong_usage(format!("--signing-key-file {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unusable(&why))?;
    match text.lines().next().map(str::trim) {
        Some(secret) if !secret.is_empty() => Ok(Some(secret.to_owned())),
        _ => Err(unusable(&"its first line is empty")),
    }
}

/// Selects the credential that the skill requires from flags and environment. If there is none of that kind, one of
/// another kind is selected, except with `--login`, so that the error names the mismatch.
fn select_credential(
    credentials: &CallerCredentials,
    signing_key: Option<String>,
    required: AuthType,
) -> SkillInvocationCredential {
    let api_key = credentials.key.api_key().map(|key| SkillInvocationCredential::ApiKey(SecretString::new(key)));
    let token = credentials.key.token().map(|token| SkillInvocationCredential::Token(SecretString::new(token)));
    let signature = signing_key.map(|key| SkillInvocationCredential::Signature(SecretString::new(key)));
    let client = match (&credentials.client_id, &credentials.client_secret) {
        (Some(id), Some(secret)) if !credentials.login => Some(SkillInvocationCredential::Client {
            id: id.clone(),
            secret: SecretString::new(secret),
            scopes: credentials.scopes.clone(),
        }),
        _ => None,
    };
    let (fitting, others) = match required {
        AuthType::ApiKey => (api_key, [token, client, signature]),
        AuthType::OAuth2 => (token.or(client), [api_key, signature, None]),
        AuthType::Custom => (signature, [api_key, token, client]),
        AuthType::None => return SkillInvocationCredential::None,
    };
    // A credential of another kind is passed on too, so that the error names the mismatch.
    fitting.or_else(|| others.into_iter().flatten().next().filter(|_| !credentials.login)).unwrap_or_default()
}

fn print_accepted(execution: &RemoteExecution, json: bool) {
    if json {
        println!("{}", json!({"event": "left", "execution_id": execution.id(), "status_url": execution.status_url()}));
        return;
    }
    println!("{}", clean(execution.id()));
    if let Some(url) = execution.status_url() {
        anstream::eprintln!("{} {}", "status:".dimmed(), clean(url.as_str()));
    }
}

fn print_result(execution: &RemoteExecution, output: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", json!({"event": "result", "execution_id": execution.id(), "output": output}));
        return Ok(());
    }
    print_output(output)
}

fn print_output(output: &Value) -> anyhow::Result<()> {
    let text = match output {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    if std::io::stdout().is_terminal() {
        println!("{}", clean(&text));
        return Ok(());
    }
    print_unchanged(format!("{text}\n").as_bytes())
}

/// Handles Ctrl-C during a remote execution: asks whether to cancel the execution too.
async fn stop(consumer: &SkillConsumer, execution: &RemoteExecution, json: bool) -> anyhow::Result<()> {
    let id = clean(execution.id());
    let question = format!("\n{id} continues at the provider. Cancel it there too?");
    let cancel = tokio::select! {
        answer = confirm(&question, json) => matches!(answer, Ok(Some(true))),
        () = interrupted() => false,
    };
    if cancel {
        consumer.cancel(execution).await?;
        anyhow::bail!("cancelled at the provider too: {id}");
    }
    let url = execution.status_url().map(|url| clean(url.as_str()).into_owned()).unwrap_or_default();
    anyhow::bail!("interrupted; {id} continues at the provider. Cancel it with: curl -X DELETE {url}")
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
