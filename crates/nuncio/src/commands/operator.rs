//! The operator's commands, which the running server executes, or this process while no server runs.

use std::sync::Arc;
use std::time::Duration;

use anstream::{eprintln, println};
use anyhow::Context as _;
use nuncio_core::ErrorCode;
use nuncio_core::approval::Approval;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentName, ApprovalId, GrantId, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::record::AuditFilter;
use nuncio_server::admin::replies::{
    ApprovalList, AuditVerification, CreatedGrant, DecidedApproval, GrantList, PrunedRecords, RevokedGrant,
};
use nuncio_server::admin::{self, AdminCommand, ServerReplyOrDataDir};
use nuncio_server::{DataDir, SystemClock, open_engine};
use owo_colors::OwoColorize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::audit_list;
use super::consumer::print_note;
use crate::cli::{ApproveSubcommand, AuditSubcommand, DataDirCommand, DataDirOption, GrantSubcommand};
use crate::output::{cell, counted, fault, fitted_list, text, text_of_all, text_or_dash, wrong_usage};

/// Runs a command in the running server, or in this process if no server runs. Creates a missing data directory only
/// for commands that add something.
pub(super) async fn carry_out(data: &DataDirOption, command: AdminCommand) -> anyhow::Result<Value> {
    let may_create = matches!(
        command,
        AdminCommand::KeyCreate(_)
            | AdminCommand::UserInvite { .. }
            | AdminCommand::GrantCreate { .. }
            | AdminCommand::RegistryFollow { .. }
            | AdminCommand::RegistryAdd { .. }
    );
    if !may_create && matches!(data.path.try_exists(), Ok(false)) {
        let message = format!("there is no data directory {}; name one with --data", data.path.display());
        return Err(fault(ErrorCode::DataDirUnusable, message));
    }
    match ask_or_lock(data, &command).await? {
        ServerReplyOrDataDir::Server(reply) => Ok(reply),
        ServerReplyOrDataDir::ThisProcess(data) => carry_out_in(data, command).await,
    }
}

/// Runs a command in this process, while no server runs.
pub(super) async fn carry_out_in(data: DataDir, command: AdminCommand) -> anyhow::Result<Value> {
    Ok(open_engine(data, Arc::new(SystemClock)).await?.carry_out(command, &admin::this_account()).await?)
}

/// A time to the minute, without the letters of RFC 3339.
pub(super) fn minute_text(at: Timestamp) -> String {
    at.to_string().chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

/// Sends a command to the running server, or locks the data directory; says so if it has to wait for another process.
pub(super) async fn ask_or_lock(data: &DataDirOption, command: &AdminCommand) -> anyhow::Result<ServerReplyOrDataDir> {
    let report_wait = || {
        let note = format!("Waiting for another process that uses the data directory {}.", data.path.display());
        eprintln!("{}", note.dimmed());
    };
    let (secret_key, store) = (data.secret_key()?, data.store()?);
    Ok(match admin::ask_or_lock(&data.path, command, &SystemClock, report_wait).await? {
        ServerReplyOrDataDir::ThisProcess(data) => {
            ServerReplyOrDataDir::ThisProcess(data.with_secret_key(secret_key).with_store(store))
        }
        reply @ ServerReplyOrDataDir::Server(_) => reply,
    })
}

/// Turns the parse error of a command-line value into wrong usage.
pub(super) fn parsed<T, E: std::fmt::Display>(result: Result<T, E>) -> anyhow::Result<T> {
    result.map_err(|error| wrong_usage(error.to_string()))
}

/// Parses a duration, such as `30m`, `12h` or `3d`, into seconds: a whole number of minutes, hours or days.
pub(super) fn span_seconds(text: &str) -> Option<u64> {
    let (number, unit) = [('m', 60), ('h', 3600), ('d', 86_400)]
        .into_iter()
        .find_map(|(letter, unit)| text.strip_suffix(letter).map(|number| (number, unit)))?;
    let is_whole = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_whole)?.checked_mul(unit)
}

/// Parses a day (`2026-01-31`, its start in UTC) or a time (`2026-01-31T12:00:00Z`).
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::try_from(if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") })
}

/// Parses the end of a grant: a duration from now, a day or a time.
fn end_of_grant(text: &str) -> Result<Timestamp, String> {
    match span_seconds(text) {
        Some(seconds) => Ok(SystemClock.now().after(Duration::from_secs(seconds))),
        None => moment(text).map_err(|_| {
            format!("--until {text:?}: write a duration such as 90m, 12h or 30d, a day such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z")
        }),
    }
}

pub(super) fn parse_scopes(texts: &[String]) -> anyhow::Result<Vec<ScopeId>> {
    texts.iter().map(|text| parsed(ScopeId::parse(text))).collect()
}

/// Prints a reply: unchanged as JSON for programs, through `print` for people.
pub(super) fn print_reply<R: DeserializeOwned>(json: bool, reply: Value, print: impl FnOnce(R)) -> anyhow::Result<()> {
    if json {
        println!("{reply}");
        return Ok(());
    }
    print(serde_json::from_value(reply).context("the server replied in an unknown format; is it another version?")?);
    Ok(())
}

/// Runs a command and prints its reply.
pub(super) async fn run_command<R: DeserializeOwned>(
    data: &DataDirOption,
    command: AdminCommand,
    json: bool,
    print: impl FnOnce(R),
) -> anyhow::Result<()> {
    print_reply(json, carry_out(data, command).await?, print)
}

pub(crate) async fn grant(
    DataDirCommand { command, data }: DataDirCommand<GrantSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        GrantSubcommand::Create { principal, agent, scopes, until, once } => {
            let command = AdminCommand::GrantCreate {
                principal: parsed(Principal::try_from(principal))?,
                agent: parsed(AgentName::parse(&agent))?,
                scopes: parse_scopes(&scopes)?,
                until: until.map(|text| parsed(end_of_grant(&text))).transpose()?,
                once,
            };
            run_command(&data, command, json, |reply: CreatedGrant| {
                println!("Granted: {}.", reply.grant.id);
                if !reply.checked {
                    let agent = reply.grant.agent;
                    print_note(&format!(
                        "no server runs, so it was not checked whether agent {agent} has these scopes"
                    ));
                }
            })
            .await
        }
        GrantSubcommand::List => {
            run_command(&data, AdminCommand::GrantList, json, |list: GrantList| {
                if list.grants.is_empty() {
                    return println!("Nothing has been granted.");
                }
                let rows = list.grants.iter().map(|grant| {
                    let term = match grant.term {
                        GrantTerm::Once => "once".to_owned(),
                        GrantTerm::Until(end) => format!("until {} UTC", minute_text(end)),
                        GrantTerm::UntilRevoked => "until revoked".to_owned(),
                    };
                    let details =
                        format!("agent: {}, {term}, scopes: {}", text(&grant.agent), text_of_all(&grant.scopes));
                    (vec![text(&grant.id), text(&grant.principal)], details)
                });
                fitted_list(&["ID", "TO"], 1, rows);
            })
            .await
        }
        GrantSubcommand::Revoke { id } => {
            let command = AdminCommand::GrantRevoke { id: parsed(GrantId::parse(&id))? };
            run_command(&data, command, json, |reply: RevokedGrant| println!("Revoked {}.", reply.revoked)).await
        }
    }
}

pub(crate) async fn approve(
    DataDirCommand { command, data }: DataDirCommand<ApproveSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        ApproveSubcommand::List => run_command(&data, AdminCommand::ApproveList, json, print_approvals).await,
        ApproveSubcommand::Allow { id } => {
            let command = AdminCommand::ApproveAllow { id: parsed(ApprovalId::parse(&id))? };
            let print = |_: DecidedApproval| println!("Allowed, once, with these arguments.");
            run_command(&data, command, json, print).await
        }
        ApproveSubcommand::Deny { id, reason } => {
            let command = AdminCommand::ApproveDeny { id: parsed(ApprovalId::parse(&id))?, reason };
            run_command(&data, command, json, |_: DecidedApproval| println!("Denied.")).await
        }
    }
}

fn print_approvals(ApprovalList { approvals }: ApprovalList) {
    if approvals.is_empty() {
        println!("There are no pending approvals.");
    }
    for Approval { id, question, expires_at, .. } in approvals {
        println!("{}", id.bold());
        println!("  {} wants {} of {}", text(&question.caller), question.tool.bold(), question.agent);
        println!("  with     {}", cell(&question.arguments));
        println!("  scope    {}", text_or_dash(question.scope.as_ref()));
        println!("  expires  {expires_at}");
    }
}

pub(crate) async fn audit(
    DataDirCommand { command, data }: DataDirCommand<AuditSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        AuditSubcommand::List { agent, tool, caller, since, after, limit } => {
            let since = since.map(|text| parsed(audit_list::earliest(&text))).transpose()?;
            let filter = AuditFilter { agent, tool, caller, since };
            // A part of the log may be empty although tools were called.
            let is_filtered = filter != AuditFilter::default() || after.is_some() || limit == 0;
            let command = AdminCommand::AuditList { after, limit, filter };
            run_command(&data, command, json, |list| audit_list::print(&list, is_filtered)).await
        }
        AuditSubcommand::Explain { call, with } => {
            super::audit_explain::explain(&data, &call, with.as_deref(), json).await
        }
        AuditSubcommand::Prune { before } => {
            let command = AdminCommand::AuditPrune { before: parsed(moment(&before))? };
            run_command(&data, command, json, |reply: PrunedRecords| {
                println!("Deleted {}; the others stay verifiable.", counted(reply.pruned, "record"));
            })
            .await
        }
        AuditSubcommand::Verify => {
            run_command(&data, AdminCommand::AuditVerify, json, |chain: AuditVerification| {
                println!(
                    "{} {}: the hash chain is complete, and {} signed checkpoints match it.",
                    "intact:".green().bold(),
                    counted(chain.records, "record"),
                    chain.checkpoints
                );
                if let Some(chains) = chain.chains {
                    println!("{chains} chains; {} signed rounds name their ends.", chain.rounds.unwrap_or(0));
                }
                if let Some(pruned) = chain.pruned {
                    println!("{pruned} older records were pruned.");
                }
                if let Some(warning) = chain.warning {
                    eprintln!("{} {warning}", "warning:".yellow().bold());
                }
            })
            .await
        }
    }
}
