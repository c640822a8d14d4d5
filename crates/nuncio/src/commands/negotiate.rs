//! `nuncio negotiate`: which interface of an agent to use for an intent, and why.

use anstream::println;
use nuncio_anp::client::{
    AgentTarget, ChosenBy, NegotiationAgreement, NegotiationRequest, ProtocolDraftDecision, VerifiedAgentDescription,
};
use nuncio_anp::wire::{Alternative, NegotiationResult, Score};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{print_note, wrapped};
use super::peer::client;
use crate::cli::NegotiateArguments;
use crate::output::{WrongUsageError, cell};

pub(crate) async fn run(options: &NegotiateArguments, json: bool) -> anyhow::Result<()> {
    let target = AgentTarget::parse(&options.target)?;
    let client = client(&options.outbound, options.key.bearer(), &options.signer, &options.verification).await?;
    let agent = client.describe(&target).await?;
    let request = NegotiationRequest {
        intent: options.intent.clone().or_else(|| options.digest.as_ref().map(|_| "decide on a draft".to_owned())),
        tags: options.tags.clone(),
        required: options.required.clone(),
        security: options.security,
        max_latency_ms: options.max_latency_ms,
        calls_only: options.calls_only,
        draft: options.draft,
        draft_decision: draft_decision(options)?,
        ..NegotiationRequest::default()
    };
    let agreement = client.negotiate(&agent, &request).await?;
    if json {
        let decided = match &agreement.decided {
            ChosenBy::Agent(runtime) => json!({"endpoint": runtime.endpoint, "capabilities": runtime.capabilities}),
            ChosenBy::Client { why } => json!({"here": why}),
        };
        let output = json!({
            "agent": agent.url, "did": agent.did().map(ToString::to_string), "result": agreement.result,
            "decided": decided, "checks": agent.checks, "notes": agreement.notes,
        });
        println!("{output}");
        return Ok(());
    }
    print_agreement(&agent, &agreement);
    Ok(())
}

fn draft_decision(options: &NegotiateArguments) -> anyhow::Result<Option<ProtocolDraftDecision>> {
    let decision = |protocol: &String, accepts| match &options.digest {
        Some(digest) => Ok(ProtocolDraftDecision { protocol: protocol.clone(), digest: digest.clone(), accepts }),
        None => Err(WrongUsageError("give the draft's digest with --digest, as it was shown".to_owned())),
    };
    Ok(match (&options.accept, &options.reject) {
        (Some(protocol), _) => Some(decision(protocol, true)?),
        (None, Some(protocol)) => Some(decision(protocol, false)?),
        (None, None) => None,
    })
}

fn print_agreement(agent: &VerifiedAgentDescription, agreement: &NegotiationAgreement) {
    agent.notes.iter().chain(&agreement.notes).for_each(|text| print_note(text));
    let result = &agreement.result;
    println!("{}", clean(&agent.description.name).bold());
    if let Some(selected) = &result.selected {
        println!("\n{}", "Use".bold());
        print_fact("capability", selected.capability.as_deref());
        print_fact("interface", selected.interface.as_deref());
        let profile = selected.profile.as_ref().map(|profile| format!(" ({profile})")).unwrap_or_default();
        print_fact("speaks", selected.protocol.as_ref().map(|protocol| format!("{protocol}{profile}")).as_deref());
        print_fact("protected", selected.security_profile.as_deref());
        print_fact("content", selected.content_type.as_deref());
        print_fact("at", selected.url.as_deref());
    }
    print_draft(result);
    if let Some(execution) = &result.execution {
        let limit = execution.timeout_ms.map(|limit| format!(", at most {limit} ms")).unwrap_or_default();
        print_fact("how", Some(&format!("{}{limit}", execution.mode.replace('_', " "))));
        if execution.requires_human_authorization == Some(true) {
            print_fact("and", Some("a person of that agent must approve each call"));
        }
    }
    if let Some(why) = result.score.as_ref().map(describe_score) {
        print_fact("because", Some(&why));
    }
    print_fact("until", result.valid_until.as_deref());
    if !result.alternatives.is_empty() {
        println!("\n{}", "Instead of".bold());
        result.alternatives.iter().for_each(print_alternative);
    }
    println!("\n{} {}", "negotiation".dimmed(), clean(&result.negotiation_id).dimmed());
    if let Some(digest) = &result.negotiation_digest {
        println!("{} {}", "digest".dimmed(), clean(digest).dimmed());
    }
}

/// Prints a drafted protocol and the next command.
fn print_draft(result: &NegotiationResult) {
    let state = result.extra.get("protocolDraft");
    let field = |name: &str| state.and_then(|state| state.get(name)).map(cell);
    if let Some(stage) = field("state") {
        println!("\n{} {}", "A protocol was drafted:".bold(), clean(&stage.replace('_', " ")));
    }
    let artifact = result.selected.as_ref().and_then(|selected| selected.protocol_artifact.as_ref());
    for method in artifact.and_then(|artifact| artifact["methods"].as_array()).into_iter().flatten() {
        println!("  {}", clean(&cell(&method["name"])).bold());
        println!("{}", wrapped(&cell(&method["description"]), "    "));
        println!("    {} {}", "takes".dimmed(), clean(&method["request_schema"].to_string()));
        println!("    {} {}", "answers".dimmed(), clean(&method["response_schema"].to_string()));
    }
    let (id, digest) = (field("protocolId").unwrap_or_default(), field("digest").unwrap_or_default());
    match state.map(|state| (&state["acceptedByCaller"], &state["acceptedByAgent"])) {
        Some((Value::Bool(false), _)) if artifact.is_some() => {
            println!("  {} --accept {} --digest {}", "to accept it:".dimmed(), clean(&id), clean(&digest));
        }
        Some((Value::Bool(true), Value::Bool(false))) => {
            println!("  {}", "you accepted it; the other side has not accepted it yet".dimmed());
        }
        Some((Value::Bool(true), Value::Bool(true))) => {
            println!(
                "  {} its method for natural language, with call = {{protocol_id, digest, method, params}}",
                "use it by".dimmed()
            );
        }
        _ => {}
    }
}

fn print_alternative(other: &Alternative) {
    let id = other.interface.as_deref().unwrap_or("?");
    println!("  {}  {}", clean(id), clean(other.capability.as_deref().unwrap_or_default()).dimmed());
    let mut why = other.reason.clone().unwrap_or_else(|| "no reason was given".to_owned());
    if let Some(score) = &other.score {
        why.push_str(&format!(" ({} points)", score.total));
    }
    println!("{}", wrapped(&why, "    ").dimmed());
}

/// The parts of a score as text.
fn describe_score(score: &Score) -> String {
    let matched = match score.intent_by.as_str() {
        "tags" => "by its tags",
        "words" => "by its words",
        _ => "by neither tags nor words",
    };
    let mut parts = vec![format!("intent {} {matched}", score.intent)];
    for (name, points) in
        [("interface type", score.interface_type), ("content type", score.content_type), ("latency", score.latency)]
    {
        if points > 0 {
            parts.push(format!("{name} {points}"));
        }
    }
    format!("{} points: {}", score.total, parts.join(", "))
}

fn print_fact(name: &str, value: Option<&str>) {
    if let Some(value) = value {
        println!("  {:<12}{}", name.dimmed(), clean(value));
    }
}
