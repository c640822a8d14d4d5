//! Tests of the `nuncio` binary as a process: used over its sockets, and stopped or killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop here")]

#[path = "it/a2h.rs"]
mod a2h;
#[path = "it/client.rs"]
mod client;
#[path = "it/directory.rs"]
mod directory;
#[path = "it/home.rs"]
mod home;
#[path = "it/process.rs"]
mod process;
#[path = "it/random.rs"]
mod random;
#[path = "it/sealed.rs"]
mod sealed;
#[path = "it/skill_client.rs"]
mod skill_client;
#[path = "it/stub_provider.rs"]
mod stub_provider;
#[path = "it/webdriver.rs"]
mod webdriver;

#[path = "it/access_state.rs"]
mod access_state;
#[path = "it/agent_files.rs"]
mod agent_files;
#[path = "it/agreements.rs"]
mod agreements;
#[path = "it/anp_sdk.rs"]
mod anp_sdk;
#[path = "it/anp_sdk_server.rs"]
mod anp_sdk_server;
#[path = "it/approve.rs"]
mod approve;
#[path = "it/audit.rs"]
mod audit;
#[path = "it/backup.rs"]
mod backup;
#[path = "it/brains.rs"]
mod brains;
#[path = "it/bring_your_agent.rs"]
mod bring_your_agent;
#[path = "it/chat.rs"]
mod chat;
#[path = "it/cli.rs"]
mod cli;
#[path = "it/conformance.rs"]
mod conformance;
#[path = "it/crash.rs"]
mod crash;
#[path = "it/data_directory.rs"]
mod data_directory;
#[path = "it/database_faults.rs"]
mod database_faults;
#[path = "it/did.rs"]
mod did;
#[path = "it/diff.rs"]
mod diff;
#[path = "it/direct_messages.rs"]
mod direct_messages;
#[path = "it/disk.rs"]
mod disk;
#[path = "it/documents.rs"]
mod documents;
#[path = "it/earlier_data.rs"]
mod earlier_data;
#[path = "it/hotel.rs"]
mod hotel;
#[path = "it/init.rs"]
mod init;
#[path = "it/init_examples.rs"]
mod init_examples;
#[path = "it/logs.rs"]
mod logs;
#[path = "it/mcp.rs"]
mod mcp;
#[path = "it/operator.rs"]
mod operator;
#[path = "it/page.rs"]
mod page;
#[path = "it/peers.rs"]
mod peers;
#[path = "it/postgres_copies.rs"]
mod postgres_copies;
#[path = "it/registry.rs"]
mod registry;
#[path = "it/reload.rs"]
mod reload;
#[path = "it/repeated_kills.rs"]
mod repeated_kills;
#[path = "it/secret_key.rs"]
mod secret_key;
#[path = "it/shell.rs"]
mod shell;
#[path = "it/shutdown.rs"]
mod shutdown;
#[path = "it/skill.rs"]
mod skill;
#[path = "it/skill_commands.rs"]
mod skill_commands;
#[path = "it/skill_crash.rs"]
mod skill_crash;
#[path = "it/skill_stories.rs"]
mod skill_stories;
#[path = "it/store_copy.rs"]
mod store_copy;
#[path = "it/store_rekey.rs"]
mod store_rekey;
#[path = "it/task.rs"]
mod task;
#[path = "it/tls.rs"]
mod tls;
