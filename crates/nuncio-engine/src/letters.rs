//! Messages between agents. What is owed to whoever wrote is on disk from before the agent thinks until it
//! arrived; what came back for one of ours is kept for whoever asks. How a message travels is for the protocol
//! to know.

use std::collections::HashSet;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentName, SessionId};
use nuncio_core::policy::Protocol;
use nuncio_core::time::Timestamp;
use serde_json::json;

use crate::Engine;
use crate::access::Caller;
use crate::converse::Idempotency;
use crate::error::EngineError;
use crate::ports::peers::{Letter, LetterAnswer, OwedAnswer};
use crate::ports::store::{Change, Conflict, StoreError};
use crate::publish::Served;

/// How often an answer is taken somewhere at most.
const ATTEMPTS: u32 = 12;

/// How long to wait after the first failure; doubled each time, up to the second.
const PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(3 * 3600);

/// How much longer than a turn may take its end is waited for, should nobody tell us of it.
const MARGIN: Duration = Duration::from_secs(60);

/// For how long messages of ours are kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Where an answer goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correspondent {
    /// The address it is for.
    pub to: String,
    /// The message it answers.
    pub answers: String,
}

/// A message that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The conversation it belongs to, which is the caller's.
    pub session: SessionId,
    /// What it says.
    pub text: String,
    /// The request: the same again is the same message.
    pub once: Idempotency,
    /// Where the answer goes.
    pub from: Correspondent,
    /// The protocol it came by.
    pub protocol: Protocol,
}

/// What there is to take to someone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saying {
    /// This.
    Text(String),
    /// Nothing: the agent said nothing, or never began.
    Nothing,
    /// Nothing yet.
    NotYet,
}

impl Engine {
    /// Says something to an agent whose answer is taken to `from`, now or after a restart. When it returns, the
    /// message is on disk and so is the debt.
    ///
    /// # Errors
    /// The message cannot be taken; nothing is owed then.
    pub async fn take_letter(&self, caller: &Caller, served: &Served, letter: Incoming) -> Result<(), EngineError> {
        let Incoming { session, text, once, from, protocol } = letter;
        let name = json!([served.agent.name, from.to, from.answers, once.key, once.body]);
        let owed = OwedAnswer {
            id: Digest::of_json(&name).to_string(),
            session: session.clone(),
            request: once.key.clone(),
            owner: caller.principal.clone(),
            agent: served.agent.name.clone(),
            to: from.to,
            answers: from.answers,
            due: self.now().after(self.limits().turn + MARGIN),
            attempts: 0,
        };
        // Before the turn: a crash in between leaves a debt for nothing, which is seen; the other way round it
        // would leave an answer that nobody sends.
        self.store().commit(vec![Change::OweAnswer(owed.clone())]).await?;
        let begun = self.say_unattended(caller, session.as_str(), text, protocol, Some(once)).await;
        let turn = match begun {
            Ok(turn) => turn,
            Err(error) => {
                self.store().commit(vec![Change::SettleAnswer(owed.id)]).await?;
                return Err(error);
            }
        };
        let engine = self.clone();
        self.tasks().spawn(async move {
            turn.finished().await;
            let now = OwedAnswer { due: engine.now(), ..owed };
            match engine.store().commit(vec![Change::OweAnswer(now)]).await {
                Ok(()) | Err(StoreError::Conflict(_)) => engine.answers().notify_one(),
                Err(error) => tracing::error!(%error, "an answer is taken later"),
            }
        });
        Ok(())
    }

    /// Everything that is owed is due: whoever was thinking when the last process ended thinks no more. Called
    /// once, after [`Engine::recover`].
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn resume_answers(&self) -> Result<usize, EngineError> {
        let owed = self.store().owed_answers(Timestamp::LAST, usize::MAX).await?;
        let (count, now) = (owed.len(), self.now());
        let due = owed.into_iter().map(|owed| Change::OweAnswer(OwedAnswer { due: owed.due.min(now), ..owed }));
        self.store().commit(due.collect()).await?;
        Ok(count)
    }

    /// The answers to be taken somewhere now, without the known ones, at most `limit`.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn answers_due(&self, known: &HashSet<String>, limit: usize) -> Result<Vec<OwedAnswer>, EngineError> {
        let all = self.store().owed_answers(self.now(), known.len().saturating_add(limit)).await?;
        Ok(all.into_iter().filter(|owed| !known.contains(&owed.id)).take(limit).collect())
    }

    /// When the next one is due that is not known.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn next_answer(&self, known: &HashSet<String>) -> Result<Option<Timestamp>, EngineError> {
        let all = self.store().owed_answers(Timestamp::LAST, known.len().saturating_add(1)).await?;
        Ok(all.into_iter().find(|owed| !known.contains(&owed.id)).map(|owed| owed.due))
    }

    /// Waits until an agent has answered.
    pub async fn answer_owed(&self) {
        self.answers().notified().await;
    }

    /// What there is to take to whoever is owed an answer. Why there is no answer is an answer too.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn owed_saying(&self, owed: &OwedAnswer) -> Result<Saying, EngineError> {
        let caller = Caller::new(owed.owner.clone());
        let route = format!("turns/{}", owed.session);
        let begun = self.store().remembered(&owed.owner, &route, &owed.request).await?;
        let Some(number) = begun.and_then(|begun| begun.turn) else { return Ok(Saying::Nothing) };
        let turn = match self.turn(&caller, owed.session.as_str(), Some(number)).await {
            Ok(turn) => turn,
            Err(error) if matches!(error.code, Code::TurnNotFound | Code::SessionNotFound) => {
                return Ok(Saying::Nothing);
            }
            Err(error) => return Err(error),
        };
        if !turn.read(|log| log.stop().is_some()) {
            return Ok(Saying::NotYet);
        }
        let text = turn.answer().unwrap_or_else(|failure| failure.message);
        Ok(if text.is_empty() { Saying::Nothing } else { Saying::Text(text) })
    }

    /// It arrived, or there is nothing to take.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn answer_taken(&self, owed: &OwedAnswer) -> Result<(), EngineError> {
        Ok(self.store().commit(vec![Change::SettleAnswer(owed.id.clone())]).await?)
    }

    /// It did not arrive: later again, or given up. Says when.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn answer_not_taken(&self, owed: &OwedAnswer) -> Result<Option<Timestamp>, EngineError> {
        let attempts = owed.attempts + 1;
        if attempts >= ATTEMPTS {
            self.answer_taken(owed).await?;
            return Ok(None);
        }
        let pause = PAUSE.saturating_mul(2_u32.saturating_pow(attempts - 1)).min(MAX_PAUSE);
        self.owe_later(OwedAnswer { attempts, ..owed.clone() }, pause).await
    }

    /// The agent still thinks: looked at again later.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn answer_not_yet(&self, owed: &OwedAnswer) -> Result<Option<Timestamp>, EngineError> {
        self.owe_later(owed.clone(), MARGIN).await
    }

    async fn owe_later(&self, owed: OwedAnswer, pause: Duration) -> Result<Option<Timestamp>, EngineError> {
        let due = self.now().after(pause);
        match self.store().commit(vec![Change::OweAnswer(OwedAnswer { due, ..owed })]).await {
            // The conversation is gone.
            Err(StoreError::Conflict(Conflict::NoSession)) => Ok(None),
            other => {
                other?;
                Ok(Some(due))
            }
        }
    }

    /// Remembers a message of ours before it is sent, so that the answer finds it.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn send_letter(&self, agent: &AgentName, id: &str, to: &str) -> Result<Letter, EngineError> {
        let now = self.now();
        let letter = Letter { id: id.to_owned(), agent: agent.clone(), to: to.to_owned(), sent_at: now, answer: None };
        let changes = vec![Change::ForgetLetters(now.before(KEPT)), Change::CreateLetter(letter.clone())];
        self.store().commit(changes).await?;
        Ok(letter)
    }

    /// A message of an agent's, with the answer once it came.
    ///
    /// # Errors
    /// There is none such, or the store cannot be used.
    pub async fn letter(&self, agent: &AgentName, id: &str) -> Result<Letter, EngineError> {
        let found = self.store().letter(agent, id).await?;
        found.ok_or_else(|| EngineError::new(Code::NotFound, format!("{agent} sent no such message")))
    }

    /// An answer came. It is kept if it is one to a message of ours, from whom that went to; whether it is.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn answer_came(
        &self,
        agent: &AgentName,
        id: &str,
        from: &str,
        text: String,
    ) -> Result<bool, EngineError> {
        let answer = LetterAnswer { text, at: self.now() };
        let change = Change::AnswerLetter { agent: agent.clone(), id: id.to_owned(), from: from.to_owned(), answer };
        match self.store().commit(vec![change]).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict(Conflict::Missing)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
