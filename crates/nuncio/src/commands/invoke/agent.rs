//! Calls an agent over ANP: a named method, or one chosen by negotiation.

use std::time::Duration;

use anstream::{eprintln, println};
use nuncio_anp::client::{
    AgentTarget, DescriptionCheckOutcome, DescriptionClaim, InvocationDelegate, InvocationStep, MethodChoice,
    NegotiationAgreement, NegotiationRequest, RemoteMethod, VerifiedAgentDescription,
};
use nuncio_skill::client::SkillTarget;
use owo_colors::OwoColorize as _;
use serde_json::{Map, Value, json};

use super::inputs::{self, InvocationInputValue};
use super::{interrupted, print_output};
use crate::cli::InvokeArguments;
use crate::commands::chat::clean::clean;
use crate::commands::consumer::print_note;
use crate::commands::peer::{client, is_agent};
use crate::output::wrong_usage;

/// Whether the target is an agent and not a skill, by its form or by the flags.
pub(super) fn is_agent_call(options: &InvokeArguments) -> bool {
    let has_intent = options.intent.is_some() || !options.tags.is_empty();
    let is_host = || matches!(SkillTarget::parse(&options.target), Ok(SkillTarget::Host(_)));
    is_agent(&options.target) || has_intent || options.signer.agent.is_some() || (options.method.is_some() && is_host())
}

pub(super) async fn run(options: &InvokeArguments, json: bool) -> anyhow::Result<()> {
    let choice = method_choice(options)?;
    let target = AgentTarget::parse(&options.target)?;
    let inputs = inputs::parse(&options.inputs)?;
    let client =
        client(&options.outbound, options.credentials.key.bearer(), &options.signer, &options.verification).await?;
    let timeout = options.timeout_ms.map(Duration::from_millis);
    let reporter = InvocationReporter { inputs, json };
    let output = tokio::select! {
        output = client.invoke_with(&target, &choice, &reporter, timeout) => output?,
        () = interrupted() => anyhow::bail!("interrupted; the method may have been called"),
    };
    match json {
        true => println!("{}", json!({"event": "result", "output": output})),
        false => print_output(&output)?,
    }
    Ok(())
}

fn method_choice(options: &InvokeArguments) -> anyhow::Result<MethodChoice> {
    match &options.method {
        Some(method) => Ok(MethodChoice::Method(method.clone())),
        None if options.intent.is_some() || !options.tags.is_empty() => {
            Ok(MethodChoice::Negotiate(NegotiationRequest {
                intent: options.intent.clone(),
                tags: options.tags.clone(),
                calls_only: true,
                ..NegotiationRequest::default()
            }))
        }
        None => {
            let message = "name the method, or describe what you want with --intent; `nuncio show` lists the methods";
            Err(wrong_usage(message))
        }
    }
}

/// Converts the inputs for the chosen method, and prints the steps of an invocation.
struct InvocationReporter {
    inputs: Vec<(String, InvocationInputValue)>,
    json: bool,
}

impl InvocationDelegate for InvocationReporter {
    fn argument_names(&self) -> Vec<&str> {
        self.inputs.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn arguments(&self, method: &RemoteMethod) -> Map<String, Value> {
        inputs::convert(self.inputs.clone(), |name, text| parse_argument(method, name, text))
    }

    fn on_step(&self, step: InvocationStep<'_>) {
        match step {
            InvocationStep::Described(agent) => print_unverified_checks(agent, self.json),
            InvocationStep::Prepared { agent, method, agreement } => {
                if let Some(agreement) = agreement {
                    print_agreement(agreement, method, self.json);
                }
                if !agent.is_on_own_host(&method.server) {
                    warn(&format!("the method is on another host: {}", method.server), self.json);
                }
                if method.asks_a_person {
                    warn("a person of that agent must approve it first", self.json);
                }
            }
            InvocationStep::Outdated(error) => {
                warn(&format!("negotiating again, because {}", error.message), self.json);
            }
        }
    }
}

fn print_agreement(agreement: &NegotiationAgreement, method: &RemoteMethod, json: bool) {
    let NegotiationAgreement { result, notes, reused, .. } = agreement;
    if json {
        println!("{}", json!({"event": "agreed", "result": result, "notes": notes, "reused": reused}));
        return;
    }
    notes.iter().for_each(|text| print_note(text));
    let digest = result.negotiation_digest.as_deref().unwrap_or("no digest");
    let agreed = format!("{} by {} ({digest})", method.name, result.negotiation_id);
    let label = if *reused { "agreed before:" } else { "agreed:" };
    eprintln!("{} {}", label.dimmed(), clean(&agreed));
}

/// Prints the notes on the agent and the checks that could not be made; as JSON, all checks.
fn print_unverified_checks(agent: &VerifiedAgentDescription, json: bool) {
    if json {
        println!("{}", json!({"event": "described", "url": agent.url, "checks": agent.checks, "notes": agent.notes}));
        return;
    }
    agent.notes.iter().for_each(|text| print_note(text));
    for check in agent.checks.iter() {
        // The challenge would prove that a description is recent; this one was just fetched.
        if let DescriptionCheckOutcome::Unverified { why } = &check.outcome
            && check.subject != DescriptionClaim::Challenge
        {
            print_note(&format!("not verified ({}): {why}", check.subject.as_str()));
        }
    }
}

fn warn(message: &str, json: bool) {
    if json {
        println!("{}", json!({"event": "note", "message": message}));
    } else {
        print_note(message);
    }
}

/// Parses an argument given as text: unchanged for a string parameter, as JSON for every other.
fn parse_argument(operation: &RemoteMethod, name: &str, text: &str) -> Option<Value> {
    match operation.type_of(name) {
        Some("string") => None,
        _ => serde_json::from_str(text).ok(),
    }
}
