//! Time limits of a tool call on a person's device, each beside the run time of the tool. The device asks the person, the
//! agent waits for the device and the call chain for the agent, so that each reports its own reason for a late call.

use std::time::Duration;

/// How long a person has to answer a prompt on the device.
pub const PERSON_ANSWERS: Duration = Duration::from_secs(30);

/// Delivery of the call to the device and of its answer to the agent.
const DELIVERY_TIME: Duration = Duration::from_secs(5);

/// Finding the conversation, sealing the call, and passing its outcome to the call chain.
const SEALING_TIME: Duration = Duration::from_secs(5);

/// How long an agent waits for the answer of a device.
pub const AGENT_WAITS: Duration = PERSON_ANSWERS.saturating_add(DELIVERY_TIME);

/// How long the call chain waits for the agent.
pub const CALL_CHAIN_WAITS: Duration = AGENT_WAITS.saturating_add(SEALING_TIME);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_gives_up_before_the_agent_and_the_agent_before_the_call_chain() {
        assert!(PERSON_ANSWERS < AGENT_WAITS && AGENT_WAITS < CALL_CHAIN_WAITS);
        let seconds = [PERSON_ANSWERS, AGENT_WAITS, CALL_CHAIN_WAITS].map(|time| time.as_secs());
        assert_eq!(seconds, [30, 35, 40]);
    }
}
