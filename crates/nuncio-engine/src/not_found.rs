//! Errors for objects that do not exist, or that the caller may not see. Their ids are texts, so that a front gets the
//! same error for an id that it cannot parse as for an unknown one.

use nuncio_core::ErrorCode;

use crate::error::EngineError;

/// Maximum length of an id that is repeated in a message, in characters.
const MAX_ID: usize = 64;

fn error(code: ErrorCode, id: &str, message: impl FnOnce(String) -> String) -> EngineError {
    let id: String = id.chars().take(MAX_ID).collect();
    EngineError::new(code, message(id.escape_debug().to_string()))
}

#[must_use]
pub fn agent_account(id: &str) -> EngineError {
    error(ErrorCode::UnknownAgent, id, |id| {
        format!("there is no account of agent {id} on this server; search for it by name")
    })
}

/// A person whose keys the caller may not see, or who has no account.
#[must_use]
pub fn person_with_keys(name: &str) -> EngineError {
    error(ErrorCode::PersonNotFound, name, |name| {
        format!("there is no person {name}, or you have no relation or conversation with them")
    })
}

#[must_use]
pub fn device(person: &str, id: &str) -> EngineError {
    error(ErrorCode::DeviceNotFound, id, |id| {
        format!("{person} has no device {id}, or it was removed; list the devices first")
    })
}

/// A device of the caller that has no key bundle.
#[must_use]
pub fn own_key_bundle(device: &str) -> EngineError {
    error(ErrorCode::KeysNotFound, device, |device| {
        format!("{device} is not a device of yours that has published keys")
    })
}

#[must_use]
pub fn one_time_keys(device: &str) -> EngineError {
    error(ErrorCode::KeysNotFound, device, |device| format!("device {device} has no one-time keys here"))
}

#[must_use]
pub fn relation(id: &str) -> EngineError {
    error(ErrorCode::RelationNotFound, id, |id| format!("you have no active relation {id}"))
}

#[must_use]
pub fn conversation(id: &str) -> EngineError {
    error(ErrorCode::ConversationNotFound, id, |id| format!("you are not a member of a conversation {id}"))
}

#[must_use]
pub fn tool_call(message: &str) -> EngineError {
    error(ErrorCode::MessageNotFound, message, |message| format!("there is no tool call {message} addressed to you"))
}

pub(crate) fn session(id: &str) -> EngineError {
    error(ErrorCode::SessionNotFound, id, |id| format!("there is no session \"{id}\""))
}

pub(crate) fn execution(id: &str) -> EngineError {
    error(ErrorCode::ExecutionNotFound, id, |id| format!("there is no execution \"{id}\""))
}

#[must_use]
pub fn running_turn() -> EngineError {
    EngineError::new(ErrorCode::TurnNotFound, "no turn is running in this session")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_and_long_ids_are_escaped_and_shortened_in_messages() {
        let error = relation(&format!("rel\u{1b}{}", "x".repeat(100)));
        let message = format!("you have no active relation rel\\u{{1b}}{}", "x".repeat(60));
        assert_eq!(error, EngineError::new(ErrorCode::RelationNotFound, message));
    }
}
