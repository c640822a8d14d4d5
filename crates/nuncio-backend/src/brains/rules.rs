//! Brain without a language model: intents by keyword and pattern, slots that are asked for one after the other, tool
//! calls, templated answers.
//!
//! The brain keeps no state between steps. Every step replays the newest part of the conversation ([`dialogue`]) to find the intent and
//! the slot values, and chooses the next action ([`reply`]):
//!
//! 1. The best matching intent of a message is chosen ([`matching`]).
//! 2. Slot values are extracted from the message ([`fill`]): dates ([`dates`]), numbers ([`numbers`]), choices,
//!    patterns. A choice may have synonyms: `"suite|suites|套房"` is matched by any of the three and means `suite`.
//! 3. Missing slots are asked for. A reply that does not answer is asked again; `never mind` abandons the intent;
//!    another intent suspends it.
//! 4. When all required slots are known, the tool is called and its result is rendered.
//!
//! Templates see `slots`, `spoken` (the same with formatted dates), `language` (`en` or `zh-CN`), `options` (without
//! secrets), and, where they exist, `result`, `text` and `error`.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::civil::Date;
use nuncio_core::agent::RulesBrainSpec;
use nuncio_core::message::Message;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::StopReason;
use nuncio_engine::ports::brain::{Brain, BrainError, BrainStepInput, BrainStepStop, BrainWriter, HistoryNeed};
use nuncio_engine::ports::clock::Clock;

use super::chunks::syllables;
use compiled::CompiledRules;
use reply::RulesBrainAction;

mod arguments;
mod compiled;
mod dates;
mod dialogue;
mod fill;
mod language;
mod matching;
mod normalize;
mod numbers;
mod reply;
mod sentences;
#[cfg(test)]
mod tests;

/// Bytes of history that are replayed: a bound on the cost of a step, far above what an intent with its slots takes.
const WINDOW_BYTES: usize = 64 * 1024;

/// Brain of agents with `kind = "rules"`.
#[derive(Debug)]
pub struct RulesBrain {
    rules: CompiledRules,
    clock: Arc<dyn Clock>,
}

impl RulesBrain {
    /// Compiles the rules; `clock` provides the current date.
    ///
    /// # Errors
    /// A pattern does not compile; the error text names the pattern.
    pub fn new(spec: &RulesBrainSpec, clock: Arc<dyn Clock>) -> Result<Self, String> {
        Ok(Self { rules: CompiledRules::compile(spec)?, clock })
    }
}

#[async_trait]
impl Brain for RulesBrain {
    fn history_need(&self, _exchange: &[Message]) -> HistoryNeed {
        HistoryNeed::Window(WINDOW_BYTES)
    }

    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        let step = reply::reply(&self.rules, &prompt, date(self.clock.now())).map_err(BrainError::Failed)?;
        match step {
            RulesBrainAction::Say(text) => {
                for piece in syllables(&text) {
                    writer.text(piece).await?;
                }
                Ok(BrainStepStop::ended(StopReason::EndTurn))
            }
            RulesBrainAction::Call { name, input } => {
                writer.call(None, name, input);
                Ok(BrainStepStop::ended(StopReason::ToolUse))
            }
        }
    }
}

/// UTC date of a moment.
fn date(moment: Timestamp) -> Date {
    let moment = jiff::Timestamp::from_millisecond(moment.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    moment.to_zoned(jiff::tz::TimeZone::UTC).date()
}
