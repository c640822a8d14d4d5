//! Replaces `linux` on systems without Landlock and seccomp: nothing is restricted, and [`ConfinementSupport`] reports that.

use std::io;

use crate::{ConfinementRules, ConfinementSupport, RunningProgram};

pub(crate) const SYSTEM_PATHS: [&str; 0] = [];
pub(crate) const NETWORK_PATHS: [&str; 0] = [];

pub(crate) fn restrict_thread(_: &ConfinementRules) -> io::Result<ConfinementSupport> {
    Ok(ConfinementSupport::NONE)
}

pub(crate) fn limit(running: RunningProgram) -> io::Result<RunningProgram> {
    Ok(running)
}

pub(crate) fn protect_this_process() -> io::Result<()> {
    Ok(())
}
