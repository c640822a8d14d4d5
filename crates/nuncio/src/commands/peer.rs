//! Shared code of the commands that use remote ANP agents.

use std::path::PathBuf;
use std::sync::Arc;

use anstream::println;
use nuncio_anp::client::{
    AgentTarget, AnpClient, AnpClientOptions, DescriptionCheckOutcome, DescriptionCheckResult, LocalDidUrlScheme,
    RemoteMethod, RequestSigner, VerifiedAgentDescription,
};
use nuncio_anp::wire::SecurityReferences;
use nuncio_core::ids::AgentName;
use nuncio_identity::proof::AcceptedProofForms;
use nuncio_server::dids::signer_of;
use nuncio_server::{SystemClock, SystemEntropy};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::chat::clean::clean;
use super::consumer::{fetch_client, print_note, user_folder, wrapped};
use super::operator::parsed;
use crate::cli::{OutboundOptions, SigningAgent, VerificationOptions};
use crate::output::AlreadyReportedError;

/// An ANP client with the user's address limits. The token is sent only to the named host; requests are signed with the
/// key of the agent given by `--as`.
pub(crate) async fn client(
    outbound: &OutboundOptions,
    token: Option<String>,
    signer: &SigningAgent,
    verification: &VerificationOptions,
) -> anyhow::Result<AnpClient> {
    let local = if outbound.dev { LocalDidUrlScheme::Http } else { LocalDidUrlScheme::Https };
    let proof_forms =
        if verification.literal_proof { AcceptedProofForms::WithLiteral } else { AcceptedProofForms::DataIntegrity };
    let options = AnpClientOptions { local, proof_forms, ..AnpClientOptions::default() };
    let client = AnpClient::new(fetch_client(outbound)?, Arc::new(SystemClock), Arc::new(SystemEntropy), options);
    let client = match agreement_file() {
        Some(path) => client.with_agreement_file(path),
        None => client,
    };
    Ok(client.with_bearer(token).signed_by(request_signer(signer).await?))
}

/// File of agreements with agents, in the user's folder for state; none if the user has no such folder.
fn agreement_file() -> Option<PathBuf> {
    let state = user_folder("XDG_STATE_HOME").or_else(|| user_folder("HOME").map(|home| home.join(".local/state")));
    Some(state?.join("nuncio/agreements.json"))
}

async fn request_signer(signer: &SigningAgent) -> anyhow::Result<Option<Arc<dyn RequestSigner>>> {
    let Some(agent) = &signer.agent else { return Ok(None) };
    let agent = parsed(AgentName::parse(agent))?;
    let (data, secret_key, store) = (&signer.data.path, signer.data.secret_key()?, signer.data.store()?);
    Ok(Some(signer_of(data, &store, &secret_key, &agent, Arc::new(SystemClock)).await?))
}

/// Whether a target can only be an agent: a DID, or a URL that ends with the file name of agent descriptions.
pub(crate) fn is_agent(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    target.starts_with("did:") || (!target.contains('@') && path.ends_with("/ad.json"))
}

/// A verified agent description with its callable methods.
pub(crate) struct AgentOverview {
    pub(crate) agent: VerifiedAgentDescription,
    methods: Vec<RemoteMethod>,
    notes: Vec<String>,
}

/// Reads an agent's description and its callable methods. If the methods cannot be read, the reason becomes a note.
pub(crate) async fn agent_overview(client: &AnpClient, target: &AgentTarget) -> anyhow::Result<AgentOverview> {
    let agent = client.describe(target).await?;
    let mut notes = agent.notes.clone();
    let methods = match client.operations(&agent).await {
        Ok((methods, further_notes)) => {
            notes.extend(further_notes);
            methods
        }
        Err(error) => {
            notes.push(error.message.clone());
            Vec::new()
        }
    };
    Ok(AgentOverview { agent, methods, notes })
}

impl AgentOverview {
    pub(crate) fn json(&self) -> Value {
        let methods = self.methods.iter().map(|it| {
            json!({
                "name": it.name, "description": it.description, "interface": it.interface, "server": it.server,
                "human_authorization": it.asks_a_person, "input": it.input, "output": it.output,
            })
        });
        json!({
            "url": self.agent.url,
            "description": self.agent.raw,
            "did_document": self.agent.document.as_ref().map(|bound| bound.document().whole()),
            "checks": self.agent.checks,
            "methods": methods.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    pub(crate) fn print(&self) {
        self.notes.iter().for_each(|text| print_note(text));
        let about = &self.agent.description;
        println!("{}", clean(&about.name).bold());
        if let Some(text) = &about.description {
            println!("{}", wrapped(text, ""));
        }
        println!();
        about.did.iter().for_each(|did| print_fact("did", did));
        print_fact("description", self.agent.url.as_str());
        if let Some(owner) = &about.owner {
            let contact: Vec<_> = [&owner.name, &owner.url, &owner.email].into_iter().flatten().cloned().collect();
            print_fact("owner", &contact.join(", "));
        }
        about.created.iter().for_each(|since| print_fact("since", since));
        print_fact("security", &self.describe_security(Some(&about.security)));
        println!("\n{}", "Verification".bold());
        self.agent.checks.iter().for_each(print_check);
        self.print_capabilities();
        self.print_interfaces();
        self.print_methods();
        self.print_information();
    }

    fn print_capabilities(&self) {
        let all = self.agent.description.capabilities.as_deref().unwrap_or_default();
        print_heading("What it can do", all);
        for capability in all {
            let tags = capability.intent_tags.as_deref().unwrap_or_default().join(", ");
            println!("  {}  {}", clean(&capability.id), clean(&tags).dimmed());
            let texts: Vec<_> = [&capability.name, &capability.description].into_iter().flatten().cloned().collect();
            println!("{}", wrapped(&texts.join(": "), "    "));
        }
    }

    fn print_interfaces(&self) {
        let all = self.agent.description.interfaces.as_deref().unwrap_or_default();
        print_heading("Interfaces", all);
        for interface in all {
            let id = interface.id.as_deref().unwrap_or(&interface.r#type);
            let mut facts = vec![interface.r#type.as_str()];
            facts.extend(interface.protocol.as_deref());
            facts.extend(interface.profile.as_deref());
            if interface.asks_a_person() {
                facts.push("a person must approve");
            }
            println!("  {}  {}", clean(id), clean(&facts.join(", ")).dimmed());
            println!(
                "    {}, {}",
                clean(interface.url.as_deref().unwrap_or("given inline")),
                clean(&self.describe_security(interface.security.as_ref())).dimmed()
            );
        }
    }

    fn print_methods(&self) {
        print_heading("Methods", &self.methods);
        for method in &self.methods {
            let needed: Vec<_> = method.input["required"].as_array().into_iter().flatten().collect();
            let names =
                method.input["properties"].as_object().into_iter().flatten().map(|(name, _)| {
                    if needed.iter().any(|it| *it == name) { name.clone() } else { format!("[{name}]") }
                });
            let person = if method.asks_a_person { "  a person must approve" } else { "" };
            let names = names.collect::<Vec<_>>().join(", ");
            println!("  {}({}){}", clean(&method.name), clean(&names), person.yellow());
            method.description.iter().for_each(|text| println!("{}", wrapped(text, "    ").dimmed()));
        }
    }

    fn print_information(&self) {
        let all = self.agent.description.information.as_deref().unwrap_or_default();
        print_heading("To read", all);
        for item in all {
            println!("  {}  {}", clean(&item.r#type), clean(item.url.as_deref().unwrap_or("given inline")).cyan());
            item.description.iter().for_each(|text| println!("{}", wrapped(text, "    ").dimmed()));
        }
    }

    /// The security schemes of an interface as text.
    fn describe_security(&self, security: Option<&SecurityReferences>) -> String {
        let Some(security) = security else { return "protected as the rest".to_owned() };
        let definitions = &self.agent.description.security_definitions;
        let schemes = security.names().into_iter().map(|name| match definitions.get(name) {
            Some(it) if it.scheme == "nosec" => "open to everyone".to_owned(),
            Some(it) => match &it.name {
                Some(field) => format!("{} ({} {field})", it.scheme, it.r#in.as_str()),
                None => it.scheme.clone(),
            },
            None => name.to_owned(),
        });
        let schemes = schemes.collect::<Vec<_>>().join(" or ");
        if schemes.is_empty() { "it does not say".to_owned() } else { schemes }
    }

    /// Fails if a check refuted the shown agent; checks that could not be made are tolerated.
    pub(crate) fn verdict(&self) -> anyhow::Result<()> {
        self.agent.checks.ensure_trusted().map_err(|_| AlreadyReportedError.into())
    }
}

/// Prints the heading unless the list is empty.
fn print_heading<T>(heading: &str, items: &[T]) {
    if !items.is_empty() {
        println!("\n{}", heading.bold());
    }
}

fn print_fact(name: &str, value: &str) {
    println!("{:<12} {}", name.dimmed(), clean(value));
}

fn print_check(check: &DescriptionCheckResult) {
    let (outcome, why) = match &check.outcome {
        DescriptionCheckOutcome::Verified { how } => ("verified".green().to_string(), how),
        DescriptionCheckOutcome::Unverified { why } => ("not verified".yellow().to_string(), why),
        DescriptionCheckOutcome::Refuted { why } => ("WRONG".red().bold().to_string(), why),
    };
    println!("  {outcome} {}", check.subject.as_str());
    println!("{}", wrapped(why, "    ").dimmed());
}
