//! Time limits of a tool call on a person's device, without the run time of the tool. The device asks the person, the
//! agent waits for the device and the call chain for the agent. Each waits longer, so it learns why a call is late.

use std::time::Duration;

/// How long a person has to answer a prompt on the device.
pub const PERSON_ANSWERS: Duration = Duration::from_secs(30);

/// Time for the delivery of a tool call to the device and of the answer to the agent.
const DELIVERY_TIME: Duration = Duration::from_secs(5);

/// Time to find the conversation, to seal the tool call, and to pass its outcome to the call chain.
const SEALING_TIME: Duration = Duration::from_secs(5);

/// How long an agent waits for the answer of a device.
pub const AGENT_WAITS: Duration = PERSON_ANSWERS.saturating_add(DELIVERY_TIME);

/// How long the call chain waits for the agent that calls a device.
pub const CALL_CHAIN_WAITS: Duration = AGENT_WAITS.saturating_add(SEALING_TIME);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_agent_and_call_chain_timeouts_increase_in_this_order() {
        assert!(PERSON_ANSWERS < AGENT_WAITS && AGENT_WAITS < CALL_CHAIN_WAITS);
        let seconds = [PERSON_ANSWERS, AGENT_WAITS, CALL_CHAIN_WAITS].map(|time| time.as_secs());
        assert_eq!(seconds, [30, 35, 40]);
    }
}
