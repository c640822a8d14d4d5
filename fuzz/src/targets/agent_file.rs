//! Agent files: every file is read or refused, and every fault points into the file.

use nuncio_agent_file::{STARTER, parse};

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let faults = match parse("agent.toml", &text) {
        Ok(declared) => declared.notes,
        Err(faults) => faults.0,
    };
    let lines = text.lines().count() + 1;
    for fault in faults {
        assert!(fault.line <= lines, "line {} of {lines}: {fault}", fault.line);
    }
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let examples = [
        STARTER,
        include_str!("../../../examples/hotel/agent.toml"),
        include_str!("../../../examples/process-python/agent.toml"),
        include_str!("../../../examples/process-shell/agent.toml"),
        include_str!("../../../examples/restaurant/agent.toml"),
        include_str!("../../../examples/script/agent.toml"),
        include_str!("../../../examples/warehouse/agent.toml"),
    ];
    examples.map(|text| text.as_bytes().to_vec()).to_vec()
}
