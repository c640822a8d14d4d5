//! Where a tool really runs.

use std::path::PathBuf;

use url::Url;

use crate::ids::{BackendName, ScopeId, ToolName};
use crate::template::Template;
use crate::text::LocalText;

/// Where a tool really runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Run {
    /// A tool of an MCP server declared by the same agent.
    Mcp {
        /// The server.
        server: BackendName,
        /// The tool's name there.
        tool: ToolName,
    },
    /// A request to a web service.
    Http(Box<HttpRun>),
    /// A program, started for each call.
    Command(CommandRun),
    /// A person, who finds the work in the inbox.
    Human(HumanRun),
    /// Somebody else's skill.
    Skill(Box<SkillRun>),
    /// A method of somebody else's agent.
    Anp(Box<AnpRun>),
    /// Nowhere: the answer is written in the agent file, a template over the arguments.
    Answer(Template),
    /// A person's own device, with their consent.
    Device(DeviceRun),
}

/// Work for a person's device: what is said to the person about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceRun {
    /// Whether the agent is of no use to people who do not allow it.
    pub required: bool,
    /// Where their device's own words have its description; by a rule from its name when none is given.
    pub description_key: Option<String>,
    /// The description in more languages than the tool's own, for devices without words for it.
    pub description: Option<LocalText>,
}

/// A request whose parts are templates over the arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRun {
    /// The method.
    pub method: HttpMethod,
    /// The address.
    pub url: Template,
    /// The headers; values may name secrets.
    pub headers: Vec<(String, Template)>,
    /// The body; none sends the arguments as JSON where the method takes a body.
    pub body: Option<Template>,
}

/// The methods a tool may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// `GET`
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl HttpMethod {
    /// Every method, in the order people list them.
    pub const ALL: [Self; 5] = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// The method's name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A program: no shell, arguments as JSON on its standard input, its answer on standard output.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandRun {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// Environment variables it gets beside `PATH`, `HOME` and `LANG`; values are templates that may name secrets.
    pub env: Vec<(String, Template)>,
}

/// Work for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct HumanRun {
    /// What the person is to do; a template over the arguments. The tool's description if absent.
    pub instructions: Option<Template>,
}

/// A skill of another host.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillRun {
    /// Where: the address of its descriptor, or `skill-id@domain`.
    pub target: String,
    /// What it is called with.
    pub credential: Option<SkillCredential>,
}

/// A method of another host's agent, called over ANP and signed with the DID of the agent that declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnpRun {
    /// Whom: a did:wba, or the address of its description.
    pub target: String,
    /// The method.
    pub method: String,
}

/// What another host's skill is called with; templates that may name secrets.
#[derive(Debug, Clone, PartialEq)]
pub enum SkillCredential {
    /// An API key.
    ApiKey(Template),
    /// An access token that lasts.
    Token(Template),
    /// A client that fetches its access tokens by itself.
    Client {
        /// Its id.
        id: Template,
        /// Its secret.
        secret: Template,
    },
    /// The shared secret of the reference signature.
    Signature(Template),
}

/// An MCP server an agent may use.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// Its name in the agent file.
    pub name: BackendName,
    /// How to reach it.
    pub transport: McpTransport,
    /// Tools taken over from it as they are.
    pub import: Option<Import>,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum McpTransport {
    /// A child process speaking on its standard input and output.
    Stdio {
        /// The program and its arguments; never empty.
        argv: Vec<String>,
        /// Environment variables it gets; values are templates that may name secrets.
        env: Vec<(String, Template)>,
    },
    /// Streamable HTTP.
    Http {
        /// Its endpoint.
        url: Url,
        /// Headers sent with each request; values may name secrets.
        headers: Vec<(String, Template)>,
    },
}

/// Which of an MCP server's tools become the agent's own, without writing them again.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// These; none means all.
    pub only: Option<Vec<ToolName>>,
    /// The permission they need.
    pub scope: Option<ScopeId>,
    /// Whether clients see them.
    pub exposed: bool,
    /// Whether a person other than the caller must approve each call.
    pub human_authorization: bool,
}

impl HttpRun {
    /// Every template of the request, for whoever checks that they parse.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.url).chain(self.headers.iter().map(|(_, value)| value)).chain(self.body.iter())
    }
}

impl SkillRun {
    /// Every template that may name a secret.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let (one, other) = match &self.credential {
            None => (None, None),
            Some(SkillCredential::ApiKey(it) | SkillCredential::Token(it) | SkillCredential::Signature(it)) => {
                (Some(it), None)
            }
            Some(SkillCredential::Client { id, secret }) => (Some(id), Some(secret)),
        };
        one.into_iter().chain(other)
    }
}

/// What an agent's programs may reach beside what every program may. Paths begin in the agent file's folder, at `/` or
/// at `~/`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramAccess {
    /// Files and folders they may read.
    pub read: Vec<String>,
    /// Files and folders they may read and change.
    pub write: Vec<String>,
    /// Whether they may use Unix sockets. Other services act for whoever reaches their socket, so this lifts the
    /// confinement.
    pub unix: bool,
}

/// Where a secret comes from. Templates name it as `{{ secrets.NAME }}`; it is read when needed and
/// never written anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of the server.
    Env(String),
    /// A file, without its trailing newline.
    File(PathBuf),
}
