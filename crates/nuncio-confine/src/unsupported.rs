//! Systems without Landlock and seccomp: nothing is restricted, and [`Confinement`] says so.

use std::io;

use crate::{Confinement, Reach, Running};

pub(crate) const SYSTEM: [&str; 0] = [];
pub(crate) const NETWORK: [&str; 0] = [];

pub(crate) fn restrict_thread(_: &Reach) -> io::Result<Confinement> {
    Ok(Confinement::NONE)
}

pub(crate) fn limit(running: Running) -> io::Result<Running> {
    Ok(running)
}

pub(crate) fn protect_this_process() -> io::Result<()> {
    Ok(())
}
