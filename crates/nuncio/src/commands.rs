//! The commands of `nuncio`, one module each.

mod agent;
mod audit_explain;
mod audit_list;
mod backup;
pub(crate) mod chat;
mod confirm;
mod consumer;
mod device;
mod did;
mod diff;
mod discover;
mod explain;
mod files;
mod invoke;
mod key;
mod language;
mod negotiate;
mod operator;
mod peer;
mod registry;
mod serve;
mod shell;
mod show;
mod store;
mod task;
mod user;
mod validate;

use std::path::PathBuf;

use crate::cli::{Cli, CliCommand, DemoSubcommand};

pub(crate) async fn run(cli: Cli) -> anyhow::Result<()> {
    let json = cli.json;
    match cli.command {
        CliCommand::Serve(options) => serve::run(options, json).await,
        CliCommand::Init(options) => files::init(&options, json).await,
        CliCommand::Lint { path, connect } => files::lint(path, connect, json).await,
        CliCommand::Key(key) => key::run(key, json).await,
        CliCommand::Grant(grant) => operator::grant(grant, json).await,
        CliCommand::User(user) => user::run(user, json).await,
        CliCommand::Agent(agent) => agent::run(agent, json).await,
        CliCommand::Device(device) => device::run(device, json).await,
        CliCommand::Approve(approve) => operator::approve(approve, json).await,
        CliCommand::Task(task) => task::run(task, json).await,
        CliCommand::Registry(registry) => registry::run(registry, json).await,
        CliCommand::Did(did) => did::run(did, json).await,
        CliCommand::Audit(audit) => operator::audit(audit, json).await,
        CliCommand::Store(command) => store::run(command, json).await,
        CliCommand::Backup { file, data } => backup::back_up(&file, &data, json).await,
        CliCommand::Restore { file, data } => backup::restore(&file, &data, json).await,
        CliCommand::Chat(options) => chat::run(options, json).await,
        CliCommand::Discover(options) => discover::run(&options, json).await,
        CliCommand::Show(options) => show::run(&options, json).await,
        CliCommand::Negotiate(options) => negotiate::run(&options, json).await,
        CliCommand::Invoke(options) => invoke::run(options, json).await,
        CliCommand::Validate(options) => validate::run(&options, json).await,
        CliCommand::Diff(options) => diff::run(&options, json),
        CliCommand::Explain { schema: true, .. } => {
            explain::print_schema();
            Ok(())
        }
        CliCommand::Explain { code, .. } => explain::run(code.as_deref(), json),
        CliCommand::Completions { shell } => shell::completions(shell),
        CliCommand::Man { dir } => shell::man(dir.as_deref(), json),
        CliCommand::Demo(DemoSubcommand::Hotel { db }) => {
            let folder = || ["NUNCIO_STATE", "NUNCIO_DATA"].into_iter().find_map(std::env::var_os).unwrap_or_default();
            let default_path = || PathBuf::from(folder()).join("hotel.db");
            nuncio_demo::hotel(&db.unwrap_or_else(default_path)).await
        }
        CliCommand::Demo(DemoSubcommand::Script) => nuncio_demo::script().await,
        CliCommand::Demo(DemoSubcommand::Conformance) => nuncio_demo::conformance().await,
    }
}
