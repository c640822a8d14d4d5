//! The flags of the commands that use remote skills and agents.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nuncio_anp::negotiation::SecurityProfile;
use nuncio_skill::wire::{CapabilityType, Priority};

use super::{CallerKey, DataDirOption};
use crate::output::shell_quote;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio discover localhost:7400\n  nuncio discover example.com --type task\n  nuncio discover did:wba:example.com:agents:hotel:e1_..."
)]
pub(crate) struct DiscoverArguments {
    /// The host: a domain, localhost:PORT or a URL; or an agent's DID
    #[arg(value_name = "DOMAIN|DID")]
    pub(crate) target: String,
    /// List only skills of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = capability_type)]
    pub(crate) only: Option<CapabilityType>,
    #[command(flatten)]
    pub(crate) key: CallerKey,
    #[command(flatten)]
    pub(crate) signer: SigningAgent,
    #[command(flatten)]
    pub(crate) verification: VerificationOptions,
    #[command(flatten)]
    pub(crate) outbound: OutboundOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio show script/echo@localhost:7400\n  nuncio show https://example.com/skills/forecast.json\n  nuncio show https://example.com/agents/hotel/ad.json\n  nuncio show did:wba:example.com:agents:hotel:e1_..."
)]
pub(crate) struct ShowArguments {
    /// The skill: SKILL-ID@DOMAIN or the URL of its descriptor; or the agent: its DID, the URL of its description, or
    /// its domain
    #[arg(value_name = "SKILL|AGENT")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) key: CallerKey,
    #[command(flatten)]
    pub(crate) signer: SigningAgent,
    #[command(flatten)]
    pub(crate) verification: VerificationOptions,
    #[command(flatten)]
    pub(crate) outbound: OutboundOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio invoke script/echo@localhost:7400 -i text=hello\n  nuncio invoke weather/forecast@example.com -i city=Rome -i days=3 \\\n    --key KEY\n  nuncio invoke example/summarize@example.com -i text=@article.txt \\\n    -i '{\"max_length\": 100}'\n  nuncio invoke booking/reserve@example.com --login --client-id my-app \\\n    -i city=Rome\n  nuncio invoke https://example.com/agents/hotel/ad.json search_rooms \\\n    -i guests=2\n  nuncio invoke did:wba:example.com:agents:hotel:e1_... \\\n    --intent \"find a room\" -i guests=2\n  nuncio invoke did:wba:example.com:agents:hotel:e1_... \\\n    --say \"Is a room free?\" --as concierge"
)]
pub(crate) struct InvokeArguments {
    /// The skill: SKILL-ID@DOMAIN or the URL of its descriptor; or the agent: its DID, the URL of its description, or
    /// its domain
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Method of an agent to call; a skill has only one
    #[arg(value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Intent in words: the method is chosen by negotiation with the agent
    #[arg(long, value_name = "TEXT", conflicts_with = "method")]
    pub(crate) intent: Option<String>,
    /// Intent as a tag such as hotel.booking (repeatable)
    #[arg(long = "tag", value_name = "TAG", conflicts_with = "method")]
    pub(crate) tags: Vec<String>,
    /// Send this text to an agent as a signed message of the agent given by --as; the local server receives the answer
    #[arg(long, value_name = "TEXT", requires = "agent", conflicts_with_all = ["method", "intent", "tags", "inputs"])]
    pub(crate) say: Option<String>,
    /// Wait for the answer to the message with this id, sent before
    #[arg(long, value_name = "MESSAGE", requires = "agent", conflicts_with_all = ["say", "method", "intent", "tags", "inputs"])]
    pub(crate) answer_to: Option<String>,
    /// An input: NAME=VALUE, parsed by its type in the descriptor; NAME=@FILE reads a text file; or all inputs as a
    /// JSON object, also @FILE or - for standard input
    #[arg(short = 'i', long = "input", value_name = "JSON|NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    #[command(flatten)]
    pub(crate) credentials: CallerCredentials,
    /// Priority in the provider's queue: low, normal or high
    #[arg(long, value_name = "WORD", value_parser = priority)]
    pub(crate) priority: Option<Priority>,
    /// Time limit of the execution, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout_ms: Option<u64>,
    /// Trace id that is passed on with the call
    #[arg(long, value_name = "ID")]
    pub(crate) trace_id: Option<String>,
    /// Idempotency key: calls with the same key are one execution, so that a retry repeats nothing
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Do not wait for the result; print the status URL
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) signer: SigningAgent,
    #[command(flatten)]
    pub(crate) verification: VerificationOptions,
    #[command(flatten)]
    pub(crate) outbound: OutboundOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio negotiate localhost:7400 --intent \"book a room\"\n  nuncio negotiate https://example.com/agents/hotel/ad.json --intent \"book\" \\\n    --tag hotel.booking --require cap.hotel.booking\n  nuncio negotiate localhost:7400 --intent \"hold a table\" --draft --as concierge\n  nuncio negotiate localhost:7400 --accept drf_... --digest sha-256:... \\\n    --as concierge"
)]
pub(crate) struct NegotiateArguments {
    /// The agent: its DID, the URL of its description, or its domain
    #[arg(value_name = "AGENT")]
    pub(crate) target: String,
    /// Intent in words; disclose no more than is needed to choose an interface
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["tags", "accept", "reject"])]
    pub(crate) intent: Option<String>,
    /// Intent as a tag such as hotel.booking (repeatable)
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Capability that the interface must have (repeatable)
    #[arg(long = "require", value_name = "CAPABILITY")]
    pub(crate) required: Vec<String>,
    /// Security profile that the interface must have: transport-protected, group-e2ee or direct-e2ee
    #[arg(long, value_name = "PROFILE", value_parser = security)]
    pub(crate) security: Option<SecurityProfile>,
    /// Longest acceptable duration of an answer, in milliseconds
    #[arg(long, value_name = "MILLISECONDS")]
    pub(crate) max_latency_ms: Option<u64>,
    /// Consider only callable methods, no conversation
    #[arg(long)]
    pub(crate) calls_only: bool,
    /// If no interface fits, let the agent draft a protocol
    #[arg(long, conflicts_with = "calls_only")]
    pub(crate) draft: bool,
    /// Accept the draft with this id
    #[arg(long, value_name = "PROTOCOL", requires = "digest", conflicts_with_all = ["draft", "reject"])]
    pub(crate) accept: Option<String>,
    /// Reject the draft with this id
    #[arg(long, value_name = "PROTOCOL", requires = "digest", conflicts_with = "draft")]
    pub(crate) reject: Option<String>,
    /// Digest of the draft as it was shown
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    #[command(flatten)]
    pub(crate) key: CallerKey,
    #[command(flatten)]
    pub(crate) signer: SigningAgent,
    #[command(flatten)]
    pub(crate) verification: VerificationOptions,
    #[command(flatten)]
    pub(crate) outbound: OutboundOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio validate descriptor.json\n  nuncio validate https://example.com/.well-known/skill-sharing --strict"
)]
pub(crate) struct ValidateArguments {
    /// The document: a file, a URL, or - for standard input
    #[arg(value_name = "FILE|URL")]
    pub(crate) document: String,
    /// Kind of the document; detected from its fields when omitted
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<ValidatedDocumentKind>,
    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) outbound: OutboundOptions,
}

/// Document kinds of the protocols: Skill Sharing's first, then ANP's.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ValidatedDocumentKind {
    Descriptor,
    Index,
    Request,
    Response,
    Error,
    AgentDescription,
    Openrpc,
    Product,
    AgentList,
    DidDocument,
}

/// Credentials of the user for a remote skill.
#[derive(Debug, Args)]
pub(crate) struct CallerCredentials {
    #[command(flatten)]
    pub(crate) key: CallerKey,
    /// Id of the OAuth client that requests a token
    #[arg(long, env = "NUNCIO_CLIENT_ID", value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Secret of the OAuth client
    #[arg(long, env = "NUNCIO_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// Log in with a browser first; the login is stored for later calls
    #[arg(long, requires = "client_id")]
    pub(crate) login: bool,
    /// OAuth scope to request (repeatable); all scopes of the skill when omitted
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Shared secret that signs the request and is never sent; others on this machine can see it here, so better set it
    /// in the environment or name a file
    #[arg(long, env = "NUNCIO_SIGNING_KEY", hide_env_values = true, value_name = "SECRET")]
    pub(crate) signing_key: Option<String>,
    /// Read the shared secret from the first line of this file
    #[arg(long, value_name = "FILE")]
    pub(crate) signing_key_file: Option<PathBuf>,
    /// Host that the credential is for, if it is not the named one
    #[arg(long, value_name = "HOST")]
    pub(crate) credential_for: Option<String>,
}

/// The served agent whose DID signs requests.
#[derive(Debug, Args)]
pub(crate) struct SigningAgent {
    /// Sign with the DID of this agent, which is served from the data directory
    #[arg(long = "as", value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataDirOption,
}

/// How descriptions of agents are verified.
#[derive(Debug, Args)]
pub(crate) struct VerificationOptions {
    /// Also accept the proof that the text of ANP-07 defines on an agent's description
    #[arg(long)]
    pub(crate) literal_proof: bool,
}

/// Limits of outgoing requests.
#[derive(Debug, Args)]
pub(crate) struct OutboundOptions {
    /// Trust these certificate authorities too (PEM)
    #[arg(long, value_name = "FILE", env = "NUNCIO_EXTRA_CA")]
    pub(crate) extra_ca: Option<PathBuf>,
    /// Allow requests to this host or network even if only a document names it
    #[arg(long, value_name = "HOST")]
    pub(crate) allow: Vec<String>,
    /// Allow documents to name addresses on this machine, for development
    #[arg(long)]
    pub(crate) dev: bool,
}

impl OutboundOptions {
    /// These options as flags for the command that the output suggests next, each after a space.
    pub(crate) fn as_flags(&self) -> String {
        let mut flags = String::new();
        if let Some(file) = &self.extra_ca {
            flags.push_str(&format!(" --extra-ca {}", shell_quote(&file.display().to_string())));
        }
        self.allow.iter().for_each(|host| flags.push_str(&format!(" --allow {}", shell_quote(host))));
        if self.dev {
            flags.push_str(" --dev");
        }
        flags
    }
}

fn capability_type(text: &str) -> Result<CapabilityType, String> {
    one_of(text, &CapabilityType::ALL, CapabilityType::as_str)
}

fn security(text: &str) -> Result<SecurityProfile, String> {
    one_of(text, &SecurityProfile::ALL, SecurityProfile::as_str)
}

fn priority(text: &str) -> Result<Priority, String> {
    one_of(text, &Priority::ALL, Priority::as_str)
}

/// Parses one of the values of an enum by its name.
fn one_of<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, String> {
    let names = || all.iter().map(|value| name(*value)).collect::<Vec<_>>().join(", ");
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| format!("it is one of {}", names()))
}
