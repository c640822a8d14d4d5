//! `nuncio negotiate`: which interface of an agent to use for something, and why.

use anstream::println;
use nuncio_anp::client::{Agreement, Decided, Described, Target, Wish};
use nuncio_anp::wire::{Alternative, Score};
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::chat::clean::clean;
use super::consumer::{note, wrapped};
use super::peer::client;
use crate::cli::Negotiate;

/// Negotiates and prints the choice.
pub(crate) async fn run(options: &Negotiate, json: bool) -> anyhow::Result<()> {
    let target = Target::parse(&options.target)?;
    let client = client(&options.reach, options.token.as_ref())?;
    let agent = client.describe(&target).await?;
    let wish = Wish {
        intent: options.intent.clone(),
        tags: options.tags.clone(),
        required: options.required.clone(),
        security: options.security,
        max_latency_ms: options.max_latency_ms,
        calls_only: options.calls_only,
        ..Wish::default()
    };
    let agreement = client.negotiate(&agent, &wish).await?;
    if json {
        let by = match &agreement.decided {
            Decided::There(runtime) => json!({"endpoint": runtime.endpoint, "capabilities": runtime.capabilities}),
            Decided::Here { why } => json!({"here": why}),
        };
        let told = json!({
            "agent": agent.url, "did": agent.did().map(ToString::to_string), "result": agreement.result,
            "decided": by, "checks": agent.checks, "notes": agreement.notes,
        });
        println!("{told}");
        return Ok(());
    }
    people(&agent, &agreement);
    Ok(())
}

fn people(agent: &Described, agreement: &Agreement) {
    agent.notes.iter().chain(&agreement.notes).for_each(|odd| note(odd));
    let result = &agreement.result;
    println!("{}", clean(&agent.description.name).bold());
    if let Some(selected) = &result.selected {
        println!("\n{}", "Use".bold());
        fact("capability", selected.capability.as_deref());
        fact("interface", selected.interface.as_deref());
        let profile = selected.profile.as_ref().map(|profile| format!(" ({profile})")).unwrap_or_default();
        fact("speaks", selected.protocol.as_ref().map(|protocol| format!("{protocol}{profile}")).as_deref());
        fact("protected", selected.security_profile.as_deref());
        fact("content", selected.content_type.as_deref());
        fact("at", selected.url.as_deref());
    }
    if let Some(execution) = &result.execution {
        let limit = execution.timeout_ms.map(|limit| format!(", at most {limit} ms")).unwrap_or_default();
        fact("how", Some(&format!("{}{limit}", execution.mode.replace('_', " "))));
        if execution.requires_human_authorization == Some(true) {
            fact("and", Some("a person there must agree to each call"));
        }
    }
    if let Some(why) = result.score.as_ref().map(points) {
        fact("because", Some(&why));
    }
    fact("until", result.valid_until.as_deref());
    if !result.alternatives.is_empty() {
        println!("\n{}", "Instead of".bold());
        result.alternatives.iter().for_each(other);
    }
    println!("\n{} {}", "negotiation".dimmed(), clean(&result.negotiation_id).dimmed());
    if let Some(digest) = &result.negotiation_digest {
        println!("{} {}", "digest".dimmed(), clean(digest).dimmed());
    }
}

fn other(other: &Alternative) {
    let id = other.interface.as_deref().unwrap_or("?");
    println!("  {}  {}", clean(id), clean(other.capability.as_deref().unwrap_or_default()).dimmed());
    let mut why = other.reason.clone().unwrap_or_else(|| "it does not say why".to_owned());
    if let Some(score) = &other.score {
        why.push_str(&format!(" ({} points)", score.total));
    }
    println!("{}", wrapped(&why, "    ").dimmed());
}

/// Points in words: what they are made of.
fn points(score: &Score) -> String {
    let by = match score.intent_by.as_str() {
        "tags" => "by its tags",
        "words" => "by its words",
        _ => "by nothing in particular",
    };
    let mut parts = vec![format!("intent {} {by}", score.intent)];
    for (name, points) in
        [("interface type", score.interface_type), ("content type", score.content_type), ("latency", score.latency)]
    {
        if points > 0 {
            parts.push(format!("{name} {points}"));
        }
    }
    format!("{} points: {}", score.total, parts.join(", "))
}

fn fact(name: &str, value: Option<&str>) {
    if let Some(value) = value {
        println!("  {:<12}{}", name.dimmed(), clean(value));
    }
}
