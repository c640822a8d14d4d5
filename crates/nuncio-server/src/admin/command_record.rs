//! The operating-system account that gives an admin command, and the audit record of the command.

use nuncio_core::audit::AuditEventRecord;
use nuncio_core::ids::{AgentId, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_engine::Engine;
pub use nuncio_engine::operator_commands::OperatorCommandIssuer;
use serde_json::Value;

use super::AdminCommand;

/// JSON fields of a command that name the object it acts on, in order of preference.
const SUBJECT_FIELDS: [&str; 10] =
    ["id", "which", "principal", "domain", "target", "did", "subject", "device", "to", "before"];

/// The operating-system account with this user id.
pub(crate) fn account(uid: u32) -> OperatorCommandIssuer {
    let number = uid.to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    OperatorCommandIssuer {
        principal: Principal::Local,
        account: Some(name.unwrap_or_else(|| format!("uid {number}"))),
    }
}

#[must_use]
pub fn this_account() -> OperatorCommandIssuer {
    account(rustix::process::getuid().as_raw())
}

impl AdminCommand {
    /// Whether the command changes nothing. Every other command is recorded.
    fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::KeyList
                | Self::GrantList
                | Self::UserList
                | Self::UserDevices { .. }
                | Self::AgentSafetyNumber { .. }
                | Self::ApproveList
                | Self::TaskList
                | Self::TaskShow { .. }
                | Self::RegistryList
                | Self::RegistryAgents
                | Self::MessageShow { .. }
                | Self::DidLinks
                | Self::DidShow { .. }
                | Self::AuditList { .. }
                | Self::AuditVerify
                | Self::AuditExplain { .. }
                | Self::StoreCheck
                | Self::StoreStatus
        )
    }

    /// The audit record of a command; `None` if the command changes nothing.
    pub(super) fn record(&self, engine: &Engine, by: &OperatorCommandIssuer) -> Option<AuditEventRecord> {
        if self.only_reads() {
            return None;
        }
        let command = serde_json::to_value(self).ok()?;
        let action = command["do"].as_str()?;
        let text = |key: &str| command[key].as_str().map(str::to_owned);
        // In commands about people, `name` is the person; in others, it is the name of the created object.
        let (name, person) = if action.starts_with("user_") { (None, text("name")) } else { (text("name"), None) };
        // The record of an erasure does not name the erased person; another record has the pseudonym.
        let is_forgetting = matches!(self, Self::UserForget { .. });
        let person = person.or_else(|| text("person")).filter(|_| !is_forgetting);
        let scopes = command["scopes"].as_array().into_iter().flatten();
        let scopes = scopes.filter_map(|scope| ScopeId::parse(scope.as_str()?).ok()).collect();
        Some(AuditEventRecord {
            subject: SUBJECT_FIELDS.into_iter().find_map(text).or(name),
            person: person.and_then(|name| PersonName::parse(&name).ok()),
            agent: text("agent")
                .or_else(|| command["subject"]["agent"].as_str().map(str::to_owned))
                .and_then(|agent| AgentId::parse(&agent).ok()),
            scopes,
            ..engine.records().command_record(action, by)
        })
    }
}

/// The id of the created object, taken from the result of a command.
pub(super) fn created_id(reply: &Value) -> Option<String> {
    let id = reply["id"].as_str().or_else(|| reply["grant"]["id"].as_str())?;
    Some(id.to_owned())
}
