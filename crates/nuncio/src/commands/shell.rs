//! `nuncio completions` and `nuncio man`, generated from the same definitions that parse the flags.

use std::path::Path;

use anstream::println;
use clap::CommandFactory as _;
use clap_complete::Shell;
use nuncio_core::ErrorCode;
use serde_json::json;

use crate::cli::Cli;
use crate::output::{fault, print_unchanged};

pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "nuncio", &mut script);
    print_unchanged(&script)
}

/// Prints the first manual page, or writes all of them into a folder.
pub(crate) fn man(folder: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return print_unchanged(&page);
    };
    let failed =
        |error: std::io::Error| fault(ErrorCode::Internal, format!("{} cannot be written: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    if json {
        println!("{}", json!({"written": folder}));
    } else {
        println!("Wrote the manual to {0}.\n\nNext:\n  man -l {0}/nuncio.1", folder.display());
    }
    Ok(())
}
