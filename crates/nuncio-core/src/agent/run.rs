//! Tool backends: where a tool runs.

use std::path::PathBuf;

use url::Url;

use super::command_line::CommandLine;
use crate::ids::{BackendName, ScopeId, ToolName};
use crate::string_enum;
use crate::template::Template;
use crate::text::TextByLanguage;

/// The backend that runs a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolRunSpec {
    Mcp {
        server: BackendName,
        tool: ToolName,
    },
    Http(Box<HttpRunSpec>),
    /// Backend: a program that is started for each call.
    Command(CommandRunSpec),
    /// Backend: a person, who gets a task in the inbox.
    Human(HumanRunSpec),
    /// Backend: a skill of another host.
    Skill(Box<SkillRunSpec>),
    /// Backend: a method of an agent on another host, called over ANP.
    Anp(Box<AnpRunSpec>),
    /// Backend: a fixed answer in the agent file, a template over the arguments.
    Answer(Template),
    /// Backend: the linked person's device, with their consent.
    Device(DeviceRunSpec),
}

/// A tool that runs on a person's device, with the texts shown to that person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceRunSpec {
    /// Whether the agent cannot work without this permission (`required` in the manifest).
    pub required: bool,
    /// Translation key of the description on devices; derived from the tool's name when absent.
    pub description_key: Option<String>,
    /// The description in further languages, for devices without a translation.
    pub description: Option<TextByLanguage>,
}

/// An HTTP request whose parts are templates over the arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRunSpec {
    pub method: HttpMethod,
    pub url: Template,
    /// Headers of the request; the values may refer to secrets.
    pub headers: Vec<(String, Template)>,
    /// Body of the request. Without it, methods that take a body send the arguments as JSON.
    pub body: Option<Template>,
}

string_enum! {
    /// HTTP methods of tools, in the order in which they are listed to people.
    pub enum HttpMethod {
        Get = "GET",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
    }
}

/// A program run without a shell: arguments as JSON on standard input, answer on standard output.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandRunSpec {
    pub command: CommandLine,
    /// Environment variables beside `PATH`, `HOME` and `LANG`; the templates may refer to secrets.
    pub env: Vec<(String, Template)>,
}

/// A task that a person carries out.
#[derive(Debug, Clone, PartialEq)]
pub struct HumanRunSpec {
    /// Instructions for the person, a template over the arguments; the tool's description if absent.
    pub instructions: Option<Template>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SkillRunSpec {
    /// URL of the skill's descriptor, or `skill-id@domain`.
    pub target: String,
    pub credential: Option<SkillCredential>,
}

/// A method of an agent on another host, called over ANP and signed with the DID of the declaring agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnpRunSpec {
    /// A did:wba, or the URL of the agent description.
    pub target: String,
    pub method: AnpMethod,
}

/// The method of another agent that a tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnpMethod {
    Named(String),
    /// The method is negotiated with the agent for this intent, in words.
    ForIntent(String),
}

/// Credential for another host's skill; the templates may refer to secrets.
#[derive(Debug, Clone, PartialEq)]
pub enum SkillCredential {
    ApiKey(Template),
    /// A long-lived access token for another host's skill.
    Token(Template),
    /// OAuth client credentials, with which access tokens are fetched.
    Client {
        id: Template,
        secret: Template,
    },
    /// Shared secret of the `X-Signature` scheme.
    Signature(Template),
}

#[derive(Debug, Clone, PartialEq)]
pub struct McpServerSpec {
    pub name: BackendName,
    pub transport: McpTransport,
    /// Tools of the MCP server that are offered under their own names and schemas; `None` offers only those that a tool
    /// of the agent names.
    pub import: Option<McpImportRules>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum McpTransport {
    /// The MCP server is a child process that communicates over standard input and output.
    Stdio {
        command: CommandLine,
        /// Environment variables of the MCP server; the values are templates that may refer to secrets.
        env: Vec<(String, Template)>,
    },
    Http {
        url: Url,
        /// Headers sent with each request to the MCP server; the values may refer to secrets.
        headers: Vec<(String, Template)>,
    },
}

/// Selects the MCP server's tools that the agent offers unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct McpImportRules {
    /// Names of the imported tools; `None` imports all.
    pub only: Option<Vec<ToolName>>,
    /// Permission that callers of the imported tools need; `None` admits everyone who may talk to the agent.
    pub scope: Option<ScopeId>,
    pub exposed: bool,
    /// Whether each call of an imported tool needs an approver who is not the caller.
    pub human_authorization: bool,
}

impl HttpRunSpec {
    /// Every template of the HTTP request, so that a caller can check each one.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.url).chain(self.headers.iter().map(|(_, value)| value)).chain(self.body.iter())
    }
}

impl CommandRunSpec {
    /// Every template of the command, so that a caller can check each one.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.command.arguments.iter().chain(self.env.iter().map(|(_, value)| value))
    }
}

impl McpTransport {
    /// Every template that is rendered to connect to the MCP server.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let (command, lines) = match self {
            Self::Stdio { command, env } => (Some(command), env),
            Self::Http { headers, .. } => (None, headers),
        };
        let arguments = command.into_iter().flat_map(|command| &command.arguments);
        arguments.chain(lines.iter().map(|(_, value)| value))
    }
}

impl SkillRunSpec {
    /// Every template of the skill call that may refer to a secret.
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

/// Access of an agent's programs beyond the common set. Paths are relative to the agent file's folder, or start with
/// `/` or `~/`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramAccess {
    pub read: Vec<String>,
    /// Files and folders that the agent's programs may read and change.
    pub write: Vec<String>,
    /// Whether programs may use Unix sockets. Services behind a socket act for any process that connects, so `true`
    /// removes the confinement.
    pub unix: bool,
}

/// Where a secret comes from. Templates refer to it as `{{ secrets.NAME }}`; it is read when needed and never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of the server process.
    Env(String),
    /// A file, relative to the agent file's folder; one line break at its end is removed.
    File(PathBuf),
}
