//! `nuncio chat`: a conversation with any AAP agent, line by line.

use std::path::Path;

use anyhow::{Context as _, bail};
use nuncio_aap::client::{AgentConfig, AgentInfo, ApiKey, Client, Conversation, Meta, NewSession};
use nuncio_core::ids::ToolName;
use nuncio_core::message::Message;
use nuncio_core::session::ToolRef;
use nuncio_core::turn::TurnInput;
use nuncio_server::fetch::{Allow, GuardedFetch};

pub(crate) mod clean;
mod input;
mod screen;
mod target;
mod tool;
mod turn;
mod words;
pub(crate) mod wrap;

use crate::cli::Chat;
use crate::output::{WrongUsage, word};
use input::{Heard, Input};
use screen::Screen;
use tool::LocalTool;
use turn::Answers;
use words::Words;

/// Talks until the user leaves.
pub(crate) async fn run(flags: Chat, json: bool) -> anyhow::Result<()> {
    let words = Words::of_environment();
    let tools = flags.tools.iter().map(|file| LocalTool::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let key = flags.key.as_deref().map(|key| ApiKey::parse(key).ok_or_else(|| WrongUsage("the key is no key".into())));
    let mut screen = Screen::new(words, json);
    let (client, meta) = connect(&flags.target, key.transpose()?, flags.extra_ca.as_deref(), &mut screen).await?;
    let conversation = match &flags.session {
        Some(session) => resume(client, session, &tools, flags.trust).await?,
        None => begin(client, choose(&meta, flags.agent.as_deref())?, &tools, flags.trust).await?,
    };
    let answers = Answers::new(tools, flags.trust, json);
    let mut chat = Chatting { again: again(&flags), conversation, answers, screen, input: Input::new(json)? };
    chat.screen.welcome(&chat.conversation);
    if flags.session.is_some() {
        chat.take_up().await?;
    }
    chat.talk().await
}

/// A chat that is going on.
struct Chatting {
    /// The command that leads here.
    again: String,
    conversation: Conversation,
    answers: Answers,
    screen: Screen,
    input: Input,
}

impl Chatting {
    /// Shows what was said, goes on with a turn that still runs, and answers what waits.
    async fn take_up(&mut self) -> anyhow::Result<()> {
        let Self { conversation, screen, input, .. } = self;
        if let Some(running) = conversation.join().await? {
            screen.history(running.conversation().messages());
            screen.note(screen.words().still_running);
            if turn::watch(running, screen, input).await {
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
            let prompt = self.screen.words().you;
            match self.input.ask(&mut self.screen, prompt).await {
                Heard::Line(line) => {
                    leaving = false;
                    if !self.line(line.trim()).await? {
                        break;
                    }
                }
                Heard::Interrupted if leaving => break,
                Heard::Interrupted => {
                    leaving = true;
                    self.screen.note(self.screen.words().again_to_leave);
                }
                Heard::End => break,
            }
        }
        self.screen.farewell(&self.again, self.conversation.session());
        Ok(())
    }

    /// Does what a line says; whether the chat goes on.
    async fn line(&mut self, line: &str) -> anyhow::Result<bool> {
        match line {
            "" => {}
            "/quit" | "/exit" => return Ok(false),
            "/help" => self.screen.help(),
            "/tools" => self.screen.tools(&self.conversation),
            "/history" => self.screen.history(self.conversation.messages()),
            "/session" => self.screen.session(self.conversation.session()),
            "/new" => {
                let (client, agent) = (self.conversation.client().clone(), self.conversation.agent().clone());
                let started = begin(client, agent, self.answers.tools(), self.answers.trusts_all()).await;
                match started {
                    Ok(conversation) => {
                        self.conversation = conversation;
                        self.answers.forget();
                        self.screen.session(self.conversation.session());
                    }
                    Err(error) => self.screen.failed(&error.to_string()),
                }
            }
            command if command.starts_with('/') => self.screen.unknown_command(command),
            text => {
                let input = TurnInput::User(Message::user(text));
                if self.turn(input).await {
                    self.answer_pending(false).await?;
                }
            }
        }
        Ok(true)
    }

    /// Answers the calls that wait, and those that come of it, until none does or the user stops.
    async fn answer_pending(&mut self, show: bool) -> anyhow::Result<()> {
        let mut show = show;
        while !self.conversation.pending().is_empty() {
            let answers = self.answers.give(&mut self.conversation, &mut self.screen, &mut self.input, show).await;
            let Some(answers) = answers else {
                self.screen.note(self.screen.words().left_unanswered);
                return Ok(());
            };
            show = false;
            if !self.turn(TurnInput::Answers(answers)).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether the turn came to an end of its own.
    async fn turn(&mut self, input: TurnInput) -> bool {
        turn::watch(self.conversation.send(input), &mut self.screen, &mut self.input).await
    }
}

/// The command that reaches the same server with the same tools, for later. A key is shown to nobody, and whether
/// tools are trusted is said anew.
fn again(flags: &Chat) -> String {
    let mut line = format!("nuncio chat {}", word(&flags.target));
    let file = |flag: &str, file: &Path| format!(" {flag} {}", word(&file.display().to_string()));
    line.extend(flags.extra_ca.iter().map(|it| file("--extra-ca", it)));
    line.extend(flags.tools.iter().map(|it| file("--tool", it)));
    if flags.key.is_some() && std::env::var_os("NUNCIO_KEY").is_none() {
        line.push_str(" --key KEY");
    }
    line
}

/// Finds the server: at the address itself, or below `/aap` when the address names only a host.
async fn connect(
    target: &str,
    key: Option<ApiKey>,
    extra_ca: Option<&Path>,
    screen: &mut Screen,
) -> anyhow::Result<(Client, Meta)> {
    let candidates = target::candidates(target).map_err(WrongUsage)?;
    let roots = extra_ca
        .map(|file| std::fs::read(file).with_context(|| format!("{} cannot be read", file.display())))
        .transpose()?;
    let way_out = GuardedFetch::new(Allow::default(), false, roots.as_deref()).map_err(anyhow::Error::msg)?;
    if key.is_some() && candidates.iter().any(nuncio_core::address::is_in_clear) {
        screen.note(screen.words().key_in_clear);
    }
    let mut first = None;
    for base in candidates {
        let client = Client::new(base.clone(), key.clone(), way_out.client_for_configured());
        match client.meta().await {
            Ok(meta) => return Ok((client, meta)),
            Err(error) => first = first.or(Some(anyhow::Error::new(error).context(base.to_string()))),
        }
    }
    Err(first.unwrap_or_else(|| anyhow::anyhow!("{target}: there is nothing to try")))
}

fn choose(meta: &Meta, wanted: Option<&str>) -> anyhow::Result<AgentInfo> {
    let names = || meta.agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
    match (wanted, &meta.agents[..]) {
        (_, []) => bail!("the server has no agents"),
        (Some(name), _) => match meta.agent(name) {
            Some(agent) => Ok(agent.clone()),
            None => bail!("the server has no agent {name:?}; it has: {}", names()),
        },
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            Err(WrongUsage(format!("the server has several agents; name one with --agent: {}", names())).into())
        }
    }
}

/// A new session with every tool the agent exposes, and ours where it takes them.
async fn begin(client: Client, agent: AgentInfo, tools: &[LocalTool], trust: bool) -> anyhow::Result<Conversation> {
    if !tools.is_empty() && !agent.supports.application_tools {
        bail!("the agent `{}` takes no tools from its clients; leave --tool out", agent.name);
    }
    let switched_on = agent.tools.iter().filter_map(|tool| {
        let name = ToolName::parse(&tool.name).ok()?;
        Some(ToolRef { name, trust: trust.then_some(true) })
    });
    let config = AgentConfig { name: agent.name.clone(), tools: Some(switched_on.collect()), ..AgentConfig::default() };
    let new = NewSession { agent: config, tools: specs(tools), messages: Vec::new() };
    Ok(Conversation::begin(client, agent, new).await?)
}

async fn resume(client: Client, session: &str, tools: &[LocalTool], trust: bool) -> anyhow::Result<Conversation> {
    let mut conversation = Conversation::resume(client, session).await?;
    if !tools.is_empty() {
        conversation.bring(specs(tools));
    }
    if trust {
        let names: Vec<_> = conversation.switched_on().iter().map(|tool| tool.name.clone()).collect();
        names.iter().for_each(|name| conversation.trust(name.as_str()));
    }
    Ok(conversation)
}

fn specs(tools: &[LocalTool]) -> Vec<nuncio_aap::client::ToolSpec> {
    tools.iter().map(LocalTool::spec).collect()
}
