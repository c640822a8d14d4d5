//! A brain without a language model: intents by keyword and pattern, slots that are asked for one
//! after the other, tool calls, templated answers.
//!
//! It keeps nothing between steps. Every step replays the conversation ([`dialogue`]) to find out
//! what is wanted and what is known, and says or does the next thing ([`reply`]):
//!
//! 1. A message means the intent that matches it best ([`matching`]).
//! 2. What the message says about the intent's slots is taken from it ([`fill`]): dates
//!    ([`dates`]), numbers ([`numbers`]), choices, patterns. A choice may have synonyms:
//!    `"suite|suites|套房"` is found by any of the three and means `suite`.
//! 3. What is missing is asked for. A reply that does not answer is asked again; `never mind`
//!    drops the matter; another wish puts it aside.
//! 4. When everything is known the tool is called, and its result is put into words.
//!
//! Templates see `slots`, `spoken` (the same, dates in words), `language` (`en` or `zh-CN`),
//! `options` (without secrets), and, where they exist, `result`, `text` and `error`.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::civil::Date;
use nuncio_core::agent::RulesSpec;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::StopReason;
use nuncio_engine::ports::brain::{Brain, BrainError, Prompt, Speaker, Thought};
use nuncio_engine::ports::clock::Clock;

use super::words::syllables;
use lexicon::Lexicon;
use reply::Reply;

mod arguments;
mod dates;
mod dialogue;
mod fill;
mod language;
mod lexicon;
mod matching;
mod numbers;
mod reading;
mod reply;
mod sentences;
#[cfg(test)]
mod tests;

/// The brain of agents whose file says `kind = "rules"`.
#[derive(Debug)]
pub struct RulesBrain {
    lexicon: Lexicon,
    clock: Arc<dyn Clock>,
}

impl RulesBrain {
    /// A brain that knows `spec`, and the date from `clock`.
    ///
    /// # Errors
    /// A pattern does not compile; the text names it.
    pub fn new(spec: &RulesSpec, clock: Arc<dyn Clock>) -> Result<Self, String> {
        Ok(Self { lexicon: Lexicon::compile(spec)?, clock })
    }
}

#[async_trait]
impl Brain for RulesBrain {
    async fn think(&self, prompt: Prompt, voice: &mut Speaker) -> Result<Thought, BrainError> {
        match reply::reply(&self.lexicon, &prompt, date(self.clock.now())) {
            Reply::Say(text) => {
                for piece in syllables(&text) {
                    voice.text(piece).await?;
                }
                Ok(Thought::ended(StopReason::EndTurn))
            }
            Reply::Call { name, input } => {
                voice.call(None, name, input);
                Ok(Thought::ended(StopReason::ToolUse))
            }
        }
    }
}

/// The day of a moment, in UTC.
fn date(moment: Timestamp) -> Date {
    let moment = jiff::Timestamp::from_millisecond(moment.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    moment.to_zoned(jiff::tz::TimeZone::UTC).date()
}
