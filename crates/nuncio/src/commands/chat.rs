//! `nuncio chat`: a conversation with any AAP agent, line by line.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use nuncio_aap::client::{
    AapConversation, AgentConfig, AgentInfo, ApiKey, Client, ClientError, MetaResponse, NewSession,
};
use nuncio_core::ids::ToolName;
use nuncio_core::message::{Message, ToolCall};
use nuncio_core::session::EnabledTool;
use nuncio_core::turn::TurnInput;
use nuncio_server::fetch::AllowedAddresses;
use url::Url;

pub(crate) mod clean;
mod input;
pub(crate) mod markdown;
pub(crate) mod options;
mod screen;
mod target;
mod texts;
mod tool;
mod turn;
pub(crate) mod wrap;

use super::consumer::guarded_fetch;
use crate::cli::{ChatArguments, given};
use crate::output::{AlreadyReportedError, WrongUsageError, shell_quote, wrong_usage};
use input::{ChatInput, ChatInputEvent};
use screen::ChatScreen;
use texts::ChatTexts;
use tool::ChatLocalTool;
use turn::CallAnswerer;

pub(crate) async fn run(flags: ChatArguments, json: bool) -> anyhow::Result<()> {
    let texts = ChatTexts::of_environment();
    let tools = flags.tools.iter().map(|file| ChatLocalTool::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let key = given(flags.key.as_ref());
    let key = key
        .map(|key| ApiKey::parse(&key).ok_or_else(|| WrongUsageError("the key has characters that no key has".into())));
    let mut screen = ChatScreen::new(texts, json);
    let (client, meta) = connect(&flags.target, key.transpose()?, flags.extra_ca.as_deref(), &mut screen).await?;
    let conversation = match &flags.session {
        Some(session) => resume(client, session, &tools, &flags).await?,
        None => {
            let agent = choose(&meta, flags.agent.as_deref())?;
            let options = flags.options.iter().cloned().collect();
            check_options(&agent, &options)?;
            begin(client, agent, &tools, flags.trust, options).await?
        }
    };
    let answerer = CallAnswerer::new(tools, flags.trust);
    let mut chat = ChatSession {
        resume_command: resume_command(&flags),
        conversation,
        answerer,
        screen,
        input: ChatInput::new(json)?,
    };
    chat.screen.welcome(&chat.conversation);
    if flags.session.is_some() {
        chat.resume_turn().await?;
    }
    chat.talk().await
}

struct ChatSession {
    /// The command that resumes the chat, without the session id.
    resume_command: String,
    conversation: AapConversation,
    answerer: CallAnswerer,
    screen: ChatScreen,
    input: ChatInput,
}

impl ChatSession {
    /// Prints the history, joins a running turn, and asks about pending calls.
    async fn resume_turn(&mut self) -> anyhow::Result<()> {
        let Self { conversation, screen, input, .. } = self;
        if let Some(running) = conversation.join().await? {
            screen.history(running.conversation().messages());
            screen.note(screen.texts.still_running);
            let open_calls = running.conversation().unresolved().into_iter().map(|one| one.call).collect();
            if turn::watch(running, open_calls, screen, input).await {
                self.answer_pending(false).await?;
            }
            return Ok(());
        }
        screen.history(conversation.messages());
        self.answer_pending(true).await
    }

    async fn talk(&mut self) -> anyhow::Result<()> {
        let mut leaving = false;
        loop {
            let prompt = self.screen.texts.you;
            match self.input.ask(&mut self.screen, prompt).await {
                ChatInputEvent::Line(line) => {
                    leaving = false;
                    if !self.line(line.trim()).await? {
                        break;
                    }
                }
                ChatInputEvent::Interrupted if leaving => break,
                ChatInputEvent::Interrupted => {
                    leaving = true;
                    self.screen.note(self.screen.texts.again_to_leave);
                }
                ChatInputEvent::End => break,
            }
        }
        self.screen.farewell(&self.resume_command, self.conversation.session());
        // A person has seen the failure; a script needs the exit status.
        if self.screen.turn_failed && !std::io::stdin().is_terminal() {
            return Err(AlreadyReportedError.into());
        }
        Ok(())
    }

    /// Handles a typed line; returns whether the chat continues.
    async fn line(&mut self, line: &str) -> anyhow::Result<bool> {
        match line {
            "" => {}
            "/quit" | "/exit" => return Ok(false),
            "/help" => self.screen.help(),
            "/tools" => self.screen.tools(&self.conversation),
            "/options" => self.screen.options(&self.conversation),
            "/history" => self.screen.history(self.conversation.messages()),
            "/session" => self.screen.session(self.conversation.session()),
            "/new" => {
                let (client, agent) = (self.conversation.client().clone(), self.conversation.agent().clone());
                // The values of secrets are not known in a resumed session.
                let known = self.conversation.options().iter().filter(|(_, value)| *value != options::REDACTED);
                let options = known.map(|(name, value)| (name.clone(), value.clone())).collect();
                let started = begin(client, agent, &self.answerer.tools, self.answerer.trust, options).await;
                match started {
                    Ok(conversation) => {
                        self.conversation = conversation;
                        self.answerer.allowed.clear();
                        self.screen.session(self.conversation.session());
                    }
                    Err(error) => self.screen.failed(&error.to_string()),
                }
            }
            command if command == "/set" || command.starts_with("/set ") => self.set_option(&command[4..]),
            command if command.starts_with('/') => self.screen.unknown_command(command),
            text => {
                let input = TurnInput::User(Message::user(text));
                if self.turn(input, Vec::new()).await {
                    self.answer_pending(false).await?;
                }
            }
        }
        Ok(true)
    }

    /// `/set NAME VALUE`: sets an option from the next message on.
    fn set_option(&mut self, arguments: &str) {
        let Some((name, value)) = arguments.trim().split_once(char::is_whitespace) else {
            return self.screen.failed(self.screen.texts.set_usage);
        };
        let value = value.trim();
        match options::check(self.conversation.agent(), name, value) {
            Ok(()) => {
                self.conversation.set_option(name, value);
                self.screen.option_set(&self.conversation, name);
            }
            Err(why) => self.screen.failed(&why),
        }
    }

    /// Answers pending calls until the agent waits for none, or the user stops.
    async fn answer_pending(&mut self, show: bool) -> anyhow::Result<()> {
        let mut show = show;
        while !self.conversation.pending().is_empty() {
            let answers =
                self.answerer.answer_pending(&mut self.conversation, &mut self.screen, &mut self.input, show).await;
            let Some(answers) = answers else {
                self.screen.note(self.screen.texts.left_unanswered);
                return Ok(());
            };
            show = false;
            let permitted = turn::permitted_calls(self.conversation.pending(), &answers);
            if !self.turn(TurnInput::Answers(answers), permitted).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs a turn, and returns whether it ended without an error of the connection and without being stopped.
    /// `permitted` are the pending calls that the input permits.
    async fn turn(&mut self, input: TurnInput, permitted: Vec<ToolCall>) -> bool {
        turn::watch(self.conversation.send(input), permitted, &mut self.screen, &mut self.input).await
    }
}

/// The command that resumes the chat with the same server and tools, without the session id and `--trust`. A key given
/// with `--key` is replaced by the word KEY.
fn resume_command(flags: &ChatArguments) -> String {
    let mut line = format!("nuncio chat {}", shell_quote(&flags.target));
    let file = |flag: &str, file: &Path| format!(" {flag} {}", shell_quote(&file.display().to_string()));
    line.extend(flags.extra_ca.iter().map(|path| file("--extra-ca", path)));
    line.extend(flags.tools.iter().map(|path| file("--tool", path)));
    if given(flags.key.as_ref()).is_some() && std::env::var_os("NUNCIO_KEY").is_none() {
        line.push_str(" --key KEY");
    }
    line
}

/// Finds the AAP server: at the address itself, or at `/aap` first if the address names only a host.
async fn connect(
    target: &str,
    key: Option<ApiKey>,
    extra_ca: Option<&Path>,
    screen: &mut ChatScreen,
) -> anyhow::Result<(Client, MetaResponse)> {
    let candidates = target::candidates(target).map_err(WrongUsageError)?;
    let fetch = guarded_fetch(AllowedAddresses::default(), false, extra_ca)?;
    if key.is_some() && candidates.iter().any(nuncio_core::address::is_in_clear) {
        screen.note(screen.texts.key_in_clear);
    }
    let mut faults = Vec::new();
    for base in candidates {
        let client = Client::new(base.clone(), key.clone(), fetch.client_for_configured());
        match client.meta().await {
            Ok(meta) => return Ok((client, meta)),
            Err(error @ ClientError::Unreachable(_)) => {
                return Err(anyhow::Error::new(error).context(base.to_string()));
            }
            Err(error) => faults.push((base, error)),
        }
    }
    Err(connection_fault(target, faults))
}

/// The fault that explains why no address worked: what a server said there, else that no address is one of AAP.
fn connection_fault(target: &str, mut faults: Vec<(Url, ClientError)>) -> anyhow::Error {
    let is_answer = |error: &ClientError| !error.is_not_found() && !matches!(error, ClientError::NotAap(_));
    if let Some(at) = faults.iter().position(|(_, error)| is_answer(error)) {
        let (base, error) = faults.swap_remove(at);
        return anyhow::Error::new(error).context(base.to_string());
    }
    let tried: Vec<_> = faults.iter().map(|(base, error)| format!("{base} ({error})")).collect();
    let message = format!("there is no AAP server at {target}; tried {}", tried.join(" and "));
    match faults.pop() {
        Some((_, error)) => anyhow::Error::new(error).context(message),
        None => anyhow::anyhow!(message),
    }
}

fn choose(meta: &MetaResponse, wanted: Option<&str>) -> anyhow::Result<AgentInfo> {
    let names = || meta.agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
    match (wanted, &meta.agents[..]) {
        (_, []) => bail!("the server has no agents"),
        (Some(name), _) => match meta.agent(name) {
            Some(agent) => Ok(agent.clone()),
            None => bail!("the server has no agent {name:?}; it has: {}", names()),
        },
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(wrong_usage(format!("the server has several agents; name one with --agent: {}", names()))),
    }
}

/// Creates a session with every exposed tool, and the local tools if the agent accepts client tools.
async fn begin(
    client: Client,
    agent: AgentInfo,
    tools: &[ChatLocalTool],
    trust: bool,
    options: BTreeMap<String, String>,
) -> anyhow::Result<AapConversation> {
    if !tools.is_empty() && !agent.capabilities.application_tools {
        bail!("the agent `{}` does not accept client tools; omit --tool", agent.name);
    }
    let enabled = agent.tools.iter().filter_map(|tool| {
        let name = ToolName::parse(&tool.name).ok()?;
        Some(EnabledTool { name, trust: trust.then_some(true) })
    });
    let config = AgentConfig { name: agent.name.clone(), tools: Some(enabled.collect()), options };
    let new = NewSession { agent: config, tools: specs(tools), messages: Vec::new() };
    let base = client.base().clone();
    AapConversation::begin(client, agent, new).await.with_context(|| base.to_string())
}

async fn resume(
    client: Client,
    session: &str,
    tools: &[ChatLocalTool],
    flags: &ChatArguments,
) -> anyhow::Result<AapConversation> {
    let base = client.base().clone();
    let mut conversation = AapConversation::resume(client, session).await.with_context(|| base.to_string())?;
    check_options(conversation.agent(), &flags.options.iter().cloned().collect())?;
    flags.options.iter().for_each(|(name, value)| conversation.set_option(name, value));
    if !tools.is_empty() {
        conversation.set_own_tools(specs(tools));
    }
    if flags.trust {
        let names: Vec<_> = conversation.enabled_tools().iter().map(|tool| tool.name.clone()).collect();
        names.iter().for_each(|name| conversation.trust(name.as_str()));
    }
    Ok(conversation)
}

fn check_options(agent: &AgentInfo, options: &BTreeMap<String, String>) -> anyhow::Result<()> {
    options.iter().try_for_each(|(name, value)| options::check(agent, name, value)).map_err(wrong_usage)
}

fn specs(tools: &[ChatLocalTool]) -> Vec<nuncio_aap::client::ToolSpec> {
    tools.iter().map(ChatLocalTool::spec).collect()
}
