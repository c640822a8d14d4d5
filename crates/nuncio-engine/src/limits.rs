//! Limits and settings of the operator for all services.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ids::AgentName;
use nuncio_core::manifest::ScopePresets;
use nuncio_judge::ChangeJudgingPolicy;

use crate::protocol_draft::ProtocolDraftingPolicy;

/// Limits that the operator sets.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineLimits {
    pub turn: Duration,
    /// Maximum number of brain steps per turn.
    pub steps: u32,
    pub approval: Duration,
    /// Maximum number of concurrent calls per tool.
    pub calls_per_tool: usize,
    pub bytes_per_caller: u64,
    /// Approximate maximum size of the cache of recent conversations, in bytes.
    pub conversation_cache: usize,
    pub executions: ExecutionLimits,
    pub consent: ConsentSettings,
    pub relay: RelaySettings,
    pub drafting: ProtocolDraftingPolicy,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            turn: Duration::from_secs(600),
            steps: 32,
            approval: Duration::from_secs(300),
            calls_per_tool: 32,
            bytes_per_caller: 1 << 30,
            conversation_cache: 64 << 20,
            executions: ExecutionLimits::default(),
            consent: ConsentSettings::default(),
            relay: RelaySettings::default(),
            drafting: ProtocolDraftingPolicy::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionLimits {
    /// Maximum number of unfinished executions on the server.
    pub open: usize,
    /// Maximum number of unfinished executions per skill.
    pub open_per_skill: usize,
    /// Maximum number of unfinished executions per caller.
    pub open_per_caller: usize,
    /// Maximum number of concurrent executions per skill that sets no limit itself.
    pub running_per_skill: usize,
    /// Maximum number of concurrent executions per caller.
    pub running_per_caller: usize,
    /// Timeout of an execution whose skill declares none.
    pub timeout: Duration,
    /// Default retention of ended executions.
    pub keep: Duration,
}

impl Default for ExecutionLimits {
    fn default() -> Self {
        Self {
            open: 100_000,
            open_per_skill: 20_000,
            open_per_caller: 10_000,
            running_per_skill: 32,
            running_per_caller: 256,
            timeout: Duration::from_secs(600),
            keep: Duration::from_secs(24 * 3600),
        }
    }
}

/// Operator settings for people, agents and consent.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsentSettings {
    /// Well-known scopes with their minimum sensitivities.
    pub presets: Arc<ScopePresets>,
    /// Which manifest changes require a new consent.
    pub policy: ChangeJudgingPolicy,
    pub invite_lasts: Duration,
    /// Maximum number of devices per person.
    pub devices_per_person: usize,
    /// Maximum number of open invites per person.
    pub invites_per_person: usize,
    /// Maximum number of agent accounts per owner.
    pub agents_per_owner: usize,
    /// Maximum number of active relations per person.
    pub relations_per_person: usize,
    /// Maximum difference between the clocks of device and server at login.
    pub assertion_window: Duration,
    /// Time within which a drafted ledger entry must be signed.
    pub signing_window: Duration,
    /// Time for which notifications are kept.
    pub mail_kept: Duration,
}

impl Default for ConsentSettings {
    fn default() -> Self {
        Self {
            presets: Arc::new(ScopePresets::default()),
            policy: ChangeJudgingPolicy::default(),
            invite_lasts: Duration::from_secs(7 * 24 * 3600),
            devices_per_person: 16,
            invites_per_person: 8,
            agents_per_owner: 100,
            relations_per_person: 1000,
            assertion_window: Duration::from_secs(120),
            signing_window: Duration::from_secs(600),
            mail_kept: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

/// Operator settings of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelaySettings {
    /// Maximum tool calls per agent in any sixty seconds.
    pub tool_calls_per_minute: u32,
    pub messages_kept: Duration,
    /// Number of conversations of a member from which on it cannot begin another; others may still add it to theirs.
    pub conversations_per_member: usize,
    /// Local agents whose people use another relay.
    pub elsewhere: BTreeSet<AgentName>,
    pub delivery_log_kept: Duration,
}

impl Default for RelaySettings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self {
            tool_calls_per_minute: 60,
            messages_kept: DAY * 365,
            conversations_per_member: 10_000,
            elsewhere: BTreeSet::new(),
            delivery_log_kept: DAY * 30,
        }
    }
}
