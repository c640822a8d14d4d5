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

use crate::cli::{Cli, Command, DemoSubcommand};

pub(crate) async fn run(cli: Cli) -> anyhow::Result<()> {
    let json = cli.json;
    match cli.command {
        Command::Serve(options) => serve::run(options, json).await,
        Command::Init(options) => files::init(&options, json).await,
        Command::Lint { path, connect } => files::lint(path, connect, json).await,
        Command::Key(key) => key::run(key, json).await,
        Command::Grant(grant) => operator::grant(grant, json).await,
        Command::User(user) => user::run(user, json).await,
        Command::Agent(agent) => agent::run(agent, json).await,
        Command::Device(device) => device::run(device, json).await,
        Command::Approve(approve) => operator::approve(approve, json).await,
        Command::Task(task) => task::run(task, json).await,
        Command::Registry(registry) => registry::run(registry, json).await,
        Command::Did(did) => did::run(did, json).await,
        Command::Audit(audit) => operator::audit(audit, json).await,
        Command::Store(command) => store::run(command, json).await,
        Command::Backup { file, data } => backup::back_up(&file, &data, json).await,
        Command::Restore { file, data } => backup::restore(&file, &data, json).await,
        Command::Chat(options) => chat::run(options, json).await,
        Command::Discover(options) => discover::run(&options, json).await,
        Command::Show(options) => show::run(&options, json).await,
        Command::Negotiate(options) => negotiate::run(&options, json).await,
        Command::Invoke(options) => invoke::run(options, json).await,
        Command::Validate(options) => validate::run(&options, json).await,
        Command::Diff(options) => diff::run(&options, json),
        Command::Explain { schema: true, .. } => {
            explain::print_schema();
            Ok(())
        }
        Command::Explain { code, .. } => explain::run(code.as_deref(), json),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { dir } => shell::man(dir.as_deref(), json),
        Command::Demo(DemoSubcommand::Hotel { db }) => {
            let folder = || ["NUNCIO_STATE", "NUNCIO_DATA"].into_iter().find_map(std::env::var_os).unwrap_or_default();
            let default_path = || PathBuf::from(folder()).join("hotel.db");
            nuncio_demo::hotel(&db.unwrap_or_else(default_path)).await
        }
        Command::Demo(DemoSubcommand::Script) => nuncio_demo::script().await,
    }
}
