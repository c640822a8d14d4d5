//! The flags of the commands that use other people's skills and agents.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nuncio_anp::negotiation::SecurityProfile;
use nuncio_skill::wire::{CapabilityType, Priority};

use super::Data;
use crate::output::shell_quote;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio discover localhost:7400\n  nuncio discover example.com --type task\n  nuncio discover did:wba:example.com:agents:hotel:e1_..."
)]
pub(crate) struct Discover {
    /// The host: a domain, localhost:PORT, or an address; or an agent's DID
    #[arg(value_name = "DOMAIN|DID")]
    pub(crate) target: String,
    /// Only skills of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = capability_type)]
    pub(crate) only: Option<CapabilityType>,
    #[command(flatten)]
    pub(crate) sight: ReadCredentials,
    #[command(flatten)]
    pub(crate) who: SigningAgent,
    #[command(flatten)]
    pub(crate) reach: OutboundOptions,
}

/// What opens the eyes of whoever only looks.
#[derive(Debug, Args)]
pub(crate) struct ReadCredentials {
    /// Show what only those with this key see
    #[arg(long, env = "NUNCIO_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Show what only those with this access token see
    #[arg(long, env = "NUNCIO_TOKEN", hide_env_values = true, value_name = "TOKEN", conflicts_with = "api_key")]
    pub(crate) token: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio show script/echo@localhost:7400\n  nuncio show https://example.com/skills/forecast.json\n  nuncio show https://example.com/agents/hotel/ad.json\n  nuncio show did:wba:example.com:agents:hotel:e1_..."
)]
pub(crate) struct Show {
    /// The skill: SKILL-ID@DOMAIN, or the address of its descriptor; or the agent: its DID, the address of its
    /// description, or its domain
    #[arg(value_name = "SKILL|AGENT")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) sight: ReadCredentials,
    #[command(flatten)]
    pub(crate) who: SigningAgent,
    #[command(flatten)]
    pub(crate) reach: OutboundOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio invoke script/echo@localhost:7400 -i text=hello\n  nuncio invoke weather/forecast@example.com -i city=Rome -i days=3 \\\n    --api-key KEY\n  nuncio invoke example/summarize@example.com -i text=@article.txt \\\n    -i '{\"max_length\": 100}'\n  nuncio invoke booking/reserve@example.com --login --client-id my-app \\\n    -i city=Rome\n  nuncio invoke https://example.com/agents/hotel/ad.json search_rooms \\\n    -i guests=2\n  nuncio invoke did:wba:example.com:agents:hotel:e1_... \\\n    --intent \"find a room\" -i guests=2\n  nuncio invoke did:wba:example.com:agents:hotel:e1_... \\\n    --say \"Is a room free?\" --as concierge"
)]
pub(crate) struct Invoke {
    /// The skill: SKILL-ID@DOMAIN, or the address of its descriptor; or the agent: its DID, the address of its
    /// description, or its domain
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Which method of an agent; a skill has one
    #[arg(value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// What an agent should do, in words: the method is then agreed upon with it
    #[arg(long, value_name = "TEXT", conflicts_with = "method")]
    pub(crate) intent: Option<String>,
    /// What should be done, as a tag such as hotel.booking; repeat for several
    #[arg(long = "tag", value_name = "TAG", conflicts_with = "method")]
    pub(crate) tags: Vec<String>,
    /// Say this to an agent, as the one named by --as: a signed message, whose answer comes to our server
    #[arg(long, value_name = "TEXT", requires = "agent", conflicts_with_all = ["method", "intent", "tags", "inputs"])]
    pub(crate) say: Option<String>,
    /// Wait for the answer to a message that was said before
    #[arg(long, value_name = "MESSAGE", requires = "agent", conflicts_with_all = ["say", "method", "intent", "tags", "inputs"])]
    pub(crate) answer_to: Option<String>,
    /// An input: NAME=VALUE, read by the type the skill gives it; NAME=@FILE takes a file's text; or
    /// all as a JSON object, also @FILE or - for standard input
    #[arg(short = 'i', long = "input", value_name = "JSON|NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    #[command(flatten)]
    pub(crate) proof: CallerCredentials,
    /// How soon it should be done beside others: low, normal or high
    #[arg(long, value_name = "WORD", value_parser = priority)]
    pub(crate) priority: Option<Priority>,
    /// How long it may take
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout_ms: Option<u64>,
    /// An identifier that ties traces together
    #[arg(long, value_name = "ID")]
    pub(crate) trace_id: Option<String>,
    /// Calls with the same key are one execution, so that a retry does nothing twice
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Do not wait for the result; print where its status is
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) who: SigningAgent,
    #[command(flatten)]
    pub(crate) reach: OutboundOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio negotiate localhost:7400 --intent \"book a room\"\n  nuncio negotiate https://example.com/agents/hotel/ad.json --intent \"book\" \\\n    --tag hotel.booking --require cap.hotel.booking\n  nuncio negotiate localhost:7400 --intent \"hold a table\" --draft --as concierge\n  nuncio negotiate localhost:7400 --accept drf_... --digest sha-256:... \\\n    --as concierge"
)]
pub(crate) struct Negotiate {
    /// The agent: its DID, the address of its description, or its domain
    #[arg(value_name = "AGENT")]
    pub(crate) target: String,
    /// What should be done, in words; no more than is needed to choose
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["tags", "accept", "reject"])]
    pub(crate) intent: Option<String>,
    /// What should be done, as a tag such as hotel.booking; repeat for several
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// What the interface must be able to do; several by repeating
    #[arg(long = "require", value_name = "CAPABILITY")]
    pub(crate) required: Vec<String>,
    /// The one way it must be protected: transport-protected, group-e2ee or direct-e2ee
    #[arg(long, value_name = "PROFILE", value_parser = security)]
    pub(crate) security: Option<SecurityProfile>,
    /// How long an answer may take
    #[arg(long, value_name = "MILLISECONDS")]
    pub(crate) max_latency_ms: Option<u64>,
    /// Only methods that can be called, no conversation
    #[arg(long)]
    pub(crate) calls_only: bool,
    /// Where nothing fits, have the agent draft a protocol
    #[arg(long, conflicts_with = "calls_only")]
    pub(crate) draft: bool,
    /// Accept the draft of this id
    #[arg(long, value_name = "PROTOCOL", requires = "digest", conflicts_with_all = ["draft", "reject"])]
    pub(crate) accept: Option<String>,
    /// Reject the draft of this id
    #[arg(long, value_name = "PROTOCOL", requires = "digest", conflicts_with = "draft")]
    pub(crate) reject: Option<String>,
    /// The digest of the draft as it was shown
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// An API key or access token of the host that is named
    #[arg(long, env = "NUNCIO_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) who: SigningAgent,
    #[command(flatten)]
    pub(crate) reach: OutboundOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nuncio validate descriptor.json\n  nuncio validate https://example.com/.well-known/skill-sharing --strict"
)]
pub(crate) struct Validate {
    /// The document: a file, an address, or - for standard input
    #[arg(value_name = "FILE|URL")]
    pub(crate) document: String,
    /// What it is meant to be; guessed from its fields when left out
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<DocumentKind>,
    /// Count warnings as faults
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) reach: OutboundOptions,
}

/// The documents of the protocols: Skill Sharing's first, then ANP's.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DocumentKind {
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

/// Who we are to a skill.
#[derive(Debug, Args)]
pub(crate) struct CallerCredentials {
    /// An API key; better set in the environment, where others do not see it
    #[arg(long, env = "NUNCIO_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// An OAuth access token
    #[arg(long, env = "NUNCIO_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The OAuth client to get a token as
    #[arg(long, env = "NUNCIO_CLIENT_ID", value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The OAuth client's secret
    #[arg(long, env = "NUNCIO_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// Log in with a browser first; the login is kept for the next calls
    #[arg(long, requires = "client_id")]
    pub(crate) login: bool,
    /// An OAuth scope to ask for; all the skill names when left out
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// The shared secret to sign the request with
    #[arg(long, env = "NUNCIO_SIGNING_KEY", hide_env_values = true, value_name = "SECRET")]
    pub(crate) signing_key: Option<String>,
    /// The host that the credential is meant for, when it is not the one named
    #[arg(long, value_name = "HOST")]
    pub(crate) credential_for: Option<String>,
}

/// Whose DID signs what is asked of an agent.
#[derive(Debug, Args)]
pub(crate) struct SigningAgent {
    /// Sign with the DID of this agent, which is served from the data directory
    #[arg(long = "as", value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) data: Data,
}

/// How far requests may go.
#[derive(Debug, Args)]
pub(crate) struct OutboundOptions {
    /// Believe these certificate authorities too (PEM)
    #[arg(long, value_name = "FILE", env = "NUNCIO_EXTRA_CA")]
    pub(crate) extra_ca: Option<PathBuf>,
    /// Reach this host or network although only a document names it
    #[arg(long, value_name = "HOST")]
    pub(crate) allow: Vec<String>,
    /// Let documents name addresses on this machine, for development
    #[arg(long)]
    pub(crate) dev: bool,
}

impl OutboundOptions {
    /// The same reach for the next command, as it is written in a shell.
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

fn one_of<T: Copy>(text: &str, all: &[T], word: impl Fn(T) -> &'static str) -> Result<T, String> {
    let words = || all.iter().map(|one| word(*one)).collect::<Vec<_>>().join(", ");
    all.iter().copied().find(|one| word(*one) == text).ok_or_else(|| format!("it is one of {}", words()))
}
